"""What tests of torture use: images that are there before anything is ended, and a project of their own."""

from __future__ import annotations

from pathlib import Path

import docker
import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.protocol import INSTRUMENTS, BuildOptions
from tests.builders import ROOT
from tests.integration.images import QUICK, Images
from tests.integration.toys import add_toy_bases, copy_project, make_toy_base


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
