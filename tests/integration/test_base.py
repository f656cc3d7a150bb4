"""The parent image: pulled where a registry answers; made where none does: tests/proofs/test_base.py."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.catalog.variants import Base
from interlock.engine.build.base import LABEL, ensure_base, find_base, local_tag
from tests.integration.registries import Registry, push


def test_a_registry_that_answers_is_used_and_recorded(
    client: Any, catalog: Catalog, registry: Registry, tmp_path: Path
) -> None:
    real_base = ensure_base(client, catalog.bases["trixie"], tmp_path, print)
    name = f"{registry.address}/debian:trixie-slim"
    digest = push(client, real_base.image_id, name)
    client.images.remove(name)
    base = catalog.bases["trixie"].model_copy(update={"reference": f"{name}@{digest}"})
    try:
        assert find_base(client, base) is None
        found = ensure_base(client, base, tmp_path, print)
        assert found.origin == "registry"
        assert found.reference == base.reference
        assert find_base(client, base) == found
    finally:
        client.images.remove(base.reference)


@pytest.mark.promise(escapes=True)
def test_a_base_of_another_pin_by_the_same_tag_is_not_taken(client: Any, unreachable: Base) -> None:
    dockerfile = f"FROM scratch\nLABEL {LABEL}=another\n"
    client.images.build(fileobj=io.BytesIO(dockerfile.encode()), tag=local_tag(unreachable), rm=True)
    assert find_base(client, unreachable) is None
