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
from interlock.engine.run import containers, execution, profiler
from interlock.engine.run.workspace import ContainerWorkspace
from interlock.errors import EngineError, TracerError
from interlock.measure import processes, profiling
from interlock.measure.cells import Cell, Resources, open_sandbox, open_session
from interlock.measure.profiling import best_probe
from interlock.results.experiments import Subject
from interlock.results.profiles import BenchmarkProfile, Method, PhaseCounts, Probe
from tests.builders import make_settings
from tests.integration.images import QUICK, Images

OWNER = f"test-profiler-{os.getpid()}"
TRUTH = "/interlock/workloads/truth"

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


def open_cell(client: Any, built: Images, volume: str, variant: str = QUICK) -> Any:
    options = containers.CellOptions(OWNER, volume, None)
    return containers.start_cell(client, built[variant].image_id, options)


def run(client: Any, cell: Any, *argv: str, environment: dict[str, str] | None = None) -> None:
    ended = execution.run_process(client, cell, [processes.LAUNCH, "--", *argv], 60, environment)
    assert ended.exit_code == 0, ended.stderr


def count(client: Any, instruments_image: str, cell: Any, method: Method, *argv: str) -> str:
    """What the profiler printed of a process in the cell."""
    with profiler.counting(client, instruments_image, OWNER, cell, method) as counting:
        run(client, cell, *argv)
        counting.stop()
    return counting.text


# The volume has no executable files, and nothing is executed from a tmpfs.
FETCH_TRUTH = f"cp {TRUTH} /tmp/truth && chmod +x /tmp/truth"
START_TRUTH = ["sh", "-c", f"{FETCH_TRUTH} && exec /tmp/truth"]


def calls(phase: PhaseCounts) -> dict[str, int]:
    return {name: phase.syscalls[name].calls for name in EXPECTED if name in phase.syscalls}


def assert_exact(text: str) -> None:
    phases = profiling.parse_bpf(text)
    work = phases["work"]
    assert calls(work) == EXPECTED
    assert work.syscalls["read"].errors == {"EBADF": 40_000}
    assert work.syscalls["futex"].errors == {"EAGAIN": 40_000, "ETIMEDOUT": 40}
    assert {name: (one.calls, one.errors, one.woke_nobody) for name, one in work.futex.items()} == {
        "wait": (40_020, 40_020, 0),
        "wake": (200_000, 0, 200_000),
        "wait_bitset": (20, 20, 0),
    }
    assert sum(work.futex_wait_log2_ns.values()) == 40_040
    # Twenty waits of 2 ms: 2^20 ns is 1 ms.
    assert sum(waits for log2, waits in work.futex_wait_log2_ns.items() if log2 >= 20) >= 20
    assert work.locks_waited_for == WORKERS
    assert [lock.waits for lock in work.locks] == [10_010] * WORKERS
    assert all(lock.ns >= 5 * 2_000_000 for lock in work.locks)
    ended = [tasks.ended for name in ("work", "end") if (tasks := phases[name].tasks)]
    assert sum(ended) == 1 + WORKERS + SHORT_THREADS + FORKS + EXECS
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
    client: Any,
    built: Images,
    volume: str,
    instruments_image: str,
    monkeypatch: pytest.MonkeyPatch,
    cgroups: str,
    told_by: str,
) -> None:
    monkeypatch.setattr(profiler, "HOST_CGROUPS", cgroups)
    text = count(client, instruments_image, open_cell(client, built, volume), Method.BPF, *START_TRUTH)
    assert f'"filter": "{told_by}"' in text
    assert_exact(text)


def test_two_cells_profiled_at_once_do_not_see_each_other(
    client: Any, built: Images, volume: str, instruments_image: str
) -> None:
    texts: list[str] = []
    both_ready = threading.Barrier(2, timeout=60)

    def profile_one(cell: Any) -> None:
        with profiler.counting(client, instruments_image, OWNER, cell, Method.BPF) as counting:
            both_ready.wait()
            run(client, cell, *START_TRUTH)
            both_ready.wait()
            counting.stop()
        texts.append(counting.text)

    opened = [open_cell(client, built, volume) for _ in range(2)]
    threads = [threading.Thread(target=profile_one, args=(cell,)) for cell in opened]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(texts) == 2
    for text in texts:
        assert '"filter": "cgroup"' in text  # as the machine has them: v2, or v1 with v2 mounted beside it
        assert_exact(text)


@pytest.mark.usefixtures("nothing_left", "alone_on_the_machine")
def test_this_machine_has_bpf_and_says_whether_it_counts_instructions(client: Any, instruments_image: str) -> None:
    """The rest of this file needs BPF; a machine that refuses it must not pass by its fallbacks."""
    probe = best_probe(ContainerWorkspace(client, OWNER, instruments_image))
    assert (probe.method, probe.refused) == (Method.BPF, {})
    assert probe.no_instructions == "" or "instructions" in probe.no_instructions


FALLBACKS = [[Method.BPF], [Method.BPF, Method.TRACEPOINTS], [Method.BPF, Method.TRACEPOINTS, Method.STRACE_FUTEX]]


