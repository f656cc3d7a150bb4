"""A copy of the project's data that a test may damage."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import settings

from tests.builders import ROOT

# A machine that is busy building is slow, not wrong.
settings.register_profile("interlock", deadline=None)
settings.load_profile("interlock")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The real variants/, workloads/ and templates, in a folder of the test's own."""
    copy = tmp_path / "project"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("variants", "workloads"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    (copy / "dockerfiles").mkdir()
    for part in (*(ROOT / "dockerfiles").glob("*.j2"), ROOT / "dockerfiles/fetch.sh"):
        shutil.copy(part, copy / "dockerfiles")
    return copy
