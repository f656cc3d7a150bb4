"""1,000,000 imports are 1,000,000 futex calls on the interpreter of 2007, to the call; two capabilities are enough."""

from __future__ import annotations

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.run import execution, profiler
from interlock.engine.run.profiler import CGROUPS, HOST_CGROUPS, PROFILER, profiler_rights
from interlock.engine.run.workspace import ContainerWorkspace
from interlock.errors import EngineError
from interlock.measure import processes, profiling
from interlock.measure.profiling import parse_strace
from interlock.results.profiles import CallCounts, Method
from tests.integration.images import QUICK, Images
from tests.integration.test_profiler import (
    EXPECTED,
    FETCH_TRUTH,
    OWNER,
    START_TRUTH,
    assert_exact,
    count,
    open_cell,
    profiled_wakes,
    run,
)
from tests.integration.toys import mode_named

WAKING = "cpython-2.7"

pytestmark = pytest.mark.usefixtures("alone_on_the_machine")


def test_the_calls_of_1000000_imports_are_those_of_the_work_alone(
    client: Any, catalog: Catalog, built: Images, volume: str, instruments_image: str
) -> None:
    """The count of 2007, to the call: every import takes the import lock once, and every release wakes."""
    mode = mode_named(catalog, WAKING, "waking-sem-post")
    cell = open_cell(client, built, volume, WAKING)
    argv = ["python", "/interlock/workloads/import_loop.py", "--where", "function"]
    argv += ["--loops", "10", "--warmups", "1", "--values", "1"]
    found = []
    for environment in ({}, mode.environment):
        with profiler.counting(client, instruments_image, OWNER, cell, Method.BPF) as counting:
            run(client, cell, *argv, environment=environment)
            counting.stop()
        phases = profiling.parse_bpf(counting.text)
        found.append(phases["work"].syscalls["futex"].calls if "futex" in phases["work"].syscalls else 0)
        assert phases["startup"].total > 100
        assert ("futex" in phases["warmup"].syscalls) == bool(environment)
    assert found == [0, 1_000_000]


RELEASES = """
import thread
lock = thread.allocate_lock()
for _ in range(1234):
    lock.acquire()
    lock.release()
"""


def test_every_release_of_a_lock_is_a_futex_call_in_the_mode_that_says_so(
    client: Any, catalog: Catalog, built: Images, volume: str
) -> None:
    cell = open_cell(client, built, volume, WAKING)
    mode = mode_named(catalog, WAKING, "waking-sem-post")
    futex = []
    for environment in ({}, mode.environment):
        argv = processes.traced_argv(processes.STRACE, ["python", "-c", RELEASES], environment)
        ended = execution.run_process(client, cell, argv, deadline_s=60)
        assert ended.exit_code == 0, ended.stderr
        futex.append(parse_strace(ended.stderr).syscalls["futex"].calls)
    plain, waking = futex
    assert plain < 100
    assert 1234 <= waking - plain < 1334


@pytest.fixture(scope="module")
def is_in_a_cgroup(client: Any, instruments_image: str) -> bool:
    """Whether the engine puts a cell in one of its own that perf counts by; some runtimes leave it in the root's."""
    container = client.containers.run(instruments_image, ["sleep", "60"], entrypoint=[], detach=True)
    try:
        container.reload()
        text = Path(f"/proc/{container.attrs['State']['Pid']}/cgroup").read_text()
    finally:
        container.remove(force=True)
    lines = [line.split(":", 2) for line in text.splitlines()]
    return any(path != "/" for _, controllers, path in lines if not controllers or "perf_event" in controllers)


def test_perfs_tracepoints_count_exactly_once_the_start_of_the_process_is_taken_off(
    client: Any, built: Images, volume: str, instruments_image: str, is_in_a_cgroup: bool
) -> None:
    """Taken off is a process that the engine starts in the same way and that does not start it."""
    opened = [open_cell(client, built, volume) for _ in range(2)]

    def calls_of(cell: Any, argv: list[str]) -> dict[str, CallCounts]:
        return profiling.parse_tracepoints(count(client, instruments_image, cell, Method.TRACEPOINTS, *argv)).syscalls

    if not is_in_a_cgroup:
        with pytest.raises(EngineError) as caught:
            calls_of(opened[0], START_TRUTH)
        assert "cgroup" in caught.value.found
        return
    # Side by side in a cell each: the kernel takes ten seconds to give its hundreds of tracepoints back.
    with ThreadPoolExecutor(2) as pool:
        whole, setup = pool.map(calls_of, opened, [START_TRUTH, ["sh", "-c", FETCH_TRUTH]])
    for name in ("getegid", "getuid", "getppid", "vfork"):
        assert whole[name].calls - (setup[name].calls if name in setup else 0) == EXPECTED[name]
    # The engine's own start is not the same from one time to the next.
    for name in ("read", "futex", "getpid"):
        assert abs(whole[name].calls - setup[name].calls - EXPECTED[name]) < 200


def test_perfs_tracepoints_find_the_futex_calls_per_unit_of_work_that_the_other_probes_find(
    client: Any, built: Images, volume: str, instruments_image: str, is_in_a_cgroup: bool
) -> None:
    if not is_in_a_cgroup:
        pytest.skip("perf has no cgroup to count by on this machine; tests/integration tests that it says so")
    method = Method.TRACEPOINTS
    found = profiled_wakes(ContainerWorkspace(client, OWNER, instruments_image, volume), built[QUICK].image_id, method)
    assert found.futex_per_unit == pytest.approx(1, abs=0.01)
    assert found.calls_per_unit(["getppid"]) == pytest.approx(1, abs=0.01)
    assert found.method is method
    assert not found.perturbed


@pytest.mark.parametrize("left_out", ["", "PERFMON", "BPF"])
def test_two_capabilities_of_the_kernels_count_exactly_in_place_of_the_administrators(
    client: Any, built: Images, volume: str, instruments_image: str, left_out: str
) -> None:
    """Whether this engine knows them or not: the profiler is started in its container with these rights alone."""
    rights = profiler_rights(Method.BPF, os.uname().release)[0]
    assert "SYS_ADMIN" not in rights
    kept = [f"+{one.lower()}" for one in rights if one != left_out]
    cell = open_cell(client, built, volume)
    cell.reload()
    box = client.containers.run(
        instruments_image,
        ["sleep", "300"],
        entrypoint=[],
        detach=True,
        pid_mode="host",
        network_mode="none",
        volumes={HOST_CGROUPS: {"bind": CGROUPS, "mode": "ro"}},
        tmpfs={"/run": ""},
    )
    try:
        box.reload()
        entered = ["nsenter", f"--target={box.attrs['State']['Pid']}", "--mount"]
        without = ["setpriv", "--no-new-privs", "--inh-caps=-all", f"--bounding-set={','.join(['-all', *kept])}"]
        argv = [PROFILER, "--method", "bpf", "--pid", str(cell.attrs["State"]["Pid"]), "--cgroups", CGROUPS]
        with subprocess.Popen([*entered, *without, *argv], stdout=subprocess.PIPE, text=True) as profiler:
            assert profiler.stdout is not None
            is_ready = profiler.stdout.readline() == "ready\n"
            if is_ready:
                run(client, cell, *START_TRUTH)
            profiler.terminate()
            said = profiler.stdout.read()
    finally:
        box.remove(force=True)
    assert is_ready is not bool(left_out)
    if is_ready:
        assert_exact(said)
