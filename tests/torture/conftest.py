"""What tests of torture use: images that are there before anything is ended, and a project of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.protocol import INSTRUMENTS, BuildOptions
from interlock.engine.run.leftovers import clean_up
from tests.builders import ROOT
from tests.integration.images import QUICK, Images
from tests.integration.toys import add_toy_bases, copy_project, make_toy_base
from tests.torture.experiments import owners_of, usual_duration_s


@pytest.fixture(scope="session")
def built() -> None:
    """What the commands use that are ended: made before, so that it is a command's own work that is ended."""
    client, options = docker.from_env(), BuildOptions(ROOT, catalogs.cache_folder())
    make_toy_base(client)
    base = Images(client, catalogs.load(ROOT), options)[QUICK].base
    assert base is not None
    ensure_helper(client, ROOT, INSTRUMENTS, base)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project with one variant and one workload, and a base for toys."""
    copied = copy_project(ROOT, tmp_path / "project", [QUICK], ["startup"])
    add_toy_bases(copied)
    return copied


@pytest.fixture(scope="session")
def usual_s(tmp_path_factory: pytest.TempPathFactory) -> float:
    return usual_duration_s(tmp_path_factory.mktemp("usual"))


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Path]:
    """A folder for experiments that are `tried`; what a killed process could not remove itself is removed."""
    folder = tmp_path / "results"
    folder.mkdir()
    yield folder
    for owner in owners_of("tried"):
        clean_up(docker.from_env(), owner)
