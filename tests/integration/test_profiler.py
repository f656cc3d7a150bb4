"""The profilers in the real engine: known counts come back exactly, of one cell and no other."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.workloads import Workload
from interlock.engine.agent import LAUNCH
from interlock.engine.run import execution, profiler
from interlock.engine.run.workspace import ContainerWorkspace
from interlock.errors import EngineError, TracerError
from interlock.measure import probes, processes, profiling
from interlock.measure.cells import open_session
from interlock.measure.counts import parse_bpf, parse_strace
from interlock.measure.probes import best_probe
from interlock.results.experiments import Subject
from interlock.results.profiles import BenchmarkProfile, Method, PhaseCounts, Probe
from tests.builders import make_resources
from tests.integration.images import QUICK, Images
from tests.integration.resources import cell_of, said, start, subject_of

OWNER = f"test-profiler-{os.getpid()}"
TRUTH = "/interlock/workloads/truth"
FUTEX = 202  # of x86-64

# What truth.c does, by its own constants.
WORKERS, SHORT_THREADS, FORKS, EXECS = 4, 500, 200, 100
EXPECTED = {
    "getpid": 225_000,
    "getppid": SHORT_THREADS,
    "getuid": FORKS,
    "getegid": EXECS,
    "read": 240_000,
    "futex": 200_000 + 40_000 + 2 * 20,
    "clone": WORKERS + SHORT_THREADS + FORKS,
    "vfork": EXECS,
    "execve": EXECS,
    "wait4": FORKS + EXECS,
    "exit": WORKERS + SHORT_THREADS,
    "exit_group": FORKS + EXECS,
}


pytestmark = pytest.mark.usefixtures("alone_on_the_machine")


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    program = tmp_path_factory.mktemp("truth") / "truth"
    source = Path(__file__).with_name("truth.c")
    flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-static"]
    subprocess.run(["gcc", *flags, "-o", str(program), str(source)], check=True)
    return program.read_bytes()


@pytest.fixture(scope="module")
def programs(root: Path, truth: bytes) -> dict[str, bytes]:
    committed = {path.name: path.read_bytes() for path in (root / "workloads").glob("*.py")}
    return {**committed, "truth": truth, "wakes.py": WAKES.encode()}


def count(instruments_image: str, cell: Any, *argv: str) -> str:
    """What the profiler printed of a process in the cell."""
    with profiler.counting(instruments_image, OWNER, cell) as counting:
        said(cell, LAUNCH, "--", *argv)
        counting.stop()
    return counting.text


# The volume has no executable files, and nothing is executed from a tmpfs.
FETCH_TRUTH = f"cp {TRUTH} /tmp/truth && chmod +x /tmp/truth"
START_TRUTH = ["sh", "-c", f"{FETCH_TRUTH} && exec /tmp/truth"]


def calls(phase: PhaseCounts) -> dict[str, int]:
    return {name: phase.syscalls[name].calls for name in EXPECTED if name in phase.syscalls}


def assert_exact(text: str) -> None:
    phases = parse_bpf(text)
    work = phases["work"]
    assert calls(work) == EXPECTED
    assert work.syscalls["read"].errors == {"EBADF": 40_000}
    assert work.syscalls["futex"].errors == {"EAGAIN": 40_000, "ETIMEDOUT": 40}
    assert {name: (one.calls, one.errors, one.woke_nobody) for name, one in work.futex.items()} == {
        "wait": (40_020, 40_020, 0),
        "wake": (200_000, 0, 200_000),
        "wait_bitset": (20, 20, 0),
    }
    assert work.locks_waited_for == WORKERS
    assert [lock.waits for lock in work.locks] == [10_010] * WORKERS
    assert all(lock.ns >= 5 * 2_000_000 for lock in work.locks)
    assert calls(phases["end"]) == {"exit_group": 1}


UNIFIED = Path("/sys/fs/cgroup/unified")


@pytest.mark.parametrize(
    ("cgroups", "told_by"),
    [
        # What a machine with cgroup v2 alone has there.
        (str(UNIFIED if UNIFIED.exists() else UNIFIED.parent), "cgroup"),
        # cgroup v1 alone: no cgroup v2 hierarchy is to be seen.
        ("/sys/class", "pid namespace"),
    ],
)
def test_every_known_count_matches_exactly_and_nothing_is_lost(
    cell: Any, instruments_image: str, monkeypatch: pytest.MonkeyPatch, cgroups: str, told_by: str
) -> None:
    monkeypatch.setattr(profiler, "HOST_CGROUPS", cgroups)
    text = count(instruments_image, cell, *START_TRUTH)
    assert f'"filter": "{told_by}"' in text
    assert_exact(text)


def test_two_cells_profiled_at_once_do_not_see_each_other(
    client: Any, built: Images, volume: str, instruments_image: str
) -> None:
    texts: list[str] = []
    both_ready = threading.Barrier(2, timeout=60)

    def profile_one(cell: Any) -> None:
        with profiler.counting(instruments_image, OWNER, cell) as counting:
            both_ready.wait()
            said(cell, LAUNCH, "--", *START_TRUTH)
            both_ready.wait()
            counting.stop()
        texts.append(counting.text)

    opened = [start(client, OWNER, built[QUICK], volume) for _ in range(2)]
    threads = [threading.Thread(target=profile_one, args=(cell,)) for cell in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 2
    for text in texts:
        assert '"filter": "cgroup"' in text  # as the machine has them: v2, or v1 with v2 mounted beside it
        assert_exact(text)


@pytest.mark.usefixtures("nothing_left")
def test_this_machine_has_bpf(client: Any, instruments_image: str) -> None:
    """The rest of this file needs BPF; a machine that refuses it must not pass by its fallbacks."""
    probe = best_probe(ContainerWorkspace(client, OWNER, instruments_image))
    assert (probe.method, probe.refused) == (Method.BPF, {})


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize("has_strace", [True, False])
def test_where_bpf_is_refused_strace_counts_and_the_reason_is_named(
    client: Any, instruments_image: str, monkeypatch: pytest.MonkeyPatch, has_strace: bool
) -> None:
    @contextmanager
    def refusing(*_: Any) -> Iterator[None]:
        raise EngineError(found="BPF is refused", todo="Nothing.")
        yield

    monkeypatch.setattr(profiler, "counting", refusing)
    if not has_strace:
        monkeypatch.setattr(probes, "STRACE", ["/interlock/no-such-strace"])
        with pytest.raises(EngineError, match="bpf: BPF is refused; strace: "):
            best_probe(ContainerWorkspace(client, OWNER, instruments_image))
        return
    probe = best_probe(ContainerWorkspace(client, OWNER, instruments_image))
    assert (probe.method, probe.refused) == (Method.STRACE_FUTEX, {Method.BPF: "BPF is refused"})


def test_each_start_of_a_row_is_counted_and_the_launcher_never(cell: Any, instruments_image: str) -> None:
    with profiler.counting(instruments_image, OWNER, cell) as counting:
        argv = [LAUNCH, "--repeat", "3", "--", "sh", "-c", "true"]
        assert execution.run_process(cell, argv, 60).exit_code == 0
        counting.stop()
    startup = parse_bpf(counting.text)["startup"]
    assert startup.syscalls["exit_group"].calls == 3
    assert "wait4" not in startup.syscalls
    assert "execve" not in startup.syscalls


def test_strace_counts_a_known_number_of_calls(cell: Any) -> None:
    call = f"{FUTEX}, ctypes.byref(word), wake"
    program = (
        "import ctypes\nword, libc = ctypes.c_int(0), ctypes.CDLL(None)\n"
        f"for wake in [1] * 1234 + [99] * 56: libc.syscall({call}, 1, None, None, 0)"
    )
    ended = execution.run_process(cell, [*processes.STRACE, "python", "-c", program], deadline_s=60)
    futex = parse_strace(ended.stderr).syscalls["futex"]
    assert 1290 <= futex.calls < 1390
    assert 56 <= futex.errors["any"] < 66


HOLD_AN_EVENT = """
import ctypes, struct, sys
# struct perf_event_attr: a software event (task clock) of this process in user mode.
attributes = struct.pack("IIQQQQQ", 1, 64, 1, 0, 0, 0, 0b1100000) + bytes(16)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(298, attributes, 0, -1, -1, 0) > 0, ctypes.get_errno()
print("holding", flush=True)
sys.stdin.read()
"""


def test_beside_a_tracer_that_uses_perfs_events_it_refuses_by_name(cell: Any, instruments_image: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AN_EVENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "holding\n"
        with pytest.raises(TracerError, match=rf"\(pid {tracer.pid}\)"):
            count(instruments_image, cell, "true")
        tracer.communicate("")


def test_beside_strace_in_the_cell_it_refuses_by_name(cell: Any, instruments_image: str) -> None:
    cell.exec_run([*processes.STRACE, "sleep", "30"], detach=True)
    with pytest.raises(TracerError, match=r"(strace|ld\.so) \(pid \d+\) is tracing"):
        count(instruments_image, cell, "true")


# One system call of each kind per unit: not by a lock, of which no interpreter promises how it asks the kernel. Their
# numbers are those of x86-64.
WAKES = """\
import ctypes
import time
import protocol
options = protocol.parse(protocol.new_parser("wakes"))
libc, word, wake = ctypes.CDLL(None), ctypes.c_int(0), 1
GETPPID, FUTEX = 110, 202
UNITS = 1000
def timed(loops):
    start = time.time()
    for _ in range(loops * UNITS):
        libc.syscall(GETPPID)
        libc.syscall(FUTEX, ctypes.byref(word), wake, 1, None, None, 0)
    return time.time() - start
