"""What a probe printed -> counts by phase, checked against the probe's own total. Pure."""

from __future__ import annotations

import json
from typing import Any

from pydantic import ValidationError

from interlock.errors import WorkloadError
from interlock.model import BenchmarkProfile, CallCounts, Method, PhaseCounts

# Of a program, the phase that its units of work are done in; a command is all one phase, from its exec to its end.
PROGRAM_PHASE, COMMAND_PHASE = "work", "startup"
# Probes that know no phases count a whole process, and one without work besides.
WHOLE, SETUP = "whole", "setup"


def parse_bpf(text: str) -> dict[str, PhaseCounts]:
    """The phases of the BPF profiler's JSON; WorkloadError if it lost an event or its sums do not agree."""
    data = _json(text)
    lost = {what: count for what, count in data["lost"].items() if count}
    if lost:
        found = ", ".join(f"{what} {count}" for what, count in lost.items())
        raise WorkloadError(
            found=f"the profile is not exact, events were lost: {found}",
            todo="Profile less work at once (the workload's profile_loops).",
        )
    try:
        phases = {name: PhaseCounts.model_validate(phase) for name, phase in data["phases"].items()}
    except ValidationError as error:
        raise _unreadable(str(error.errors()[0]["msg"])) from None
    for phase in phases.values():
        check_total(phase)
    return phases if data["tasks_counted"] else {name: _without_tasks(phase) for name, phase in phases.items()}


def _without_tasks(phase: PhaseCounts) -> PhaseCounts:
    """A kernel that does not describe its types has no account of its tasks: that is not 0 switches."""
    return phase.model_copy(update={"tasks": None})


def parse_tracepoints(text: str) -> PhaseCounts:
    """The counts of perf's tracepoints: calls by name, the engine's own start of the process among them."""
    data = _json(text)
    syscalls = {name: CallCounts(calls=calls) for name, calls in data["syscalls"].items()}
    return check_total(PhaseCounts(total=data["total"], syscalls=syscalls))


def parse_strace(stderr: str, *, may_be_none: bool = False) -> PhaseCounts:
    """The table of `strace -c -U calls,errors,name`, the last one if a program printed something like it.

    `may_be_none`: strace prints no table if none of the calls that it was asked for was made.
    """
    lines = stderr.splitlines()
    starts = [index for index, line in enumerate(lines) if line.split() == ["calls", "errors", "syscall"]]
    if not starts and may_be_none:
        return PhaseCounts(total=0, syscalls={})
    if not starts:
        raise WorkloadError(
            found=f"strace printed no table: {' / '.join(lines[-2:])}",
            todo="The container must allow ptrace (see `interlock doctor`).",
        )
    rows = [row for line in lines[starts[-1] + 1 :] if len(row := line.split()) in {2, 3} and row[0].isdigit()]
    # strace tells how many calls failed, not with which error.
    syscalls = {
        row[-1]: CallCounts(calls=int(row[0]), errors={"any": int(row[1])} if len(row) == 3 else {}) for row in rows
    }
    total = syscalls.pop("total", CallCounts(calls=0))
    return check_total(PhaseCounts(total=total.calls, syscalls=syscalls))


def check_total(phase: PhaseCounts) -> PhaseCounts:
    """WorkloadError unless the calls by name add up to the total that was counted apart from them."""
    added = sum(counts.calls for counts in phase.syscalls.values())
    if added != phase.total:
        raise WorkloadError(
            found=f"the calls by name add up to {added}, the probe's own total says {phase.total}",
            todo="Run the profile again; if it stays, another tracer may be at work.",
        )
    return phase


def by_phases(phases: dict[str, PhaseCounts], units: int, *, command: bool) -> BenchmarkProfile:
    """The profile of a probe that told the phases apart; WorkloadError if it saw nothing of the process."""
    counted = COMMAND_PHASE if command else PROGRAM_PHASE
    if phases[COMMAND_PHASE].total == 0 or not phases[counted].ns:
        raise WorkloadError(
            found=f"the profiler saw no call of the process in its phase '{counted}'",
            todo="See `interlock doctor`; a program must mark its phases, as workloads/protocol.py does.",
        )
    return BenchmarkProfile(method=Method.BPF, perturbed=False, units=units, phases=phases, counted=counted)


def by_difference(method: Method, whole: PhaseCounts, setup: PhaseCounts, units: int) -> BenchmarkProfile:
    """The profile of a probe that counts whole processes: one with units of work, one that did none."""
    return BenchmarkProfile(
        method=method,
        perturbed=method.perturbs,
        units=units,
        phases={WHOLE: whole, SETUP: setup},
        counted=WHOLE,
        deducted=SETUP,
    )


def _json(text: str) -> Any:
    lines = text.strip().splitlines()
    try:
        return json.loads(lines[-1])
    except (ValueError, IndexError):
        raise _unreadable(lines[-1][:80] if lines else "nothing") from None


def _unreadable(found: str) -> WorkloadError:
    return WorkloadError(found=f"the profiler printed no profile: {found}", todo="See `interlock doctor`.")
