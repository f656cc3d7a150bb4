"""Who is in a block, in which order rows take their turns, which slices are repeated, and what ends a process."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from interlock.engine.agent import Agent, Process, ProcessTimeoutError
from interlock.engine.protocol import Ended
from interlock.errors import EngineError, FloodError
from interlock.measure import blocks
from interlock.measure.blocks import Slice, Worker
from interlock.measure.cells import Cell, Session
from interlock.results.experiments import BenchmarkValues, Estimator, ProgramOutput, Subject, by_block
from tests.builders import (
    ScriptedChannel,
    ScriptedSandbox,
    make_benchmark,
    make_ended,
    make_facts,
    make_network,
    make_resources,
    make_values,
    make_workload,
)


def cell_of(label: str, answer: Callable[[ScriptedSandbox, list[str]], Ended] = lambda *_: make_ended()) -> Cell:
    variant, _, mode = label.partition("+")
    return Cell(Subject(variant=variant, image_id="i", mode=mode or None), ScriptedSandbox(label, answer))


def labels_of(groups: list[list[Cell]]) -> list[list[str]]:
    return [[cell.subject.label for cell in group] for group in groups]


def test_up_to_fifteen_rows_are_one_block_with_the_baseline_as_often_as_their_root() -> None:
    cells = [cell_of(label) for label in ("base", "base+twin", *(f"v{number}" for number in range(8)))]
    (group,) = labels_of(blocks.groups_of(cells, "base", random.Random(1)))
    assert Counter(group) == {"base": 3, "base+twin": 1} | {f"v{number}": 1 for number in range(8)}


def test_more_rows_are_split_and_the_baseline_is_in_each_group() -> None:
    cells = [cell_of(label) for label in ("base", "base+twin", *(f"v{number}" for number in range(55)))]
    groups = labels_of(blocks.groups_of(cells, "base", random.Random(1)))
    assert len(groups) == 4
    assert all("base" in group for group in groups)
    count = Counter(label for group in groups for label in group)
    assert (count["base"], count["base+twin"]) == (8, 4)
    assert {count[f"v{number}"] for number in range(55)} == {1}
    assert max(len(set(group) - {"base", "base+twin"}) for group in groups) <= 15


def test_the_baseline_alone_is_measured_once() -> None:
    groups = labels_of(blocks.groups_of([cell_of("base"), cell_of("base+twin")], "base", random.Random(1)))
    assert sorted(groups[0]) == ["base", "base+twin"]


@pytest.mark.parametrize(
    ("kind", "changes", "slices", "starts"),
    [
        ("program", {}, True, False),
        ("program", {"cold": True}, False, False),
        ("program", {"command": ["-c", "pass"]}, False, True),
        ("service", {}, False, False),
    ],
)
def test_programs_take_slices_and_commands_starts(kind: str, changes: dict, slices: bool, starts: bool) -> None:  # type: ignore[type-arg]
    workload = make_workload().model_copy(update={"kind": kind})
    benchmark = make_benchmark("x", **changes)
    assert (blocks.takes_slices(workload, benchmark), blocks.takes_starts(workload, benchmark)) == (slices, starts)


class Answers:
    """A process that answers each request with the next of these lines."""

    def __init__(self, *lines: str | None) -> None:
        self.lines = list(lines)
        self.asked = 0
        self.stdout, self.stderr = bytearray(), bytearray()
        self.cost = '{"interlock_process": {"wall_s": 1, "user_s": 1, "sys_s": 0, "max_rss_bytes": 1, '
        self.cost += '"voluntary_switches": 0, "involuntary_switches": 0, "exit_code": 1, "signal": 0}}'

    def ask(self, _line: str, _limit_s: float) -> str | None:
        self.asked += 1
        if not self.lines:
            raise EngineError(found="it is gone", todo="")
        return self.lines.pop(0)

    def end(self, _limit_s: float) -> None:
        pass


def test_a_process_starts_while_the_one_before_it_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Starting:
        def __init__(self, label: str) -> None:
            self.label = label

        def start(self, *_: object) -> Starting:
            seen.append(f"start {self.label}")
            return self

        def line(self, _limit_s: float) -> str:
            seen.append(f"ready {self.label}")
            return "ready"

    monkeypatch.setattr(blocks, "agent_of", lambda cell: Starting(cell.subject.label))
    session = Session(make_resources(), make_workload(), make_network(lambda *_: make_ended()))
    turns = blocks.Turns(session, session.workload.benchmarks[0])
    for cell in map(cell_of, "abc"):
        cell.loops[turns.benchmark.name] = 8
        assert turns.start(cell) is None
    turns.await_ready()
    assert seen == ["start a", "start b", "ready a", "start c", "ready b", "ready c"]


def test_a_block_begins_without_the_pages_that_interpreters_had_before(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[tuple[str, list[str]]] = []

    class Dropping:
        def __init__(self, label: str) -> None:
            self.label = label

        def drop(self, files: list[str]) -> None:
            if self.label == "gone":
                raise EngineError(found="it is gone", todo="")
            dropped.append((self.label, files))

    monkeypatch.setattr(blocks, "agent_of", lambda cell: Dropping(cell.subject.label))
    known = {name: make_facts(mapped_files=[f"/{name}"]) for name in ("base", "base+mode", "gone")}
    resources = make_resources(facts=known | {"old": make_facts()})
    session = Session(resources, make_workload(), make_network(lambda *_: make_ended()))
    cells = [cell_of(label) for label in ("base", "base+twin", "base+mode", "gone", "old", "silent")]
    cells[2].siblings.append(cell_of("base+mode"))
    blocks.renew_pages(session, cells)
    assert dropped == [("base", ["/base"]), ("base+twin", ["/base"]), *[("base+mode", ["/base+mode"])] * 2]


def test_each_process_of_a_block_is_in_a_sandbox_of_its_own_and_its_values_are_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[tuple[str, int]] = []
    start = blocks.Turns.start

    def starting(turns: blocks.Turns, cell: Cell) -> blocks.BlockResult | None:
        used.append((cell.subject.label, id(cell.sandbox)))
        return start(turns, cell)

    monkeypatch.setattr(blocks.Turns, "start", starting)
    network = make_network(lambda *_: make_ended('{"interlock": 1, "loops": 8, "inner_loops": 1, "values": [0.5]}\n'))
    session = Session(make_resources(), make_workload(), network)
    (benchmark,) = session.workload.benchmarks
    rows = [cell_of(label) for label in ("base", "base+twin", *(f"v{number}" for number in range(14)))]
    for cell in rows:
        cell.loops[benchmark.name] = 8
    for number in (1, 2):
        used.clear()
        found = list(blocks.run_slices(session, benchmark, rows, number, lambda _: None))
        assert Counter(label for label, _ in used)["base"] == 4
        assert len(set(used)) == len(used)
        assert len(found) == len(used)
    # The baseline's four and the twin's two: no more are opened for the second block.
    assert [len(cell.siblings) for cell in rows] == [3, 1, *[0] * 14]
    assert len(network.surroundings) == 4
    yielded = {id(one.cell.runs) for one in found if one.cell.subject.label == "base"}
    assert yielded == {id(rows[0].runs)}


def test_a_process_that_hangs_ends_the_others_of_its_row_and_no_others() -> None:
    session = Session(make_resources(), make_workload(), make_network(lambda *_: make_ended()))
    turns = blocks.Turns(session, session.workload.benchmarks[0])
    cells = [cell_of(label) for label in ("base", "base", "base+twin", "a")]
    before = [cell.sandbox for cell in cells]
    turns.workers += [Worker(cell, Answers(), 5) for cell in cells]  # type: ignore[arg-type]

    def hang() -> None:
        turns.workers[1].ended = make_ended(timed_out=True)

    turns.do(turns.workers[1], hang)
    assert [worker.ended is not None for worker in turns.workers] == [True, True, False, False]
    assert [cell.sandbox is old for cell, old in zip(cells, before, strict=True)] == [False, False, True, True]


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

    session = Session(make_resources(), make_workload(), make_network(lambda *_: make_ended()))
    cells = [cell_of(label) for label in "abc"]
    turns = blocks.Turns(session, session.workload.benchmarks[0])
    turns.workers += [Worker(cell, Ending(cell.subject.label), 5) for cell in cells]  # type: ignore[arg-type]
    found = turns.end_all()
    assert seen == ["close a", "close b", "close c", "end a", "end b", "end c"]
    assert [one.cell for one in found] == cells


@pytest.mark.parametrize(
    ("loops", "slice_s", "expected"),
    [(64, 0.02, 64), (64, 0.021, 32), (64, 0.9, 1), (1, 9.0, 1), (64, 0.005, 64), (64, 0.0049, 128), (1, 0.0001, 64)],
)
def test_a_slice_is_up_to_twice_as_long_or_short_as_what_decided_its_loops(
    loops: int, slice_s: float, expected: int
) -> None:
    assert blocks.fitting_loops(loops, slice_s, 0.01) == expected


def worker_of(*lines: str | None) -> Worker:
    return Worker(cell_of("a"), Answers(*lines), 5)  # type: ignore[arg-type]


def test_a_slice_that_got_its_cpu_is_taken_once() -> None:
    worker = worker_of("0.1 0.095", "0.1 0.01")
    worker.take(repeats=3)
    assert worker.slices == [Slice(0.1, 0.095)]


def test_a_disturbed_slice_is_taken_again_and_the_last_one_counts_whatever_it_got() -> None:
    worker = worker_of("0.3 0.1", "0.2 0.1", "0.1 0.1")
    worker.take(repeats=3)
    assert [one.kept for one in worker.slices] == [False, False, True]
    worker = worker_of(*["0.3 0.1"] * 9)
    worker.take(repeats=3)
    assert [one.kept for one in worker.slices] == [False, False, False, True]


@pytest.mark.parametrize("line", ["a b", "inf 1", "nan nan", "-1 0", "0 0", "1e300 0", "1 -1"])
def test_a_slice_of_a_time_that_no_clock_shows_fails_its_process(line: str) -> None:
    worker = worker_of(line)
    worker.take(repeats=3)
    assert worker.ended is not None
    assert (worker.ended.exit_code, worker.slices) == (1, [])
    assert repr(line) in worker.ended.stderr


def test_work_that_waits_is_never_repeated() -> None:
    assert blocks._repeats(make_benchmark("x"), 4) == 0
    assert blocks._repeats(make_benchmark("x", threads="one", clock="cpu"), 4) == 0
    assert blocks._repeats(make_benchmark("x", threads="one"), 4) == blocks.REPEATS


def test_a_process_that_gives_one_value_is_not_asked_for_its_work_twice() -> None:
    """The list of import-stdlib can be imported once."""
    assert blocks._repeats(make_benchmark("x", threads="one"), 1) == 0


def test_repeated_slices_are_no_values_and_are_kept_beside_them() -> None:
    output = ProgramOutput(interlock=1, loops=1, values=[0.3, 0.1, 0.2], cpu=[0.1, 0.1, 0.2])
    slices = [Slice(0.3, 0.1, kept=False), Slice(0.1, 0.1), Slice(0.2, 0.2)]
    found = blocks.without_repeated(output, slices)
    assert (found.values, found.cpu) == ([0.1, 0.2], [0.1, 0.2])
    assert str(found.metadata["repeated_slices_s"]).split() == ["0.300000000"]


def test_a_slice_that_was_cut_by_an_end_of_the_rounds_is_a_value_beside_repeated_ones() -> None:
    output = ProgramOutput(interlock=1, loops=1, values=[0.3, 0.1, 0.2], cpu=[0.1, 0.1, 0.2])
    found = blocks.without_repeated(output, [Slice(0.3, 0.1, kept=False), Slice(0.1, 0.1)])
    assert (found.values, found.cpu) == ([0.1, 0.2], [0.1, 0.2])


def test_an_agent_that_is_gone_while_a_command_runs_fails_its_cell_too() -> None:
    cell = cell_of("a")
    cell.agent = Agent(ScriptedChannel(ScriptedSandbox("a", lambda *_: make_ended())))

    def gone() -> None:
        raise EngineError(found="it is gone", todo="")

    answer, ended = blocks.awaited(cell, Answers(), gone)  # type: ignore[arg-type]
    assert ended is not None
    assert (answer, ended.exit_code, ended.stderr) == (None, 1, "it is gone")
    assert cell.agent is None


def test_a_process_that_ends_instead_of_an_answer_has_its_exit_code() -> None:
    worker = worker_of(None)
    worker.take(repeats=0)
    assert worker.ended is not None
    assert (worker.ended.exit_code, worker.ended.timed_out, worker.slices) == (1, False, [])


def test_a_process_that_prints_too_much_takes_its_sandbox_and_fails() -> None:
    worker = worker_of()

    def print_much(_line: str, _limit_s: float) -> str:
        raise FloodError(found="it printed more than 16 MiB", todo="")

    worker.process.ask = print_much  # type: ignore[assignment]
    worker.take(repeats=0)
    assert worker.ended is not None
    assert (worker.ended.flooded, worker.ended.took_sandbox) == (True, True)


def test_an_agent_that_is_gone_fails_its_cell_alone_which_gets_another() -> None:
    worker = worker_of()
    worker.cell.agent = Agent(ScriptedChannel(ScriptedSandbox("a", lambda *_: make_ended())))
    worker.take(repeats=0)
    assert worker.ended is not None
    assert (worker.ended.exit_code, worker.ended.stderr, worker.ended.took_sandbox) == (1, "it is gone", False)
    assert worker.cell.agent is None


def test_a_process_that_does_not_answer_has_timed_out() -> None:
    agent = Agent(ScriptedChannel(ScriptedSandbox("a", lambda *_: make_ended(timed_out=True))))
    worker = Worker(cell_of("a"), Process(agent, 0), 0.01)
    worker.begin()
    assert worker.ended is not None
    assert worker.ended.timed_out
    with pytest.raises(ProcessTimeoutError):
        worker.process.wait(0.01)


def test_the_figure_of_a_block_is_the_mean_of_its_processes() -> None:
    values = BenchmarkValues(
        processes=[[1.0], [4.0], [3.0]], blocks=[1, 1, 2], estimator=Estimator.MEDIAN, max_rss_bytes=1
    )
    assert values.figures == [pytest.approx(2.0), 3.0]
    assert by_block([0.0, 2.0], [1, 1]) == [1.0]


def test_the_lower_decile_is_not_moved_by_slow_values() -> None:
    assert Estimator.LOWER_DECILE.of([1.0, 1.0, *[9.0] * 9]) == 1.0
    assert Estimator.MEDIAN.of([1.0, 3.0]) == 2.0
    assert Estimator.LOWER_DECILE.of([5.0]) == 5.0


def test_a_row_whose_block_was_split_is_compared_group_by_group() -> None:
    processes = make_values([1.0], [4.0], [3.0], [5.0])
    values = processes.model_copy(update={"blocks": [1, 1, 1, 2], "groups": [0, 0, 1, 0]})
    assert values.block_figures == [{0: pytest.approx(2.0), 1: 3.0}, {0: 5.0}]
    assert values.figures == [pytest.approx(12 ** (1 / 3)), 5.0]
    assert make_values([1.0]).block_figures == [1.0]
