"""The bill of materials of a real image: what dpkg says in it, what Python has in it, valid and always the same."""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog
from interlock.engine.build import sbom
from interlock.engine.build.sbom import read_contents
from interlock.engine.ownership import OWNER_LABEL
from interlock.errors import EngineError
from tests.integration.images import NO_THREADS, Images

WITH_MORE = """\
FROM {tag}
RUN mkdir -p /usr/local/lib/python2.7/site-packages/toy-1.2.dist-info && cd /usr/local/lib/python2.7/site-packages && \
    printf 'Metadata-Version: 2.1\\nName: toy\\nVersion: 1.2\\n\\nVersion: 9\\n' > toy-1.2.dist-info/METADATA && \
    mkdir /opt/interlock && printf library > /opt/interlock/libtoy.so.1
"""


@pytest.fixture(scope="module")
def tag(built: Images) -> str:
    found = built[NO_THREADS].tag
    assert found
    return found


@pytest.fixture(scope="module")
def made(client: Any, catalog: Catalog, root: Path, tag: str) -> dict[str, Any]:
    return sbom.document(catalog.variants[NO_THREADS], catalogs.read_texts(root), read_contents(client, tag))


def test_every_debian_package_is_there_with_the_version_that_dpkg_says(
    client: Any, tag: str, made: dict[str, Any]
) -> None:
    command = ["dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n"]
    said = client.containers.run(tag, command, remove=True, network_mode="none").decode().split("\n")
    found = {
        f"{one['name']} {one['versionInfo']}"
        for one in made["packages"]
        if "pkg:deb/" in json.dumps(one) and one["primaryPackagePurpose"] == "LIBRARY"
    }
    assert len(found) > 50
    assert found == {line for line in said if line}


def test_the_document_is_valid_spdx(made: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "made.spdx.json"
    path.write_text(json.dumps(made), encoding="utf-8")
    assert validate_full_spdx_document(parse_file(str(path))) == []


def test_reading_the_image_again_gives_the_same_text(
    client: Any, catalog: Catalog, root: Path, tag: str, made: dict[str, Any]
) -> None:
    again = sbom.document(catalog.variants[NO_THREADS], catalogs.read_texts(root), read_contents(client, tag))
    assert json.dumps(again) == json.dumps(made)


def test_the_date_is_that_of_the_interpreters_release(made: dict[str, Any]) -> None:
    assert made["creationInfo"]["created"].startswith("2020-04-")


def test_python_distributions_and_packed_libraries_are_found(client: Any, tag: str) -> None:
    dockerfile = io.BytesIO(WITH_MORE.format(tag=tag).encode())
    image, _ = client.images.build(fileobj=dockerfile, rm=True, network_mode="none")
    try:
        contents = read_contents(client, image.id)
        assert contents.distributions == [("toy", "1.2")]
        assert contents.packed == [("libtoy.so.1", hashlib.sha256(b"library").hexdigest())]
    finally:
        client.images.remove(image.id)


def test_no_container_is_left(client: Any, made: dict[str, Any]) -> None:
    assert made
    owned = {"label": f"{OWNER_LABEL}=sbom-{os.getpid()}"}
    assert client.containers.list(all=True, filters=owned) == []


def test_an_image_that_is_not_here_is_an_error_that_says_what_to_do(client: Any) -> None:
    with pytest.raises(EngineError, match="interlock build"):
        read_contents(client, "localhost/interlock/python:no-such-tag")
