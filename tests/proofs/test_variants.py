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
from tests.integration.resources import run

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


# Of /usr/local/bin/python2.7 as it was built on an AMD EPYC on 2026-11-28, with that libc6.
BUILT, LIBC6 = "c963caedc0e915b97598322e6ddffead508159a03b66afe34c7dc1446c1be43a", "2.41-12+deb13u5"


def test_a_build_by_a_stored_profile_is_the_same_as_on_another_machine(
    client: Any, catalog: Catalog, options: BuildOptions
) -> None:
    (built,) = DockerEngine(client).build(catalog, ["cpython-2.7"], options, print)
    assert (built.outcome.state, built.training) == (State.OK, "stored"), built.outcome.reason
    ask = "dpkg-query -Wf '${Version}\\n' libc6; sha256sum < /usr/local/bin/python2.7"
    libc6, sum_ = run(client, built.image_id, "sh", "-c", ask).split()[:2]
    if libc6 != LIBC6:
        pytest.skip(
            f"Debian has libc6 {libc6}, and the sum is of {LIBC6}: build cpython-2.7 on two machines, and renew it"
        )
    assert sum_ == BUILT
