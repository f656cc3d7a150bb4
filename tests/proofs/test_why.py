"""Stacks and acquires on each interpreter whose frames are found in another way: see tests/integration/test_why.py."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.docker import DockerEngine
from interlock.engine.run.workspace import ContainerSandbox
from interlock.measure import processes, profiling
from interlock.measure.experiment import Assignment, explain
from interlock.measure.stacks import Interpreter
from interlock.results.profiles import UNNAMED, Method
from tests.builders import make_settings
from tests.integration import lock_lines
from tests.integration.images import FREE_THREADED, PTH, Images
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
    with sandbox.count(Method.BPF, options) as counting:
        ended = sandbox.run([processes.LAUNCH, "--", "python", "-c", HAMMER], 120)
        counting.stop()
    assert ended.exit_code == 0, ended.stderr
    found = profiling.acquisitions_from(counting.text, profiling.PROGRAM_PHASE, 1, asked, options)
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
    FREE_THREADED: 0.95,
    "cpython-3.14": 0.95,
    "cpython-3.14t": 0.95,
}


# What an interpreter has not.
LACKS = {("cpython-2.7", "simple-queue"), (PTH, "simple-queue")}


def test_calls_of_the_core_workloads_have_names(
    client: Any, catalog: Catalog, built: Images, root: Path, tmp_path: Path
) -> None:
    """Prints a line for each variant and workload, which docs/why.md has: run it with -s."""
    images = [built[name] for name in NAMED]
    counted: dict[str, Counter[str]] = {name: Counter() for name in NAMED}
    without: dict[str, Counter[str]] = {name: Counter() for name in NAMED}
    for workload in (one for one in catalog.workloads.values() if one.core):
        for benchmark in (one.name for one in workload.benchmarks if one.profile_metric):
            able = [name for name in NAMED if not any(name == one and benchmark.endswith(what) for one, what in LACKS)]
            settings = make_settings(able).model_copy(update={"workloads": [workload.name], "quick": False})
            assignment = Assignment(catalog, root, tmp_path, images, settings, "interlock why")
            for name, found in explain(DockerEngine(client), assignment, benchmark, lambda _: None).items():
                counted[name][workload.name] += found.calls()
                without[name][workload.name] += found.calls(one for one in found.sites if one.lock == UNNAMED)
    for name, by_workload in counted.items():
        print(name, *(f"{one} {calls} {without[name][one]}" for one, calls in by_workload.items()), sep="; ")
    for name, share in NAMED.items():
        assert without[name].total() <= (1 - share) * counted[name].total(), name
