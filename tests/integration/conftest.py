"""The real engine, and the images that tests ask for."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.variants import Base
from interlock.engine.build.base import local_tag
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.docker import connect
from interlock.engine.ownership import OWNER_LABEL, PID, Life, life
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers
from interlock.engine.run.leftovers import clean_up
from interlock.engine.symbols import symbols_tag
from interlock.results.experiments import Built
from tests.builders import ROOT, Entry
from tests.conftest import MEASURING, group_of
from tests.integration import registries, shared
from tests.integration.images import NO_THREADS, QUICK, Images, alone, make_quick
from tests.integration.plugin import config_with_buildx
from tests.integration.registries import Registry
from tests.integration.resources import owned, remove_cells, start
from tests.integration.toys import copy_project, make_toy_base
from tests.integration.wheelhouse import this_machine

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
def cell(client: Any, built: Images, volume: str, request: pytest.FixtureRequest) -> Any:
    """A cell of the image that is ready soonest."""
    return start(client, request.module.OWNER, built[QUICK], volume)


@pytest.fixture
def project(root: Path, client: Any, tmp_path: Path) -> Iterator[Path]:
    """A project without any variant; the images of those that a test adds are gone afterwards."""
    project = copy_project(root, tmp_path / "project", [], [])
    yield project
    for variant in catalogs.load(project).variants.values():
        for image in client.images.list(filters={"reference": variant.image_tag}):
            client.images.remove(image.id, force=True)


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's own mirror, a folder in which every source is looked for first."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    monkeypatch.setenv("INTERLOCK_SOURCE_MIRROR", str(folder))
    return folder


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """A registry of the test's own."""
    with registries.registry(tmp_path / "registry") as started:
        yield started


@pytest.fixture(scope="module")
def buildx(client: Any, catalog: Catalog, options: BuildOptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of docker's command that has the plugin, which Debian 12 has no package of."""
    return config_with_buildx(client, catalog, options, tmp_path_factory.mktemp("docker"))


@pytest.fixture
def unreachable(client: Any, catalog: Catalog) -> Iterator[Base]:
    """A base whose registry does not answer; what is made in its place is removed."""
    digest = f"{uuid.uuid4().hex}{uuid.uuid4().hex}"
    reference = f"127.0.0.1:1/debian:trixie-slim@sha256:{digest}"
    base = catalog.bases["trixie"].model_copy(update={"reference": reference})
    yield base
    with suppress(ImageNotFound):
        client.images.remove(local_tag(base))


@pytest.fixture
def swap(root: Path, monkeypatch: pytest.MonkeyPatch, entry: Entry) -> Entry:
    """Runs `interlock swap` in the project."""
    monkeypatch.chdir(root)
    return partial(entry, "swap")


@pytest.fixture(scope="module")
def here(client: Any) -> Iterator[str]:
    """This machine's address for containers, which pip trusts without a certificate."""
    address = this_machine(client)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PIP_TRUSTED_HOST", address)
        yield address


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
    found = owned(client)
    mine = {one: labels for one, labels in found.items() if labels.get(PID) == str(os.getpid())}
    left = mine | {one: labels for one, labels in found.items() if life(labels) is not Life.LIVING}
    return {one: labels[OWNER_LABEL] for one, labels in left.items() if is_looked_at(labels[OWNER_LABEL])}
