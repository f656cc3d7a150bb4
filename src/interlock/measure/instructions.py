"""Instructions in user mode per unit of work, which no neighbour changes: by the processor's counter, or simulated.

Without a counter Cachegrind runs the program, some fifty times slower, and counts what each instruction does: only work
of one thread is counted so, because Valgrind runs one thread at a time.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable

from interlock.catalog.types import MOUNT
from interlock.catalog.workloads import Benchmark
from interlock.engine.protocol import Ended
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure import processes
from interlock.measure.cells import NO_WORK, Cell, Session, Start, open_sandbox, profiled_argv, run_in
from interlock.results.experiments import ProgramOutput, State
from interlock.results.profiles import Instructions, Probe

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


def count_instructions(session: Session, benchmark: Benchmark, cell: Cell, probe: Probe) -> Instructions:
    """Return instructions in user mode per unit of work, without those of a program's set-up.

    UnsupportedHereError says why they are not counted; WorkloadError how counting failed.
    """
    if session.workload.user is not None:
        raise UnsupportedHereError(found="instructions of a user's tests are not counted", todo="Look at their time.")
    if not probe.no_instructions:
        return _by_counter(session, benchmark, cell)
    if benchmark.threads != "one" or session.resources.settings.quick:
        raise UnsupportedHereError(
            found=f"{probe.no_instructions}; simulated are those of one thread, without --quick",
            todo="Measure without --quick, or on real hardware.",
        )
    return _by_cachegrind(session, benchmark, cell)


def _by_counter(session: Session, benchmark: Benchmark, cell: Cell) -> Instructions:
    """Count in a container without a seccomp profile, because the engine's default one blocks perf_event_open."""
    surroundings = cell.subject.surroundings.model_copy(update={"seccomp": "unconfined"})
    unconfined = cell.subject.model_copy(update={"surroundings": surroundings})
    counting = Cell(unconfined, open_sandbox(session, unconfined))

    def count(loops: int) -> tuple[int, ProgramOutput | None]:
        argv = profiled_argv(session, counting, benchmark, loops)
        environment = {**FIXED_HASHES, **counting.subject.environment}
        start = Start(argv, environment, may_idle=loops == NO_WORK, count_instructions=True)
        output, ended = _run(session, counting, benchmark, start)
        return processes.parse_costs(ended.stdout)[-1].instructions or 0, output

    try:
        return _repeated(count, benchmark, benchmark.profile_loops, COUNTER_RUNS, "counter")
    finally:
        counting.sandbox.close()


def _by_cachegrind(session: Session, benchmark: Benchmark, cell: Cell) -> Instructions:
    def count(loops: int) -> tuple[int, ProgramOutput | None]:
        argv = [*CACHEGRIND, *profiled_argv(session, cell, benchmark, loops)]
        environment = {**FIXED_HASHES, **CACHEGRIND_ENVIRONMENT, **cell.subject.environment}
        output, ended = _run(session, cell, benchmark, Start(argv, environment, may_idle=loops == NO_WORK))
        return parse_cachegrind(ended.stderr), output

    loops = 1
    if benchmark.command is None:
        idle = count(NO_WORK)[0]
        while count(loops)[0] - idle < LEAST_SIMULATED and loops < MOST_LOOPS:
            loops *= 10
    return _repeated(count, benchmark, loops, SIMULATED_RUNS, "cachegrind")


def _repeated(count: Counter, benchmark: Benchmark, loops: int, runs: int, method: str) -> Instructions:
    """Count several times; of a program the process without work is subtracted each time."""
    found = []
    for _ in range(runs):
        counted, output = count(loops)
        idle = 0 if benchmark.command is not None else count(NO_WORK)[0]
        found.append((counted - idle) / (1 if output is None else loops * output.inner_loops))
    if min(found) <= 0:
        raise WorkloadError(found=f"the {method} shows no instructions of the work", todo="Run `interlock doctor`.")
    middle = statistics.median(found)
    return Instructions.model_validate(
        {"per_unit": middle, "spread": (max(found) - min(found)) / 2 / middle, "runs": runs, "method": method}
    )


def _run(session: Session, cell: Cell, benchmark: Benchmark, start: Start) -> tuple[ProgramOutput | None, Ended]:
    outcome, output, ended = run_in(session, cell, benchmark, start)
    if outcome.state is not State.OK:
        raise WorkloadError(found=f"while counting: {outcome.reason}", todo="Run `interlock doctor`.")
    return output, ended


def parse_cachegrind(stderr: str) -> int:
    """Return the instructions that Cachegrind has counted; WorkloadError if it says none."""
    found = REFERENCES.search(stderr)
    if found is None:
        last = stderr.strip().splitlines()[-1:] or ["it printed nothing"]
        raise WorkloadError(found=f"Cachegrind counted nothing: {last[0]}", todo="Run `interlock doctor`.")
    return int(found[1].replace(",", ""))
