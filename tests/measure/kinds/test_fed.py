"""Who is in a block, in which order rows give their values, which are taken again, and what ends a process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from interlock.catalog.types import split_label
from interlock.engine.agent import Agent, ProcessTimeoutError
from interlock.engine.ended import Ended
from interlock.errors import EngineError, FloodError, Interrupted
from interlock.measure.cells import Cell
from interlock.measure.kinds import fed
from interlock.measure.kinds.choosing import kind_of_track
from interlock.measure.kinds.fed import TimedValue, Worker
from interlock.measure.sessions import Session
from interlock.measure.slots import Slot
from interlock.measure.tracks import Result, Track, fitting_loops
from interlock.results.experiments import Estimator, ProgramOutput, State, Subject, by_block
from tests.builders import (
    ScriptedChannel,
    ScriptedNetwork,
    ScriptedSandbox,
    make_benchmark,
    make_ended,
    make_network,
    make_resources,
    make_values,
    make_workload,
)


def rows_of(*labels: str, network: ScriptedNetwork | None = None, **resources: Any) -> list[Track]:
    """The track of each row of a program, in sandboxes of their own."""
    network = network or make_network(lambda *_: make_ended())
    session = Session(make_resources(**resources), make_workload(), network)
    parted = [split_label(label) for label in labels]
    cells = [Cell(session, Subject(variant=variant, image_id="i", mode=mode)) for variant, mode in parted]
    return [track for cell in cells if cell.slot() for track in cell.tracks.values()]


def parts_of(*labels: str) -> list[list[str]]:
    return [[track.label for track in part] for part in fed.parts_of(rows_of(*labels), "base", random.Random(1))]


def test_up_to_fifteen_rows_are_one_block_with_the_baseline_as_often_as_their_root() -> None:
    (part,) = parts_of("base", "base+twin", *(f"v{number}" for number in range(8)))
    assert Counter(part) == {"base": 3, "base+twin": 1} | {f"v{number}": 1 for number in range(8)}


def test_more_rows_are_split_and_the_baseline_is_in_each_part() -> None:
    parts = parts_of("base", "base+twin", *(f"v{number}" for number in range(55)))
    assert len(parts) == 4
    assert all("base" in part for part in parts)
    count = Counter(label for part in parts for label in part)
    assert (count["base"], count["base+twin"]) == (8, 4)
    assert {count[f"v{number}"] for number in range(55)} == {1}
    assert max(len(set(part) - {"base", "base+twin"}) for part in parts) <= 15


def test_the_baseline_alone_is_measured_once() -> None:
    (part,) = parts_of("base", "base+twin")
    assert sorted(part) == ["base", "base+twin"]


class Answers:
    """A process that answers each request with the next of these lines, or so that its error is raised."""

    def __init__(self, *lines: str | Exception | None) -> None:
        self.lines = list(lines)
        self.stdout, self.stderr = bytearray(), bytearray()
        self.cost = '{"interlock_process": {"wall_s": 1, "user_s": 1, "sys_s": 0, "max_rss_bytes": 1, '
        self.cost += '"voluntary_switches": 0, "involuntary_switches": 0, "exit_code": 1, "signal": 0}}'

    def ask(self, _line: str, _limit_s: float) -> str | None:
        line = self.lines.pop(0)
        if isinstance(line, Exception):
            raise line
        return line

    def end(self, _limit_s: float) -> None:
        pass


class Told:
    """An agent that keeps what it is told, and whose processes do."""

    def __init__(self, label: str, told: list[str]) -> None:
        self.label, self.told = label, told

    def start(self, *_: object) -> Told:
        self.told.append(f"start {self.label}")
        return self

    def line(self, _limit_s: float) -> str:
        self.told.append(f"ready {self.label}")
        return "ready"

    def drop(self, files: list[str]) -> None:
        if self.label == "gone":
            raise EngineError(found="it is gone", todo="")
        self.told.append(f"{self.label} drops {' '.join(files)}")


def told_by(tracks: list[Track]) -> list[str]:
    """What the agents of rows are told from now on."""
    told: list[str] = []
    for track in tracks:
        for slot in track.cell.slots:
            slot.agent = Told(track.label, told)  # type: ignore[assignment]
    return told


def part_of(tracks: list[Track], workers: Sequence[Worker] = ()) -> fed.Part:
    return fed.Part(kind_of_track(tracks[0]), workers=list(workers))


def test_a_process_starts_while_the_one_before_it_warms_up() -> None:
    tracks = rows_of("a", "b", "c")
    told, part = told_by(tracks), part_of(tracks)
    for track in tracks:
        assert part.start(track, track.cell.slot()) is None
    part.await_ready()
    assert told == ["start a", "start b", "ready a", "start c", "ready b", "ready c"]


def test_each_process_of_a_block_is_in_a_sandbox_of_its_own_and_its_values_are_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[tuple[str, int]] = []
    start = fed.Part.start

    def starting(part: fed.Part, track: Track, slot: Slot) -> Result | None:
        used.append((track.label, id(slot.sandbox)))
        return start(part, track, slot)

    monkeypatch.setattr(fed.Part, "start", starting)
    network = make_network(lambda *_: make_ended('{"interlock": 1, "loops": 8, "inner_loops": 1, "values": [0.5]}\n'))
    tracks = rows_of("base", "base+twin", *(f"v{number}" for number in range(14)), network=network)
    opened = len(network.surroundings)
    for number in (1, 2):
        used.clear()
        results = list(kind_of_track(tracks[0]).block(tracks, number, lambda _: None))
        assert Counter(label for label, _ in used)["base"] == 4
        assert len(set(used)) == len(used) == len(results)
    # The baseline's four and the twin's two: no more are opened for the second block.
    assert [len(track.cell.slots) for track in tracks] == [4, 2, *[1] * 14]
    assert len(network.surroundings) - opened == 4
    assert {id(result.track) for result in results if result.track.label == "base"} == {id(tracks[0])}


def worker_in(track: Track, process: Any) -> Worker:
    return Worker(track, track.cell.slot(), process, 5)


def test_a_process_that_hangs_ends_the_others_of_its_row_and_no_others() -> None:
    tracks = rows_of("base", "base", "base+twin", "a")
    before = [track.cell.slot().sandbox for track in tracks]
    part = part_of(tracks, [worker_in(track, Answers()) for track in tracks])

    def hang() -> None:
        part.workers[1].ended = make_ended(timed_out=True)

    part.do(part.workers[1], hang)
    assert [worker.ended is not None for worker in part.workers] == [True, True, False, False]
    kept = [track.cell.slot().sandbox is old for track, old in zip(tracks, before, strict=True)]
    assert kept == [False, False, True, True]


def test_processes_end_at_once() -> None:
    seen: list[str] = []

    class Ending(Answers):
        def __init__(self, label: str) -> None:
            super().__init__()
            self.label = label

        def close(self) -> None:
            seen.append(f"close {self.label}")

        def end(self, _limit_s: float) -> None:
            seen.append(f"end {self.label}")

    tracks = rows_of("a", "b", "c")
    part = part_of(tracks, [worker_in(track, Ending(track.label)) for track in tracks])
    for worker in part.workers:
        worker.values.append(TimedValue(0.1, 0.1))
    results = part.end_all()
    assert seen == ["close a", "close b", "close c", "end a", "end b", "end c"]
    assert [result.track for result in results] == tracks


def test_a_row_that_had_no_turn_before_somebody_ended_the_rounds_has_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its program reports no value, which is no measurement: Ctrl-C failed the row, and --resume left it out."""
    turns: list[str] = []
    take = Worker.take

    def cut(worker: Worker, repeats: int) -> None:
        if len(turns) == 2:
            raise Interrupted
        turns.append(worker.track.label)
        take(worker, repeats)

    monkeypatch.setattr(Worker, "take", cut)
    report = '{"interlock": 1, "fed": true, "loops": 8, "inner_loops": 1, "values": [0.5]}\n'
    tracks = rows_of("a", "b", "c", network=make_network(lambda *_: make_ended(report)))
    kept: list[Result] = []
    with suppress(Interrupted):
        kept.extend(kind_of_track(tracks[0]).block(tracks, 1, lambda _: None))
    assert sorted(result.track.label for result in kept) == sorted(turns)
    assert {result.outcome.state for result in kept} == {State.OK}


