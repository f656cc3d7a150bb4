"""Instructions in user mode per unit of work, which no neighbour changes: by the processor's counter, or simulated.

Without a counter Cachegrind runs the program, some fifty times slower, and counts what each instruction does: only work
of one thread is counted so, because Valgrind runs one thread at a time.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable

from interlock.catalog.types import MOUNT
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure.cells import Cell
from interlock.measure.kinds.kind import PROGRAM_PHASE
from interlock.measure.tracks import Result, Start, Track
from interlock.results.experiments import ProgramOutput, State
from interlock.results.profiles import Instructions, Probe

# Loops of a process whose calls or instructions are those of a program's set-up alone.
NO_WORK = 0
COUNTER_RUNS, SIMULATED_RUNS = 3, 2
# A start differs by some thousand instructions from one time to the next: this many are counted at least.
LEAST_SIMULATED = 20_000_000
MOST_LOOPS = 1000
# The same hashes of strings in every process: with another order in its dicts an interpreter does different work.
FIXED_HASHES = {"PYTHONHASHSEED": "0"}
VALGRIND = f"{MOUNT}/valgrind"
CACHEGRIND = [f"{VALGRIND}/cachegrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
# Cachegrind is started without valgrind's own launcher, which would look for it where its package has it.
CACHEGRIND_ENVIRONMENT = {"VALGRIND_LIB": VALGRIND, "VALGRIND_LAUNCHER": CACHEGRIND[0]}
REFERENCES = re.compile(r"I\s+refs:\s+([0-9][0-9,]{0,30})")

# Counts a process with so many loops; returns its instructions, and the report of a program.
Counter = Callable[[int], tuple[int, ProgramOutput | None]]


def count_instructions(track: Track, probe: Probe) -> Instructions:
    """Return instructions in user mode per unit of work, without those of a program's set-up.

    UnsupportedHereError says why they are not counted; WorkloadError how counting failed.
    """
    if track.kind.no_instructions:
        raise UnsupportedHereError(found=track.kind.no_instructions, todo="Look at its time.")
    if not probe.no_instructions:
        return _by_counter(track)
    if track.benchmark.threads != "one" or track.session.resources.settings.quick:
        raise UnsupportedHereError(
            found=f"{probe.no_instructions}; simulated are those of one thread, without --quick",
            todo="Measure without --quick, or on real hardware.",
        )
    return _by_cachegrind(track)


def _by_counter(track: Track) -> Instructions:
    """Count in a container without a seccomp profile, because the engine's default one blocks perf_event_open."""
    surroundings = track.cell.subject.surroundings.model_copy(update={"seccomp": "unconfined"})
    unconfined = Cell(track.session, track.cell.subject.model_copy(update={"surroundings": surroundings}))
    counting = Track(unconfined, track.kind)

    def count(loops: int) -> tuple[int, ProgramOutput | None]:
        environment = {**FIXED_HASHES, **unconfined.subject.environment}
        argv, may_idle = counting.profiled_argv(loops), loops == NO_WORK
        result = _run(counting, Start(argv, environment, may_idle=may_idle, count_instructions=True))
        return result.costs[-1].instructions or 0, result.output

    try:
        return _repeated(count, track, track.benchmark.profile_loops, COUNTER_RUNS, "counter")
    finally:
        unconfined.close()


def _by_cachegrind(track: Track) -> Instructions:
    def count(loops: int) -> tuple[int, ProgramOutput | None]:
        argv = [*CACHEGRIND, *track.profiled_argv(loops)]
        environment = {**FIXED_HASHES, **CACHEGRIND_ENVIRONMENT, **track.cell.subject.environment}
        result = _run(track, Start(argv, environment, may_idle=loops == NO_WORK))
        return parse_cachegrind(result.ended.stderr), result.output

    loops = 1
    if track.kind.phase == PROGRAM_PHASE:
        idle = count(NO_WORK)[0]
        while count(loops)[0] - idle < LEAST_SIMULATED and loops < MOST_LOOPS:
            loops *= 10
    return _repeated(count, track, loops, SIMULATED_RUNS, "cachegrind")


def _repeated(count: Counter, track: Track, loops: int, runs: int, method: str) -> Instructions:
    """Count several times; of a program the process without work is subtracted each time."""
    per_unit = []
    for _ in range(runs):
        counted, output = count(loops)
        idle = count(NO_WORK)[0] if track.kind.phase == PROGRAM_PHASE else 0
        per_unit.append((counted - idle) / (1 if output is None else loops * output.inner_loops))
    if min(per_unit) <= 0:
        raise WorkloadError(found=f"the {method} shows no instructions of the work", todo="Run `interlock doctor`.")
    middle = statistics.median(per_unit)
    spread = (max(per_unit) - min(per_unit)) / 2 / middle
    return Instructions.model_validate({"per_unit": middle, "spread": spread, "runs": runs, "method": method})


def _run(track: Track, start: Start) -> Result:
    result = track.run(start)
    if result.outcome.state is not State.OK:
        raise WorkloadError(found=f"while counting: {result.outcome.reason}", todo="Run `interlock doctor`.")
    return result


def parse_cachegrind(stderr: str) -> int:
    """Return the instructions that Cachegrind has counted; WorkloadError if it says none."""
    counted = REFERENCES.search(stderr)
    if counted is None:
        last = stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        raise WorkloadError(found=f"Cachegrind counted nothing: {last[0]}", todo="Run `interlock doctor`.")
    return int(counted[1].replace(",", ""))
