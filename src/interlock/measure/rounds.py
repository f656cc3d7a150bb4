"""Rounds: every cell runs once in each, in a random order, until it is decided; and what disturbed them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from interlock.analysis.comparison import built_otherwise, compared_pairs
from interlock.analysis.pairing import compared_figures
from interlock.analysis.statistics import BlockFigure
from interlock.analysis.verdicts import LOOKS, Comparison, Pair, compare_rows, last_look, open_labels
from interlock.catalog.types import LIMIT, TWIN, label_of
from interlock.catalog.workloads import Benchmark, Limit
from interlock.engine.protocol import Ended, OwnStart
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure import blocks, disturbances, processes, services
from interlock.measure.cells import (
    NOTHING_RUN,
    Cell,
    Look,
    Phase,
    ProgressUpdate,
    Session,
    Start,
    deadline_of,
    interpreter_argv,
    open_sandbox,
    run_in,
)
from interlock.measure.processes import (
    all_reported,
    command_run,
    estimator_of,
    gil_note,
    gil_outcome,
    in_block,
    program_run,
    service_run,
    values_of,
)
from interlock.measure.schedule import PlannedBlock, Schedule, planned_blocks
from interlock.measure.user_services import UserService
from interlock.results.experiments import BenchmarkValues, Outcome, ProgramOutput, State, Subject, rounds_end_of

# How far off a decision may be, in rounds that are left: few rounds tell roughly how many more it takes.
FAR = 2

OnBlock = Callable[[], None]


class RoundOrder:
    """The labels of each round's candidates, in the order in which they ran."""

    def __init__(self) -> None:
        self._rounds: dict[int, dict[str, None]] = {}

    def note(self, number: int, label: str) -> None:
        """Add a label to the round of this number, unless it is there."""
        self._rounds.setdefault(number, {})[label] = None

    @property
    def rounds(self) -> list[list[str]]:
        """Return the labels, a list for each round."""
        return [list(labels) for labels in self._rounds.values()]


def watched_rounds(
    session: Session, open_cells: list[Cell], spent: TimeUsed, order: RoundOrder, on_block: OnBlock = lambda: None
) -> list[str]:
    """Measure in rounds and note the order of each; return warnings of what disturbed them."""
    watch = disturbances.Watch(is_elsewhere=session.resources.workspace.is_elsewhere)
    start_s = time.monotonic()
    _rounds(session, open_cells, spent, order, on_block)
    spent.wall_s = time.monotonic() - start_s
    used = [one.sandbox.id for cell in open_cells for one in cell.family] + [*session.network.helper_ids]
    found = watch.warnings(used, spent.cpu_s)
    for benchmark in session.workload.benchmarks:
        values = _values(open_cells, benchmark)
        found += disturbances.unsteady(benchmark.name, {label: one.figures for label, one in values.items()})
    return [f"{session.workload.name}: {sentence}" for sentence in found]


def _values(open_cells: Sequence[Cell], benchmark: Benchmark) -> dict[str, BenchmarkValues]:
    """Return the values so far, by label, of the cells that go on in this benchmark."""
    return {
        cell.subject.label: values_of(cell.runs.get(benchmark.name, []), estimator_of(benchmark))
        for cell in open_cells
        if cell.goes_on(benchmark)
    }


def _turns(open_cells: Sequence[Cell], benchmark: Benchmark) -> dict[str, Sequence[BlockFigure]]:
    """Return what the rows of a table are compared by; a limit is none."""
    return compared_figures(_values([cell for cell in open_cells if cell.limit is None], benchmark))


