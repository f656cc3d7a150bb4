"""The profile pass: after all timing of a workload, each benchmark once more under a tracer."""

from __future__ import annotations

from interlock import instruments
from interlock.errors import InterlockError, WorkloadError
from interlock.model import TWIN, Benchmark, BenchmarkProfile, ProgramOutput, State
from interlock.profile import Counts, parse_strace, per_unit
from interlock.stage import Cell, Stage, Step, run_in


def profile_pass(stage: Stage, open_cells: list[Cell]) -> None:
    """After all timing: strace over each benchmark that works. The twin is the baseline's image: once is enough."""
    profiled = [cell for cell in open_cells if cell.subject.mode != TWIN]
    for index, cell in enumerate(profiled):
        stage.stand.on_step(Step("profile", stage.workload.name, cell.subject.label, index, len(profiled)))
        for benchmark in stage.workload.benchmarks:
            if benchmark.profile_metric and cell.goes_on(benchmark):
                try:
                    cell.profiles[benchmark.name] = _profile(stage, benchmark, cell)
                except InterlockError as error:
                    cell.profile_problem = str(error)


def _profile(stage: Stage, benchmark: Benchmark, cell: Cell) -> BenchmarkProfile:
    """With units of work and, for a program, once more without, to tell the set-up from the work."""
    work, output = _trace(stage, benchmark, cell, benchmark.profile_loops)
    if output is None:
        return per_unit(work, Counts({}, {}), units=1)
    setup, _ = _trace(stage, benchmark, cell, 0)
    return per_unit(work, setup, benchmark.profile_loops * output.inner_loops)


def _trace(stage: Stage, benchmark: Benchmark, cell: Cell, loops: int) -> tuple[Counts, ProgramOutput | None]:
    argv = instruments.interpreter_argv(stage.workload, benchmark, stage.server_url, str(loops), None)
    argv += benchmark.profile_arguments
    outcome, output, ended = run_in(stage, cell, benchmark, [*instruments.STRACE, *argv])
    if outcome.state is not State.OK:
        raise WorkloadError(found=f"under strace: {outcome.reason}", todo="See `interlock doctor`.")
    return parse_strace(ended.stderr), output
