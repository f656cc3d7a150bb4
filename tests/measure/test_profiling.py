"""What each probe prints is read to the last figure, and believed only if it adds up."""

from __future__ import annotations

import json
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import WorkloadError
from interlock.measure.kinds import service as services
from interlock.measure.kinds.kind import COMMAND_PHASE, PROGRAM_PHASE
from interlock.measure.profiling import (
    parse_bpf,
    parse_strace,
    parse_tracepoints,
    profile_by_difference,
    profile_by_phases,
)
from interlock.measure.services import NoAnswerError
from interlock.results.profiles import Method, PhaseCounts
from tests.builders import make_benchmark, make_phase, make_workload

# strace 6.1 over a Python 3.11 that starts one thread and prints a line.
REAL = """\
strace: Process 30804 attached
a line of the program
    calls    errors syscall
--------- --------- ----------------
        8           futex
        2           rseq
        5           munmap
       27           mmap
       67           rt_sigaction
       31           read
       15        15 ioctl
        1         1 access
       48        25 openat
      125        35 newfstatat
        1           prlimit64
        1           clone3
--------- --------- ----------------
      331        76 total
"""
HEADER = "    calls    errors syscall\n--------- --------- ----------------\n"
NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,20}", fullmatch=True).filter(lambda name: name != "total")
TABLES = st.dictionaries(NAMES, st.integers(1, 10**9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))


def render(rows: dict[str, tuple[int, int]]) -> str:
    """As strace's own format `%9d %9s %s`."""
    total = (sum(calls for calls, _ in rows.values()), sum(errors for _, errors in rows.values()))
    lines = [f"{calls:9d} {errors or '':>9} {name}" for name, (calls, errors) in [*rows.items(), ("total", total)]]
    return HEADER + "\n".join([*lines[:-1], "--------- --------- ----------------", lines[-1]]) + "\n"


def test_a_real_table_is_read() -> None:
    counts = parse_strace(REAL)
    assert counts.total == 331
    assert counts.syscalls["futex"].calls == 8
    assert counts.syscalls["newfstatat"].calls == 125
    assert len(counts.syscalls) == 12
    errors = {name: call.errors["any"] for name, call in counts.syscalls.items() if call.errors}
    assert errors == {"ioctl": 15, "access": 1, "openat": 25, "newfstatat": 35}


@given(TABLES)
def test_any_table_is_read_back(rows: dict[str, tuple[int, int]]) -> None:
    counts = parse_strace(render(rows))
    assert {name: call.calls for name, call in counts.syscalls.items()} == {name: n for name, (n, _) in rows.items()}
    errors = {name: call.errors["any"] for name, call in counts.syscalls.items() if call.errors}
    assert errors == {name: errors for name, (_, errors) in rows.items() if errors}


@given(TABLES, st.text())
def test_what_the_program_printed_before_does_not_matter(rows: dict[str, tuple[int, int]], before: str) -> None:
    assert parse_strace(f"{before}\n{render(rows)}") == parse_strace(render(rows))


def test_of_two_tables_the_last_one_counts() -> None:
    counts = parse_strace(render({"read": (1, 0)}) + render({"futex": (2, 1)}))
    assert (counts.total, list(counts.syscalls)) == (2, ["futex"])


def test_rows_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(WorkloadError, match=r"\b330\b.*\b331\b"):
        parse_strace(REAL.replace("        8           futex", "        7           futex"))


@pytest.mark.parametrize("last", [2, 1])
def test_a_table_that_is_cut_off_is_refused(last: int) -> None:
    with pytest.raises(WorkloadError, match=r"\b[1-9]\d*\b.*\b0\b"):
        parse_strace("\n".join(REAL.splitlines()[:-last]))


def test_no_table_at_all_shows_what_was_printed_instead() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_strace("first\nstrace: ptrace(PTRACE_TRACEME, ...)\nOperation not permitted\n")
    assert caught.value.found.endswith("strace: ptrace(PTRACE_TRACEME, ...) / Operation not permitted")


