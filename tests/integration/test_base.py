"""The parent image: pulled where a registry answers; made where none does: tests/proofs/test_base.py."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock.catalog.project import Catalog
from interlock.catalog.variants import Base
from interlock.engine.build.base import LABEL, ensure_base, find_base, local_tag
from interlock.results.experiments import BaseImage
from tests.integration import registries


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of a registry of the test's own."""
    with registries.registry(tmp_path / "registry") as started:
        yield started.address


@pytest.fixture
def real_base(client: Any, catalog: Catalog, tmp_path: Path) -> BaseImage:
    return ensure_base(client, catalog.bases["trixie"], tmp_path, print)


def pinned(catalog: Catalog, reference: str) -> Base:
    return catalog.bases["trixie"].model_copy(update={"reference": reference})


def test_a_registry_that_answers_is_used_and_recorded(
    client: Any, catalog: Catalog, registry: str, real_base: BaseImage, tmp_path: Path
) -> None:
    repository = f"{registry}/debian"
    client.images.get(real_base.image_id).tag(repository, "trixie-slim")
    pushed = list(client.api.push(repository, "trixie-slim", stream=True, decode=True))
    digest = next(event["aux"]["Digest"] for event in pushed if "aux" in event)
    client.images.remove(f"{repository}:trixie-slim")
    base = pinned(catalog, f"{repository}:trixie-slim@{digest}")
    try:
        assert find_base(client, base) is None
        found = ensure_base(client, base, tmp_path, print)
        assert found.origin == "registry"
        assert found.reference == base.reference
        assert find_base(client, base) == found
    finally:
        client.images.remove(base.reference)


@pytest.fixture
def unreachable(client: Any, catalog: Catalog) -> Iterator[Base]:
    """A base whose registry does not answer; what is made in its place is removed."""
    digest = f"{uuid.uuid4().hex}{uuid.uuid4().hex}"
    base = pinned(catalog, f"127.0.0.1:1/debian:trixie-slim@sha256:{digest}")
    yield base
    with suppress(ImageNotFound):
        client.images.remove(local_tag(base))


@pytest.mark.promise(escapes=True)
def test_a_base_of_another_pin_by_the_same_tag_is_not_taken(client: Any, unreachable: Base) -> None:
    dockerfile = f"FROM scratch\nLABEL {LABEL}=another\n"
    client.images.build(fileobj=io.BytesIO(dockerfile.encode()), tag=local_tag(unreachable), rm=True)
    assert find_base(client, unreachable) is None