@pytest.mark.parametrize(
    ("loops", "value_s", "expected"),
    [(64, 0.02, 64), (64, 0.021, 32), (64, 0.9, 1), (1, 9.0, 1), (64, 0.005, 64), (64, 0.0049, 128), (1, 0.0001, 64)],
)
def test_a_value_is_up_to_twice_as_long_or_short_as_what_decided_its_loops(
    loops: int, value_s: float, expected: int
) -> None:
    assert fitting_loops(loops, value_s, 0.01) == expected


def worker_of(*lines: str | Exception | None) -> Worker:
    (track,) = rows_of("a")
    return worker_in(track, Answers(*lines))


def test_a_value_that_got_its_cpu_is_taken_once() -> None:
    worker = worker_of("0.1 0.095", "0.1 0.01")
    worker.take(repeats=3)
    assert worker.values == [TimedValue(0.1, 0.095)]


def test_a_disturbed_value_is_taken_again_and_the_last_one_counts_whatever_it_got() -> None:
    worker = worker_of("0.3 0.1", "0.2 0.1", "0.1 0.1")
    worker.take(repeats=3)
    assert [value.kept for value in worker.values] == [False, False, True]
    worker = worker_of(*["0.3 0.1"] * 9)
    worker.take(repeats=3)
    assert [value.kept for value in worker.values] == [False, False, False, True]


