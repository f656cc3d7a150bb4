"""Blocks of programs that are fed: a process per row is alive and gives values in order; then fresh ones replace them.

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
from interlock.measure.kinds.kind import Kind
from interlock.measure.processes import NOTHING_RUN
from interlock.measure.pyperf_runs import USED
from interlock.measure.sessions import MOST_ROWS
from interlock.measure.slots import Slot
from interlock.measure.tracks import OnStart, Result, Track
from interlock.results.experiments import ProgramOutput, State

# So many processes may be starting while the next one is started: on two CPUs one waits for the other's files.
AHEAD = 1
# A value of one thread that got less of its CPU than this is taken again, at most so many times.
LEAST_CPU_SHARE, REPEATS = 0.9, 3
# What a program is asked for.
ASKED_FOR = "value"
# What a program reports of the work of all its values together.
OF_ALL_VALUES = {f"work_{name}" for name in USED}


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


def run_fed(kind: Kind, tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
    """Run a block of a program: yield how each process ended, a process per row and several of the baseline.

    No two processes of a block are in one sandbox: those that share one are faster or slower than equal ones that do
    not (docs/decisions/0003-equal-rows.md).
    """
    first = tracks[0]
    rng = first.order(number)
    parts = parts_of(tracks, first.session.resources.settings.baseline, rng)
    started = Counter[str]()
    for place, members in enumerate(parts):
        part = Part(kind, place if len(parts) > 1 else None)
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


def repeats_of(benchmark: Benchmark, values: int) -> int:
    """Return how often a disturbed value may be repeated.

    It is 0 by CPU time, which is not disturbed, and for threads that wait, which use less CPU time anyway. A process
    that is to give a single value may be able to do its work only once.
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

    kind: Kind
    number: int | None = None  # if there are several
    workers: list[Worker] = field(default_factory=list)

    def start(self, track: Track, slot: Slot) -> Result | None:
        """Start a process, and wait for those that were started before; return how its set-up failed, if it did."""
        outcome, ended = self.kind.set_up(track, slot)
        if outcome.state is not State.OK:
            return Result(track, outcome, ended, busy_s=0.0)
        options = ["--feed", *self.kind.launcher_options()]
        argv = [*self.kind.argv(track, str(track.loops), track.take), "--fed"]
        self.workers.append(Worker(track, slot, slot.start(options, argv, track.environment), track.deadline_s))
        self.await_ready(AHEAD)
        return None

    def await_ready(self, ahead: int = 0) -> None:
        """Wait until all processes have warmed up, except so many of the last ones."""
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
        """End all at once; return how each process ended, except those that were ended before their first value.

        A report without a value comes from a program that does not follow the protocol, unless none was asked for.
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
        outcome, output = self.kind.judge(ended, worker.deadline_s)
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
    kept = [value for place, value in enumerate(output.values) if place not in repeated]
    share = len(kept) / max(1, len(output.values))  # each value did the same work
    metadata = {
        key: figure * share if key in OF_ALL_VALUES and not isinstance(figure, str) else figure
        for key, figure in output.metadata.items()
    }
    update = {
        "values": kept,
        "cpu": [value for place, value in enumerate(output.cpu) if place not in repeated],
        "metadata": metadata | {"repeated_slices_s": again_s},
    }
    return output.model_copy(update=update)
