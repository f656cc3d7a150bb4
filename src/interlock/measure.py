"""One experiment: for each workload, rounds that interleave the variants in random order, then the profile pass."""

from __future__ import annotations

import io
import itertools
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock import instruments, stability, store
from interlock.engine import cells, proof
from interlock.model import (
    TWIN,
    Benchmark,
    CellProfile,
    CellResult,
    Facts,
    Gil,
    Outcome,
    State,
    Subject,
    Workload,
)
from interlock.profiling import profile_pass
from interlock.runs import OK, command_run, gil_note, gil_outcome, process_figures, program_run, suite_of, worst
from interlock.stage import Cell, Stage, Stand, Start, Step, interpreter_argv, open_container, run_in
from interlock.statistics import TRIMMED, narrow, ratio_of

# Of a process's cell; neighbours that share a core make it 1.3 to 1.8.
SLOW = 1.2
# So many of them a warning names: where the machine was unsteady, it is nearly all.
NAMED = 5

# An interpreter that has not said by then what it is hangs: in some modes its first thread does.
ANSWER_S = 20


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


@dataclass(frozen=True)
class Measured:
    """What one workload yielded: its cells, the order of each round, and what the interpreters said of themselves.

    And what its rounds took, and what disturbed the machine meanwhile.
    """

    cells: list[CellResult]
    order: list[list[str]]
    facts: dict[str, Facts]
    spent: Spent
    warnings: list[str]


def measure_workload(stand: Stand, workload: Workload, subjects: Sequence[Subject]) -> Measured:
    """Measures and profiles one workload on all subjects and writes their files, each when it is whole."""
    stage = _set_stage(stand, workload)
    open_cells: list[Cell] = []
    try:
        for subject in subjects:
            open_cells.append(Cell(subject, open_container(stage, subject)))
        # The twin would say what the baseline says.
        answers = {cell.subject.label: _ask_facts(stage, cell) for cell in open_cells if cell.subject.mode != TWIN}
        facts = {label: answer for label, answer in answers.items() if answer}
        for cell in open_cells:
            _hold_to_its_mode(workload, cell, facts.get(cell.subject.label))
            cell.gil = _gil_at_start(cell.subject, facts)
        spent = Spent()
        order, warnings = _watched_rounds(stage, open_cells, spent)
        if stand.settings.profiled:
            profile_pass(stage, open_cells)
        return Measured([_write(stage, cell) for cell in open_cells], order, facts, spent, warnings)
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
    subject = cell.subject
    argv = instruments.with_options(["python", "-c", proof.QUESTION], subject.options)
    ended = cells.run_process(stage.stand.client, cell.container, argv, ANSWER_S, subject.environment)
    if ended.timed_out:
        cell.container = open_container(stage, subject)
    try:
        return proof.parse_facts(ended.stdout)
    except ValueError:
        return None


def _hold_to_its_mode(workload: Workload, cell: Cell, facts: Facts | None) -> None:
    """A mode that does not take effect fails: figures under its name would be of something else."""
    reason = proof.broken_mode(cell.subject, facts) if facts else ""
    if reason:
        broken = Outcome(state=State.FAILED, reason=reason)
        cell.outcomes = {benchmark.name: broken for benchmark in workload.benchmarks}


def _gil_at_start(subject: Subject, facts: Mapping[str, Facts]) -> Gil | None:
    """As the mode declares or the interpreter said; the twin's said nothing, it is the variant's."""
    said = facts.get(subject.label) or facts.get(subject.variant)
    return subject.gil or (said.gil if said else None)


def _watched_rounds(stage: Stage, open_cells: list[Cell], spent: Spent) -> tuple[list[list[str]], list[str]]:
    """The order of each round, and what disturbed them, the workload named."""
    before = None if stability.engine_is_elsewhere() else stability.sample()
    start_s = time.monotonic()
    order = _rounds(stage, open_cells, spent)
    spent.wall_s = time.monotonic() - start_s
    found = []
    if before is not None:
        containers = [cell.container.id for cell in open_cells] + ([stage.server.id] if stage.server else [])
        found = stability.disturbances(before, stability.sample(), containers, spent.cpu_s)
    for benchmark in stage.workload.benchmarks:
        found += unsteady(benchmark.name, _figures(open_cells, benchmark))
    return order, [f"{stage.workload.name}: {sentence}" for sentence in found]


def _figures(open_cells: list[Cell], benchmark: Benchmark) -> dict[str, list[float]]:
    """By label, one for each process, of the cells that still go on in this benchmark."""
    return {
        cell.subject.label: process_figures(cell.runs.get(benchmark.name, []))
        for cell in open_cells
        if cell.goes_on(benchmark)
    }


