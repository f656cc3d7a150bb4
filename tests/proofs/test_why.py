"""Each contended acquire is at its line, with wait, hold and waker, on every kind of interpreter; calls have names.

The program whose acquires are known is that of tests/integration/test_why.py.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.agent import LAUNCH
from interlock.engine.docker import DockerEngine
from interlock.engine.run.workspace import ContainerSandbox
from interlock.measure.assignment import Assignment
from interlock.measure.cells import open_session
from interlock.measure.experiment import set_up
from interlock.measure.kinds.kind import PROGRAM_PHASE
from interlock.measure.stacks import Interpreter, acquisitions_of, lock_sites_in, work_from
from interlock.measure.watching import Observers
from interlock.results.profiles import UNNAMED, LockSites
from tests.builders import make_settings
from tests.integration import lock_lines
from tests.integration.images import FREE_THREADED, PTH, QUICK, Images
from tests.integration.resources import cell_of
from tests.integration.test_why import OWNER, acquisitions, lock_sites, programs, sandbox

__all__ = ["OWNER", "programs", "sandbox"]

pytestmark = pytest.mark.usefixtures("alone_on_the_machine")

VARIANTS = [
    "cpython-2.7",
    "cpython-3.9",
    "cpython-3.13",
    "debian-3.13",
    "cpython-3.14",
    FREE_THREADED,
    "cpython-3.14t",
]
# Debian's own has no symbols here.
COMPILED = [name for name in VARIANTS if name != "debian-3.13"]
# Two threads that take one lock as often as this, and hold it for as good as no time.
ACQUIRES = 20_000
HAMMER = f"""
import os, threading
lock = threading.Lock()
def hammer():
    for _ in range({ACQUIRES}):
        with lock:
            pass
def mark(phase):
    try:
        os.close(0x7FFF0000 | phase)
    except OSError:
        pass
mark(3)
threads = [threading.Thread(target=hammer) for _ in range(2)]
for one in threads:
    one.start()
for one in threads:
    one.join()
mark(4)
"""


@pytest.mark.parametrize("pairs", [1, 8])
@pytest.mark.parametrize("variant", VARIANTS)
def test_each_contended_acquire_comes_back_at_its_line(sandbox: ContainerSandbox, pairs: int) -> None:
    lock_lines.assert_exact(lock_sites(sandbox, pairs), pairs)


@pytest.mark.parametrize("pairs", [1, 8])
@pytest.mark.parametrize("variant", COMPILED)
def test_each_acquire_is_counted_with_its_wait_and_its_hold(sandbox: ContainerSandbox, pairs: int) -> None:
    lock_lines.assert_acquired(acquisitions(sandbox, pairs), pairs)


@pytest.mark.parametrize("variant", ["cpython-2.7", "cpython-3.9", "cpython-3.13", "cpython-3.14"])
def test_one_thread_at_a_time_holds_the_gil(sandbox: ContainerSandbox) -> None:
    lock_lines.assert_gil_held(acquisitions(sandbox, 8))


@pytest.mark.parametrize("variant", [FREE_THREADED, "cpython-3.14t"])
def test_each_collection_stops_all_threads(sandbox: ContainerSandbox) -> None:
    lock_lines.assert_stopped(acquisitions(sandbox, 1))


@pytest.mark.parametrize("variant", ["cpython-3.14t"])
def test_what_spinning_resolves_is_counted_and_no_acquire_is_missed(sandbox: ContainerSandbox) -> None:
    asked = Interpreter(sandbox)
    options = asked.frames().with_acquires()
    with sandbox.count(options) as counting:
        ended = sandbox.run([LAUNCH, "--", "python", "-c", HAMMER], 120)
        counting.stop()
    assert ended.exit_code == 0, ended.stderr
    found = acquisitions_of(work_from(counting.text, 1, PROGRAM_PHASE, asked.lines))
    (hammered,) = [one for one in found.acquires if one.acquires >= ACQUIRES]
    assert hammered.acquires == 2 * ACQUIRES
    assert hammered.spun > 0


@pytest.mark.parametrize("pairs", [1, 8])
@pytest.mark.parametrize("variant", [PTH])
def test_a_scheduler_in_the_process_waits_alone_and_for_no_lock(sandbox: ContainerSandbox, pairs: int) -> None:
    """GNU pth has one thread of the kernel: locks are taken without a call, and its scheduler's calls are all."""
    found = lock_sites(sandbox, pairs)
    assert {site.lock for site in found.sites} == {"pth scheduler"}
    assert not [site for site in found.sites if site.call == "futex"]
    assert found.named_share == 1


# The share of the calls that must have a name.
NAMED = {
    "cpython-2.7": 0.8,
    PTH: 0.8,
    "cpython-3.9": 0.8,
    "cpython-3.13": 0.95,
    QUICK: 0.95,
    FREE_THREADED: 0.95,
    "cpython-3.14": 0.95,
    "cpython-3.14t": 0.95,
}


# What an interpreter has not: the class, and the option -I.
LACKS = dict.fromkeys(["cpython-2.7", PTH], ("simple-queue", "I", "isolated"))


@pytest.mark.parametrize("variant", NAMED)
def test_calls_of_the_core_workloads_have_names(
    client: Any, catalog: Catalog, built: Images, root: Path, tmp_path: Path, variant: str
) -> None:
    """Prints a line for each workload: run it with -s. `-k core and 3.13t` asks one variant."""
    engine, image = DockerEngine(client), built[variant]
    counted: Counter[str] = Counter()
    without: Counter[str] = Counter()
    for workload in (one for one in catalog.workloads.values() if one.core):
        settings = make_settings([variant], workloads=[workload.name], quick=False)
        for name, found in sites_of_all(engine, Assignment(catalog, root, tmp_path, [image], settings, "why")):
            unnamed = found.calls(site for site in found.sites if site.lock == UNNAMED)
            print(f"{variant}; {workload.name}/{name}; {found.calls()}; {unnamed}", flush=True)
            counted[workload.name] += found.calls()
            without[workload.name] += unnamed
    print(variant, *(f"{one} {calls} {without[one]}" for one, calls in counted.items()), sep="; ")
    assert counted.total() > 0
    assert without.total() <= (1 - NAMED[variant]) * counted.total()


def sites_of_all(engine: DockerEngine, assignment: Assignment) -> Iterator[tuple[str, LockSites]]:
    """Yield the sites of each profiled benchmark of the only workload on the only variant, all from one cell."""
    owner = f"why-{datetime.datetime.now(datetime.UTC):%H%M%S%f}"
    (name,) = assignment.settings.workloads
    try:
        resources = set_up(engine, owner, assignment, Observers(lambda _: None), Path("why"))
        subject, *_ = assignment.subjects()  # its twin has the same sites
        with open_session(resources, assignment.workloads[name]) as session, cell_of(session, subject) as cell:
            for name, track in cell.tracks.items():
                lacks = LACKS.get(cell.subject.variant, ())
                if track.benchmark.profile_metric and not name.endswith(lacks):
                    yield name, lock_sites_in(track, resources.require_probe())
    finally:
        engine.clean_up(owner)
