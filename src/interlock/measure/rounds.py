"""Rounds: every row runs once in each, in a random order, until it is decided; and what disturbed them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from interlock.analysis.comparison import built_otherwise, compared_pairs
from interlock.analysis.pairing import compared_figures
from interlock.analysis.statistics import BlockFigure
from interlock.analysis.verdicts import LOOKS, Comparison, Pair, compare_rows, open_labels
from interlock.catalog.types import TWIN, label_of
from interlock.catalog.workloads import Benchmark
from interlock.measure import disturbances
from interlock.measure.blocks import run_block
from interlock.measure.cells import Cell
from interlock.measure.kinds.choosing import kind_of_track
from interlock.measure.sessions import Session
from interlock.measure.tracks import Result, Track
from interlock.measure.watching import Look, ProgressUpdate
from interlock.results.experiments import TOO_DISTURBED, Outcome, RoundsEnd, State, rounds_end_of

# How far off a decision may be, in rounds that are left: few rounds tell roughly how many more it takes.
FAR = 2
# In a first look every row gets so many rounds even if its workload's share is used up: one round has no interval.
NEEDED = 2

OnBlock = Callable[[], None]


@dataclass
class Course:
    """The rounds of a workload: their rows as they ran, and wall time, and wall and CPU time of their processes.

    Calibration and warm-ups are included.
    """

    rows: dict[int, dict[str, None]] = field(default_factory=dict)  # labels, by the number of the round
    wall_s: float = 0.0
    in_processes_s: float = 0.0
    cpu_s: float | None = 0.0  # None once a process was killed: its CPU time is unknown
    removed_cpu_s: float = 0.0  # of services whose containers are gone before the machine is looked at

    @property
    def order(self) -> list[list[str]]:
        """Return the labels of each round's rows, in the order in which they ran."""
        return [list(labels) for labels in self.rows.values()]

    def add(self, result: Result) -> None:
        """Add a process; one that was killed at its deadline took that long."""
        ended = result.ended
        if ended.timed_out or ended.flooded:
            self.in_processes_s += result.track.deadline_s if ended.timed_out else result.busy_s or 0
            self.cpu_s = None
            return
        busy_s = result.busy_s
        self.in_processes_s += sum(cost.wall_s for cost in result.costs) if busy_s is None else busy_s
        self.removed_cpu_s += result.cpu_s or 0.0
        if self.cpu_s is not None:
            self.cpu_s += sum(cost.user_s + cost.sys_s for cost in result.costs)


def watched_rounds(
    session: Session, cells: Sequence[Cell], course: Course, on_block: OnBlock = lambda: None
) -> list[str]:
    """Measure in rounds and note their course; return warnings of what disturbed them."""
    # A machine elsewhere is not seen from here.
    before = None if session.resources.workspace.is_elsewhere else disturbances.sample()
    start_s = time.monotonic()
    run_rounds(session, cells, course, on_block)
    course.wall_s = time.monotonic() - start_s
    ids = (slot.sandbox.id for cell in cells for slot in cell.slots)
    used, warnings = [*filter(None, ids), *session.network.helper_ids], list[str]()
    if before is not None and course.rows:
        own_s = course.cpu_s, course.removed_cpu_s
        warnings = disturbances.disturbances(before, disturbances.sample(), used, *own_s)
        for sentence in warnings:
            if TOO_DISTURBED in sentence:
                session.resources.watching.on_disturbed(session.workload.name, sentence)
    for benchmark in session.workload.benchmarks:
        figures = {track.label: track.values.figures for track in tracks_of(cells, benchmark) if track.goes_on}
        warnings += disturbances.unsteady(benchmark.name, figures)
    return [f"{session.workload.name}: {sentence}" for sentence in warnings]


def tracks_of(cells: Sequence[Cell], benchmark: Benchmark) -> list[Track]:
    """Return a benchmark's track in each cell that has one."""
    return [cell.tracks[benchmark.name] for cell in cells if benchmark.name in cell.tracks]