def unsteady(benchmark: str, figures: Mapping[str, Sequence[float]]) -> list[str]:
    """A warning of the cells with more slow processes than trimming takes out of their rounds, by name if few."""
    disturbed = [label for label, one in figures.items() if one and _slow(one) > TRIMMED * len(one)]
    if not disturbed:
        return []
    return [
        f"in '{benchmark}' more processes than trimming takes out were {SLOW:g} times as slow as their cell's median "
        f"({len(disturbed)} of {len(figures)} cells: {_named(disturbed)}): a neighbour that no counter shows, or "
        "unsteady work; repeat at another time, or with more rounds."
    ]


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - NAMED
    return ", ".join(labels[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _slow(figures: Sequence[float]) -> int:
    return sum(figure > SLOW * statistics.median(figures) for figure in figures)


def _rounds(stage: Stage, open_cells: list[Cell], spent: Spent) -> list[list[str]]:
    """Round 0 calibrates; every round visits all cells in a random order of its own, from the recorded seed.

    The seed alone decides a round's order, whatever number of rounds the intervals ask for.
    """
    stand, workload = stage.stand, stage.workload
    rng = random.Random(f"{stand.settings.seed}/{workload.name}")  # noqa: S311  an order, not a secret
    least = stand.settings.rounds
    limit = _limit(stage)
    total = (limit + 1) * len(workload.benchmarks) * len(open_cells)
    order = []
    done = 0
    unsettled = workload.benchmarks
    for number in range(limit + 1):
        if number > least:
            unsettled = [benchmark for benchmark in unsettled if not _settled(stage, open_cells, benchmark)]
        if not unsettled:
            break
        visit = rng.sample(open_cells, len(open_cells))
        order.append([cell.subject.label for cell in visit])
        title = f"round {number} of {least}" + (f" to {limit}" if limit > least else "")
        # One benchmark after the other: what is compared runs as close together in time as it can.
        for benchmark, cell in itertools.product(unsettled, visit):
            stand.on_step(Step(title, workload.name, cell.subject.label, done, total))
            done += 1
            if cell.goes_on(benchmark):
                _one_process(stage, benchmark, cell, spent, calibrate=number == 0)
    return order


def _limit(stage: Stage) -> int:
    """The experiment's, unless the workload has a lower one; exactly as many rounds as were asked for without one."""
    settings = stage.stand.settings
    if settings.rounds_limit is None:
        return settings.rounds
    return max(settings.rounds, min(settings.rounds_limit, stage.take().rounds_limit or settings.rounds_limit))


def _settled(stage: Stage, open_cells: list[Cell], benchmark: Benchmark) -> bool:
    """Whether the rounds so far are enough for all that still goes on; what timed out or failed is not waited for."""
    settings = stage.stand.settings
    if settings.half_width is None:
        return False
    figures = _figures(open_cells, benchmark)
    return settled(figures, settings.baseline, settings.half_width)


def settled(figures: Mapping[str, Sequence[float]], baseline: str, half_width: float) -> bool:
    """Whether every ratio to the baseline has an interval of this half width (a share of it) or less.

    Figures are by label, one for each round. Without the baseline there is no ratio to wait for.
    """
    if baseline not in figures:
        return True
    ratios = [ratio_of(figures[label], figures[baseline]) for label in figures if label != baseline]
    return all(ratio is not None and narrow(ratio, half_width) for ratio in ratios)


def _one_process(stage: Stage, benchmark: Benchmark, cell: Cell, spent: Spent, *, calibrate: bool) -> None:
    """One process (or, for a command, one row of them) becomes a pyperf run; what went wrong, an outcome."""
    outcome, output, ended = run_in(stage, cell, benchmark, _process(stage, benchmark, cell, calibrate))
    spent.add(ended, stage.workload.deadline_s)
    cell.note(gil_note(output, ended.stderr))
    if outcome.state is State.OK:
        outcome = gil_outcome(benchmark, cell.gil, output)
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


def _process(stage: Stage, benchmark: Benchmark, cell: Cell, calibrate: bool) -> Start:
    """What to start and how often.

    A command has nothing to calibrate: in round 0 it only shows that it runs, and warms the file cache.
    """
    take, environment = stage.take(), cell.subject.environment
    if benchmark.command is not None:
        argv = interpreter_argv(stage, cell, benchmark, "1", None)
        return Start(argv, environment, repeat=1 if calibrate else take.warmups + take.values)
    loops = "auto" if calibrate else str(cell.loops[benchmark.name])
    planned = None if calibrate else take
    return Start(interpreter_argv(stage, cell, benchmark, loops, planned), environment)


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
        notes=cell.notes,
    )


def _profile_outcome(stand: Stand, cell: Cell) -> Outcome | None:
    if not stand.settings.profiled or cell.subject.mode == TWIN:
        return None
    return Outcome(state=State.FAILED, reason=cell.profile_problem) if cell.profile_problem else OK
