"""The bill of materials of a real image: what dpkg says in it and what Python has in it, always the same."""

from __future__ import annotations

import hashlib
import io
import json
import os
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.build import sbom
from interlock.engine.build.sbom import read_contents
from interlock.engine.ownership import OWNER_LABEL
from interlock.errors import EngineError
from interlock.results.experiments import Built
from tests.integration.images import QUICK
from tests.integration.resources import run

WITH_MORE = """\
FROM {tag}
RUN mkdir -p /usr/local/lib/python3.13/dist-packages/toy-1.2.dist-info && \
    cd /usr/local/lib/python3.13/dist-packages && \
    printf 'Metadata-Version: 2.1\\nName: toy\\nVersion: 1.2\\n\\nVersion: 9\\n' > toy-1.2.dist-info/METADATA && \
    mkdir /opt/interlock && printf library > /opt/interlock/libtoy.so.1
"""


@pytest.fixture(scope="module")
def tag(quick: Built) -> str:
    assert quick.tag
    return quick.tag


@pytest.fixture(scope="module")
def made(client: Any, catalog: Catalog, tag: str) -> str:
    return sbom.document(catalog.variants[QUICK], read_contents(client, tag))


def test_every_debian_package_is_there_with_the_version_that_dpkg_says(client: Any, tag: str, made: str) -> None:
    said = run(client, tag, "dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n").splitlines()
    components = json.loads(made)["components"]
    found = {f"{one['name']} {one['version']}" for one in components if "pkg:deb/" in one.get("purl", "")}
    assert len(found) > 50
    assert found == set(said)


def test_reading_the_image_again_gives_the_same_text_and_leaves_no_container(
    client: Any, catalog: Catalog, tag: str, made: str
) -> None:
    assert sbom.document(catalog.variants[QUICK], read_contents(client, tag)) == made
    owned = {"label": f"{OWNER_LABEL}=sbom-{os.getpid()}"}
    assert client.containers.list(all=True, filters=owned) == []


def test_python_distributions_and_packed_libraries_are_found(client: Any, tag: str) -> None:
    dockerfile = io.BytesIO(WITH_MORE.format(tag=tag).encode())
    image, _ = client.images.build(fileobj=dockerfile, rm=True, network_mode="none")
    try:
        contents = read_contents(client, image.id)
        assert contents.distributions == [("toy", "1.2")]
        assert contents.packed == [("libtoy.so.1", hashlib.sha256(b"library").hexdigest())]
    finally:
        client.images.remove(image.id)


def test_an_image_that_is_not_here_is_an_error_that_says_what_to_do(client: Any) -> None:
    with pytest.raises(EngineError, match="interlock build"):
        read_contents(client, "localhost/interlock/python:no-such-tag")
