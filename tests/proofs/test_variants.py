"""Every variant: compiled from its source twice without the engine's cache, the same each time, and as it declares."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.catalog.overlay import SHARED_FILES
from interlock.catalog.project import Catalog
from interlock.catalog.variants import SourceKind
from interlock.engine.build import contract
from interlock.engine.build.builds import ImageBuilder
from interlock.engine.build.verifying import last_layer, verify
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from interlock.results.experiments import Built, State
from tests.builders import ROOT

NAMES = sorted(path.stem for path in (ROOT / "variants").glob("*.toml") if path.stem not in SHARED_FILES)


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_is_what_its_file_declares_however_often_it_is_built(
    client: Any, catalog: Catalog, options: BuildOptions, name: str
) -> None:
    said: list[str] = []
    variant = catalog.variants[name]
    image = made(client, catalog, options, name, said)
    if image.outcome.state is State.UNAVAILABLE:
        pytest.skip(f"unavailable: {image.outcome.reason}")
    assert image.outcome.state is State.OK, image.outcome.reason
    assert contract.failures(contract.examine(client, variant.at(image.version), image.image_id)) == []
    if variant.kind is SourceKind.SOURCE:
        assert said[-1] == f"reproducible: {last_layer(client, image.image_id)}"


def made(client: Any, catalog: Catalog, options: BuildOptions, name: str, said: list[str]) -> Built:
    """Build the variant; twice from nothing if it is compiled."""
    if catalog.variants[name].kind is SourceKind.SOURCE:
        return verify(ImageBuilder(catalog, options, lambda _, step: said.append(step), client), name)
    (image,) = DockerEngine(client).build(catalog, [name], options, print)
    return image
