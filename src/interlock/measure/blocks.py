"""Blocks: in each a process per row is alive and gives values in order; then fresh ones replace them.

Partners are less than a second apart, so that a state of the machine that lasts for seconds is in all of them.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress

from interlock.catalog.types import MOST_SECONDS, TWIN, label_of
from interlock.catalog.workloads import Benchmark
from interlock.engine.agent import Process
from interlock.engine.ended import Ended
from interlock.measure.processes import NOTHING_RUN, OK
from interlock.measure.slots import Slot
from interlock.measure.stopwatch import Phase
from interlock.measure.tracks import Result, Track
from interlock.results.experiments import ProgramOutput, State

# Above this number of rows a block is split, so that the values of partners stay close to each other in time.
MOST_ROWS = 15
# So many processes may be starting while the next one is started: on two CPUs one waits for the other's files.
AHEAD = 1
# A value of one thread that got less of its CPU than this is taken again, at most so many times.
LEAST_CPU_SHARE, REPEATS = 0.9, 3
# What a program is asked for.
ASKED_FOR = "value"

OnStart = Callable[[Track], None]


@dataclass(frozen=True)
class TimedValue:
    """Seconds of a value by the clock and of CPU time; `kept` unless it was taken again."""

    wall_s: float
    cpu_s: float
    kept: bool = True


@dataclass
class Worker:
    """A process of a block that gives a value whenever it is asked."""

    track: Track
    slot: Slot
    process: Process
    deadline_s: float
    busy_s: float = 0.0
    values: list[TimedValue] = field(default_factory=list)
    ended: Ended | None = None
    begun: bool = False

    def begin(self) -> None:
        """Wait until it has warmed up; it has ended if it cannot do the work."""
        self.begun = True
        if self._asked(lambda: self.process.line(self.deadline_s)) != "ready":
            self.finish()

    def take(self, repeats: int) -> None:
        """Take a value, and again as often as `repeats` allows while it gets too little of its CPU."""
        for left in range(repeats, -1, -1):
            try:
                value = self._value()
            except ValueError as error:
                self.finish()
                self.ended = self.ended and replace(self.ended, exit_code=1, stderr=str(error))
                return
            if value is None:
                self.finish()
                return
            disturbed = value.cpu_s < LEAST_CPU_SHARE * value.wall_s
            self.values.append(replace(value, kept=not (disturbed and left)))
            if not disturbed:
                return

    def _value(self) -> TimedValue | None:
        """Return what a value took; None if the process ends or reports instead, ValueError for times of no clock."""
        line = self._asked(lambda: self.process.ask(ASKED_FOR, self.deadline_s)) or ""
        words = line.split()
        if len(words) != 2:
            return None
        with suppress(ValueError):
            wall_s, cpu_s = map(float, words)
            if 0 < wall_s <= MOST_SECONDS and 0 <= cpu_s <= MOST_SECONDS:
                return TimedValue(wall_s, cpu_s)
        raise ValueError(f"it answered {line[:80]!r} to a {ASKED_FOR}")

    def release(self) -> None:
        """Ask the process for its report, unless it has ended."""
        self._asked(self.process.close)

    def finish(self) -> None:
        """Ask the process for its report and wait for its end, unless it has ended."""
        if self.ended is None:
            self._asked(lambda: self.process.end(self.deadline_s))
        if self.ended is None:
            self.ended = self.slot.end_of(self.process)

    def _asked(self, ask: Callable[[], str | None]) -> str | None:
        """Return its answer; without one in time it has ended, and with it its sandbox."""
        if self.ended is not None:
            return None
        start_s = time.monotonic()
        answer, self.ended = self.slot.answer_of(self.process, ask)
        self.busy_s += time.monotonic() - start_s
        return answer


def run_block(tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
    """Yield how the processes of a benchmark's block ended: of those alone, then of those that are in order.

    Round 0 calibrates, or shows that a command works. A result is to be kept before the next one is asked for.
    """
    if number == 0:
        yield from _tried(tracks, on_start)
        return
    _renew_pages(tracks)
    in_order = [track for track in tracks if track.kind.is_in_order(track)]
    for track in tracks:
        if track not in in_order:
            yield from _alone(track, number, on_start)
    for result in in_order[0].kind.block(in_order, number, on_start) if in_order else ():
        result.track.cell.clock.add(Phase.MEASURING, result.busy_s or 0)
        yield result


def _tried(tracks: Sequence[Track], on_start: OnStart) -> Iterator[Result]:
    """One process tells of how many loops the others are fed: the baseline's, if it works."""
    for track in sorted(tracks, key=lambda track: track.label != track.session.resources.settings.baseline):
        if track.kind.is_tried and not track.shares_loops:
            yield from _alone(track, 0, on_start)
            if track.shares_loops:
                for fed in tracks:
                    fed.take_over(track)


