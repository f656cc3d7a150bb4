"""Processes: their command lines under the launcher, and what it and they print about how it went. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from interlock.catalog.types import DISK, MOUNT, SCRATCH, Data
from interlock.catalog.variants import Gil
from interlock.engine.ended import Ended
from interlock.results.experiments import Outcome, ProcessCost, ProgramOutput, State

# How each line of the launcher begins.
PROCESS_LINE = '{"interlock_process"'
WORKLOADS = f"{MOUNT}/workloads"
# strace travels with its own loader and libraries, so that it runs in any image.
STRACE = [
    f"{MOUNT}/strace/ld.so", "--library-path", f"{MOUNT}/strace", f"{MOUNT}/strace/strace",
    "-f", "-c", "-U", "calls,errors,name", "--seccomp-bpf", "-e", "trace=futex",
]  # fmt: skip
OK = Outcome(state=State.OK)
# What stands for a process where none was started.
NOTHING_RUN = Ended(0)
# How a free-threaded CPython from 3.13 on reports an extension module without Py_mod_gil (PEP 703).
GIL_SWITCHED_ON = re.compile(r"\(GIL\) has been enabled to load module '([^']+)', which has not declared")


def placeholders(server: str | None = None, packages: str = "") -> dict[str, str]:
    """Return the values of the placeholders in arguments, which only a cell knows."""
    return {
        "{server}": server or "",
        "{scratch}": SCRATCH,
        "{disk}": DISK,
        "{packages}": packages,
        "{workloads}": WORKLOADS,
    }


def filled_in(words: Iterable[str], places: Mapping[str, str]) -> list[str]:
    """Return words with the values of their placeholders, which may be parts of them."""
    filled = list(words)
    for name, value in places.items():
        filled = [word.replace(name, value) for word in filled]
    return filled


def with_options(argv: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the interpreter's command line with a mode's options, which must come before its arguments.

    A command line that does not start with the interpreter is returned unchanged.
    """
    program, *arguments = argv
    return [program, *options, *arguments] if program == "python" else list(argv)


def traced_argv(argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command line under strace, with the environment for the interpreter only.

    With LD_PRELOAD in strace's own environment its loader would load the library into strace.
    """
    settings = [word for name, value in environment.items() for word in ("-E", f"{name}={value}")]
    return [*STRACE, *settings, *argv]


def parse_costs(stdout: str) -> list[ProcessCost]:
    """Return what the launcher read of each process: wall and CPU time in seconds, memory, context switches."""
    costs = (_parse_cost(line) for line in _lines(stdout) if line.startswith(PROCESS_LINE))
    return [cost for cost in costs if cost is not None]


class _CostLine(Data):
    interlock_process: ProcessCost


def _parse_cost(line: str) -> ProcessCost | None:
    """Return what a line of the launcher says; None for one that a program has printed in its place."""
    try:
        return _CostLine.model_validate_json(line).interlock_process
    except ValidationError:
        return None


def printed_lines(stdout: str) -> list[str]:
    """Return the lines that are not the launcher's."""
    return [line for line in _lines(stdout) if line and not line.startswith(PROCESS_LINE)]


def _lines(stdout: str) -> list[str]:
    """Split into lines, also where the launcher's line follows output without a newline."""
    return stdout.replace(PROCESS_LINE, f"\n{PROCESS_LINE}").splitlines()


def gil_outcome(name: str, declared: Gil | None, output: ProgramOutput | None) -> Outcome:
    """Return failed if a program started with the GIL in another state than its variant or mode declares."""
    at_start = _gil(output, "gil_enabled_at_start")
    if declared is None or at_start in {None, declared}:
        return OK
    reason = f"'{name}' started with the GIL {at_start}, but it is declared {declared}"
    return Outcome(state=State.FAILED, reason=reason)


def gil_note(output: ProgramOutput | None, stderr: str) -> str:
    """Return a note about a GIL that came back during the work, with the module; empty if it did not."""
    named = GIL_SWITCHED_ON.search(stderr)
    states = (_gil(output, "gil_enabled_at_start"), _gil(output, "gil_enabled"))
    if named is None and states != (Gil.OFF, Gil.ON):
        return ""
    who = f"module '{named[1][:100]}' switched it on" if named else "switched on by a module that was not named"
    return f"GIL off at start, on after the work: {who}"


def _gil(output: ProgramOutput | None, key: str) -> Gil | None:
    """Return the GIL's state from a report; None for a command and for interpreters that cannot tell."""
    enabled = output.metadata.get(key) if output else None
    return None if enabled is None else Gil.ON if enabled else Gil.OFF


def worst_outcome(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the worst outcome of a cell's benchmarks, which is the cell's."""
    rank = [State.OK, State.UNSUPPORTED, State.UNAVAILABLE, State.NOT_MEASURED, State.TIMED_OUT, State.FAILED]
    return max(outcomes, key=lambda outcome: rank.index(outcome.state), default=OK)
