"""The real engine, and three variants that build in two minutes each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock import catalog as catalogs
from interlock.engine import build as building
from interlock.engine.client import OWNER_LABEL, connect
from interlock.engine.image import Options
from interlock.model import Built, Catalog
from interlock.places import Places
from tests.integration.toys import copy_project

VARIANTS = ["cpython-2.7", "cpython-2.7-pth", "cpython-2.7-nothreads"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "integration" in Path(item.fspath).parts:
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def root() -> Path:
    return Path(__file__).parents[2]


@pytest.fixture(scope="session")
def catalog(root: Path) -> Catalog:
    return catalogs.load(root)


@pytest.fixture(scope="session")
def client() -> Any:
    return connect()


@pytest.fixture(scope="session")
def options(root: Path) -> Options:
    return Options(root, Places.here().cache)


@pytest.fixture(scope="session")
def built(client: Any, catalog: Catalog, options: Options) -> dict[str, Built]:
    """The three variants, built now or found as they were built before."""
    results = building.build(client, catalog, VARIANTS, options, print)
    return {image.variant: image for image in results}


@pytest.fixture
def project(root: Path, tmp_path: Path) -> Path:
    """A copy of the project with the three variants and no workload, for tests that change it."""
    return copy_project(root, tmp_path / "project", VARIANTS, [])


@pytest.fixture
def nothing_left(client: Any) -> Iterator[None]:
    """After the test, no container, network or volume of an experiment is there that was not there before."""
    before = leftovers(client)
    yield
    assert leftovers(client) - before == set()


def leftovers(client: Any) -> set[str]:
    owned = {"label": OWNER_LABEL}
    return {
        *(container.id for container in client.containers.list(all=True, filters=owned, ignore_removed=True)),
        *(network.id for network in client.networks.list(filters=owned)),
        *(volume.id for volume in client.volumes.list(filters=owned)),
    }
