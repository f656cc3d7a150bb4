"""strace's table is read to the last row, and believed only if it adds up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import WorkloadError
from interlock.profile import Counts, parse_strace, per_unit

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
    assert counts.calls["futex"] == 8
    assert counts.calls["newfstatat"] == 125
    assert len(counts.calls) == 12
    assert counts.errors == {"ioctl": 15, "access": 1, "openat": 25, "newfstatat": 35}


@given(TABLES)
def test_any_table_is_read_back(rows: dict[str, tuple[int, int]]) -> None:
    counts = parse_strace(render(rows))
    assert counts.calls == {name: calls for name, (calls, _) in rows.items()}
    assert counts.errors == {name: errors for name, (_, errors) in rows.items() if errors}


@given(TABLES, st.text())
def test_what_the_program_printed_before_does_not_matter(rows: dict[str, tuple[int, int]], before: str) -> None:
    assert parse_strace(f"{before}\n{render(rows)}") == parse_strace(render(rows))


def test_of_two_tables_the_last_one_counts() -> None:
    assert parse_strace(render({"read": (1, 0)}) + render({"futex": (2, 1)})) == Counts({"futex": 2}, {"futex": 1})


def test_rows_that_do_not_add_up_are_refused() -> None:
    with pytest.raises(WorkloadError, match="strace's rows add up to 330 calls, its total says 331"):
        parse_strace(REAL.replace("        8           futex", "        7           futex"))


@pytest.mark.parametrize("last", [2, 1])
def test_a_table_that_is_cut_off_is_refused(last: int) -> None:
    with pytest.raises(WorkloadError, match="its total says None"):
        parse_strace("\n".join(REAL.splitlines()[:-last]))


def test_no_table_at_all_shows_what_was_printed_instead() -> None:
    with pytest.raises(WorkloadError) as caught:
        parse_strace("first\nstrace: ptrace(PTRACE_TRACEME, ...)\nOperation not permitted\n")
    assert str(caught.value) == (
        "strace printed no table: strace: ptrace(PTRACE_TRACEME, ...) / Operation not permitted. "
        "The container must allow ptrace (see `interlock doctor`)."
    )


def test_futex_calls_of_the_set_up_are_taken_off_before_dividing() -> None:
    work, setup = Counts({"futex": 25, "read": 3}, {"read": 1}), Counts({"futex": 5}, {})
    profile = per_unit(work, setup, units=10)
    assert profile.futex_per_unit == 2.0
    assert profile.calls == {"futex": 25, "read": 3}
    assert profile.setup_calls == {"futex": 5}
    assert profile.errors == {"read": 1}
    assert (profile.method, profile.perturbed, profile.units) == ("strace -f -c", True, 10)


def test_fewer_futex_calls_than_the_set_up_made_are_0() -> None:
    assert per_unit(Counts({"futex": 3}, {}), Counts({"futex": 5}, {}), units=10).futex_per_unit == 0


def test_a_program_without_futex_calls_has_0() -> None:
    assert per_unit(Counts({"read": 3}, {}), Counts({}, {}), units=1).futex_per_unit == 0