@pytest.mark.parametrize("line", ["a b", "inf 1", "nan nan", "-1 0", "0 0", "1e300 0", "1 -1"])
def test_a_value_of_a_time_that_no_clock_shows_fails_its_process(line: str) -> None:
    worker = worker_of(line)
    worker.take(repeats=3)
    assert worker.ended is not None
    assert (worker.ended.exit_code, worker.values) == (1, [])
    assert repr(line) in worker.ended.stderr


@pytest.mark.parametrize(
    ("changes", "values", "repeats"),
    [
        ({}, 4, 0),
        ({"threads": "one", "clock": "cpu"}, 4, 0),
        ({"threads": "one"}, 4, fed.REPEATS),
        ({"threads": "one"}, 1, 0),  # the list of import-stdlib can be imported once
    ],
)
def test_work_that_waits_or_is_done_once_is_not_repeated(changes: dict[str, Any], values: int, repeats: int) -> None:
    assert fed.repeats_of(make_benchmark("x", **changes), values) == repeats


@pytest.mark.parametrize("is_cut", [False, True])  # by an end of the rounds, during the last value
def test_what_was_taken_again_is_no_value_and_is_kept_beside_them(is_cut: bool) -> None:
    told: dict[str, Any] = {"work_user_s": 0.6, "work_involuntary_switches": 3, "work_sys_s": "?", "gil_enabled": True}
    output = ProgramOutput(interlock=1, loops=1, values=[0.3, 0.1, 0.2], cpu=[0.1, 0.1, 0.2], metadata=told)
    values = [TimedValue(0.3, 0.1, kept=False), TimedValue(0.1, 0.1), TimedValue(0.2, 0.2)]
    found = fed.without_repeated(output, values[:2] if is_cut else values)
    assert (found.values, found.cpu) == ([0.1, 0.2], [0.1, 0.2])
    assert str(found.metadata["repeated_slices_s"]).split() == ["0.300000000"]
    # What the work used is that of the values that are left.
    assert found.metadata["work_user_s"] == pytest.approx(0.4)
    assert found.metadata["work_involuntary_switches"] == pytest.approx(2)
    assert (found.metadata["work_sys_s"], found.metadata["gil_enabled"]) == ("?", True)


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        (None, Ended(1)),
        (FloodError(found="it printed more than 16 MiB", todo=""), Ended(None, flooded=True)),
        (ProcessTimeoutError(), Ended(None, timed_out=True)),
        (EngineError(found="it is gone", todo=""), Ended(1, stderr="it is gone")),
    ],
    ids=["it ends instead", "it prints too much", "it does not answer in time", "its agent is gone"],
)
def test_a_process_without_an_answer_has_ended_and_one_without_its_agent_gets_another(
    answer: Exception | None, ended: Ended
) -> None:
    worker = worker_of(answer)
    agent = worker.slot.agent = Agent(ScriptedChannel(ScriptedSandbox("a", lambda *_: make_ended())))
    worker.take(repeats=0)
    assert worker.ended is not None
    assert replace(worker.ended, stdout="") == ended
    assert worker.values == []
    assert worker.slot.agent is (None if isinstance(answer, EngineError) else agent)


def test_the_lower_decile_is_not_moved_by_slow_values() -> None:
    assert Estimator.LOWER_DECILE.of([1.0, 1.0, *[9.0] * 9]) == 1.0
    assert Estimator.MEAN.of([1.0, 4.0]) == 2.5
    assert Estimator.LOWER_DECILE.of([5.0]) == 5.0


def test_a_row_whose_block_was_split_is_compared_part_by_part() -> None:
    processes = make_values([1.0], [4.0], [3.0], [5.0])
    values = processes.model_copy(update={"blocks": [1, 1, 1, 2], "groups": [0, 0, 1, 0]})
    assert values.block_figures == [{0: pytest.approx(2.0), 1: 3.0}, {0: 5.0}]
    assert values.figures == [pytest.approx(12 ** (1 / 3)), 5.0]
    # The figure of a block is the mean of its processes.
    whole = processes.model_copy(update={"blocks": [1, 1, 2, 2]})
    assert whole.block_figures == whole.figures == [pytest.approx(2.0), pytest.approx(15**0.5)]
    assert by_block([0.0, 2.0], [1, 1]) == [1.0]