def run_rounds(session: Session, cells: Sequence[Cell], course: Course, on_block: OnBlock = lambda: None) -> None:
    """Run all rounds, note their course and call `on_block` after each block; round 0 calibrates."""
    resources, workload = session.resources, session.workload
    benchmarks = [tracks_of(cells, benchmark) for benchmark in workload.benchmarks]
    before = {tracks[0].name: last_block(tracks) for tracks in benchmarks if tracks}
    joined = {tracks[0].name: _joined_after(tracks) for tracks in benchmarks if tracks}
    least, limit = resources.settings.rounds, _limit(session) + max(joined.values(), default=0)
    looks = {after + look for after in {0, *joined.values()} for look in LOOKS}
    first = 1 if all(kind_of_track(track).is_proved for tracks in benchmarks for track in tracks) else 0
    schedule = Schedule(f"{resources.settings.seed}/{workload.name}", least, limit, first=first, looks=looks)
    labels = [cell.subject.label for cell in cells]
    looking = Looking(session, {tracks[0].name: tracks for tracks in benchmarks if tracks})
    needed, skipped = min(least, NEEDED if resources.first_look_alone else min(LOOKS)), 0
    with resources.watching.ending.kept():
        for block in planned_blocks(schedule, labels, benchmarks, partial(looking.undecided, limit)):
            name = block.tracks[0].name
            if 0 < block.round <= before[name]:
                skipped += len(block.tracks)
                continue
            if resources.watching.ending.stops_rounds(needed=block.round <= joined[name] + needed):
                break
            course.rows.setdefault(block.round, {}).update(dict.fromkeys(track.label for track in block.tracks))
            if resources.watching.ending.budget_s is not None:
                _skip_hung(block.tracks, cells)
            replace(block, done=block.done - skipped, total=block.total - skipped).run(course)
            on_block()
    looking.show_last()


def _joined_after(tracks: Sequence[Track]) -> int:
    """Return after which block the last rows began with this benchmark: they had no image when the others did."""
    begun = (min(track.values.blocks, default=last_block(tracks) + 1) for track in tracks if track.goes_on)
    return max(0, max(begun, default=1) - 1)  # a short work has values in round 0 too


def last_block(tracks: Sequence[Track]) -> int:
    """Return the number of the last block of a benchmark; 0 unless the experiment goes on with one that was ended."""
    return max((block for track in tracks for block in track.values.blocks), default=0)


def _limit(session: Session) -> int:
    """Return the largest number of rounds: the workload's limit if it is lower than the experiment's."""
    settings = session.resources.settings
    if settings.rounds_limit is None or session.resources.first_look_alone:
        return settings.rounds
    return max(settings.rounds, min(settings.rounds_limit, session.repetition.rounds_limit or settings.rounds_limit))


@dataclass(frozen=True)
class Schedule:
    """How many rounds are run, and the seed of their orders."""

    seed: str
    least: int
    limit: int
    first: int = 1  # 0 if a round that calibrates comes before the others
    looks: Collection[int] = tuple(LOOKS)  # the numbers of rounds after which is looked


@dataclass(frozen=True)
class Block:
    """One benchmark of all rows that go on with it, in a round.

    `done` runs of `total` came before it, where `total` assumes that no row is decided before the limit.
    """

    round: int
    title: str
    tracks: Sequence[Track]
    done: int
    total: int

    def run(self, course: Course) -> None:
        """Measure it, and keep what its processes yield."""
        started: dict[str, None] = {}

        def on_start(track: Track) -> None:
            started[track.label] = None
            workload, watching = track.session.workload.name, track.session.resources.watching
            done = self.done + len(started) - 1
            watching.on_progress(ProgressUpdate(self.title, workload, track.label, done, self.total))

        kinds = {track: kind_of_track(track) for track in self.tracks if track.goes_on}
        for result in run_block(kinds, self.round, on_start):
            with result.track.failing():
                course.add(result)
                kinds[result.track].keep(result, self.round)


