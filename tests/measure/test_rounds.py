"""When rounds are enough, what they took, and what a cell is told by processes; the engine's answers are made up."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.analysis.verdicts import Verdict
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Benchmark, Limit, Workload
from interlock.engine.protocol import Ended
from interlock.errors import EngineError, Interrupted, UnsupportedHereError, WorkloadError
from interlock.measure import blocks, cells, disturbances, processes, rounds, schedule
from interlock.measure import workload as workloads
from interlock.measure.cells import Cell, Look, ProgressUpdate, Session
from interlock.measure.ending import Ending
from interlock.measure.processes import values_of
from interlock.measure.rounds import TimeUsed
from interlock.results.experiments import BLOCK, Estimator, State, Subject
from tests.builders import (
    OK,
    ScriptedSandbox,
    make_benchmark,
    make_built,
    make_cost,
    make_ended,
    make_facts,
    make_network,
    make_resources,
    make_settings,
    make_workload,
)


def printed(value_s: float, loops: str, **metadata: bool) -> str:
    """What the launcher and a program print for one process."""
    report: dict[str, Any] = {"interlock": 1, "slices": True, "loops": 1, "inner_loops": 1}
    report |= {"values": [value_s], "metadata": metadata}
    if loops == "auto":
        report |= {"values": [], "calibration": [[1, value_s]]}
    return json.dumps(report) + "\n" + cost_of_launcher()


def cost_of_launcher() -> str:
    return json.dumps({"interlock_process": make_cost(1.5).model_dump()}) + "\n"


def loops_of(argv: list[str]) -> str:
    """The loops that a process is asked for; one that takes slices gives values, also where it calibrates before."""
    return "1" if "--slices" in argv else argv[argv.index("--loops") + 1]


class Engine:
    """Answers in the engine's place: for each label, how a process ends, given its number and the loops."""

    def __init__(self, **answers: Callable[[int, str], Ended]) -> None:
        self.answers = answers
        self.started: Counter[str] = Counter()
        self.steps: list[ProgressUpdate] = []
        self.looks: list[Look] = []

    def run(self, sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        number = self.started[sandbox.id]
        self.started[sandbox.id] += 1
        return self.answers[sandbox.id](number, loops_of(argv))

    def session(self, **settings: Any) -> Session:
        resources = make_resources(
            settings=make_settings(["base"]).model_copy(update=settings),
            on_progress=self.steps.append,
            on_look=self.looks.append,
        )
        return Session(resources, make_workload(), make_network(self.run))

    def cells(self) -> list[Cell]:
        return [
            Cell(Subject(variant=label, image_id=label), ScriptedSandbox(label, self.run)) for label in self.answers
        ]


def run_rounds(session: Session, open_cells: list[Cell], spent: TimeUsed) -> list[list[str]]:
    order = rounds.RoundOrder()
    rounds._rounds(session, open_cells, spent, order)
    return order.rounds


def steady(_number: int, loops: str) -> Ended:
    return make_ended(printed(0.5, loops))


def unsteady(number: int, loops: str) -> Ended:
    """Answer on either side of `steady`, so far from it that no number of rounds would decide."""
    return make_ended(printed((0.4, 0.63)[number % 2], loops))


def slow(_number: int, loops: str) -> Ended:
    return make_ended(printed(1.5, loops))


def nearly(number: int, loops: str) -> Ended:
    """Answer so that about three more rounds would decide, however many there were."""
    values = (0.52, 0.51, 0.57, 0.6, 0.515, 0.585, 0.53, 0.6)
    return make_ended(printed(values[number % len(values)], loops))


def open_and_near(number: int, loops: str) -> Ended:
    """Answer so that one to four more rounds would decide among five rows, however many there were."""
    values = (0.5, 0.5, 0.53, 0.6, 0.515, 0.62, 0.5, 0.56)
    return make_ended(printed(values[number % len(values)], loops))


def test_without_a_limit_there_are_as_many_rounds_as_asked_for() -> None:
    engine = Engine(base=steady, a=steady)
    order = run_rounds(engine.session(rounds=4), engine.cells(), TimeUsed())
    assert len(order) == 1 + 4
    # Round 0 asks the baseline alone whether the program takes slices.
    assert engine.started == {"base": 5, "a": 4}


@pytest.mark.parametrize(
    "bad",
    [
        '{"interlock_process": oops\n',
        '{"interlock": 1, "loops": 1, "values": [Infinity]}\n',
        '{"interlock": 1, "loops": 1, "values": [5e-324]}\n',
        '{"interlock": 1, "loops": 1, "calibration": [[1, 1e300]]}\n',
    ],
    ids=lambda one: str(one)[:50],
)
@pytest.mark.parametrize("when", [0, 1, 2])
def test_what_one_process_prints_fails_its_own_cell_and_the_others_go_on(bad: str, when: int) -> None:
    def answer(number: int, loops: str) -> Ended:
        return make_ended(bad + cost_of_launcher() if number == when else printed(0.5, loops))

    engine = Engine(base=steady, a=answer)
    base, a = engine.cells()
    run_rounds(engine.session(rounds=4), [base, a], TimeUsed())
    name = make_workload().benchmarks[0].name
    assert a.outcomes[name].state is State.FAILED
    assert base.goes_on(make_workload().benchmarks[0])
    assert len([run for run in base.runs[name] if run.values]) >= 4


def test_an_error_in_reading_what_a_process_printed_is_its_cells_failure() -> None:
    (cell,), benchmark = Engine(a=steady).cells(), make_benchmark("x")
    gone = WorkloadError(found="gone", todo="")
    for error in (ValueError("value must be\nfinite"), OverflowError("too large"), gone):
        cell.outcomes.clear()
        with rounds.failing(cell, benchmark):
            raise error
        assert cell.outcomes["x"].state is State.FAILED
    with rounds.failing(cell, benchmark):
        raise UnsupportedHereError(found="no such program here", todo="")
    assert cell.outcomes["x"].state is State.UNSUPPORTED
    with pytest.raises(EngineError), rounds.failing(cell, benchmark):
        raise EngineError(found="it does not answer", todo="")


@pytest.mark.parametrize(("answer", "expected"), [(steady, 4), (nearly, 7), (unsteady, 4)])
def test_rounds_go_on_until_all_is_decided_or_out_of_reach_or_the_limit_is_reached(
    answer: Callable[[int, str], Ended], expected: int
) -> None:
    engine = Engine(base=steady, a=answer)
    session = engine.session(rounds=4, rounds_limit=7)
    assert len(run_rounds(session, engine.cells(), TimeUsed())) == 1 + expected
    assert {step.total for step in engine.steps} == {2 * (1 + 7)}
    assert engine.steps[0].activity == "round 0 of 4 to 7"


def test_a_benchmark_that_is_known_well_enough_leaves_the_rounds_to_the_others() -> None:
    started = Counter[tuple[str, str]]()

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        name = "wild" if "wild" in argv else "calm"
        started[name, sandbox.id] += 1
        answer = nearly if (name, sandbox.id) == ("wild", "a") else steady
        return answer(started[name, sandbox.id], loops_of(argv))

    engine = Engine(base=steady, a=steady)
    benchmarks = [make_benchmark(name, arguments=[name]) for name in ("wild", "calm")]
    session = engine.session(rounds=4, rounds_limit=7)
    session = Session(session.resources, make_workload(benchmarks=benchmarks), make_network(run))
    open_cells = [dataclasses.replace(cell, sandbox=ScriptedSandbox(cell.sandbox.id, run)) for cell in engine.cells()]
    assert len(run_rounds(session, open_cells, TimeUsed())) == 1 + 7
    assert started == {("wild", "base"): 8, ("wild", "a"): 7, ("calm", "base"): 5, ("calm", "a"): 4}


def test_a_cell_that_was_decided_stops_and_stays_in_the_family_of_the_others() -> None:
    engine = Engine(base=steady, a=lambda _, loops: make_ended(printed(1.5, loops)), b=nearly)
    run_rounds(engine.session(rounds=4, rounds_limit=7), engine.cells(), TimeUsed())
    # A block of three rows has the baseline twice.
    assert engine.started == {"base": 1 + 2 * 4 + 3, "a": 4, "b": 7}
    assert [set(look.comparisons) for look in engine.looks] == [{("a", "base"), ("b", "base")}] * 3
    assert [look.is_last for look in engine.looks] == [False, False, True]
    assert {look.comparisons["a", "base"].verdict for look in engine.looks} == {Verdict.SLOWER}


def test_a_look_says_which_rows_are_built_otherwise_than_the_baseline() -> None:
    engine = Engine(base=steady, a=lambda _, loops: make_ended(printed(1.5, loops)), b=steady)
    session = engine.session(rounds=3)
    images = [make_built(name, optimisations=made) for name, made in (("base", []), ("a", ["PGO"]), ("b", []))]
    facts = {name: make_facts() for name in ("base", "a", "b")}
    resources = dataclasses.replace(session.resources, images=images, facts=facts)
    run_rounds(dataclasses.replace(session, resources=resources), engine.cells(), TimeUsed())
    assert {look.built_otherwise for look in engine.looks} == {frozenset({"a"})}


def interrupt(seconds: float = 0.0) -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(seconds)


def test_a_signal_in_the_middle_of_a_process_ends_the_rounds_and_keeps_those_before() -> None:
    def interrupted(number: int, loops: str) -> Ended:
        if number == 2:
            interrupt(60)
        return steady(number, loops)

    engine = Engine(base=steady, a=interrupted)
    open_cells = engine.cells()
    session = engine.session(rounds=9)
    with session.resources.ending.listening():
        order = run_rounds(session, open_cells, TimeUsed())
    assert session.resources.ending.exit_code == 130
    assert len(order) == 1 + 3
    assert [len(values_of(cell.runs["uncontended"], Estimator.MEDIAN).figures) for cell in open_cells][1] == 2
    assert engine.looks[-1].is_last


def test_a_budget_that_is_used_up_starts_nothing_more_and_shows_what_is_known() -> None:
    engine = Engine(base=steady, a=steady)
    session = engine.session(rounds=9)
    ending = Ending(budget_s=1e-9)
    session = dataclasses.replace(session, resources=dataclasses.replace(session.resources, ending=ending))
    ending.start()
    assert run_rounds(session, engine.cells(), TimeUsed()) == []
    assert engine.started == {}
    assert ending.reason
    assert [look.is_last for look in engine.looks] == [True]


@pytest.mark.parametrize(("rounds", "expected"), [(9, 4), (3, 3)])
def test_a_share_that_is_used_up_ends_the_rounds_after_those_that_a_first_look_needs(
    rounds: int, expected: int
) -> None:
    engine = Engine(base=steady, a=steady)
    session = engine.session(rounds=rounds)
    ending = Ending(budget_s=3600)
    session = dataclasses.replace(session, resources=dataclasses.replace(session.resources, ending=ending))
    ending.start()
    ending.share(1e-9, profiled=False)
    assert len(run_rounds(session, engine.cells(), TimeUsed())) == 1 + expected
    assert ending.has_cut is (rounds > expected)


def test_rounds_that_go_on_measure_what_is_missing_and_calibrate_anew() -> None:
    engine = Engine(base=steady, a=steady)
    open_cells = engine.cells()
    whole = run_rounds(engine.session(rounds=5), open_cells, TimeUsed())
    for cell in open_cells:  # as they come from their files after two rounds
        cell.runs["uncontended"] = [run for run in cell.runs["uncontended"] if run._metadata.get(BLOCK, 0) <= 2]
        cell.loops.clear()
        cell.takes_slices.clear()
    engine.started.clear()
    engine.steps.clear()
    order = run_rounds(engine.session(rounds=5), open_cells, TimeUsed())
    assert engine.started == {"base": 1 + 3, "a": 3}
    # What was measured before is no part of what is left.
    assert [(step.number, step.total) for step in engine.steps[1:]] == [(number, 8) for number in range(2, 8)]
    assert order == [whole[0], *whole[3:]]


def reopen(engine: Engine, open_cells: Sequence[Cell]) -> None:
    """Make cells what they are when they come from their files."""
    engine.started.clear()
    for cell in open_cells:
        cell.loops.clear()
        cell.takes_slices.clear()


def first_look_alone(session: Session) -> Session:
    return dataclasses.replace(session, resources=dataclasses.replace(session.resources, first_look_alone=True))


def test_rows_that_others_join_end_with_their_first_look_which_spends_nothing_of_the_later_ones() -> None:
    engine = Engine(base=steady, a=nearly)
    run_rounds(first_look_alone(engine.session(rounds=4, rounds_limit=10)), engine.cells(), TimeUsed())
    assert engine.started == {"base": 5, "a": 4}
    assert [look.is_last for look in engine.looks] == [False]
    assert {step.activity for step in engine.steps} == {f"round {number} of 4" for number in range(5)}


def test_rows_that_join_have_as_many_rounds_of_their_own_beside_the_baseline_and_what_is_open() -> None:
    engine = Engine(base=steady, a=slow, b=open_and_near, late=open_and_near, later=slow)
    open_cells = engine.cells()
    run_rounds(first_look_alone(engine.session(rounds=4, rounds_limit=7)), open_cells[:3], TimeUsed())
    reopen(engine, open_cells)
    run_rounds(engine.session(rounds=4, rounds_limit=7), open_cells, TimeUsed())

    def blocks_of(cell: Cell) -> list[int]:
        return sorted({run._metadata[BLOCK] for run in cell.runs["uncontended"] if run.values})

    # What the first look has decided needs no more; what joins has its first look after four rounds of its own.
    assert {cell.subject.label: blocks_of(cell) for cell in open_cells} == {
        "base": [*range(1, 12)],
        "a": [1, 2, 3, 4],
        "b": [*range(1, 12)],
        "late": [*range(5, 12)],
        "later": [5, 6, 7, 8],
    }
    assert engine.looks[-1].is_last
    looked = {pair[0]: one for pair, one in engine.looks[-1].comparisons.items()}
    assert (looked["late"].ratio.rounds, looked["later"].ratio.rounds) == (7, 4)
    assert looked["later"].verdict is Verdict.SLOWER


def test_a_budget_gives_rows_that_join_the_rounds_of_a_first_look() -> None:
    engine = Engine(base=steady, a=steady, late=steady)
    open_cells = engine.cells()
    run_rounds(first_look_alone(engine.session(rounds=4, rounds_limit=9)), open_cells[:2], TimeUsed())
    ending = Ending(budget_s=3600)
    session = engine.session(rounds=4, rounds_limit=9)
    session = dataclasses.replace(session, resources=dataclasses.replace(session.resources, ending=ending))
    ending.start()
    ending.share(1e-9, profiled=False)
    reopen(engine, open_cells)
    run_rounds(session, open_cells, TimeUsed())
    assert engine.started["late"] == 4


def test_each_cell_knows_how_long_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    engine = Engine(base=steady, a=steady)
    open_cells, session = engine.cells(), engine.session(rounds=3)
    # Each look at the clock is a second after the one before; nothing else is the cell's.
    for module in (cells, blocks):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    run_rounds(session, open_cells, TimeUsed())
    # The baseline's trial, and of each block the start, the slices, the request to end and the end.
    each = 3 * (1 + session.repetition.values + 2)
    assert [cell.clock.times.measuring_s for cell in open_cells] == [1 + each, each]


def test_a_cell_that_timed_out_is_not_waited_for() -> None:
    def late(number: int, loops: str) -> Ended:
        return make_ended(timed_out=True) if number == 3 else unsteady(number, loops)

    engine = Engine(base=steady, a=late)
    open_cells = engine.cells()
    order = run_rounds(engine.session(rounds=2, rounds_limit=9), open_cells, TimeUsed())
    assert len(order) == 1 + 4
    assert [cell.outcomes["uncontended"].state for cell in open_cells] == [State.OK, State.TIMED_OUT]


@pytest.mark.parametrize(("budget_s", "deadlines"), [(600.0, 1), (None, 3)])
def test_a_cell_that_hangs_takes_one_deadline_of_a_budget(budget_s: float | None, deadlines: int) -> None:
    engine = Engine(base=steady, a=lambda _, __: make_ended(timed_out=True))
    benchmarks = [make_benchmark(name) for name in ("x", "y", "z")]
    session = engine.session(rounds=2, budget_s=budget_s)
    session = Session(session.resources, make_workload(benchmarks=benchmarks), make_network(engine.run))
    open_cells = engine.cells()
    run_rounds(session, open_cells, TimeUsed())
    assert engine.started["a"] == deadlines
    states = [[cell.outcomes[name].state for name in "xyz"] for cell in open_cells]
    skipped = State.TIMED_OUT if budget_s is None else State.NOT_MEASURED
    assert states == [[State.OK] * 3, [State.TIMED_OUT, skipped, skipped]]


def test_one_process_calibrates_for_all_rows() -> None:
    asked: dict[str, list[str]] = {"base": [], "a": []}

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        asked[sandbox.id].append(argv[argv.index("--loops") + 1])
        return steady(0, loops_of(argv))

    open_cells = [Cell(Subject(variant=label, image_id="i"), ScriptedSandbox(label, run)) for label in asked]
    run_rounds(Engine().session(rounds=3), open_cells, TimeUsed())
    assert asked == {"base": ["auto", "1", "1", "1"], "a": ["1", "1", "1"]}


def test_the_interpreters_have_new_pages_in_each_block_of_those_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[list[str]] = []
    monkeypatch.setattr(
        blocks, "renew_pages", lambda _, cells: renewed.append(sorted(cell.subject.label for cell in cells))
    )

    def ends_early(number: int, loops: str) -> Ended:
        return steady(number, loops) if number == 0 else make_ended(exit_code=1)

    engine = Engine(base=steady, a=ends_early)
    run_rounds(engine.session(rounds=3), engine.cells(), TimeUsed())
    assert renewed == [["a", "base"], ["a", "base"], ["base"]]


def test_a_row_that_is_far_slower_or_faster_has_loops_of_its_own_after_its_first_block() -> None:
    asked: dict[str, list[int]] = {"base": [], "a": [], "b": [], "c": []}
    slower = {"base": 1.0, "a": 9.0, "b": 1.9, "c": 0.1}

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        loops = 8 if loops_of(argv) == "auto" else int(argv[argv.index("--loops") + 1])
        asked[sandbox.id].append(loops)
        value_s = 0.001 * slower[sandbox.id] * loops
        ended = steady(0, loops_of(argv) if "--slices" not in argv else "1")
        text = ended.stdout.replace('"loops": 1', f'"loops": {loops}').replace("[[1, 0.5]]", f"[[8, {value_s}]]")
        return dataclasses.replace(ended, stdout=text.replace("[0.5]", f"[{value_s}]"))

    open_cells = [Cell(Subject(variant=label, image_id=label), ScriptedSandbox(label, run)) for label in asked]
    session = dataclasses.replace(Engine().session(rounds=3), network=make_network(run))
    run_rounds(session, open_cells, TimeUsed())
    assert set(asked["base"]) == set(asked["b"]) == {8}
    assert asked["a"] == [8, 1, 1]
    assert asked["c"] == [8, 64, 64]


def test_a_process_that_works_once_does_not_calibrate_before_it_is_timed() -> None:
    asked: list[str] = []

    def run(_sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        asked.append(argv[argv.index("--loops") + 1])
        return steady(0, loops_of(argv))

    session = Engine().session(rounds=2)
    once = make_workload(quick={"warmups": 0, "values": 1}, full={"warmups": 0, "values": 1})
    session = dataclasses.replace(session, workload=once)
    run_rounds(session, [Cell(Subject(variant="base", image_id="i"), ScriptedSandbox("base", run))], TimeUsed())
    assert asked == ["auto", "1", "1"]


def test_a_program_that_knows_no_slices_calibrates_in_each_cell_before_the_rounds() -> None:
    asked: dict[str, list[str]] = {"base": [], "a": []}

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        asked[sandbox.id].append(argv[argv.index("--loops") + 1])
        ended = steady(0, loops_of(argv))
        return dataclasses.replace(ended, stdout=ended.stdout.replace('"slices": true', '"slices": false'))

    open_cells = [Cell(Subject(variant=label, image_id="i"), ScriptedSandbox(label, run)) for label in asked]
    run_rounds(Engine().session(rounds=2), open_cells, TimeUsed())
    assert asked == {"base": ["auto", "1", "1"], "a": ["auto", "1", "1"]}


def test_the_order_of_the_rounds_does_not_depend_on_when_they_end() -> None:
    engine = Engine(base=steady, a=steady, b=steady)
    exact = run_rounds(engine.session(rounds=9, seed=5), engine.cells(), TimeUsed())
    early = run_rounds(engine.session(rounds=4, rounds_limit=9, seed=5), engine.cells(), TimeUsed())
    assert early == exact[: 1 + 4]
    assert len({tuple(order) for order in exact}) > 1


def test_what_the_processes_took_is_summed_with_calibration_and_failures() -> None:
    def crash(_number: int, loops: str) -> Ended:
        return make_ended(printed(0.5, loops), "Segmentation fault", 139)

    engine = Engine(base=steady, a=crash)
    spent = TimeUsed()
    run_rounds(engine.session(rounds=2), engine.cells(), spent)
    # What takes turns is timed by our own clock: only the baseline's trial has what the launcher says.
    assert spent.in_processes_s == pytest.approx(1.5, abs=0.1)
    assert spent.cpu_s == 0.75 * 4


@pytest.mark.parametrize("cut_at", range(8))
def test_the_starts_of_a_command_that_were_timed_before_an_end_are_kept(cut_at: int) -> None:
    """A warm-up and two values for each of two cells, unless it is cut."""
    cells = [Cell(Subject(variant=label, image_id="i"), ScriptedSandbox(label, lambda *_: ended)) for label in "ab"]
    ended = make_ended(cost_of_launcher())
    session = Engine().session()
    session = dataclasses.replace(session, workload=make_workload(quick={"warmups": 1, "values": 2}))
    started = Counter[str]()

    def on_start(cell: Cell) -> None:
        if started.total() == cut_at:
            raise Interrupted
        started[cell.subject.label] += 1

    taken: list[blocks.BlockResult] = []
    benchmark = make_benchmark("x", command=["-c", "pass"])
    try:
        for one in blocks.run_starts(session, benchmark, cells, 1, on_start):
            taken.append(one)
    except Interrupted:
        assert cut_at < 6
    kept = {one.cell.subject.label: len(processes.parse_costs(one.ended.stdout)) - 1 for one in taken}
    assert kept == {label: count - 1 for label, count in started.items() if count > 1}


def test_a_program_that_starts_with_another_gil_than_the_image_fails_and_is_not_started_again() -> None:
    engine = Engine(base=steady, a=lambda _, loops: make_ended(printed(0.5, loops, gil_enabled_at_start=True)))
    open_cells = engine.cells()
    open_cells[1].gil = Gil.OFF
    run_rounds(engine.session(rounds=2), open_cells, TimeUsed())
    of_base, of_a = (cell.outcomes["uncontended"] for cell in open_cells)
    assert (of_base, of_a.state) == (OK, State.FAILED)
    assert re.search(r"'uncontended' .*\bon\b.*\boff\b", of_a.reason), of_a.reason
    assert engine.started["a"] == 1


def test_a_gil_that_came_back_is_noted_once_in_the_cell() -> None:
    def switching(_number: int, loops: str) -> Ended:
        return make_ended(printed(0.5, loops, gil_enabled_at_start=False, gil_enabled=True))

    engine = Engine(base=switching)
    (cell,) = engine.cells()
    cell.gil = Gil.OFF
    run_rounds(engine.session(rounds=2), [cell], TimeUsed())
    assert len(cell.notes) == 1
    assert "GIL" in cell.notes[0]
    assert cell.outcomes["uncontended"] == OK


def test_what_disturbed_the_machine_is_said_with_the_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    samples = iter(
        [disturbances.Sample(0.0, total_s=0.0, steal_s=0.0), disturbances.Sample(9.0, total_s=9.0, steal_s=0.9)]
    )
    monkeypatch.setattr(disturbances, "sample", lambda: next(samples))
    engine = Engine(base=steady)
    spent = TimeUsed()
    warnings = rounds.watched_rounds(engine.session(rounds=2), engine.cells(), spent, rounds.RoundOrder())
    (warning,) = warnings
    assert warning.startswith("locks: 10.0% ")
    assert 0 < spent.wall_s < 60


def test_an_engine_elsewhere_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_network()
    network.is_elsewhere = True
    monkeypatch.setattr(disturbances, "sample", lambda: pytest.fail("this machine was looked at"))
    engine = Engine(base=steady)
    session = engine.session(rounds=2)
    session = dataclasses.replace(session, resources=dataclasses.replace(session.resources, workspace=network))
    assert rounds.watched_rounds(session, engine.cells(), TimeUsed(), rounds.RoundOrder()) == []


def test_options_and_environment_of_a_mode_reach_each_process() -> None:
    seen = []

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        seen.append((argv[argv.index("python") :][:3], sandbox.environment))
        return make_ended("".join(f"{key}={value}\n" for key, value in make_facts().model_dump().items()))

    subject = Subject(variant="a", image_id="i", mode="m", environment={"LD_PRELOAD": "/a.so"}, options=["-X", "dev"])
    session, cell = Engine().session(rounds=2), Cell(subject, ScriptedSandbox("m", run))
    workloads._ask_facts(session, cell)
    run_rounds(session, [cell], TimeUsed())
    assert len(seen) >= 2
    assert {(*argv, *environment.items()) for argv, environment in seen} == {
        ("python", "-X", "dev", ("LD_PRELOAD", "/a.so"))
    }


def test_an_interpreter_that_did_not_report_its_facts_in_time_is_not_asked_again() -> None:
    """A row that hangs cost each of thirteen workloads 20 s."""
    asked: list[str] = []

    def run(sandbox: ScriptedSandbox, _: list[str]) -> Ended:
        asked.append(sandbox.id)
        return make_ended(timed_out=True)

    session = Engine().session(rounds=2)
    for label in ("hangs", "hangs", "other"):
        cell = Cell(Subject(variant=label, image_id="i"), ScriptedSandbox(label, run))
        assert workloads._ask_facts(session, cell) is None
    assert asked == ["hangs", "other"]


def test_a_cell_whose_container_was_killed_for_its_facts_has_no_agent_of_that_container() -> None:
    sandbox = ScriptedSandbox("hangs", lambda *_: make_ended(timed_out=True))
    cell = Cell(Subject(variant="hangs", image_id="i"), sandbox, agent=sandbox.start_agent(""))
    workloads._ask_facts(Engine().session(rounds=2), cell)
    assert cell.sandbox is not sandbox
    assert cell.agent is None


def test_an_interpreter_that_hung_when_asked_its_facts_has_no_longer_in_its_benchmarks() -> None:
    """cpython-2.7+pth-preload hung in eight of thirteen workloads until a deadline of up to two minutes."""

    def answer(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        if sandbox.id in {"a", "i"}:
            return make_ended(timed_out=True)
        return steady(0, loops_of(argv)) if "--loops" in argv else make_ended("no facts")

    workload = make_workload(deadline_s=60)
    plain = Engine().session(rounds=2)
    resources = dataclasses.replace(plain.resources, programs=frozenset({str(workload.program)}), silent={"a"})
    session = dataclasses.replace(plain, resources=resources, workload=workload)
    open_cells = [Cell(Subject(variant=label, image_id="i"), ScriptedSandbox(label, answer)) for label in ("base", "a")]
    workloads._make_ready(session, open_cells)
    (benchmark,) = session.workload.benchmarks
    limits_s = [cells.deadline_of(session, cell, benchmark) for cell in open_cells]
    assert limits_s == [60, cells.HUNG_S]
    run_rounds(session, open_cells, TimeUsed())
    outcome = open_cells[1].outcomes[benchmark.name]
    assert outcome.state is State.TIMED_OUT
    assert re.search(rf"\b{cells.HUNG_S} s$", outcome.reason)
    prepared = make_benchmark("prepared", set_up=["hg", "init"])
    outcome, _ = cells.set_up(session, Cell(open_cells[1].subject, ScriptedSandbox("a", answer)), prepared)
    assert outcome.state is State.TIMED_OUT
    assert re.search(rf"\b{cells.HUNG_S} s$", outcome.reason)


def test_a_process_that_was_killed_took_its_deadline_and_nobody_knows_what_cpu_time() -> None:
    spent = TimeUsed()
    for ended in (make_ended(costs(1.5)), make_ended(timed_out=True), make_ended(costs(1.5))):
        spent.add(ended, deadline_s=20)
    assert (spent.in_processes_s, spent.cpu_s) == (1.5 + 20 + 1.5, None)


LIMIT = {
    "name": "curl",
    "command": ["curl", "-o", "{scratch}/f", "{server}/single.bin"],
    "benchmarks": ["single"],
    "unit_count": 4,
}


@dataclasses.dataclass
class Answering:
    """Every process of a limit ends in the same way; the command lines are kept."""

    ended: Ended = dataclasses.field(default_factory=make_ended)
    started: list[list[str]] = dataclasses.field(default_factory=list)

    def run(self, _: ScriptedSandbox, argv: list[str]) -> Ended:
        self.started.append(argv)
        return self.ended


@pytest.fixture
def workload() -> Workload:
    benchmarks = [make_benchmark("single", cpus="one", expected=[]), make_benchmark("many")]
    return make_workload(benchmarks=benchmarks, limits=[LIMIT])


@pytest.fixture
def answering() -> Answering:
    return Answering()


@pytest.fixture
def session(workload: Workload, answering: Answering) -> Session:
    network = make_network(answering.run)
    network.url = "http://10.0.0.2:8080"
    return Session(make_resources(), workload, network)


def costs(*walls: float) -> str:
    return "".join(f'{{"interlock_process": {make_cost(wall).model_dump_json()}}}\n' for wall in walls)


def test_each_limit_has_a_cell_in_the_image_of_limits_that_goes_on_in_its_benchmarks_alone(
    session: Session, workload: Workload
) -> None:
    (cell,) = rounds.open_limits(session)
    assert (cell.subject.label, cell.sandbox.id) == ("limit+curl", "limits")
    assert [cell.goes_on(one) for one in workload.benchmarks] == [True, False]


def run_once(session: Session, *, calibrate: bool = False) -> tuple[Cell, Benchmark]:
    (cell,) = rounds.open_limits(session)
    benchmark = session.workload.benchmarks[0]
    rounds.run_limit(session, benchmark, cell, Limit.model_validate(LIMIT), 0 if calibrate else 1)
    return cell, benchmark


def test_a_visit_is_a_row_of_runs_pinned_as_the_benchmark_with_its_places_filled_in(
    session: Session, answering: Answering
) -> None:
    answering.ended = make_ended(costs(8.0, 4.0, 6.0))
    cell, benchmark = run_once(session)
    (argv,) = answering.started
    assert argv[0] == processes.LAUNCH
    assert argv[argv.index("--repeat") + 1] == "3"
    assert argv[argv.index("--cpu") + 1] == "last"
    assert argv[argv.index("--") + 1 :] == ["curl", "-o", "/scratch/f", "http://10.0.0.2:8080/single.bin"]
    (run,) = cell.runs[benchmark.name]
    # Seconds per unit of work: a run does four; the first one is a warm-up.
    assert run.values == (1.0, 1.5)


def test_the_first_round_only_shows_that_it_runs(session: Session, answering: Answering) -> None:
    answering.ended = make_ended(costs(8.0))
    cell, benchmark = run_once(session, calibrate=True)
    assert answering.started[0][answering.started[0].index("--repeat") + 1] == "1"
    assert cell.runs == {}
    assert cell.goes_on(benchmark)


def test_output_that_was_cut_short_is_no_figure(session: Session, answering: Answering) -> None:
    answering.ended = make_ended(costs(8.0))
    cell, benchmark = run_once(session)
    outcome = cell.outcomes[benchmark.name]
    assert outcome.state is State.FAILED
    assert " 1 of 3 " in outcome.reason
    assert cell.runs == {}


def test_a_limit_that_fails_says_why_and_is_not_visited_again(session: Session, answering: Answering) -> None:
    answering.ended = make_ended(stderr="curl: (7) Failed to connect\n", exit_code=7)
    cell, benchmark = run_once(session)
    outcome = cell.outcomes[benchmark.name]
    assert outcome.state is State.FAILED
    assert outcome.reason.startswith("'single' ")
    assert outcome.reason.endswith(" 7: curl: (7) Failed to connect")
    assert not cell.goes_on(benchmark)


def test_every_candidate_runs_once_in_each_round_until_it_is_decided() -> None:
    order = rounds.RoundOrder()
    plan = schedule.Schedule("7/trial", least=3, limit=9)

    def undecided(_: str, some: Sequence[str]) -> list[str]:
        return [] if len(order.rounds) >= 7 else [one for one in some if one != "b" or len(order.rounds) < 4]

    for planned in schedule.interleave(plan, ["load"], ["a", "b", "c"], undecided):
        assert planned.total == (9 * 3 if planned.round <= 4 else 4 * 3 + 5 * 2)
        order.note(planned.round, planned.candidate)
    # Looks come after 4, 5 and 7 rounds.
    assert [sorted(labels) for labels in order.rounds] == [["a", "b", "c"]] * 4 + [["a", "c"]] * 3
    assert len({tuple(labels) for labels in order.rounds[:4]}) > 1
