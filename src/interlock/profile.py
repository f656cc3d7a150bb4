"""Reads what a probe printed: for now `strace -f -c`, which changes what it watches."""

from __future__ import annotations

from dataclasses import dataclass

from interlock.errors import WorkloadError
from interlock.model import BenchmarkProfile

METHOD = "strace -f -c"


@dataclass(frozen=True)
class Counts:
    """Syscalls of one process and its children: calls and errors by name."""

    calls: dict[str, int]
    errors: dict[str, int]


def parse_strace(stderr: str) -> Counts:
    """The table of `strace -c -U calls,errors,name`, the last one if a program printed something like it.

    WorkloadError if there is none, or if its rows do not add up to its total.
    """
    lines = stderr.splitlines()
    starts = [index for index, line in enumerate(lines) if line.split() == ["calls", "errors", "syscall"]]
    if not starts:
        raise WorkloadError(
            found=f"strace printed no table: {' / '.join(lines[-2:])}",
            todo="The container must allow ptrace (see `interlock doctor`).",
        )
    calls: dict[str, int] = {}
    errors: dict[str, int] = {}
    for line in lines[starts[-1] + 1 :]:
        row = line.split()
        if len(row) in {2, 3} and row[0].isdigit():
            calls[row[-1]] = int(row[0])
            errors |= {row[-1]: int(row[1])} if len(row) == 3 else {}
    total = calls.pop("total", None)
    errors.pop("total", None)
    if total != sum(calls.values()):
        raise WorkloadError(
            found=f"strace's rows add up to {sum(calls.values())} calls, its total says {total}",
            todo="Run the profile again; if it stays, another tracer may be at work.",
        )
    return Counts(calls, errors)


def per_unit(work: Counts, setup: Counts, units: int) -> BenchmarkProfile:
    """The profile of a process that did `units` of work, with the futex calls of one that did none taken off.

    A contended program may make fewer futex calls in all than its set-up alone did: that is 0, not less.
    """
    futex = work.calls.get("futex", 0) - setup.calls.get("futex", 0)
    return BenchmarkProfile(
        method=METHOD,
        perturbed=True,
        units=units,
        calls=work.calls,
        errors=work.errors,
        setup_calls=setup.calls,
        futex_per_unit=max(0, futex) / units,
    )