protocol.run(lambda _: protocol.Work(timed, UNITS, {}), options)
"""
WORKLOAD = """\
summary = "wakes nobody"
program = "wakes.py"
unit = "wake"
deadline_s = 60
quick = { warmups = 0, values = 1 }
full = { warmups = 0, values = 1 }
[[benchmarks]]
name = "both"
metric = { label = "ns", scale = 1e9 }
profile_metric = { label = "futex per wake", scale = 1 }
profile_loops = 10
"""


@pytest.mark.parametrize("method", Method)
def test_each_probe_finds_the_same_futex_calls_per_unit_of_work(
    client: Any, built: Images, volume: str, instruments_image: str, method: Method
) -> None:
    workspace = ContainerWorkspace(client, OWNER, instruments_image, volume)
    profile = profiled_wakes(workspace, subject_of(built[QUICK]), method)
    # A run of its own is deducted for the start: a handful of calls either way.
    assert profile.futex_per_unit == pytest.approx(1, abs=0.01)
    if method is Method.BPF:
        assert profile.calls_per_unit(["getppid"]) == pytest.approx(1, abs=0.01)
    assert profile.method is method


def profiled_wakes(workspace: ContainerWorkspace, subject: Subject, method: Method) -> BenchmarkProfile:
    """The profile of the one benchmark, in a cell of an experiment."""
    workload = Workload.model_validate({**tomllib.loads(WORKLOAD), "name": "wakes"})
    resources = make_resources(workspace=workspace, probe=Probe(method=method), programs={"wakes.py": b""})
    with open_session(resources, workload) as session, cell_of(session, subject) as cell:
        profiling.profile_cells(session, [cell])
    assert cell.profile_problem == ""
    profile = cell.tracks["both"].profile
    assert profile is not None
    return profile
