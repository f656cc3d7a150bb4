"""1,000,000 imports are 1,000,000 futex calls on the interpreter of 2007, to the call; two capabilities are enough."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from interlock.catalog.project import Catalog
from interlock.engine.agent import LAUNCH
from interlock.engine.run import execution, profiler
from interlock.engine.run.profiler import CGROUPS, HOST_CGROUPS, PROFILER, profiler_rights
from interlock.measure import processes
from interlock.measure.counts import parse_bpf, parse_strace
from tests.integration.images import Images
from tests.integration.resources import said, start
from tests.integration.test_profiler import OWNER, START_TRUTH, assert_exact
from tests.integration.toys import MODE_OF, waking_mode

pytestmark = pytest.mark.usefixtures("alone_on_the_machine")


def test_the_calls_of_1000000_imports_are_those_of_the_work_alone(
    client: Any, catalog: Catalog, built: Images, volume: str, instruments_image: str
) -> None:
    """The count of 2007, to the call: every import takes the import lock once, and every release wakes."""
    mode = waking_mode(catalog)
    cell = start(client, OWNER, built[MODE_OF], volume)
    argv = ["python", "/interlock/workloads/import_loop.py", "--where", "function"]
    argv += ["--loops", "100", "--warmups", "1", "--values", "1"]
    found = []
    for environment in ({}, mode.environment):
        with profiler.counting(instruments_image, OWNER, cell) as counting:
            said(cell, LAUNCH, "--", *argv, environment=environment)
            counting.stop()
        phases = parse_bpf(counting.text)
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
    cell = start(client, OWNER, built[MODE_OF], volume)
    mode = waking_mode(catalog)
    futex = []
    for environment in ({}, mode.environment):
        argv = processes.traced_argv(["python", "-c", RELEASES], environment)
        ended = execution.run_process(cell, argv, deadline_s=60)
        assert ended.exit_code == 0, ended.stderr
        futex.append(parse_strace(ended.stderr).syscalls["futex"].calls)
    plain, waking = futex
    assert plain < 100
    assert 1234 <= waking - plain < 1334


@pytest.mark.parametrize("left_out", ["", "PERFMON", "BPF"])
def test_two_capabilities_of_the_kernels_count_exactly_in_place_of_the_administrators(
    client: Any, cell: Any, instruments_image: str, left_out: str
) -> None:
    """Whether this engine knows them or not: the profiler is started in its container with these rights alone."""
    rights = profiler_rights(os.uname().release)[0]
    assert "SYS_ADMIN" not in rights
    kept = [f"+{one.lower()}" for one in rights if one != left_out]
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
        argv = [PROFILER, "--pid", str(cell.attrs["State"]["Pid"]), "--cgroups", CGROUPS]
        with subprocess.Popen([*entered, *without, *argv], stdout=subprocess.PIPE, text=True) as profiler:
            assert profiler.stdout is not None
            is_ready = profiler.stdout.readline() == "ready\n"
            if is_ready:
                said(cell, LAUNCH, "--", *START_TRUTH)
            profiler.terminate()
            counted = profiler.stdout.read()
    finally:
        box.remove(force=True)
    assert is_ready is not bool(left_out)
    if is_ready:
        assert_exact(counted)
