"""The table that `nox -s torture` ends with: of each promise what was tried, what survived and what was lost.

A test says them by `record_property`: `promise` (a sentence), `tried`, `survived` and `lost`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import docker
import pytest

from interlock.catalog import project as catalogs
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.protocol import INSTRUMENTS, BuildOptions
from tests.builders import ROOT
from tests.integration.images import QUICK, Images
from tests.integration.toys import add_toy_bases, copy_project, make_toy_base

COUNTS = ("tried", "survived", "lost")
PROMISED = pytest.StashKey[dict[str, list[int]]]()
ENDED = pytest.StashKey[bool]()  # whether the test itself came to an end, good or bad


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PROMISED] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.when == "call":
        item.stash[ENDED] = True
    return (yield)


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


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Add what a test recorded to its promise's counts, also when it failed; a test without counts is an error.

    One that Ctrl-C ended has none, and what failed before it is still said.
    """
    yield
    if ENDED not in request.node.stash:
        return
    recorded = dict(request.node.user_properties)
    missing = {"promise", *COUNTS} - recorded.keys()
    assert not missing, f"record_property of {sorted(missing)} is missing"
    sums = request.config.stash[PROMISED].setdefault(str(recorded["promise"]), [0] * len(COUNTS))
    for index, name in enumerate(COUNTS):
        sums[index] += int(recorded[name])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.section("promises")
    terminalreporter.write_line("| promise | " + " | ".join(COUNTS) + " |")
    terminalreporter.write_line("| --- " * (1 + len(COUNTS)) + "|")
    for promise, sums in config.stash[PROMISED].items():
        terminalreporter.write_line(f"| {promise} | " + " | ".join(map(str, sums)) + " |")
