"""One visit to a cell in a round: a process is started, and becomes a pyperf run or an outcome that says why not."""

from __future__ import annotations

from dataclasses import dataclass

from interlock import instruments, limits, service
from interlock.engine import cells
from interlock.model import Benchmark, State
from interlock.runs import command_run, gil_note, gil_outcome, program_run
from interlock.stage import Cell, Stage, Start, interpreter_argv, run_in


@dataclass
class Spent:
    """What a workload's rounds took, in seconds: wall time, and that and CPU time of all their processes.

    Calibration and warm-ups are included.
    """

    wall_s: float = 0.0
    in_processes_s: float = 0.0
    cpu_s: float | None = 0.0  # None once a process was killed: nobody read what it had used

    def add(self, ended: cells.Ended, deadline_s: float) -> None:
        if ended.timed_out:
            self.in_processes_s += deadline_s
            self.cpu_s = None
            return
        costs = instruments.parse_costs(ended.stdout)
        self.in_processes_s += sum(cost.wall_s for cost in costs)
        if self.cpu_s is not None:
            self.cpu_s += sum(cost.user_s + cost.sys_s for cost in costs)


def visit(stage: Stage, benchmark: Benchmark, cell: Cell, spent: Spent, *, calibrate: bool) -> None:
    """One process (or, for a command, one row of them) becomes a pyperf run; what went wrong, an outcome."""
    if cell.limit is not None:
        ended = limits.visit(stage, benchmark, cell, cell.limit, calibrate=calibrate)
        spent.add(ended, stage.workload.deadline_of(benchmark))
        return
    served = stage.workload.load is not None
    if served:
        outcome, output, ended = service.visit(stage, benchmark, cell, calibrate=calibrate)
    else:
        outcome, output, ended = run_in(stage, cell, benchmark, _process(stage, benchmark, cell, calibrate))
    spent.add(ended, stage.workload.deadline_of(benchmark))
    cell.note(gil_note(output, ended.stderr))
    if outcome.state is State.OK:
        outcome = gil_outcome(benchmark, cell.gil, output)
    cell.outcomes[benchmark.name] = outcome
    if outcome.state is not State.OK or (served and calibrate):
        return
    costs = instruments.parse_costs(ended.stdout)
    if output is None:
        if not calibrate:
            run = command_run(stage.workload, benchmark, costs, stage.take(), units=benchmark.parallel)
            cell.add(benchmark, run)
        return
    if calibrate:
        cell.loops[benchmark.name] = output.loops
    cell.add(benchmark, program_run(stage.workload, benchmark, output, costs[-1]))


def _process(stage: Stage, benchmark: Benchmark, cell: Cell, calibrate: bool) -> Start:
    """What to start and how often.

    A command has nothing to calibrate: in round 0 it only shows that it runs, and warms the file cache.
    """
    take, environment = stage.take(), cell.subject.environment
    if benchmark.command is not None:
        argv = interpreter_argv(stage, cell, benchmark, "1", None)
        repeat = 1 if calibrate else take.warmups + take.values
        return Start(argv, environment, repeat=repeat, parallel=benchmark.parallel, checks_output=calibrate)
    loops = "auto" if calibrate else str(cell.loops[benchmark.name])
    planned = None if calibrate else take
    return Start(interpreter_argv(stage, cell, benchmark, loops, planned), environment)