def _rounds(
    session: Session, open_cells: list[Cell], spent: TimeUsed, order: RoundOrder, on_block: OnBlock = lambda: None
) -> None:
    """Run all rounds, note their orders and call `on_block` after each block; round 0 calibrates."""
    resources, workload = session.resources, session.workload
    before = {benchmark.name: last_block(open_cells, benchmark) for benchmark in workload.benchmarks}
    joined = {one.name: before[one.name] if _have_joined(open_cells, one) else 0 for one in workload.benchmarks}
    least, limit = resources.settings.rounds, _limit(session) + max(joined.values(), default=0)
    looks = {after + look for after in {0, *joined.values()} for look in LOOKS}
    # What is of a user's image has been proved: it has no round that calibrates.
    first = 0 if workload.user is None else 1
    schedule = Schedule(f"{resources.settings.seed}/{workload.name}", least, limit, first=first, looks=looks)
    undecided = partial(_undecided, session, open_cells, limit)
    needed, skipped = min(least, *LOOKS), 0
    with resources.ending.kept():
        for planned in planned_blocks(schedule, workload.benchmarks, open_cells, undecided):
            if 0 < planned.round <= before[planned.task.name]:
                skipped += len(planned.candidates)
                continue
            if resources.ending.stops_rounds(needed=planned.round <= joined[planned.task.name] + needed):
                break
            for cell in planned.candidates:
                order.note(planned.round, cell.subject.label)
            _run_block(session, replace(planned, done=planned.done - skipped, total=planned.total - skipped), spent)
            on_block()
    _show_last_look(session, open_cells)


def _have_joined(open_cells: Sequence[Cell], benchmark: Benchmark) -> bool:
    """Return whether some cells begin with this benchmark: they had no image when the others did."""
    values = _values(open_cells, benchmark)
    return not all(one.processes for one in values.values())


def last_block(open_cells: Sequence[Cell], benchmark: Benchmark) -> int:
    """Return the number of the last block of a benchmark; 0 unless the experiment goes on with one that was ended."""
    runs = [run for cell in open_cells for run in cell.runs.get(benchmark.name, [])]
    return max((block for block in values_of(runs, estimator_of(benchmark)).blocks), default=0)


def _show_last_look(session: Session, open_cells: Sequence[Cell]) -> None:
    """Show what the rounds have come to, decided or not, whatever ended them."""
    settings, workload = session.resources.settings, session.workload
    if session.resources.first_look_alone:
        for benchmark in workload.benchmarks:
            _look(session, open_cells, benchmark)
        return
    end = rounds_end_of(looks=settings.looks, ended_by=session.resources.ending.reason)
    for benchmark in workload.benchmarks:
        figures = _turns(open_cells, benchmark)
        pairs = compared_pairs(figures, settings.baseline, session.resources.controls)
        found = compare_rows(figures, pairs, settings.baseline, end=end, margin=workload.margin)
        _show(session, benchmark, found, is_last=True)


def _show(session: Session, benchmark: Benchmark, found: Mapping[Pair, Comparison], *, is_last: bool = False) -> None:
    """Show a look, and whose ratio is also of how it was built."""
    resources = session.resources
    baseline = resources.settings.baseline
    otherwise = (one for one, _ in found if built_otherwise(resources.facts, resources.images, one, baseline))
    resources.on_look(Look(session.workload, benchmark, found, is_last, frozenset(otherwise)))


def _run_block(session: Session, planned: PlannedBlock[Benchmark, Cell], spent: TimeUsed) -> None:
    """Measure one benchmark on its cells: in turns where it can, otherwise one cell after the other."""
    benchmark, number = planned.task, planned.round
    if session.resources.settings.budget_s is not None:
        _skip_hung(benchmark, planned.candidates)
    cells = [cell for cell in planned.candidates if cell.goes_on(benchmark)]
    in_turns = [cell for cell in cells if number > 0 and _takes_turns(session, benchmark, cell)]
    visited = [cell for cell in cells if cell not in in_turns]
    started: dict[str, None] = {}
    if number > 0:
        blocks.renew_pages(session, cells)

    def on_start(cell: Cell) -> None:
        started[cell.subject.label] = None
        update = ProgressUpdate(
            planned.title, session.workload.name, cell.subject.label, planned.done + len(started) - 1, planned.total
        )
        session.resources.on_progress(update)

    if number == 0:
        # One process tells whether a program takes slices, and of how many loops: the baseline's, if it works.
        visited.sort(key=lambda cell: cell.subject.label != session.resources.settings.baseline)
    for cell in visited:
        if number == 0 and not _needs_trial(session, benchmark, cell):
            continue
        on_start(cell)
        with cell.clock.during(Phase.MEASURING), failing(cell, benchmark):
            run_benchmark(session, benchmark, cell, spent, number)
        if number == 0 and _shares_loops(session, benchmark, cell):
            for other in cells:
                _take_over(benchmark, cell, other)
    run = blocks.run_starts if blocks.takes_starts(session.workload, benchmark) else blocks.run_slices
    for taken in run(session, benchmark, in_turns, number, on_start) if in_turns else ():
        _keep(session, benchmark, taken, spent, number)