@pytest.mark.usefixtures("nothing_left", "alone_on_the_machine")
@pytest.mark.parametrize(("refused", "left"), list(zip(FALLBACKS, [*Method][1:], strict=True)))
def test_what_is_refused_falls_back_to_the_next_best_and_is_named_with_its_reason(
    client: Any, instruments_image: str, monkeypatch: pytest.MonkeyPatch, refused: list[Method], left: Method
) -> None:
    monkeypatch.setattr(profiler, "counting", refusing(refused))
    if Method.STRACE_FUTEX in refused:
        monkeypatch.setattr(profiling, "STRACE_FUTEX", ["/interlock/no-such-strace"])
    probe = best_probe(ContainerWorkspace(client, OWNER, instruments_image))
    assert (probe.method, list(probe.refused)) == (left, refused)
    assert all(reason and "\n" not in reason for reason in probe.refused.values())


def refusing(methods: list[Method]) -> Any:
    @contextmanager
    def counting(client: Any, image_id: str, owner: str, cell: Any, method: Method, **_: Any) -> Iterator[None]:
        if method in methods:
            raise EngineError(found=f"{method} is refused", todo="Nothing.")
        yield

    return counting


def test_each_start_of_a_row_is_counted_and_the_launcher_never(
    client: Any, built: Images, volume: str, instruments_image: str
) -> None:
    cell = open_cell(client, built, volume)
    with profiler.counting(client, instruments_image, OWNER, cell, Method.BPF) as counting:
        argv = [processes.LAUNCH, "--repeat", "3", "--", "sh", "-c", "true"]
        assert execution.run_process(client, cell, argv, 60).exit_code == 0
        counting.stop()
    startup = profiling.parse_bpf(counting.text)["startup"]
    assert startup.syscalls["exit_group"].calls == 3
    assert "wait4" not in startup.syscalls
    assert "execve" not in startup.syscalls


def test_strace_counts_a_known_number_of_calls(client: Any, built: Images, volume: str) -> None:
    calls = "for _ in range(1234): os.getppid()"
    errors = "for _ in range(56):\n try: os.close(999)\n except OSError: pass"
    program = f"import os\n{calls}\n{errors}"
    cell = open_cell(client, built, volume)
    ended = execution.run_process(client, cell, [*processes.STRACE, "python", "-c", program], deadline_s=60)
    counts = profiling.parse_strace(ended.stderr)
    assert counts.syscalls["getppid"].calls == 1234
    assert counts.syscalls["close"].errors["any"] >= 56


HOLD_AN_EVENT = """
import ctypes, struct, sys
# struct perf_event_attr: a software event (task clock) of this process in user mode.
attributes = struct.pack("IIQQQQQ", 1, 64, 1, 0, 0, 0, 0b1100000) + bytes(16)
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(298, attributes, 0, -1, -1, 0) > 0, ctypes.get_errno()
print("holding", flush=True)
sys.stdin.read()
"""


def test_beside_a_tracer_that_uses_perfs_events_it_refuses_by_name(
    client: Any, built: Images, volume: str, instruments_image: str
) -> None:
    cell = open_cell(client, built, volume)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_AN_EVENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tracer:
        assert tracer.stdout is not None
        assert tracer.stdout.readline() == "holding\n"
        with pytest.raises(TracerError, match=rf"\(pid {tracer.pid}\)"):
            count(client, instruments_image, cell, Method.BPF, "true")
        tracer.communicate("")


def test_beside_strace_in_the_cell_it_refuses_by_name(
    client: Any, built: Images, volume: str, instruments_image: str
) -> None:
    cell = open_cell(client, built, volume)
    cell.exec_run([*processes.STRACE, "sleep", "30"], detach=True)
    with pytest.raises(TracerError, match=r"(strace|ld\.so) \(pid \d+\) is tracing"):
        count(client, instruments_image, cell, Method.BPF, "true")


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


# perf's tracepoints take ten seconds to open and to close, each of two times: tests/proofs.
@pytest.mark.parametrize("method", [one for one in Method if one is not Method.TRACEPOINTS])
def test_each_probe_finds_the_same_futex_calls_per_unit_of_work(
    client: Any, built: Images, volume: str, instruments_image: str, method: Method
) -> None:
    found = profiled_wakes(ContainerWorkspace(client, OWNER, instruments_image, volume), built[QUICK].image_id, method)
    # A run of its own is deducted for the start: a handful of calls either way.
    assert found.futex_per_unit == pytest.approx(1, abs=0.01)
    if method is not Method.STRACE_FUTEX:
        assert found.calls_per_unit(["getppid"]) == pytest.approx(1, abs=0.01)
    assert found.method is method
    assert found.perturbed is method.perturbs


def profiled_wakes(workspace: ContainerWorkspace, image_id: str | None, method: Method) -> BenchmarkProfile:
    """The profile of the one benchmark, in a cell of an experiment."""
    workload = Workload.model_validate({**tomllib.loads(WORKLOAD), "name": "wakes"})
    resources = Resources(
        workspace=workspace,
        folder=Path("unused"),
        host="box",
        probe=Probe(method=method, no_instructions="not asked for"),
        settings=make_settings([QUICK]),
        on_progress=lambda _: None,
        programs=frozenset({"wakes.py"}),
    )
    subject = Subject(variant=QUICK, image_id=image_id)
    with open_session(resources, workload) as session:
        cell = Cell(subject, open_sandbox(session, subject))
        try:
            profiling.profile_pass(session, [cell])
        finally:
            cell.sandbox.close()
    assert cell.profile_problem == ""
    return cell.profiles["both"]
