"""What each probe prints is read to the last figure, and believed only if it adds up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import WorkloadError
from interlock.measure.counts import NO_CALLS, parse_bpf, parse_strace

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


def test_without_a_call_there_is_no_table() -> None:
    assert parse_strace("a line of the program\n") == NO_CALLS


def bpf(lost: int = 0, total: int = 5) -> str:
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
        "locks_waited_for": 1,
        "locks": [{"process": 7, "address": "0x7f00", "waits": 1, "ns": 900}],
    }
    data = {
        "schema_version": 1,
        "method": "bpf",
        "filter": "cgroup",
        "lost": {"open_calls": lost, "errors": 0, "locks": 0, "unknown_numbers": 0, "missed": 0},
        "phases": {"startup": {**work, "total": 5}, "work": work},
    }
    return "ready\n" + json.dumps(data) + "\n"


def test_the_profilers_phases_are_read_with_their_times_and_waits() -> None:
    work = parse_bpf(bpf())["work"]
    assert work.syscalls["read"].errors == {"EAGAIN": 1}
    assert work.syscalls["futex"].ns == work.futex["wait"].max_ns == work.locks[0].ns == 900


def test_a_profile_that_lost_events_is_refused_with_their_number() -> None:
    with pytest.raises(WorkloadError, match=r"\bopen_calls 3\b.*\bprofile_loops\b"):
        parse_bpf(bpf(lost=3))


def test_a_phase_that_does_not_add_up_is_refused() -> None:
    with pytest.raises(WorkloadError, match=r"\b5\b.*\b6\b"):
        parse_bpf(bpf(total=6))


@pytest.mark.parametrize("text", ["", "ready\n", "ready\nkilled\n"])
def test_a_profiler_that_printed_nothing_to_read_is_quoted(text: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_bpf(text)
    assert text.strip().rpartition("\n")[2] in caught.value.found


@pytest.mark.parametrize(
    "data",
    [
        1,
        [],
        {},
        {"lost": 1},
        {"lost": {}, "phases": []},
        {"lost": {}, "phases": {"work": {"total": "x"}}},
    ],
)
def test_json_that_is_no_profile_is_refused(data: object) -> None:
    with pytest.raises(WorkloadError, match="no profile"):
        parse_bpf(json.dumps(data))


def test_a_profile_that_is_nested_too_deeply_is_refused() -> None:
    with pytest.raises(WorkloadError, match="no profile"):
        parse_bpf('{"a":' * 20_000)


@pytest.mark.parametrize(
    "row", ["        ²           futex", "        8         x futex", f"{'9' * 5000}           futex"]
)
def test_a_row_of_strace_without_numbers_is_refused(row: str) -> None:
    with pytest.raises(WorkloadError):
        parse_strace(REAL.replace("        8           futex", row))
