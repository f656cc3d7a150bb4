"""What probes print -> counts of system calls, believed only if they add up to a total that was counted apart. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from interlock.errors import WorkloadError, last_line
from interlock.results.profiles import CallCounts, PhaseCounts
from interlock.untrusted import parse_json

NO_CALLS = PhaseCounts(total=0, syscalls={})


@contextmanager
def readable() -> Iterator[None]:
    """Turn the errors of reading something that is no profile into WorkloadError."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        raise _unreadable(f"{type(error).__name__}: {last_line(str(error))}") from None


def _unreadable(what: str) -> WorkloadError:
    return WorkloadError(found=f"the profiler printed no profile: {what}", todo="Run `interlock doctor`.")


def profile_data(text: str) -> Any:
    """Return the JSON that the profiler prints last; WorkloadError if it is none."""
    lines = text.strip().splitlines()
    try:
        return parse_json(lines[-1])
    except (ValueError, IndexError):
        raise _unreadable(lines[-1][:80] if lines else "nothing") from None


def parse_bpf(text: str) -> dict[str, PhaseCounts]:
    """Parse the phases of the BPF profiler's JSON; WorkloadError if it lost events or its sums disagree."""
    data = profile_data(text)
    with readable():
        lost = {what: count for what, count in data["lost"].items() if count}
        phases = {name: PhaseCounts.model_validate(phase) for name, phase in data["phases"].items()}
    if lost:
        events = ", ".join(f"{what} {count}" for what, count in lost.items())
        raise WorkloadError(
            found=f"the profile is not exact, events were lost: {events}", todo="Lower the workload's profile_loops."
        )
    for phase in phases.values():
        _check_total(phase)
    return phases


def unseen(phase: str) -> WorkloadError:
    """Return the error of a process of which the profiler saw no call in a phase."""
    return WorkloadError(
        found=f"the profiler saw no call of the process in its phase '{phase}'",
        todo="Run `interlock doctor`; a program must mark its phases, as workloads/protocol.py does.",
    )


def parse_strace(stderr: str) -> PhaseCounts:
    """Parse the last table of `strace -c -U calls,errors,name`: a program may have printed one before.

    Without a call there is no table.
    """
    lines = stderr.splitlines()
    starts = [index for index, line in enumerate(lines) if line.split() == ["calls", "errors", "syscall"]]
    if not starts:
        return NO_CALLS
    rows = [row for line in lines[starts[-1] + 1 :] if len(row := line.split()) in {2, 3} and row[0].isdigit()]
    with readable():
        # strace counts failed calls, but not by error.
        syscalls = {
            row[-1]: CallCounts(calls=int(row[0]), errors={"any": int(row[1])} if len(row) == 3 else {}) for row in rows
        }
    total = syscalls.pop("total", CallCounts(calls=0))
    return _check_total(PhaseCounts(total=total.calls, syscalls=syscalls))


def _check_total(phase: PhaseCounts) -> PhaseCounts:
    """Raise WorkloadError unless the calls by name add up to the total, which is counted separately."""
    added = sum(counts.calls for counts in phase.syscalls.values())
    if added != phase.total:
        raise WorkloadError(
            found=f"the calls by name add up to {added}, the probe's own total says {phase.total}",
            todo="Repeat; if it stays, look for another tracer (`ps -e | grep -E 'strace|perf'`).",
        )
    return phase