def _alone(track: Track, number: int, on_start: OnStart) -> Iterator[Result]:
    on_start(track)
    result = None
    with track.cell.clock.during(Phase.MEASURING), track.failing():
        result = track.kind.alone(track, number)
    if result is not None:
        yield result


def run_fed(tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
    """Run a block of a program: yield how each process ended, a process per row and several of the baseline.

    No two processes of a block are in one sandbox: those that share one are faster or slower than equal ones that do
    not (docs/decisions/0003-equal-rows.md).
    """
    first = tracks[0]
    rng = order_of(first, number)
    parts = parts_of(tracks, first.session.resources.settings.baseline, rng)
    started = Counter[str]()
    for place, members in enumerate(parts):
        part = Part(place if len(parts) > 1 else None)
        for track in members:
            on_start(track)
            failed = part.start(track, track.cell.slot(started[track.label]))
            started[track.label] += 1
            if failed:
                yield failed
        part.await_ready()
        try:
            values = first.take.values
            for _ in range(values):
                for worker in rng.sample(part.workers, len(part.workers)):
                    part.do(worker, partial(worker.take, repeats_of(first.benchmark, values)))
        finally:
            # Also if somebody ends the rounds: what was measured is kept.
            yield from part.end_all()


def _renew_pages(tracks: Sequence[Track]) -> None:
    """Let the interpreters' files be read anew, to other pages of the memory.

    Which pages an interpreter has changes its speed by some per cent, and the page cache keeps them for as long as a
    container lives: a row would be off by the same share in all blocks. With other pages in each block the share is an
    error that blocks show and average out.
    """
    for track in tracks:
        facts = track.session.resources.known.facts_of(track.cell.subject)
        if facts is not None and facts.mapped_files:
            for slot in track.cell.slots:
                slot.renew_pages(facts.mapped_files)


def order_of(track: Track, number: int) -> random.Random:
    """Return what a benchmark's block of this number takes its orders from: the same with the same seed."""
    session = track.session
    seed = f"{session.resources.settings.seed}/{session.workload.name}/{track.name}/{number}"
    return random.Random(seed)  # noqa: S311  an order, not a secret


def repeats_of(benchmark: Benchmark, values: int) -> int:
    """Return how often a disturbed value may be repeated: CPU time is not disturbed, and what waits has less of it.

    A process that is to give a single value may be able to do its work only once.
    """
    return REPEATS if benchmark.threads == "one" and benchmark.clock == "wall" and values > 1 else 0


def parts_of(tracks: Sequence[Track], baseline: str, rng: random.Random) -> list[list[Track]]:
    """Return parts of at most about 15 rows in a random order; a row that is there several times has several slots.

    The baseline is in a block about as often as the square root of its rows says: all others are compared with it, and
    its error is in all ratios. The twin, which is in one ratio alone, is there half as often. Both are in each part.
    """
    twin = label_of(baseline, TWIN)
    compared = [track for track in tracks if track.label not in {baseline, twin}]
    rng.shuffle(compared)
    count = max(1, -(-len(tracks) // MOST_ROWS))
    root = round(len(tracks) ** 0.5) if compared else 1
    parts = [compared[place::count] for place in range(count)]
    for label, times in ((baseline, max(count, root)), (twin, max(count, root // 2))):
        several = [track for track in tracks if track.label == label]
        for place in range(times):
            parts[place % count] += several
    return [rng.sample(part, len(part)) for part in parts]


@dataclass
class Part:
    """The processes of a block, or of one part of it."""

    number: int | None = None  # if there are several
    workers: list[Worker] = field(default_factory=list)

    def start(self, track: Track, slot: Slot) -> Result | None:
        """Start a process, and wait for those that were started before; return how its set-up failed, if it did."""
        outcome, ended = track.set_up(slot)
        if outcome.state is not State.OK:
            return Result(track, outcome, ended, busy_s=0.0)
        options = ["--feed", *track.kind.launcher_options()]
        argv = [*track.argv(str(track.loops), track.take), "--fed"]
        self.workers.append(Worker(track, slot, slot.start(options, argv, track.environment), track.deadline_s))
        self.await_ready(AHEAD)
        return None

    def await_ready(self, ahead: int = 0) -> None:
        """Wait until all processes have warmed up, but so many of the last ones."""
        for worker in self.workers[: len(self.workers) - ahead]:
            if not worker.begun:
                self.do(worker, worker.begin)

    def do(self, worker: Worker, step: Callable[[], None]) -> None:
        """Run a step unless the process has ended.

        If it had to be killed, so are the others of its row, which would hang for as long; all get new sandboxes.
        """
        if worker.ended is not None:
            return
        step()
        if worker.ended is not None and worker.ended.took_sandbox:
            for other in self.workers:
                if other is worker or (other.ended is None and other.track.label == worker.track.label):
                    other.ended = worker.ended
                    other.slot.replace()

    def end_all(self) -> list[Result]:
        """Return how each process ended, but for those that somebody ended before their first value. They end at once.

        A report without a value is of a program that does not follow the protocol, unless nobody asked for one.
        """
        asked = [worker.ended is not None or bool(worker.values) for worker in self.workers]
        for worker in self.workers:
            self.do(worker, worker.release)
        results = [self.end(worker) for worker in self.workers]
        return list(compress(results, asked))

    def end(self, worker: Worker) -> Result:
        """Ask a process for its report, and return how it ended."""
        self.do(worker, worker.finish)
        ended = worker.ended or NOTHING_RUN
        outcome, output = worker.track.kind.judge(ended, worker.deadline_s)
        if output is not None and outcome.state is State.OK:
            output = without_repeated(output, worker.values)
        return Result(worker.track, outcome, ended, output, busy_s=worker.busy_s, part=self.number)


def without_repeated(output: ProgramOutput, values: Sequence[TimedValue]) -> ProgramOutput:
    """Return a report without the values that were taken again, which its metadata keeps, in seconds of loops.

    It may have one value more: that during which somebody ended the rounds.
    """
    repeated = {place: value for place, value in enumerate(values) if not value.kept}
    if not repeated:
        return output
    again_s = " ".join(f"{value.wall_s:.9f}" for value in repeated.values())
    update = {
        "values": [value for place, value in enumerate(output.values) if place not in repeated],
        "cpu": [value for place, value in enumerate(output.cpu) if place not in repeated],
        "metadata": output.metadata | {"repeated_slices_s": again_s},
    }
    return output.model_copy(update=update)


def run_started(tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
    """Run a block of a command: yield how each row of starts ended, of which the first ones are warm-ups."""
    rng, take = order_of(tracks[0], number), tracks[0].take
    going_on = {track.label: track for track in tracks}
    printed = dict.fromkeys(going_on, NOTHING_RUN)
    failed: list[Result] = []
    try:
        for _ in range(take.warmups + take.values):
            for label in rng.sample(sorted(going_on), len(going_on)):
                track = going_on[label]
                on_start(track)
                result = _start_once(track)
                ended = result.ended
                if result.outcome.state is not State.OK:
                    del going_on[label]
                    failed.append(result)
                printed[label] = Ended(ended.exit_code, printed[label].stdout + ended.stdout, ended.stderr)
    finally:
        # Also if somebody ends the rounds: the starts that were timed are kept.
        yield from failed
        for label, track in going_on.items():
            row = Result(track, OK, printed[label])
            if len(row.costs) > take.warmups:
                yield replace(row, busy_s=sum(cost.wall_s for cost in row.costs))


def _start_once(track: Track) -> Result:
    """Start a command and wait for its end. One that was disturbed is not repeated: a start waits for its files too."""
    slot, limit_s = track.cell.slot(), track.deadline_s
    if track.kind.wants_fresh_slot:
        slot.replace()
    outcome, ended = track.set_up(slot)
    if outcome.state is not State.OK:
        return Result(track, outcome, ended, busy_s=0.0)
    options = track.kind.launcher_options(track.benchmark.parallel)
    process = slot.start(options, track.argv(), track.environment)
    _, late = slot.answer_of(process, lambda: process.wait(limit_s))
    ended = late or slot.end_of(process)
    if ended.took_sandbox:
        slot.replace()
    outcome, _ = track.kind.judge(ended, limit_s)
    return Result(track, outcome, ended, busy_s=0.0).with_all_of(1)
