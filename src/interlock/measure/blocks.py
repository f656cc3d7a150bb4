"""Blocks: in each a process per row is alive, and they take turns at slices of work; then fresh ones replace them.

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

from interlock.catalog.types import MOST_SECONDS, TWIN, label_of
from interlock.catalog.workloads import Benchmark, Workload
from interlock.engine.agent import Process, ProcessTimeoutError, text_of
from interlock.engine.protocol import Ended
from interlock.errors import EngineError, FloodError
from interlock.measure import processes
from interlock.measure.cells import (
    MOST_ROWS,
    NOTHING_RUN,
    Cell,
    Session,
    agent_of,
    deadline_of,
    environment_of,
    facts_of,
    interpreter_argv,
    replace_sandbox,
    set_up,
    sibling_of,
)
from interlock.measure.processes import OK, all_reported, judge_process
from interlock.results.experiments import Outcome, ProgramOutput, State

# So many processes may be starting while the next one is started: on two CPUs one waits for the other's files.
AHEAD = 1
# A slice of one thread that got less of its CPU than this is repeated, at most so many times.
LEAST_CPU_SHARE, REPEATS = 0.9, 3
SLICE = "slice"
# How many times as long, or as short, as the timing that decided the loops a row's slices may be. What is so far off
# is decided whatever its loops are; with more, slow rows would have most of the time.
MOST_TIMES = 2


def takes_slices(workload: Workload, benchmark: Benchmark) -> bool:
    """Return whether the benchmark's program lives for a block and is asked for slices.

    A service, another tool's program and one whose files must be dropped from the page cache before it starts are not.
    """
    return workload.kind == "program" and benchmark.command is None and not benchmark.cold


def fitting_loops(loops: int, slice_s: float, decisive_s: float) -> int:
    """Return so many loops that a slice takes up to `MOST_TIMES` times as long as what decided them, or as short."""
    while loops > 1 and slice_s > MOST_TIMES * decisive_s:
        loops, slice_s = loops // 2, slice_s / 2
    while slice_s < decisive_s / MOST_TIMES:
        loops, slice_s = loops * 2, slice_s * 2
    return loops


def takes_starts(benchmark: Benchmark) -> bool:
    """Return whether a whole process is what is timed: its starts take turns."""
    return benchmark.command is not None


@dataclass(frozen=True)
class Slice:
    """Seconds of a slice by the clock and of CPU time; `kept` unless it was repeated."""

    wall_s: float
    cpu_s: float
    kept: bool = True


@dataclass(frozen=True)
class BlockResult:
    """How a process of a block, or a row's starts, ended; times are in seconds.

    `busy_s` is what its start, its warm-ups and its slices took: the rest of its life it waited for its turn.
    """

    cell: Cell
    outcome: Outcome
    output: ProgramOutput | None
    ended: Ended
    busy_s: float
    group: int | None = None  # where the rows of its block were split


@dataclass
class Worker:
    """A process of a block that waits for its turn."""

    cell: Cell
    process: Process
    deadline_s: float
    busy_s: float = 0.0
    slices: list[Slice] = field(default_factory=list)
    ended: Ended | None = None
    begun: bool = False

    def begin(self) -> None:
        """Wait until it has warmed up; it has ended if it cannot do the work."""
        self.begun = True
        if self._asked(lambda: self.process.line(self.deadline_s)) != "ready":
            self.finish()

    def take(self, repeats: int) -> None:
        """Take a slice, and again as often as `repeats` allows while it gets too little of its CPU."""
        for left in range(repeats, -1, -1):
            try:
                found = self._slice()
            except ValueError as error:
                self.finish()
                self.ended = self.ended and replace(self.ended, exit_code=1, stderr=str(error))
                return
            if found is None:
                self.finish()
                return
            disturbed = found.cpu_s < LEAST_CPU_SHARE * found.wall_s
            self.slices.append(Slice(found.wall_s, found.cpu_s, kept=not (disturbed and left)))
            if not disturbed:
                return

    def _slice(self) -> Slice | None:
        """Return what a slice took; None if the process ends or reports instead, ValueError for times of no clock."""
        line = self._asked(lambda: self.process.ask(SLICE, self.deadline_s))
        words = (line or "").split()
        if len(words) != 2:
            return None
        with suppress(ValueError):
            wall_s, cpu_s = map(float, words)
            if 0 < wall_s <= MOST_SECONDS and 0 <= cpu_s <= MOST_SECONDS:
                return Slice(wall_s, cpu_s)
        raise ValueError(f"it answered {(line or '')[:80]!r} to a slice")

    def release(self) -> None:
        """Ask the process for its report, unless it has ended."""
        self._asked(self.process.close)

    def finish(self) -> None:
        """Ask the process for its report and wait for its end, unless it has ended."""
        if self.ended is None:
            self._asked(lambda: self.process.end(self.deadline_s))
        if self.ended is None:
            self.ended = ended_of(self.cell, self.process)

    def _asked(self, ask: Callable[[], str | None]) -> str | None:
        """Return its answer; without one in time it has ended, and with it its sandbox."""
        if self.ended is not None:
            return None
        start_s = time.monotonic()
        answer, self.ended = awaited(self.cell, self.process, ask)
        self.busy_s += time.monotonic() - start_s
        return answer


def awaited(cell: Cell, process: Process, ask: Callable[[], str | None]) -> tuple[str | None, Ended | None]:
    """Return what a process answers, or how it has ended because no answer came."""
    try:
        return ask(), None
    except ProcessTimeoutError:
        return None, Ended(None, text_of(process.stdout), text_of(process.stderr), True)
    except FloodError:
        return None, Ended(None, "", "", False, flooded=True)
    except EngineError as error:
        # Only this cell fails; its next process gets a new agent.
        cell.agent = None
        return None, Ended(1, text_of(process.stdout), error.found, False, cell.sandbox.has_no_memory_left())


def ended_of(cell: Cell, process: Process) -> Ended:
    """Return how a process ended, as the launcher says it."""
    stdout = text_of(process.stdout) + process.cost
    said = processes.parse_costs(process.cost)
    if not said:
        return Ended(1, stdout, "the launcher does not say how it ended", False)
    code = said[0].exit_code
    starved = code != 0 and cell.sandbox.has_no_memory_left()
    return Ended(code, stdout, text_of(process.stderr), False, starved)


def run_slices(
    session: Session, benchmark: Benchmark, cells: Sequence[Cell], number: int, on_start: Callable[[Cell], None]
) -> Iterator[BlockResult]:
    """Run a block of a program: yield how each process ended, a process per cell and several of the baseline.

    No two processes of a block are in one sandbox: those that share one are faster or slower than equal ones that do
    not (docs/decisions/0003-equal-rows.md).
    """
    rng = _order(session, benchmark, number)
    groups = groups_of(cells, session.resources.settings.baseline, rng)
    started = Counter[str]()
    for number_of_group, group in enumerate(groups):
        turns = Turns(session, benchmark, number_of_group if len(groups) > 1 else None)
        for cell in group:
            on_start(cell)
            failed = turns.start(sibling_of(session, cell, started[cell.subject.label]))
            started[cell.subject.label] += 1
            if failed:
                yield failed
        turns.await_ready()
        try:
            values = session.take(benchmark).values
            for _ in range(values):
                for worker in rng.sample(turns.workers, len(turns.workers)):
                    turns.do(worker, partial(worker.take, _repeats(benchmark, values)))
        finally:
            # Also if somebody ends the rounds: what was measured is kept.
            yield from turns.end_all()


def renew_pages(session: Session, cells: Sequence[Cell]) -> None:
    """Let the interpreters' files be read anew, to other pages of the memory.

    Which pages an interpreter has changes its speed by some per cent, and the page cache keeps them for as long as a
    container lives: a row would be off by the same share in all blocks. With other pages in each block the share is an
    error that blocks show and average out.
    """
    for cell in [member for one in cells for member in one.family]:
        facts = facts_of(cell.subject, session.resources.facts)
        if facts is None or not facts.mapped_files:
            continue
        try:
            agent_of(cell).drop(facts.mapped_files)
        except EngineError:
            cell.agent = None  # the process that is started next gets a new one, or says why there is none


def _order(session: Session, benchmark: Benchmark, number: int) -> random.Random:
    seed = f"{session.resources.settings.seed}/{session.workload.name}/{benchmark.name}/{number}"
    return random.Random(seed)  # noqa: S311  an order, not a secret


def _repeats(benchmark: Benchmark, values: int) -> int:
    """Return how often a disturbed slice may be repeated: CPU time is not disturbed, and what waits has less of it.

    A process that is to give a single value may be able to do its work only once.
    """
    return REPEATS if benchmark.threads == "one" and benchmark.clock == "wall" and values > 1 else 0


def groups_of(cells: Sequence[Cell], baseline: str, rng: random.Random) -> list[list[Cell]]:
    """Return groups of at most about 15 cells in a random order; a cell that is there several times has siblings.

    The baseline is in a block about as often as the square root of its rows says: all others are compared with it, and
    its error is in all ratios. The twin, which is in one ratio alone, is there half as often. Both are in each group.
    """
    twin = label_of(baseline, TWIN)
    others = [cell for cell in cells if cell.subject.label not in {baseline, twin}]
    rng.shuffle(others)
    count = max(1, -(-len(cells) // MOST_ROWS))
    root = round(len(cells) ** 0.5) if others else 1
    groups = [others[place::count] for place in range(count)]
    for label, times in ((baseline, max(count, root)), (twin, max(count, root // 2))):
        several = [cell for cell in cells if cell.subject.label == label]
        for turn in range(times):
            groups[turn % count] += several
    return [rng.sample(group, len(group)) for group in groups]


@dataclass
class Turns:
    """The processes of one group of a block."""

    session: Session
    benchmark: Benchmark
    group: int | None = None  # its number, if there are several
    workers: list[Worker] = field(default_factory=list)

    def start(self, cell: Cell) -> BlockResult | None:
        """Start a process, and wait for those that were started before; return how its set-up failed, if it did."""
        session, benchmark = self.session, self.benchmark
        outcome, ended = set_up(session, cell, benchmark)
        if outcome.state is not State.OK:
            return BlockResult(cell, outcome, None, ended, 0.0)
        argv = interpreter_argv(session, cell, benchmark, str(cell.loops[benchmark.name]), session.take(benchmark))
        process = agent_of(cell).start(
            ["--feed", *processes.launch_options(benchmark)],
            [*argv, "--slices"],
            environment_of(session, cell, benchmark),
        )
        self.workers.append(Worker(cell, process, deadline_of(session, cell, benchmark)))
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
                if other is worker or (other.ended is None and other.cell.subject == worker.cell.subject):
                    other.ended = worker.ended
                    replace_sandbox(self.session, other.cell)

    def end_all(self) -> list[BlockResult]:
        """Return how each process ended. They end at once."""
        for worker in self.workers:
            self.do(worker, worker.release)
        return [self.end(worker) for worker in self.workers]

    def end(self, worker: Worker) -> BlockResult:
        """Ask a process for its report, and return how it ended."""
        self.do(worker, worker.finish)
        ended = worker.ended or NOTHING_RUN
        outcome, output = judge_process(self.session.workload, self.benchmark, ended, deadline_s=worker.deadline_s)
        if output is not None and outcome.state is State.OK:
            output = without_repeated(output, worker.slices)
        return BlockResult(worker.cell, outcome, output, ended, worker.busy_s, self.group)


def without_repeated(output: ProgramOutput, slices: Sequence[Slice]) -> ProgramOutput:
    """Return a report without the slices that were repeated, which its metadata keeps, in seconds of loops.

    It may have one slice more: that during which somebody ended the rounds.
    """
    repeated = {place: one for place, one in enumerate(slices) if not one.kept}
    if not repeated:
        return output
    update = {
        "values": [value for place, value in enumerate(output.values) if place not in repeated],
        "cpu": [value for place, value in enumerate(output.cpu) if place not in repeated],
        "metadata": output.metadata | {"repeated_slices_s": " ".join(f"{one.wall_s:.9f}" for one in repeated.values())},
    }
    return output.model_copy(update=update)


def run_starts(
    session: Session, benchmark: Benchmark, cells: Sequence[Cell], number: int, on_start: Callable[[Cell], None]
) -> Iterator[BlockResult]:
    """Run a block of a command: yield how each row of starts ended, of which the first ones are warm-ups."""
    rng, take = _order(session, benchmark, number), session.take(benchmark)
    going_on = {cell.subject.label: cell for cell in cells}
    printed = {label: Ended(0, "", "", False) for label in going_on}
    failed: list[BlockResult] = []
    try:
        for _ in range(take.warmups + take.values):
            for label in rng.sample(sorted(going_on), len(going_on)):
                cell = going_on[label]
                on_start(cell)
                outcome, ended = _start_once(session, benchmark, cell)
                if outcome.state is not State.OK:
                    del going_on[label]
                    failed.append(BlockResult(cell, outcome, None, ended, 0.0))
                printed[label] = Ended(ended.exit_code, printed[label].stdout + ended.stdout, ended.stderr, False)
    finally:
        # Also if somebody ends the rounds: the starts that were timed are kept.
        yield from failed
        for label, cell in going_on.items():
            costs = processes.parse_costs(printed[label].stdout)
            if len(costs) > take.warmups:
                yield BlockResult(cell, OK, None, printed[label], sum(cost.wall_s for cost in costs))


def _start_once(session: Session, benchmark: Benchmark, cell: Cell) -> tuple[Outcome, Ended]:
    """Start a command and wait for its end. One that was disturbed is not repeated: a start waits for its files too."""
    outcome, ended = set_up(session, cell, benchmark)
    if outcome.state is not State.OK:
        return outcome, ended
    argv = interpreter_argv(session, cell, benchmark, "1", None)
    process = agent_of(cell).start(
        processes.launch_options(benchmark, benchmark.parallel), argv, environment_of(session, cell, benchmark)
    )
    limit_s = deadline_of(session, cell, benchmark)
    _, late = awaited(cell, process, lambda: process.wait(limit_s))
    ended = late or ended_of(cell, process)
    if ended.took_sandbox:
        replace_sandbox(session, cell)
    outcome, _ = judge_process(session.workload, benchmark, ended, deadline_s=limit_s)
    if outcome.state is State.OK:
        outcome = all_reported(benchmark, ended, 1)
    return outcome, ended