def _needs_trial(session: Session, benchmark: Benchmark, cell: Cell) -> bool:
    """Return whether a cell's round 0 has a process: to calibrate, or to show that a command works.

    A service is not calibrated, and a run of it shows whether it works.
    """
    return session.workload.load is None and not _shares_loops(session, benchmark, cell)


def _take_over(benchmark: Benchmark, calibrated: Cell, other: Cell) -> None:
    """Give a cell the loops of the one that calibrated: slices of another length are other work.

    Rows that calibrated by themselves had often twice the loops of their equals.
    """
    other.takes_slices.add(benchmark.name)
    other.loops[benchmark.name] = calibrated.loops[benchmark.name]
    if benchmark.name in calibrated.decisive_s:
        other.decisive_s[benchmark.name] = calibrated.decisive_s[benchmark.name]


def _shares_loops(session: Session, benchmark: Benchmark, cell: Cell) -> bool:
    """Return whether a cell's slices have the loops that one process calibrated for all rows.

    One that is to do its work once calibrates by itself.
    """
    take = session.take(benchmark)
    return _takes_turns(session, benchmark, cell) and benchmark.command is None and take.warmups + take.values > 1


def _skip_hung(benchmark: Benchmark, candidates: Sequence[Cell]) -> None:
    """Leave a benchmark out in the cells that have no value of it and reached the deadline of another.

    One variant that hangs in each of seven benchmarks for a minute would take the time that all others share.
    """
    for cell in candidates:
        hung = [name for name, outcome in cell.outcomes.items() if outcome.state is State.TIMED_OUT]
        if hung and cell.goes_on(benchmark) and not cell.runs.get(benchmark.name):
            reason = f"'{hung[0]}' reached its deadline, and the experiment has a budget"
            cell.outcomes[benchmark.name] = Outcome(state=State.NOT_MEASURED, reason=reason)


@contextmanager
def failing(cell: Cell, benchmark: Benchmark) -> Iterator[None]:
    """Turn an error about what a process printed into a failure of its own cell in this benchmark."""
    try:
        yield
    except (WorkloadError, ValueError, LookupError, TypeError, ArithmeticError) as error:
        state = State.UNSUPPORTED if isinstance(error, UnsupportedHereError) else State.FAILED
        what = getattr(error, "found", "") or f"its output is not a measurement ({' '.join(str(error).split())})"
        cell.outcomes[benchmark.name] = Outcome(state=state, reason=f"'{benchmark.name}': {what}")


def _takes_turns(session: Session, benchmark: Benchmark, cell: Cell) -> bool:
    """Return whether a cell takes slices or starts in turns; a program of somebody else's may not know slices."""
    if cell.limit is not None:
        return False
    if blocks.takes_starts(session.workload, benchmark):
        return True
    return blocks.takes_slices(session.workload, benchmark) and benchmark.name in cell.takes_slices


def _keep(session: Session, benchmark: Benchmark, taken: blocks.BlockResult, spent: TimeUsed, number: int) -> None:
    """Add what a process of a block has yielded to its cell, as a pyperf run or as an outcome."""
    spent.add(taken.ended, deadline_of(session, taken.cell, benchmark), taken.busy_s)
    taken.cell.clock.add(Phase.MEASURING, taken.busy_s)
    outcome = _noted(benchmark, taken.cell, taken.outcome, taken.output, taken.ended)
    if outcome.state is not State.OK:
        return
    with failing(taken.cell, benchmark):
        costs = processes.parse_costs(taken.ended.stdout)
        if taken.output is None:
            run = command_run(session.workload, benchmark, costs, session.take(benchmark), units=benchmark.parallel)
        else:
            run = program_run(session.workload, benchmark, taken.output, costs[-1])
            _fit_loops(benchmark, taken.cell, taken.output)
        taken.cell.add(benchmark, in_block(run, number, estimator_of(benchmark), taken.group))