def bpf(lost: int = 0, total: int = 5, tasks_counted: bool = True) -> str:
    """What the profiler prints of a program that waited once and read four bytes, the last one in vain."""
    wait = {"calls": 1, "ns": 900, "max_ns": 900, "errors": 0, "woke_nobody": 0}
    work: dict[str, Any] = {
        "ns": 7000,
        "total": total,
        "syscalls": {
            "read": {"calls": 4, "ns": 400, "max_ns": 300, "errors": {"EAGAIN": 1}},
            "futex": {"calls": 1, "ns": 900, "max_ns": 900, "errors": {}},
        },
        "futex": {"wait": wait},
        "futex_wait_log2_ns": {"9": 1},
        "locks_waited_for": 1,
        "locks": [{"process": 7, "address": "0x7f00", "waits": 1, "ns": 900}],
        "tasks": {"ended": 0, "voluntary_switches": 0, "involuntary_switches": 0, "run_queue_wait_ns": 0},
    }
    data = {
        "schema_version": 1,
        "method": "bpf",
        "filter": "cgroup",
        "tasks_counted": tasks_counted,
        "lost": {"open_calls": lost, "errors": 0, "locks": 0, "unknown_numbers": 0, "missed": 0},
        "phases": {"startup": {**work, "total": 5}, "work": work},
    }
    return "ready\n" + json.dumps(data) + "\n"


def test_the_profilers_phases_are_read_with_their_times_and_waits() -> None:
    work = parse_bpf(bpf())["work"]
    assert work.syscalls["read"].errors == {"EAGAIN": 1}
    assert work.syscalls["futex"].ns == work.futex["wait"].max_ns == work.locks[0].ns == 900
    assert work.futex_wait_log2_ns == {9: 1}
    assert work.tasks is not None


def test_tasks_that_the_kernel_does_not_describe_are_absent_and_not_0() -> None:
    assert parse_bpf(bpf(tasks_counted=False))["work"].tasks is None


def test_a_profile_that_lost_events_is_refused_with_their_number() -> None:
    with pytest.raises(WorkloadError, match=r"\bopen_calls 3\b.*\bprofile_loops\b"):
        parse_bpf(bpf(lost=3))


def test_a_phase_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"\b5\b.*\b6\b"):
        parse_bpf(bpf(total=6))


@pytest.mark.parametrize("text", ["", "ready\n", "ready\nkilled\n"])
def test_a_profiler_that_printed_nothing_to_read_is_quoted(text: str) -> None:
    for parse in (parse_bpf, parse_tracepoints):
        with pytest.raises(WorkloadError) as caught:
            parse(text)
        assert text.strip().rpartition("\n")[2] in caught.value.found


def test_tracepoints_are_counts_without_times() -> None:
    counts = parse_tracepoints('ready\n{"syscalls": {"read": 3, "futex": 2}, "total": 5}\n')
    assert counts.syscalls["futex"].calls == 2
    assert counts.syscalls["futex"].ns is None


def test_calls_of_the_set_up_are_taken_off_before_dividing() -> None:
    profile = profile_by_difference(
        Method.STRACE, make_phase(futex=25, read=3, stat=4), make_phase(futex=5, stat=4), units=10
    )
    assert profile.futex_per_unit == 2.0
    assert profile.calls_per_unit(["read", "stat", "lstat"]) == 0.3
    assert profile.perturbed


def test_all_calls_are_what_the_probe_counted_apart_from_their_names() -> None:
    profile = profile_by_difference(
        Method.STRACE, make_phase(futex=25, read=3, stat=4), make_phase(futex=5, stat=4), units=10
    )
    assert profile.calls_per_unit("all") == 2.3


def test_a_probe_of_futex_alone_knows_neither_all_calls_nor_others() -> None:
    profile = profile_by_difference(Method.STRACE_FUTEX, make_phase(futex=3), make_phase(), units=1)
    assert [profile.knows(names) for names in ("all", ["read"], ["futex", "read"], ["futex"])] == [False] * 3 + [True]


