"""A copy of the project's data that a test may damage."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
import tomllib
from collections.abc import Generator, Iterator
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings

from interlock.catalog import reading
from interlock.cli import main
from interlock.engine.finding import find_containers
from interlock.measure import lock
from interlock.results.engines import EngineName
from tests import apart
from tests.builders import ROOT, Entry

# pytest-xdist gives its workers 80 columns; without a terminal Interlock prints 160.
os.environ["COLUMNS"] = "160"

# A machine that is busy building is slow, not wrong. Before a commit (`nox -s unit`) a quarter of the examples is
# tried, others each time; .ci/run tries all of them.
settings.register_profile("interlock", deadline=None)
settings.register_profile("quick", deadline=None, max_examples=settings.get_profile("interlock").max_examples // 4)
settings.load_profile("interlock")


# What starts experiments and trials, cleans up after them, installs packages or traces is on two workers, for one half
# of it waits for an engine: measurements take turns (the lock of measure/lock.py).
EXPERIMENTS, TRIALS = "experiments", "trials"
MEASURING = {
    EXPERIMENTS: (
        *(f"tests/integration/test_{name}.py" for name in ("adapters", "cold", "limits", "matrix", "package")),
        *("tests/integration/test_packages.py", "tests/integration/test_profiler.py", "tests/integration/test_why.py"),
        *("tests/measure/test_launch.py", "tests/proofs/"),
    ),
    TRIALS: tuple(f"tests/integration/test_{name}.py" for name in ("misfortune", "next", "stages", "trial")),
}
BROWSER = "tests/browser/"  # one browser for all of them
ENGINE = "tests/integration/"  # what else an engine builds: two that build the same toy would be in each other's way
# What runs in images that are there, and builds none: who is free has it, last, when they are.
RUNNING = tuple(
    f"tests/integration/test_{name}.py"
    for name in ("audit", "audit_gil", "service", "host_engine", "cells", "downloads")
)
# What takes longest begins first: a long file that begins last keeps one worker waiting for the other.
LONGEST = (
    *(EXPERIMENTS, TRIALS, ENGINE, BROWSER),
    *("tests/integration/test_audit.py", "tests/cli/test_fleet.py", "tests/fleet/test_playbooks.py"),
    *("tests/test_playbooks.py", "tests/workloads/test_download.py"),
)


def group_of(nodeid: str) -> str:
    """What runs on one worker: a half of what measures or traces, what else builds images, pages, or a file.

    Tests of one file share what they made.
    """
    file = nodeid.partition("::")[0]
    if file in RUNNING:
        return file
    groups = {**MEASURING, ENGINE: (ENGINE,), BROWSER: (BROWSER,)}
    return next((group for group, names in groups.items() if file.startswith(names)), file)


def place_of(nodeid: str) -> int:
    """Where the group of a test stands in the order in which workers take groups."""
    group = group_of(nodeid)
    if group in LONGEST:
        return LONGEST.index(group)
    return len(LONGEST) + (group in RUNNING)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Two workers have what measures, one what else builds images; the fourth, and who is free, the other groups.

    xdist's own groups (`--dist=loadgroup`) do not work with pytest 9.2: they set a name that it no longer reads.
    """
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  only where xdist runs

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    config.option.loadscopereorder = False  # it would begin with the file that has most tests
    return ByFile(config, log)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name bytes by their argument: an archive's hold the second in which it was made, and workers must agree."""
    return argname if isinstance(val, bytes) else None


# Programs that tests start and that bootstrap.sh brings.
BROUGHT = ("cc", "curl", "docker-registry", "gpg", "mmdebstrap", "nginx", "openssl", "patch", "ssh")
HOME = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    """Leave what is the user's alone; workers are started in the home that the tests have by then."""
    if not hasattr(config, "workerinput"):
        config.stash[HOME] = apart.move_out()
    apart.take_own_lock()


