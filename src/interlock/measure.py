"""One experiment: for each workload, rounds that interleave the variants in random order, then the profile pass."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import instruments, store
from interlock.engine import cells, proof
from interlock.errors import InterlockError, WorkloadError
from interlock.model import (
    TWIN,
    Benchmark,
    BenchmarkProfile,
    CellProfile,
    CellResult,
    Facts,
    Outcome,
    ProgramOutput,
    Repetition,
    Settings,
    State,
    Subject,
    Workload,
)
from interlock.profile import Counts, parse_strace, per_unit
from interlock.runs import OK, command_run, judge, program_run, suite_of, worst


@dataclass(frozen=True)
class Step:
    """One process that is about to run, for the progress display."""

    stage: str
    workload: str
    subject: str
    number: int
    total: int


@dataclass(frozen=True)
class Stand:
    """What cells need to run: made once for an experiment."""

    client: Any
    experiment: str
    folder: Path
    host: str
    volume: str
    server_image_id: str
    settings: Settings
    on_step: Callable[[Step], None]


@dataclass(frozen=True)
class Stage:
    """One workload's surroundings: its network and server if it needs them."""

    stand: Stand
    workload: Workload
    network: str | None
    server: Any
    server_url: str | None

    def take(self) -> Repetition:
        return self.workload.quick if self.stand.settings.quick else self.workload.full


@dataclass
class Cell:
    """A cell while it is being measured: its container, and what came of each benchmark."""

    subject: Subject
    container: Any
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    runs: dict[str, list[Any]] = field(default_factory=dict)
    profiles: dict[str, BenchmarkProfile] = field(default_factory=dict)
    profile_problem: str = ""

    def add(self, benchmark: Benchmark, run: Any) -> None:
        self.runs.setdefault(benchmark.name, []).append(run)

    def goes_on(self, benchmark: Benchmark) -> bool:
        return self.outcomes.get(benchmark.name, OK).state is State.OK


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
            open_cells.append(Cell(subject, _container(stage, subject)))
        answers = {cell.subject.variant: _ask_facts(stage, cell) for cell in open_cells}
        facts = {variant: answer for variant, answer in answers.items() if answer}
        order = _rounds(stage, open_cells)
        if stand.settings.profiled:
            _profile_pass(stage, open_cells)
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


def _container(stage: Stage, subject: Subject) -> Any:
    stand = stage.stand
    options = cells.CellOptions(stand.experiment, instruments.IDLE, stand.volume, stage.network)
    return cells.start_cell(stand.client, subject.image_id, options)


def _ask_facts(stage: Stage, cell: Cell) -> Facts | None:
    """None of an interpreter that does not answer: its benchmarks will say what is wrong with it."""
    argv = ["python", "-c", proof.QUESTION]
    ended = cells.run_process(stage.stand.client, cell.container, argv, deadline_s=60)
    if ended.timed_out:
        cell.container = _container(stage, cell.subject)
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
    outcome, output, ended = _run(stage, cell, benchmark, *_process_argv(stage, benchmark, cell, calibrate))
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


def _run(
    stage: Stage, cell: Cell, benchmark: Benchmark, argv: list[str], repeat: int = 1
) -> tuple[Outcome, ProgramOutput | None, cells.Ended]:
    """Runs argv under the launcher; a cell whose container was killed at the deadline gets a new one."""
    ended = cells.run_process(
        stage.stand.client,
        cell.container,
        instruments.launch_argv(argv, benchmark, repeat),
        stage.workload.deadline_s,
    )
    if ended.timed_out:
        cell.container = _container(stage, cell.subject)
    return *judge(stage.workload, benchmark, ended, traced=argv[0] == instruments.STRACE[0]), ended


def _profile_pass(stage: Stage, open_cells: list[Cell]) -> None:
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
    outcome, output, ended = _run(stage, cell, benchmark, [*instruments.STRACE, *argv])
    if outcome.state is not State.OK:
        raise WorkloadError(found=f"under strace: {outcome.reason}", todo="See `interlock doctor`.")
    return parse_strace(ended.stderr), output


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
