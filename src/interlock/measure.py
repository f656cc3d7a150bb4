"""One experiment: for each workload, rounds that interleave the variants in random order, then the profile pass."""

from __future__ import annotations

import io
import random
from collections.abc import Sequence
from dataclasses import dataclass

from interlock import instruments, store
from interlock.engine import cells, proof
from interlock.model import (
    TWIN,
    Benchmark,
    CellProfile,
    CellResult,
    Facts,
    Outcome,
    State,
    Subject,
    Workload,
)
from interlock.profiling import profile_pass
from interlock.runs import OK, command_run, program_run, suite_of, worst
from interlock.stage import Cell, Stage, Stand, Step, open_container, run_in


@dataclass(frozen=True)
class Measured:
    """What one workload yielded: its cells, the order of each round, and what the variants said of themselves."""

    cells: list[CellResult]
    order: list[list[str]]
    facts: dict[str, Facts]


def measure_workload(stand: Stand, workload: Workload, subjects: Sequence[Subject]) -> Measured:
    """Measures and profiles one workload on all subjects and writes their files, each when it is whole."""
    stage = _set_stage(stand, workload)
    open_cells: list[Cell] = []
    try:
        for subject in subjects:
            open_cells.append(Cell(subject, open_container(stage, subject)))
        answers = {cell.subject.variant: _ask_facts(stage, cell) for cell in open_cells}
        facts = {variant: answer for variant, answer in answers.items() if answer}
        order = _rounds(stage, open_cells)
        if stand.settings.profiled:
            profile_pass(stage, open_cells)
        return Measured([_write(stage, cell) for cell in open_cells], order, facts)
    finally:
        for cell in open_cells:
            cells.remove(cell.container)
        if stage.network is not None:
            cells.remove(stage.server)
            cells.remove_network(stand.client, stage.network)


def _set_stage(stand: Stand, workload: Workload) -> Stage:
    if workload.server is None:
        return Stage(stand, workload, None, None, None)
    network = cells.create_network(stand.client, stand.experiment)
    server = cells.start_server(
        stand.client, stand.experiment, stand.server_image_id, network, workload.server.environment
    )
    return Stage(stand, workload, network, server, cells.server_url(stand.client, server, network))


def _ask_facts(stage: Stage, cell: Cell) -> Facts | None:
    """None of an interpreter that does not answer: its benchmarks will say what is wrong with it."""
    argv = ["python", "-c", proof.QUESTION]
    ended = cells.run_process(stage.stand.client, cell.container, argv, deadline_s=60)
    if ended.timed_out:
        cell.container = open_container(stage, cell.subject)
    try:
        return proof.parse_facts(ended.stdout)
    except ValueError:
        return None


def _rounds(stage: Stage, open_cells: list[Cell]) -> list[list[str]]:
    """Round 0 calibrates; every round visits all cells in a random order of its own, from the recorded seed."""
    stand, workload = stage.stand, stage.workload
    rng = random.Random(f"{stand.settings.seed}/{workload.name}")  # noqa: S311  an order, not a secret
    rounds = stand.settings.rounds
    total = (rounds + 1) * len(open_cells)
    order = []
    for number in range(rounds + 1):
        visit = rng.sample(open_cells, len(open_cells))
        order.append([cell.subject.label for cell in visit])
        for index, cell in enumerate(visit):
            title = f"round {number} of {rounds}"
            stand.on_step(Step(title, workload.name, cell.subject.label, number * len(visit) + index, total))
            for benchmark in workload.benchmarks:
                if cell.goes_on(benchmark):
                    _one_process(stage, benchmark, cell, calibrate=number == 0)
    return order


def _one_process(stage: Stage, benchmark: Benchmark, cell: Cell, *, calibrate: bool) -> None:
    """One process (or, for a command, one row of them) becomes a pyperf run; what went wrong, an outcome."""
    outcome, output, ended = run_in(stage, cell, benchmark, *_process_argv(stage, benchmark, cell, calibrate))
    cell.outcomes[benchmark.name] = outcome
    if outcome.state is not State.OK:
        return
    costs = instruments.parse_costs(ended.stdout)
    if output is None:
        if not calibrate:
            cell.add(benchmark, command_run(stage.workload, benchmark, costs, stage.take()))
        return
    if calibrate:
        cell.loops[benchmark.name] = output.loops
    cell.add(benchmark, program_run(stage.workload, benchmark, output, costs[-1]))


def _process_argv(stage: Stage, benchmark: Benchmark, cell: Cell, calibrate: bool) -> tuple[list[str], int]:
    """What to start and how often.

    A command has nothing to calibrate: in round 0 it only shows that it runs, and warms the file cache.
    """
    take = stage.take()
    if benchmark.command is not None:
        argv = instruments.interpreter_argv(stage.workload, benchmark, stage.server_url, "1", None)
        return argv, 1 if calibrate else take.warmups + take.values
    loops = "auto" if calibrate else str(cell.loops[benchmark.name])
    planned = None if calibrate else take
    return instruments.interpreter_argv(stage.workload, benchmark, stage.server_url, loops, planned), 1


def _write(stage: Stage, cell: Cell) -> CellResult:
    """The cell's files, whole or not at all, and its result."""
    stand, workload, subject = stage.stand, stage.workload, cell.subject
    path = store.cell_path(stand.folder, stand.host, subject.variant, subject.mode, workload.name)
    suite = suite_of(cell.runs)
    if suite is not None:
        text = io.StringIO()
        suite.dump(text)
        store.write_whole(path, text.getvalue())
    if cell.profiles:
        store.write_json(store.profile_path(path), CellProfile(benchmarks=cell.profiles))
    return CellResult(
        variant=subject.variant,
        mode=subject.mode,
        workload=workload.name,
        outcome=worst(cell.outcomes.values()),
        benchmarks=cell.outcomes,
        profile=_profile_outcome(stand, cell),
    )


def _profile_outcome(stand: Stand, cell: Cell) -> Outcome | None:
    if not stand.settings.profiled or cell.subject.mode == TWIN:
        return None
    return Outcome(state=State.FAILED, reason=cell.profile_problem) if cell.profile_problem else OK
