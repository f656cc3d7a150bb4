"""The real engine, and the images that tests ask for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.docker import connect
from interlock.engine.ownership import OWNER_LABEL, PID, Life, life
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers
from interlock.engine.run.leftovers import clean_up
from interlock.engine.symbols import symbols_tag
from interlock.results.experiments import Built
from tests.builders import ROOT
from tests.conftest import MEASURING, group_of
from tests.integration import shared
from tests.integration.images import FREE_THREADED, NO_THREADS, QUICK, Images, alone, make_quick
from tests.integration.resources import remove_cells
from tests.integration.toys import copy_project, make_toy_base

ENGINE_TESTS = {"integration", "proofs"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if ENGINE_TESTS & set(item.path.parts):
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, with what these tests compile made quick to compile."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("variants", "workloads", "dockerfiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    make_quick(folder)
    return folder


@pytest.fixture(scope="session")
def catalog(root: Path) -> Catalog:
    return catalogs.load(root)


@pytest.fixture(scope="session")
def options(root: Path) -> BuildOptions:
    return BuildOptions(root, ProjectPaths.find().cache)


@pytest.fixture(scope="session")
def client(options: BuildOptions) -> Iterator[Any]:
    """The engine, which has the base of toys."""
    engine = connect()
    with alone(options, "toys"):
        make_toy_base(engine.client)
    yield engine.client
    for image in engine.client.images.list(filters={"reference": symbols_tag("toy*")}):
        engine.client.images.remove(image.id, force=True)


@pytest.fixture(scope="session")
def built(client: Any, catalog: Catalog, options: BuildOptions) -> Images:
    """The image of each variant that a test names."""
    return Images(client, catalog, options)


@pytest.fixture(scope="session")
def quick(built: Images) -> Built:
    """The image that is ready in half a minute."""
    return built[QUICK]


@pytest.fixture(scope="session")
def measured(root: Path, built: Images, tmp_path_factory: pytest.TempPathFactory) -> shared.Measured:
    """The one experiment that many tests read."""
    assert built[QUICK]
    return shared.measure(root, tmp_path_factory.mktemp("measured"), [QUICK], shared.OWN)


@pytest.fixture(scope="session")
def without_threads(root: Path, built: Images, tmp_path_factory: pytest.TempPathFactory) -> shared.Measured:
    """An experiment beside an interpreter that has neither threads nor pip: for tests with the marker `slow`."""
    assert built[QUICK]
    assert built[NO_THREADS]
    folder = tmp_path_factory.mktemp("without-threads")
    return shared.measure(root, folder, [QUICK, NO_THREADS], shared.MORE, ("imap", "perf-startup"))


@pytest.fixture(scope="session")
def instruments_image(client: Any, root: Path, built: Images) -> str:
    """The image of the launcher and the profilers."""
    base = built[QUICK].base
    assert base is not None
    return ensure_helper(client, root, "instruments", base)


@pytest.fixture(scope="module")
def programs() -> Mapping[str, bytes]:
    """The programs in the volume of a file's cells: a file that has some defines it anew."""
    return {}


@pytest.fixture(scope="module")
def instruments(
    client: Any, instruments_image: str, programs: Mapping[str, bytes], request: pytest.FixtureRequest
) -> Iterator[str]:
    """The volume of a file's cells, filled once; all that its OWNER has goes with it."""
    owner = request.module.OWNER
    yield containers.create_instruments_volume(client, owner, instruments_image, programs)
    clean_up(client, owner)


@pytest.fixture
def volume(client: Any, instruments: str, nothing_left: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """The volume that a file's tests share, which cells only read; what a test starts ends with it."""
    yield instruments
    remove_cells(client, request.module.OWNER)


@pytest.fixture
def project(root: Path, client: Any, tmp_path: Path) -> Path:
    """A copy of the project with three variants and no workload, for tests that change it; the engine has all bases."""
    return copy_project(root, tmp_path / "project", [QUICK, FREE_THREADED, NO_THREADS], [])


# Audits, doctors, what other files' tests own, images that are proved, verified or listed, and swaps that are tried, on
# either worker; trials, which their own tests look after.
ELSEWHERE = ("audit-", "doctor-", "test-", "proof-", "sbom-", "swap-", "trial-", "verify-")


@pytest.fixture
def nothing_left(client: Any, request: pytest.FixtureRequest) -> Iterator[None]:
    """After the test, no container, network or volume is there that was not there before.

    Of the owner that the file names, and of images that this process proves; where experiments are started, on one
    worker alone, of these too.
    """
    own = (f"proof-{os.getpid()}-", *([request.module.OWNER] if hasattr(request.module, "OWNER") else []))
    starts_experiments = group_of(request.node.nodeid) in MEASURING

    def is_looked_at(owner: str) -> bool:
        return owner.startswith(own) or (starts_experiments and not owner.startswith(ELSEWHERE))

    before = leftovers(client, is_looked_at)
    yield
    left = leftovers(client, is_looked_at)
    assert {one: owner for one, owner in left.items() if one not in before} == {}


def leftovers(client: Any, is_looked_at: Callable[[str], bool]) -> dict[str, str]:
    """The owners, by id, of all whose owner is looked at: other workers have theirs at the same time.

    What another process is at work on is another worker's, or of an experiment of the user's.
    """
    owned = {"label": OWNER_LABEL}
    found = {
        **{one.id: one.labels for one in client.containers.list(all=True, filters=owned, ignore_removed=True)},
        **{one.id: one.attrs["Labels"] for one in client.networks.list(filters=owned)},
        **{one.id: one.attrs["Labels"] for one in client.volumes.list(filters=owned)},
    }
    mine = {one: labels for one, labels in found.items() if labels.get(PID) == str(os.getpid())}
    left = mine | {one: labels for one, labels in found.items() if life(labels) is not Life.LIVING}
    return {one: labels[OWNER_LABEL] for one, labels in left.items() if is_looked_at(labels[OWNER_LABEL])}
