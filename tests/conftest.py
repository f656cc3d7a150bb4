"""A copy of the project's data that a test may damage."""

from __future__ import annotations

import gc
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.builders import ROOT

# pytest-xdist gives its workers 80 columns; without a terminal Interlock prints 160.
os.environ["COLUMNS"] = "160"

# A machine that is busy building is slow, not wrong.
settings.register_profile("interlock", deadline=None)
settings.load_profile("interlock")


ENGINE_FOLDERS = ("tests/integration/", "tests/proofs/")
# These take longest, and begin first: a long file that begins last keeps one worker waiting for the other.
BROWSER = "tests/browser/"  # one browser for all of them
LONG = (BROWSER, "tests/fleet/test_playbooks.py", "tests/test_playbooks.py")
# They trace without an engine, and no profile is taken beside another tracer.
TRACING = ("tests/measure/test_launch.py",)


def group_of(nodeid: str) -> str:
    """What runs on one worker: all tests that need an engine or trace, those of pages, and of the others each file.

    Measurements take turns, and tests of the engine look at all containers; tests of one file share what they made.
    """
    if nodeid.startswith(BROWSER):
        return BROWSER
    return "engine" if nodeid.startswith((*ENGINE_FOLDERS, *TRACING)) else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """One worker has all tests that need an engine; the other one, and who is free, the files of the others.

    xdist's own groups (`--dist=loadgroup`) do not work with pytest 9.2: they set a name that it no longer reads.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  only where xdist runs

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # it would begin with the file that has most tests
    return ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest, whatever order the others have."""
    order = {name: place for place, name in enumerate(("engine", *LONG))}
    items.sort(key=lambda item: order.get(group_of(item.nodeid), len(order)))


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from looking at thousands of tests and modules again and again."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Give everything back: libraries complain of what they still find at the end of the process."""
    gc.unfreeze()


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