def _fit_loops(benchmark: Benchmark, cell: Cell, output: ProgramOutput) -> None:
    """After its first block give a row that is far slower or faster than the one that calibrated loops of its own."""
    name = benchmark.name
    if name in cell.decisive_s and output.values and not any(run.values for run in cell.runs.get(name, [])):
        slice_s = statistics.mean(output.values)
        cell.loops[name] = blocks.fitting_loops(cell.loops[name], slice_s, cell.decisive_s[name])


def _noted(benchmark: Benchmark, cell: Cell, outcome: Outcome, output: ProgramOutput | None, ended: Ended) -> Outcome:
    """Return a process's outcome, and note in its cell what it said; an outcome that is not ok stays."""
    cell.note(gil_note(output, ended.stderr))
    if outcome.state is State.OK:
        outcome = gil_outcome(benchmark, cell.gil, output)
    if cell.goes_on(benchmark):
        cell.outcomes[benchmark.name] = outcome
    return outcome


def _limit(session: Session) -> int:
    """Return the largest number of rounds: the workload's limit if it is lower than the experiment's."""
    settings = session.resources.settings
    if settings.rounds_limit is None or session.resources.first_look_alone:
        return settings.rounds
    return max(settings.rounds, min(settings.rounds_limit, session.repetition.rounds_limit or settings.rounds_limit))


def _undecided(
    session: Session, open_cells: Sequence[Cell], limit: int, benchmark: Benchmark, going_on: Sequence[Cell]
) -> list[Cell]:
    """Return the cells that go on: those that are not decided, what they are compared with, the twin and the limits.

    Those that would need far more rounds than are left have none of their time: it goes where a decision is near.
    Those that were decided before are in the fit and in the family, as they are in the report. Cells that failed or
    timed out are not waited for.
    """
    figures, pairs, found = _look(session, open_cells, benchmark)
    left = limit - max(map(len, figures.values()), default=0)
    needed = open_labels(found, pairs, figures, reach=FAR * left)
    baseline = session.resources.settings.baseline
    always = {baseline, label_of(baseline, TWIN)}
    if not any(cell.subject.label in needed - always for cell in going_on):
        return []
    return [cell for cell in going_on if cell.limit is not None or cell.subject.label in needed | always]


def _look(
    session: Session, open_cells: Sequence[Cell], benchmark: Benchmark
) -> tuple[dict[str, Sequence[BlockFigure]], list[Pair], dict[Pair, Comparison]]:
    """Show what the last look has come to; return it with the rows and what is compared of them."""
    figures, settings = _turns(open_cells, benchmark), session.resources.settings
    pairs = compared_pairs(figures, settings.baseline, session.resources.controls)
    found = last_look(figures, pairs, settings.baseline, margin=session.workload.margin)
    _show(session, benchmark, found)
    return figures, pairs, found


@dataclass
class TimeUsed:
    """The time of a workload's rounds in seconds: wall time, and wall and CPU time of their processes.

    Calibration and warm-ups are included.
    """

    wall_s: float = 0.0
    in_processes_s: float = 0.0
    cpu_s: float | None = 0.0  # None once a process was killed: its CPU time is unknown

    def add(self, ended: Ended, deadline_s: float, busy_s: float | None = None) -> None:
        """Add a process; one that was killed at its deadline took that long, one that waited for its turns `busy_s`."""
        if ended.timed_out or ended.flooded:
            self.in_processes_s += deadline_s if ended.timed_out else busy_s or 0
            self.cpu_s = None
            return
        costs = processes.parse_costs(ended.stdout)
        self.in_processes_s += sum(cost.wall_s for cost in costs) if busy_s is None else busy_s
        if self.cpu_s is not None:
            self.cpu_s += sum(cost.user_s + cost.sys_s for cost in costs)