def test_fewer_calls_than_the_set_up_made_are_0() -> None:
    assert (
        profile_by_difference(Method.TRACEPOINTS, make_phase(futex=3), make_phase(futex=5), units=10).futex_per_unit
        == 0
    )


def timed(**calls: int) -> PhaseCounts:
    return make_phase(**calls).model_copy(update={"ns": 1})


def test_where_phases_are_told_apart_a_program_is_its_work_and_a_command_all_it_does() -> None:
    phases = {"startup": timed(futex=7, execve=1), "work": timed(futex=30)}
    assert profile_by_phases(phases, 10, PROGRAM_PHASE).futex_per_unit == 3.0
    assert profile_by_phases(phases, 1, COMMAND_PHASE).futex_per_unit == 7
    assert not profile_by_phases(phases, 10, PROGRAM_PHASE).perturbed


@pytest.mark.parametrize(
    "phases",
    [{"startup": make_phase(), "work": make_phase()}, {"startup": timed(read=1), "work": make_phase(futex=0)}],
    ids=["nothing at all", "a program that marks no phase"],
)
def test_a_process_that_the_profiler_did_not_see_has_no_profile(phases: dict[str, PhaseCounts]) -> None:
    with pytest.raises(WorkloadError, match="'work'"):
        profile_by_phases(phases, 10, PROGRAM_PHASE)


def test_no_table_means_no_call_where_only_some_calls_were_asked_for() -> None:
    assert parse_strace("", may_be_none=True).total == 0


def test_strace_of_futex_calls_knows_of_no_others() -> None:
    profile = profile_by_difference(Method.STRACE_FUTEX, make_phase(futex=3), make_phase(), units=1)
    assert profile.knows(["futex"])
    assert not profile.knows(["futex", "read"])
    assert profile_by_difference(Method.STRACE, make_phase(futex=3), make_phase(), units=1).knows(["read"])


def test_a_service_that_does_not_answer_is_watched_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def stays_silent(*_: Any) -> None:
        raise NoAnswerError(found="no answer on port 8000 in 20 s", todo="-")

    monkeypatch.setattr(services.Running, "make_ready", stays_silent)
    monkeypatch.setattr(services, "STANDS_STILL_S", 0.01)
    anything: Any = None
    track: Any = SimpleNamespace(session=SimpleNamespace(network=SimpleNamespace(ask=asked.append)))
    running = services.Running(track, anything, anything, "http://x/", anything)
    monkeypatch.setattr(services.Service, "running", lambda *_: nullcontext(running))
    service = services.Service(make_workload(), make_benchmark())
    with service.working(track, even_silent=True) as working:
        assert working.work() == 1
    assert set(asked) == {"http://x/"}
    assert working.stands_still == "no answer on port 8000 in 20 s"
    with pytest.raises(NoAnswerError), service.working(track):
        pass


@pytest.mark.parametrize(
    "data",
    [
        1,
        [],
        {},
        {"lost": 1},
        {"lost": {}, "phases": []},
        {"lost": {}, "phases": {"work": {"total": "x"}}},
        {"lost": {}, "phases": {}},
    ],
)
@pytest.mark.parametrize("parse", [parse_bpf, parse_tracepoints])
def test_json_that_is_no_profile_is_refused(parse: Any, data: object) -> None:
    with pytest.raises(WorkloadError, match="no profile"):
        parse(json.dumps(data))


def test_a_profile_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no profile"):
        parse_bpf('{"a":' * 20_000)


def test_a_profile_without_the_phase_that_is_counted_is_refused() -> None:
    phases = parse_bpf(bpf())
    for missing in ("startup", "work"):
        with pytest.raises(WorkloadError, match="saw no call"):
            profile_by_phases({name: one for name, one in phases.items() if name != missing}, 1, PROGRAM_PHASE)


@pytest.mark.parametrize(
    "row", ["        ²           futex", "        8         x futex", f"{'9' * 5000}           futex"]
)
def test_a_row_of_strace_without_numbers_is_refused(row: str) -> None:
    with pytest.raises(WorkloadError):
        parse_strace(REAL.replace("        8           futex", row))