def planned_blocks(
    schedule: Schedule,
    labels: Sequence[str],
    benchmarks: Sequence[Sequence[Track]],
    undecided: Callable[[Sequence[Track]], Sequence[Track]],
) -> Iterator[Block]:
    """Yield the blocks of all rounds; in each round all rows in a random order, one benchmark after the other.

    Rows of one benchmark run as close together in time as they can, in an order of each round's own, as Google
    Benchmark's random interleaving does (https://github.com/google/benchmark/blob/main/docs/random_interleaving.md).
    After each look only those of its tracks go on that are `undecided`. The seed alone decides a round's order,
    whatever the number of rounds.
    """
    rng = random.Random(schedule.seed)  # noqa: S311  an order, not a secret
    done = 0
    going_on = [list(tracks) for tracks in benchmarks]
    for number in range(schedule.first, schedule.limit + 1):
        if number > schedule.least and number - 1 in schedule.looks:
            going_on = [list(undecided(tracks)) for tracks in going_on if tracks]
        if not any(going_on):
            break
        total = done + (schedule.limit - number + 1) * sum(map(len, going_on))
        place = {label: index for index, label in enumerate(rng.sample(labels, len(labels)))}
        more = f" to {schedule.limit}" if schedule.limit > schedule.least else ""
        title = f"round {number} of {schedule.least}{more}"
        for tracks in filter(None, going_on):
            yield Block(number, title, sorted(tracks, key=lambda track: place[track.label]), done, total)
            done += len(tracks)


def _skip_hung(tracks: Sequence[Track], cells: Sequence[Cell]) -> None:
    """Leave a benchmark out in a cell that has no value of it and reached the deadline of another.

    Otherwise a variant that hangs for a minute in each of seven benchmarks uses up the budget that all others share.
    """
    of_cells = (track for cell in cells for track in reversed(cell.tracks.values()))
    hung = {track.label: track.name for track in of_cells if track.outcome.state is State.TIMED_OUT}
    for track in tracks:
        if track.label in hung and track.goes_on and not track.runs:
            reason = f"'{hung[track.label]}' reached its deadline, and the experiment has a budget"
            track.outcome = Outcome(state=State.NOT_MEASURED, reason=reason)


@dataclass(frozen=True)
class Looking:
    """What is seen of the rounds of a workload, by benchmark."""

    session: Session
    tracks: Mapping[str, Sequence[Track]]

    def undecided(self, limit: int, tracks: Sequence[Track]) -> list[Track]:
        """Return the tracks that go on: what is not decided, what it is compared with, the twin and the limits.

        Those that would need far more rounds than are left get none: the time goes where a decision is near.
        Those that were decided before are in the fit and in the family, as they are in the report.
        """
        figures, pairs, compared = self._look(tracks[0].name)
        left = limit - max(map(len, figures.values()), default=0)
        needed = open_labels(compared, pairs, reach=FAR * left)
        baseline = self.session.resources.settings.baseline
        always = {baseline, label_of(baseline, TWIN)}
        if not any(track.label in needed - always for track in tracks):
            return []
        return [track for track in tracks if track.cell.is_limit or track.label in needed | always]

    def show_last(self) -> None:
        """Show what the rounds have come to, decided or not, whatever ended them."""
        resources = self.session.resources
        end = rounds_end_of(looks=resources.settings.looks, ended_by=resources.watching.ending.reason)
        for name in self.tracks:
            self._look(name, None if resources.first_look_alone else end)

    def _look(
        self, name: str, end: RoundsEnd | None = None
    ) -> tuple[Mapping[str, Sequence[BlockFigure]], list[Pair], dict[Pair, Comparison]]:
        """Show what the looks so far, or all, have come to; return it with the rows and what is compared of them."""
        figures, pairs = self._compared(name)
        baseline, margin = self.session.resources.settings.baseline, self.session.workload.margin
        compared = compare_rows(figures, pairs, baseline, end=end, margin=margin)
        self._show(name, compared, is_last=end is not None)
        return figures, pairs, compared

    def _compared(self, name: str) -> tuple[Mapping[str, Sequence[BlockFigure]], list[Pair]]:
        """Return what the rows of a table are compared by, and the pairs; a limit is no row."""
        rows = [track for track in self.tracks[name] if not track.cell.is_limit]
        figures = compared_figures({track.label: track.values for track in rows})
        resources, compared = self.session.resources, [track.label for track in rows if track.goes_on]
        return figures, compared_pairs(compared, resources.settings.baseline, resources.known.controls)

    def _show(self, name: str, compared: Mapping[Pair, Comparison], *, is_last: bool) -> None:
        """Show a look, with the labels whose ratio also reflects how they were built."""
        resources, baseline = self.session.resources, self.session.resources.settings.baseline
        known, (track, *_) = resources.known, self.tracks[name]
        otherwise = (label for label, _ in compared if built_otherwise(known.images, label, baseline))
        workload = self.session.workload
        resources.watching.on_look(Look(workload, track.benchmark, compared, is_last, frozenset(otherwise)))