def run_benchmark(session: Session, benchmark: Benchmark, cell: Cell, spent: TimeUsed, number: int) -> None:
    """Run one process (of a command: one row) and add it to the cell as a pyperf run, or as a bad outcome.

    Round number 0 calibrates.
    """
    calibrate = number == 0
    if cell.limit is not None:
        ended = run_limit(session, benchmark, cell, cell.limit, number)
        spent.add(ended, deadline_of(session, cell, benchmark))
        return
    if session.workload.is_users_service:
        _run_users_service(session, benchmark, cell, spent, number)
        return
    if session.workload.load is not None:
        outcome, output, ended = services.run_service(session, benchmark, cell)
    else:
        outcome, output, ended = run_in(session, cell, benchmark, _process(session, benchmark, cell, calibrate))
    spent.add(ended, deadline_of(session, cell, benchmark))
    outcome = _noted(benchmark, cell, outcome, output, ended)
    if outcome.state is not State.OK or output is None:
        return
    if calibrate:
        if output.slices:
            cell.takes_slices.add(benchmark.name)
        cell.loops[benchmark.name] = output.loops
        if output.calibration:
            cell.decisive_s[benchmark.name] = output.calibration[-1][1]
    run = program_run(session.workload, benchmark, output, processes.parse_costs(ended.stdout)[-1])
    cell.add(benchmark, in_block(run, number, estimator_of(benchmark)))


def _run_users_service(session: Session, benchmark: Benchmark, cell: Cell, spent: TimeUsed, number: int) -> None:
    """Run a user's service once and add its figures to the cell."""
    start_s = time.monotonic()
    start = OwnStart(cell.subject.image_id or "", cell.subject.environment)
    try:
        ran = UserService(session.network, session.workload).run(start)
    except WorkloadError:
        session.resources.require_answer()
        raise
    spent.in_processes_s += time.monotonic() - start_s
    if spent.cpu_s is not None:
        spent.cpu_s += ran.used.total_s
    cell.add(benchmark, in_block(service_run(session.workload, benchmark, ran), number, estimator_of(benchmark)))


def _process(session: Session, benchmark: Benchmark, cell: Cell, calibrate: bool) -> Start:
    """Return what to start.

    A command is not calibrated: round 0 only shows that it runs, and fills the page cache.
    """
    environment = cell.subject.environment
    if benchmark.command is not None:
        argv = interpreter_argv(session, cell, benchmark, "1", None)
        return Start(argv, environment, parallel=benchmark.parallel, checks_output=True)
    loops = "auto" if calibrate else str(cell.loops[benchmark.name])
    planned = None if calibrate else session.take(benchmark)
    return Start(interpreter_argv(session, cell, benchmark, loops, planned), environment)


def open_limits(session: Session) -> list[Cell]:
    """Open a cell for each limit of the workload, in a sandbox of its own."""
    opened = []
    for limit in session.workload.limits:
        subject = Subject(variant=LIMIT, mode=limit.name, image_id=None)
        opened.append(Cell(subject, open_sandbox(session, subject), limit=limit))
    return opened


def run_limit(session: Session, benchmark: Benchmark, cell: Cell, limit: Limit, number: int) -> Ended:
    """Run a row of processes of a limit, pinned as the benchmark is, and add it as a pyperf run or an outcome.

    As for any command, round 0 only shows that it runs.
    """
    take, calibrate = session.take(benchmark), number == 0
    argv = processes.limit_argv(limit, session.network.url)
    command = Benchmark(
        name=benchmark.name,
        command=argv,
        cpus=benchmark.cpus,
        deadline_s=benchmark.deadline_s,
        metric=benchmark.metric,
    )
    start = Start(argv, {}, repeat=1 if calibrate else take.warmups + take.values)
    try:
        outcome, _, ended = run_in(session, cell, command, start)
    except UnsupportedHereError as error:
        cell.outcomes[benchmark.name] = Outcome(state=State.UNSUPPORTED, reason=error.found)
        return NOTHING_RUN
    if outcome.state is State.OK:
        outcome = all_reported(benchmark, ended, start.repeat)
    cell.outcomes[benchmark.name] = outcome
    if outcome.state is State.OK and not calibrate:
        costs = processes.parse_costs(ended.stdout)
        run = command_run(session.workload, benchmark, costs, take, limit.unit_count)
        cell.add(benchmark, in_block(run, number, estimator_of(benchmark)))
    return ended