def pytest_unconfigure(config: pytest.Config) -> None:
    if HOME in config.stash:
        shutil.rmtree(config.stash[HOME], ignore_errors=True)


@lru_cache
def no_engine() -> str:
    """Return why no container engine can be used; empty if one can."""
    return find_containers().why_none


@lru_cache
def no_docker() -> str:
    """Return why the tests of the engine cannot run; empty if Docker is there, whose ways and words they know."""
    found = find_containers()
    is_podman = found.containers is not None and found.containers.name is EngineName.PODMAN
    return "tests/proofs/test_podman.py is Podman's, these are Docker's" if is_podman else found.why_none


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out what needs an engine where there is none: pytest says it in one line at the end."""
    if "client" in getattr(item, "fixturenames", ()) and no_docker():
        pytest.skip(f"tests/integration has no container engine: {no_docker()}")
    for name in (name for mark in item.iter_markers("needs") for name in mark.args if may_lack(name)):
        pytest.skip(LACKS.format(name))


LACKS = "this machine has no {}, which bootstrap.sh brings to those who may install it"


def may_lack(program: object) -> bool:
    """Return whether a program is missing where no engine is: whoever has one has all that bootstrap.sh brings."""
    return isinstance(program, str) and shutil.which(program) is None and bool(no_engine())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leave out a test that could not start a program which this machine may lack."""
    report = yield
    error = call.excinfo.value if call.excinfo else None
    if isinstance(error, FileNotFoundError) and error.filename in BROUGHT and may_lack(error.filename):
        report.outcome, report.longrepr = "skipped", (__file__, 0, LACKS.format(error.filename))
    return report


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first what takes longest."""
    items.sort(key=lambda item: place_of(item.nodeid))


def pytest_sessionstart() -> None:
    """Make thousands of tests without the collector of garbage, which would look at them again and again."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the collector from looking at what was collected, now that it is wanted again."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish() -> None:
    """Give everything back: libraries complain of what they still find at the end of the process."""
    gc.unfreeze()


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A folder on a disk: of a tmpfs, as /tmp may be one, memory is all that there is."""
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True, scope="session")
def each_file_of_the_catalog_is_parsed_once() -> Iterator[None]:
    """Hundreds of tests read the same files: to parse TOML is half of what that takes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "tomllib", SimpleNamespace(loads=lru_cache(500)(tomllib.loads)))
        yield


@pytest.fixture(autouse=True, scope="session")
def nobody_waits_for_the_disk() -> Iterator[None]:
    """What tests write need not outlive a crash of the machine: they would wait thousands of times for its disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda _: None)
        yield


@pytest.fixture
def alone_on_the_machine() -> Iterator[None]:
    """While no experiment or trial of the tests measures here: a test that traces takes the lock that they take."""
    with lock.hold("a test that traces", lambda _: None):
        yield


@pytest.fixture(autouse=True)
def outside_of_a_clone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test begins in an empty folder, and its results are empty: a clone has those of the user."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as folder:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_DATA_HOME", f"{folder}/data")
        yield


@pytest.fixture
def entry(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Entry]:
    """Runs `interlock` with these words in this process, as a user calls it; its exit code, output and errors."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["interlock", *map(str, words)])
        try:
            main.main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        return code, *capfd.readouterr()

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The real variants/, workloads/ and templates, in a folder of the test's own."""
    copy = tmp_path / "project"
    ignored = shutil.ignore_patterns("__pycache__")
    for folder in ("variants", "workloads"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=ignored)
    (copy / "dockerfiles").mkdir()
    for part in (path for glob in ("*.j2", "*.sh") for path in (ROOT / "dockerfiles").glob(glob)):
        shutil.copy(part, copy / "dockerfiles")
    return copy


@pytest.fixture
def deadline() -> Iterator[None]:
    """Fail a test that waits, in place of waiting with it."""

    def fail(*_: object) -> None:
        pytest.fail("it waits")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
