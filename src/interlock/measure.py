"""One experiment: for each workload, rounds that interleave the variants in random order, then the profile pass."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyperf

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
    ProcessCost,
    ProgramOutput,
    Repetition,
    Settings,
    State,
    Subject,
    Workload,
)
from interlock.profile import Counts, parse_strace, per_unit

OK = Outcome(state=State.OK)
# `python -I` or `-X ...` in a version that lacks the option: the interpreter's own words, exit code 2.
NO_SUCH_OPTION = ("Unknown option", "-X is reserved")


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


def judge(
    workload: Workload, benchmark: Benchmark, ended: cells.Ended, *, traced: bool = False
) -> tuple[Outcome, ProgramOutput | None]:
    """The outcome of a process, and what a program printed. Only a traced process may have done no work."""
    if ended.timed_out:
        reason = f"'{benchmark.name}' had not ended after {workload.deadline_s:g} s"
        return Outcome(state=State.TIMED_OUT, reason=reason), None
    if ended.exit_code != 0:
        return _judge_exit(benchmark, ended), None
    if benchmark.command is not None:
        return OK, None
    try:
        output = instruments.parse_program(ended.stdout, workload, may_idle=traced)
    except WorkloadError as error:
        return Outcome(state=State.FAILED, reason=str(error)), None
    supported = output.unsupported is None
    return OK if supported else Outcome(state=State.UNSUPPORTED, reason=output.unsupported or ""), output


def _judge_exit(benchmark: Benchmark, ended: cells.Ended) -> Outcome:
    said = ended.stderr.strip().splitlines() or [f"exit code {ended.exit_code}"]
    if benchmark.command is not None and said[0].startswith(NO_SUCH_OPTION):
        return Outcome(state=State.UNSUPPORTED, reason=said[0])
    return Outcome(state=State.FAILED, reason=f"'{benchmark.name}' ended with exit code {ended.exit_code}: {said[-1]}")


def command_run(workload: Workload, benchmark: Benchmark, costs: list[ProcessCost], take: Repetition) -> Any:
    """A pyperf run of a command: one value per process, the first ones warm-ups."""
    walls = [cost.wall_s for cost in costs]
    measured = costs[take.warmups :]
    metadata = _metadata(workload, benchmark, loops=1, inner_loops=1) | _cost_metadata(measured)
    return pyperf.Run(
        walls[take.warmups :],
        warmups=[(1, wall) for wall in walls[: take.warmups]],
        metadata=metadata,
        collect_metadata=False,
    )


def program_run(workload: Workload, benchmark: Benchmark, output: ProgramOutput, cost: ProcessCost) -> Any:
    """A pyperf run of a program: raw times divided by the units of work, as pyperf stores them."""
    metadata = _metadata(workload, benchmark, output.loops, output.inner_loops) | _cost_metadata([cost])
    metadata |= {f"interlock_{key}": _plain(value) for key, value in output.metadata.items()}
    warmups = [(output.loops, _per_unit(raw, output.loops, output)) for raw in output.warmups]
    if output.calibration:
        metadata["calibrate_loops"] = output.loops
        warmups = [(loops, _per_unit(raw, loops, output)) for loops, raw in output.calibration] + warmups
    values = [_per_unit(raw, output.loops, output) for raw in output.values]
    return pyperf.Run(values, warmups=warmups, metadata=metadata, collect_metadata=False)


def _per_unit(raw_s: float, loops: int, output: ProgramOutput) -> float:
    return raw_s / (loops * output.inner_loops)


def _plain(value: float | str | bool) -> float | str:
    """pyperf's metadata knows no booleans."""
    return str(value).lower() if isinstance(value, bool) else value


def _metadata(workload: Workload, benchmark: Benchmark, loops: int, inner_loops: int) -> dict[str, Any]:
    return {
        "name": f"{workload.name} {benchmark.name}",
        "unit": "second",
        "loops": loops,
        "inner_loops": inner_loops,
    }


def _cost_metadata(costs: Sequence[ProcessCost]) -> dict[str, Any]:
    """Means over the processes of a run; the launcher's figures are of whole processes, start and exit included."""

    def mean(values: Iterable[float]) -> float:
        return sum(values) / len(costs)

    return {
        "mem_max_rss": max(cost.max_rss_bytes for cost in costs),
        "interlock_process_wall_s": mean(cost.wall_s for cost in costs),
        "interlock_process_user_s": mean(cost.user_s for cost in costs),
        "interlock_process_sys_s": mean(cost.sys_s for cost in costs),
        "interlock_process_voluntary_switches": mean(cost.voluntary_switches for cost in costs),
        "interlock_process_involuntary_switches": mean(cost.involuntary_switches for cost in costs),
    }


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
    suite = suite_of(cell)
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


def suite_of(cell: Cell) -> Any:
    """A pyperf suite of the benchmarks that have values, or None."""
    benchmarks = [pyperf.Benchmark(runs) for runs in cell.runs.values() if any(run.values for run in runs)]
    return pyperf.BenchmarkSuite(benchmarks) if benchmarks else None


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """The cell's outcome is that of its worst benchmark."""
    rank = [State.OK, State.UNSUPPORTED, State.UNAVAILABLE, State.TIMED_OUT, State.FAILED]
    return max(outcomes, key=lambda outcome: rank.index(outcome.state), default=OK)
