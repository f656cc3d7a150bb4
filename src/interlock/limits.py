"""What the machine can do without an interpreter: commands that are measured in the rounds of a workload's cells."""

from __future__ import annotations

from interlock import instruments
from interlock.engine import cells
from interlock.engine.running import OnHost
from interlock.model import LIMIT, Benchmark, Limit, Outcome, State, Subject
from interlock.runs import command_run, told_of_all
from interlock.stage import Cell, Stage, Start, open_container, run_in

# Of a launcher whose program is not there, as of a shell.
NOT_FOUND = 127


def open_limits(stage: Stage) -> list[Cell]:
    """A cell for each limit of the workload, in a container of the image of limits."""
    opened = []
    for limit in stage.workload.limits:
        subject = Subject(variant=LIMIT, mode=limit.name, image_id=stage.stand.limits_image_id)
        opened.append(Cell(subject, open_container(stage, subject), limit=limit))
    return opened


def visit(stage: Stage, benchmark: Benchmark, cell: Cell, limit: Limit, *, calibrate: bool) -> cells.Ended:
    """A row of runs of the limit, pinned as the benchmark is, becomes a pyperf run; what went wrong, an outcome.

    As with any command the first round only shows that it runs.
    """
    take = stage.take()
    argv = instruments.limit_argv(limit, stage.server_url)
    command = Benchmark(
        name=benchmark.name,
        command=argv,
        cpus=benchmark.cpus,
        deadline_s=benchmark.deadline_s,
        metric=benchmark.metric,
    )
    start = Start(argv, {}, repeat=1 if calibrate else take.warmups + take.values)
    outcome, _, ended = run_in(stage, cell, command, start)
    if outcome.state is State.OK:
        outcome = told_of_all(benchmark, ended, start.repeat)
    elif ended.exit_code == NOT_FOUND and isinstance(stage.stand.client, OnHost):
        outcome = Outcome(state=State.UNSUPPORTED, reason=f"this machine lacks it: {ended.stderr.strip()}")
    cell.outcomes[benchmark.name] = outcome
    if outcome.state is State.OK and not calibrate:
        costs = instruments.parse_costs(ended.stdout)
        cell.add(benchmark, command_run(stage.workload, benchmark, costs, take, limit.unit_count))
    return ended
