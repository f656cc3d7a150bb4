"""When rounds are enough, what they took, and what a cell is told by processes; the engine's answers are made up."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.analysis.verdicts import Verdict
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Workload
from interlock.engine.agent import LAUNCH
from interlock.engine.ended import Ended
from interlock.errors import EngineError, Interrupted, UnsupportedHereError, WorkloadError
from interlock.measure import blocks, disturbances, processes, rounds, stopwatch, tracks
from interlock.measure import workload as workloads
from interlock.measure.cells import Cell, limits_of
from interlock.measure.ending import Ending
from interlock.measure.kinds import fed
from interlock.measure.kinds.choosing import kind_of, kind_of_track
from interlock.measure.rounds import Block, Course
from interlock.measure.sessions import Interpreters, Resources, Session
from interlock.measure.tracks import Result, Track
from interlock.measure.watching import Look, Observers, ProgressUpdate
from interlock.results.experiments import BLOCK, State, Subject
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
    report: dict[str, Any] = {"interlock": 1, "fed": True, "loops": 1, "inner_loops": 1}
    report |= {"values": [value_s], "metadata": metadata}
    if loops == "auto":
        report |= {"values": [], "calibration": [[1, value_s]]}
    return json.dumps(report) + "\n" + costs(1.5)


def costs(*walls: float) -> str:
    """What the launcher prints of processes that took so long."""
    return "".join(f'{{"interlock_process": {make_cost(wall).model_dump_json()}}}\n' for wall in walls)


def loops_of(argv: list[str]) -> str:
    """The loops that a process is asked for; one that is fed gives values, also where it calibrates before."""
    return "1" if "--fed" in argv else argv[argv.index("--loops") + 1]


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

    def session(
        self,
        workload: Workload | None = None,
        run: Callable[[ScriptedSandbox, list[str]], Ended] | None = None,
        ending: Ending | None = None,
        **changes: Any,
    ) -> Session:
        """A session of the workload, or of another one, with changes of its resources and their settings."""
        shared = {key: changes.pop(key) for key in [*changes] if key in Resources.__dataclass_fields__}
        settings = make_settings(["base"]).model_copy(update=changes)
        watching = Observers(self.steps.append, self.looks.append, ending or Ending())
        resources = make_resources(**{"settings": settings, "watching": watching, **shared})
        return Session(resources, workload or make_workload(), make_network(run or self.run))

    def cells(self, session: Session) -> list[Cell]:
        return rows_of(session, *self.answers)

    def run_rounds(self, **changes: Any) -> list[list[str]]:
        """Run the rounds of new cells in a new session, and return their orders."""
        session = self.session(**changes)
        return run_rounds(session, self.cells(session))


def rows_of(session: Session, *labels: str) -> list[Cell]:
    """Cells that are open, each in a sandbox that is named as it is."""
    cells = [Cell(session, Subject(variant=label, image_id=label)) for label in labels]
    for cell in cells:
        cell.slot()
    return cells


def run_rounds(session: Session, open_cells: list[Cell], course: Course | None = None) -> list[list[str]]:
    course = course or Course()
    rounds.run_rounds(session, open_cells, course)
    return course.order


def track_of(cell: Cell) -> Track:
    (track,) = cell.tracks.values()
    return track


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


@pytest.mark.parametrize(
    "bad",
    [
        '{"interlock_process": oops\n',
        '{"interlock": 1, "loops": 1, "values": [Infinity]}\n',
        '{"interlock": 1, "loops": 1, "values": [5e-324]}\n',
        '{"interlock": 1, "loops": 1, "calibration": [[1, 1e300]]}\n',
    ],
    ids=lambda bad: str(bad)[:50],
)
@pytest.mark.parametrize("when", [0, 1, 2])
def test_what_one_process_prints_fails_its_own_row_and_the_others_go_on(bad: str, when: int) -> None:
    def answer(number: int, loops: str) -> Ended:
        return make_ended(bad + costs(1.5) if number == when else printed(0.5, loops))

    engine = Engine(base=steady, a=answer)
    session = engine.session(rounds=4)
    base, a = engine.cells(session)
    run_rounds(session, [base, a])
    assert track_of(a).outcome.state is State.FAILED
    assert track_of(base).goes_on
    assert len([run for run in track_of(base).runs if run.values]) >= 4


def test_an_error_in_reading_what_a_process_printed_is_its_tracks_failure() -> None:
    engine = Engine(a=steady)
    (cell,) = engine.cells(engine.session())
    track = track_of(cell)
    gone = WorkloadError(found="gone", todo="")
    for error in (ValueError("value must be\nfinite"), OverflowError("too large"), gone):
        track.outcome = OK
        with track.failing():
            raise error
        assert track.outcome.state is State.FAILED
    with track.failing():
        raise UnsupportedHereError(found="no such program here", todo="")
    assert track.outcome.state is State.UNSUPPORTED
    with pytest.raises(EngineError), track.failing():
        raise EngineError(found="it does not answer", todo="")


@pytest.mark.parametrize(("answer", "expected"), [(steady, 4), (nearly, 7), (unsteady, 4)])
def test_rounds_go_on_until_all_is_decided_or_out_of_reach_or_the_limit_is_reached(
    answer: Callable[[int, str], Ended], expected: int
) -> None:
    engine = Engine(base=steady, a=answer)
    assert len(engine.run_rounds(rounds=4, rounds_limit=7)) == 1 + expected
    assert {step.total for step in engine.steps} == {2 * (1 + 7)}
    assert engine.steps[0].activity == "round 0 of 4 to 7"


def test_a_benchmark_that_is_known_well_enough_leaves_the_rounds_to_the_others() -> None:
    started = Counter[tuple[str, str]]()

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        name = "wild" if "wild" in argv else "calm"
        started[name, sandbox.id] += 1
        answer = nearly if (name, sandbox.id) == ("wild", "a") else steady
        return answer(started[name, sandbox.id], loops_of(argv))

    benchmarks = [make_benchmark(name, arguments=[name]) for name in ("wild", "calm")]
    session = Engine().session(make_workload(benchmarks=benchmarks), run, rounds=4, rounds_limit=7)
    assert len(run_rounds(session, rows_of(session, "base", "a"))) == 1 + 7
    assert started == {("wild", "base"): 8, ("wild", "a"): 7, ("calm", "base"): 5, ("calm", "a"): 4}


def test_a_row_that_was_decided_stops_and_stays_in_the_family_of_the_others() -> None:
    engine = Engine(base=steady, a=slow, b=nearly)
    engine.run_rounds(rounds=4, rounds_limit=7)
    # A block of three rows has the baseline twice.
    assert engine.started == {"base": 1 + 2 * 4 + 3, "a": 4, "b": 7}
    assert [set(look.comparisons) for look in engine.looks] == [{("a", "base"), ("b", "base")}] * 3
    assert [look.is_last for look in engine.looks] == [False, False, True]
    assert {look.comparisons["a", "base"].verdict for look in engine.looks} == {Verdict.SLOWER}


def test_a_row_that_failed_is_in_no_family_and_its_rounds_before_fit_the_others() -> None:
    def look_with(broken: Callable[[int, str], Ended]) -> Look:
        engine = Engine(base=steady, a=unsteady, b=broken)
        engine.run_rounds(rounds=4)
        return engine.looks[-1]

    def ends(number: int, loops: str) -> Ended:
        return nearly(number, loops) if number < 3 else make_ended("", exit_code=1)

    failed, alone = look_with(ends), look_with(lambda _number, _loops: make_ended("", exit_code=1))
    assert [set(look.comparisons) for look in (failed, alone)] == [{("a", "base")}] * 2
    assert failed.comparisons["a", "base"].ratio.freedom > alone.comparisons["a", "base"].ratio.freedom


def test_a_look_says_which_rows_are_built_otherwise_than_the_baseline() -> None:
    engine = Engine(base=steady, a=slow, b=steady)
    images = [make_built(name, optimisations=made) for name, made in (("base", []), ("a", ["PGO"]), ("b", []))]
    known = Interpreters(images=images, facts={name: make_facts() for name in ("base", "a", "b")})
    engine.run_rounds(known=known, rounds=3)
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
    session = engine.session(rounds=9)
    open_cells = engine.cells(session)
    with session.resources.watching.ending.listening():
        order = run_rounds(session, open_cells)
    assert session.resources.watching.ending.exit_code == 130
    assert len(order) == 1 + 3
    assert len(track_of(open_cells[1]).values.figures) == 2
    assert engine.looks[-1].is_last


def test_a_budget_that_is_used_up_starts_nothing_more_and_shows_what_is_known() -> None:
    engine, ending = Engine(base=steady, a=steady), Ending(budget_s=1e-9)
    ending.start()
    assert engine.run_rounds(ending=ending, rounds=9) == []
    assert engine.started == {}
    assert ending.reason
    assert [look.is_last for look in engine.looks] == [True]


def with_a_used_share() -> Ending:
    ending = Ending(budget_s=3600)
    ending.start()
    ending.share(1e-9, profiled=False)
    return ending


@pytest.mark.parametrize(("rounds", "is_look", "expected"), [(9, False, 4), (3, False, 3), (4, True, 2)])
def test_a_share_that_is_used_up_ends_the_rounds_after_those_that_are_needed(
    rounds: int, is_look: bool, expected: int
) -> None:
    """The first look leaves time for those of the other workloads."""
    engine, ending = Engine(base=steady, a=steady), with_a_used_share()
    assert len(engine.run_rounds(ending=ending, rounds=rounds, first_look_alone=is_look)) == 1 + expected
    assert ending.has_cut is (rounds > expected)


def reopened(session: Session, cells: Sequence[Cell]) -> list[Cell]:
    """Cells as they come from their files: with their runs, which they share with those before, and not calibrated."""
    opened = rows_of(session, *(cell.subject.label for cell in cells))
    for cell, before in zip(opened, cells, strict=True):
        track_of(cell).runs = track_of(before).runs
    return opened


def test_rounds_that_go_on_measure_what_is_missing_and_calibrate_anew() -> None:
    engine = Engine(base=steady, a=steady)
    session = engine.session(rounds=5)
    open_cells = engine.cells(session)
    whole = run_rounds(session, open_cells)
    for cell in open_cells:  # after two rounds
        track_of(cell).runs = [run for run in track_of(cell).runs if run._metadata.get(BLOCK, 0) <= 2]
    engine.started.clear()
    engine.steps.clear()
    order = run_rounds(session, reopened(session, open_cells))
    assert engine.started == {"base": 1 + 3, "a": 3}
    # What was measured before is no part of what is left.
    assert [(step.number, step.total) for step in engine.steps[1:]] == [(number, 8) for number in range(2, 8)]
    assert order == [whole[0], *whole[3:]]


def test_rows_that_others_join_end_with_their_first_look_which_spends_nothing_of_the_later_ones() -> None:
    engine = Engine(base=steady, a=nearly)
    engine.run_rounds(first_look_alone=True, rounds=4, rounds_limit=10)
    assert engine.started == {"base": 5, "a": 4}
    assert [look.is_last for look in engine.looks] == [False]
    assert {step.activity for step in engine.steps} == {f"round {number} of 4" for number in range(5)}


def test_rows_that_join_have_as_many_rounds_of_their_own_beside_the_baseline_and_what_is_open() -> None:
    engine = Engine(base=steady, a=slow, b=open_and_near, late=open_and_near, later=slow)
    first, session = (
        engine.session(first_look_alone=True, rounds=4, rounds_limit=7),
        engine.session(rounds=4, rounds_limit=7),
    )
    open_cells = engine.cells(first)
    run_rounds(first, open_cells[:3])
    engine.started.clear()
    open_cells = reopened(session, open_cells)
    run_rounds(session, open_cells)

    def blocks_of(cell: Cell) -> list[int]:
        return sorted({run._metadata[BLOCK] for run in track_of(cell).runs if run.values})

    # What the first look has decided needs no more; what joins has its first look after four rounds of its own.
    assert {cell.subject.label: blocks_of(cell) for cell in open_cells} == {
        "base": [*range(1, 12)],
        "a": [1, 2, 3, 4],
        "b": [*range(1, 12)],
        "late": [*range(5, 12)],
        "later": [5, 6, 7, 8],
    }
    assert engine.looks[-1].is_last
    looked = {pair[0]: comparison for pair, comparison in engine.looks[-1].comparisons.items()}
    assert (looked["late"].ratio.rounds, looked["later"].ratio.rounds) == (7, 4)
    assert looked["later"].verdict is Verdict.SLOWER


def test_a_budget_gives_rows_that_join_the_rounds_of_a_first_look() -> None:
    engine = Engine(base=steady, a=steady, late=steady)
    first = engine.session(first_look_alone=True, rounds=4, rounds_limit=9)
    open_cells = engine.cells(first)
    run_rounds(first, open_cells[:2])
    engine.started.clear()
    session = engine.session(ending=with_a_used_share(), rounds=4, rounds_limit=9)
    run_rounds(session, reopened(session, open_cells))
    assert engine.started["late"] == 4


def test_each_cell_knows_how_long_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    engine = Engine(base=steady, a=steady)
    session = engine.session(rounds=3)
    open_cells = engine.cells(session)
    # Each look at the clock is a second after the one before; nothing else is the cell's.
    for module in (stopwatch, fed):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    before = [cell.clock.times.measuring_s for cell in open_cells]
    run_rounds(session, open_cells)
    # The baseline's trial, and of each block the start, the values, the request to end and the end.
    each = 3 * (1 + session.repetition.values + 2)
    assert before == [0, 0]
    assert [cell.clock.times.measuring_s for cell in open_cells] == [1 + each, each]


def test_a_row_that_timed_out_is_not_waited_for() -> None:
    def late(number: int, loops: str) -> Ended:
        return make_ended(timed_out=True) if number == 3 else unsteady(number, loops)

    engine = Engine(base=steady, a=late)
    session = engine.session(rounds=2, rounds_limit=9)
    open_cells = engine.cells(session)
    assert len(run_rounds(session, open_cells)) == 1 + 4
    assert [track_of(cell).outcome.state for cell in open_cells] == [State.OK, State.TIMED_OUT]


@pytest.mark.parametrize(("budget_s", "deadlines"), [(600.0, 1), (None, 3)])
def test_a_row_that_hangs_takes_one_deadline_of_a_budget(budget_s: float | None, deadlines: int) -> None:
    """Of the budget that it has now: one that is resumed may have begun with another, or with none."""
    engine = Engine(base=steady, a=lambda _, __: make_ended(timed_out=True))
    benchmarks = [make_benchmark(name) for name in ("x", "y", "z")]
    session = engine.session(
        make_workload(benchmarks=benchmarks), ending=Ending(budget_s), rounds=2, budget_s=None if budget_s else 600.0
    )
    open_cells = engine.cells(session)
    run_rounds(session, open_cells)
    assert engine.started["a"] == deadlines
    states = [[track.outcome.state for track in cell.tracks.values()] for cell in open_cells]
    skipped = State.TIMED_OUT if budget_s is None else State.NOT_MEASURED
    assert states == [[State.OK] * 3, [State.TIMED_OUT, skipped, skipped]]


@pytest.mark.parametrize(
    ("take", "knows", "rounds", "asked"),
    [
        # One process calibrates for all rows,
        (None, True, 3, {"base": ["auto", "1", "1", "1"], "a": ["1", "1", "1"]}),
        # but a program that cannot be fed calibrates in each,
        (None, False, 2, {"base": ["auto", "1", "1"], "a": ["auto", "1", "1"]}),
        # and so does one that is to do its work once.
        ({"warmups": 0, "values": 1}, True, 2, {"base": ["auto", "1", "1"], "a": ["auto", "1", "1"]}),
    ],
)
def test_loops_are_calibrated_before_the_rounds_of_which_there_are_as_many_as_asked_for(
    take: dict[str, int] | None, knows: bool, rounds: int, asked: dict[str, list[str]]
) -> None:
    seen: dict[str, list[str]] = {"base": [], "a": []}

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        seen[sandbox.id].append(argv[argv.index("--loops") + 1])
        ended = steady(0, loops_of(argv))
        return replace(ended, stdout=ended.stdout.replace('"fed": true', f'"fed": {str(knows).lower()}'))

    workload = make_workload(quick=take, full=take) if take else make_workload()
    session = Engine().session(workload, run, rounds=rounds)
    assert len(run_rounds(session, rows_of(session, *seen))) == 1 + rounds
    assert seen == asked


def test_the_interpreters_have_new_pages_in_each_block_of_those_that_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    renewed: list[list[str]] = []
    monkeypatch.setattr(blocks, "_renew_pages", lambda tracks: renewed.append(sorted(track.label for track in tracks)))

    def ends_early(number: int, loops: str) -> Ended:
        return steady(number, loops) if number == 0 else make_ended(exit_code=1)

    engine = Engine(base=steady, a=ends_early)
    engine.run_rounds(rounds=3)
    assert renewed == [["a", "base"], ["a", "base"], ["base"]]


def test_a_row_that_is_far_slower_or_faster_has_loops_of_its_own_after_its_first_block() -> None:
    asked: dict[str, list[int]] = {"base": [], "a": [], "b": [], "c": []}
    slower = {"base": 1.0, "a": 9.0, "b": 1.9, "c": 0.1}

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        loops = 8 if loops_of(argv) == "auto" else int(argv[argv.index("--loops") + 1])
        asked[sandbox.id].append(loops)
        value_s = 0.001 * slower[sandbox.id] * loops
        ended = steady(0, loops_of(argv) if "--fed" not in argv else "1")
        text = ended.stdout.replace('"loops": 1', f'"loops": {loops}').replace("[[1, 0.5]]", f"[[8, {value_s}]]")
        return replace(ended, stdout=text.replace("[0.5]", f"[{value_s}]"))

    session = Engine().session(None, run, rounds=3)
    before = rows_of(session, *asked)
    run_rounds(session, before)
    assert set(asked["base"]) == set(asked["b"]) == {8}
    assert asked["a"] == [8, 1, 1]
    assert asked["c"] == [8, 64, 64]
    # After a first look, and with --resume, they have it again: slow rows had most of the time from then on.
    session = Engine().session(None, run, rounds=6)
    again = rows_of(session, *asked)
    for cell, earlier in zip(again, before, strict=True):
        track_of(cell).runs += track_of(earlier).runs
    run_rounds(session, again)
    assert asked["a"] == [8, 1, 1] * 2
    assert asked["c"] == [8, 64, 64] * 2


def test_the_order_of_the_rounds_does_not_depend_on_when_they_end() -> None:
    engine = Engine(base=steady, a=steady, b=steady)
    orders = [engine.run_rounds(rounds=9, seed=5), engine.run_rounds(rounds=4, rounds_limit=9, seed=5)]
    assert orders[1] == orders[0][: 1 + 4]
    assert len({tuple(order) for order in orders[0]}) > 1


def test_what_the_processes_took_is_summed_with_calibration_and_failures() -> None:
    def crash(_number: int, loops: str) -> Ended:
        return make_ended(printed(0.5, loops), "Segmentation fault", 139)

    engine, course = Engine(base=steady, a=crash), Course()
    session = engine.session(rounds=2)
    run_rounds(session, engine.cells(session), course)
    # What is in order is timed by our own clock: only the baseline's trial has what the launcher says.
    assert course.in_processes_s == pytest.approx(1.5, abs=0.1)
    assert course.cpu_s == 0.75 * 4


@pytest.mark.parametrize("cut_at", range(8))
def test_the_starts_of_a_command_that_were_timed_before_an_end_are_kept(cut_at: int) -> None:
    """A warm-up and two values for each of two rows, unless it is cut."""
    command = make_benchmark("x", command=["-c", "pass"])
    workload = make_workload(program=None, benchmarks=[command], quick={"warmups": 1, "values": 2})
    session = Engine().session(workload, lambda *_: make_ended(costs(1.5)))
    rows, started = [track_of(cell) for cell in rows_of(session, "a", "b")], Counter[str]()

    def on_start(track: Track) -> None:
        if started.total() == cut_at:
            raise Interrupted
        started[track.label] += 1

    kept: list[Result] = []
    try:
        for result in kind_of(workload, command).block(rows, 1, on_start):
            kept.append(result)
    except Interrupted:
        assert cut_at < 6
    values = {result.track.label: len(processes.parse_costs(result.ended.stdout)) - 1 for result in kept}
    assert values == {label: count - 1 for label, count in started.items() if count > 1}


def test_a_program_that_starts_with_another_gil_than_the_image_fails_and_is_not_started_again() -> None:
    engine = Engine(base=steady, a=lambda _, loops: make_ended(printed(0.5, loops, gil_enabled_at_start=True)))
    session = engine.session(rounds=2)
    open_cells = engine.cells(session)
    open_cells[1].gil = Gil.OFF
    run_rounds(session, open_cells)
    of_base, of_a = (track_of(cell).outcome for cell in open_cells)
    assert (of_base, of_a.state) == (OK, State.FAILED)
    assert re.search(r"'uncontended' .*\bon\b.*\boff\b", of_a.reason), of_a.reason
    assert engine.started["a"] == 1


def test_a_gil_that_came_back_is_noted_once_in_the_cell() -> None:
    def switching(_number: int, loops: str) -> Ended:
        return make_ended(printed(0.5, loops, gil_enabled_at_start=False, gil_enabled=True))

    engine = Engine(base=switching)
    session = engine.session(rounds=2)
    (cell,) = engine.cells(session)
    cell.gil = Gil.OFF
    run_rounds(session, [cell])
    assert len(cell.notes) == 1
    assert "GIL" in cell.notes[0]
    assert track_of(cell).outcome == OK


@pytest.mark.parametrize(("stolen", "is_too_much"), [(0.1, False), (0.2, True)])
def test_what_disturbed_the_machine_is_said_with_the_workload(
    monkeypatch: pytest.MonkeyPatch, stolen: float, is_too_much: bool
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    samples = iter(
        [
            disturbances.Sample(0.0, total_s=0.0, steal_s=0.0),
            disturbances.Sample(9.0, total_s=9.0, steal_s=9.0 * stolen),
        ]
    )
    monkeypatch.setattr(disturbances, "sample", lambda: next(samples))
    engine, course, said = Engine(base=steady), Course(), list[tuple[str, str]]()
    watching = Observers(engine.steps.append, on_disturbed=lambda *words: said.append(words))
    session = engine.session(rounds=2, watching=watching)
    (warning,) = rounds.watched_rounds(session, engine.cells(session), course)
    assert warning.startswith(f"locks: {stolen:.1%} ")
    # What is too much to decide by is said while the experiment may still be stopped.
    assert said == ([("locks", warning.removeprefix("locks: "))] if is_too_much else [])
    assert 0 < course.wall_s < 60


def watched(session: Session, cells: Sequence[Cell], monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Measure in rounds, and return what the machine was looked at with."""
    looked: list[tuple[object, ...]] = []

    def disturbances_of(_before: object, _after: object, *given: object) -> list[str]:
        looked.append(given)
        return []

    monkeypatch.setattr(disturbances, "disturbances", disturbances_of)
    assert rounds.watched_rounds(session, cells, Course()) == []
    return looked


def test_without_containers_every_process_below_ours_is_the_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a cell has no supervisor, so that nothing was ever said of other programs."""
    session = Engine().session(None, lambda _, argv: steady(0, loops_of(argv)), rounds=2)
    cell = Cell(session, Subject(variant="base", image_id=""))
    assert cell.slot().sandbox.id == ""
    assert watched(session, [cell], monkeypatch) == [([], pytest.approx(0.75 * 3), 0.0)]


def test_where_no_block_ran_nothing_is_said_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, ending = Engine(base=steady), Ending(budget_s=1e-9)
    ending.start()
    session = engine.session(ending=ending, rounds=2)
    assert watched(session, engine.cells(session), monkeypatch) == []
    assert engine.started == {}


def test_the_cpu_time_of_a_service_that_is_gone_counts_beside_that_of_what_was_launched() -> None:
    session, course = Engine().session(), Course()
    (cell,) = rows_of(session, "a")
    for result in (
        Result(track_of(cell), OK, processes.NOTHING_RUN, busy_s=2.0, cpu_s=4.0),
        Result(track_of(cell), OK, make_ended(costs(1.5))),
    ):
        course.add(result)
    assert (course.in_processes_s, course.cpu_s, course.removed_cpu_s) == (2.0 + 1.5, 0.75, 4.0)


def test_an_engine_elsewhere_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    network = make_network()
    network.is_elsewhere = True
    monkeypatch.setattr(disturbances, "sample", lambda: pytest.fail("this machine was looked at"))
    engine = Engine(base=steady)
    session = engine.session(workspace=network, rounds=2)
    assert rounds.watched_rounds(session, engine.cells(session), Course()) == []


def test_options_and_environment_of_a_mode_reach_each_process() -> None:
    seen = []

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        seen.append((argv[argv.index("python") :][:3], sandbox.environment))
        return make_ended("".join(f"{key}={value}\n" for key, value in make_facts().model_dump().items()))

    subject = Subject(variant="a", image_id="i", mode="m", environment={"LD_PRELOAD": "/a.so"}, options=["-X", "dev"])
    cell = Cell(Engine().session(None, run, rounds=2), subject)
    workloads.ask_facts(cell)
    run_rounds(cell.session, [cell])
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

    session = Engine().session(None, run, rounds=2)
    for label in ("hangs", "hangs", "other"):
        (cell,) = rows_of(session, label)
        before = cell.slot().sandbox
        cell.slot().agent = before.start_agent()
        is_silent = label in session.resources.known.silent
        assert workloads.ask_facts(cell) is None
        # Who was killed for its facts has another container, without that one's agent.
        assert is_silent or (cell.slot().sandbox is not before and cell.slot().agent is None)
    assert asked == ["hangs", "other"]


def test_an_interpreter_that_hung_when_asked_its_facts_has_no_longer_in_its_benchmarks() -> None:
    """cpython-2.7+pth-preload hung in eight of thirteen workloads until a deadline of up to two minutes."""

    def answer(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        if sandbox.id == "a":
            return make_ended(timed_out=True)
        return steady(0, loops_of(argv)) if "--loops" in argv else make_ended("no facts")

    workload = make_workload(deadline_s=60, benchmarks=[make_benchmark(), make_benchmark("prepared", set_up=["x"])])
    programs, known = {str(workload.program): b""}, Interpreters(silent={"a"})
    session = Engine().session(workload, answer, programs=programs, known=known, rounds=2)
    open_cells = rows_of(session, "base", "a")
    workloads._make_ready(session, open_cells)
    of_base, of_a = (cell.tracks["uncontended"] for cell in open_cells)
    assert (of_base.deadline_s, of_a.deadline_s) == (60, tracks.HUNG_S)
    prepared = open_cells[1].tracks["prepared"]
    prepared.outcome, _ = kind_of_track(prepared).set_up(prepared, open_cells[1].slot())
    run_rounds(session, open_cells)
    for track in (of_a, prepared):
        assert track.outcome.state is State.TIMED_OUT
        assert re.search(rf"\b{tracks.HUNG_S} s$", track.outcome.reason)


def test_a_process_that_was_killed_took_its_deadline_and_nobody_knows_what_cpu_time() -> None:
    session = Engine().session(make_workload(deadline_s=20))
    (cell,) = rows_of(session, "a")
    course = Course()
    for ended in (make_ended(costs(1.5)), make_ended(timed_out=True), make_ended(costs(1.5))):
        course.add(Result(track_of(cell), OK, ended))
    assert (course.in_processes_s, course.cpu_s) == (1.5 + 20 + 1.5, None)


LIMIT = {
    "name": "curl",
    "command": ["curl", "-o", "{scratch}/f", "{server}/single.bin"],
    "benchmarks": ["single"],
    "unit_count": 4,
}


def run_limit(ended: Ended, number: int) -> tuple[Track, list[list[str]]]:
    """Run the limit of one of two benchmarks in this round; return its track and what was started."""
    started: list[list[str]] = []

    def run(sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        assert sandbox.id == "limits"
        started.append(argv)
        return ended

    benchmarks = [make_benchmark("single", cpus="one", expected=[]), make_benchmark("many")]
    session = Engine().session(make_workload(benchmarks=benchmarks, limits=[LIMIT]), run)
    session.network = replace(make_network(run), url="http://10.0.0.2:8080")
    (subject,) = limits_of(session.workload)
    assert subject.label == "limit+curl"
    cell = Cell(session, subject)
    track = track_of(cell)
    assert track.name == "single"
    Block(number, "", [track], 0, 1).run(Course())
    return track, started


def test_a_visit_of_a_limit_is_a_row_of_runs_pinned_as_its_benchmark_with_its_places_filled_in() -> None:
    track, (argv,) = run_limit(make_ended(costs(8.0, 4.0, 6.0)), 1)
    assert argv[0] == LAUNCH
    assert argv[argv.index("--repeat") + 1] == "3"
    assert argv[argv.index("--cpu") + 1] == "last"
    assert argv[argv.index("--") + 1 :] == ["curl", "-o", "/scratch/f", "http://10.0.0.2:8080/single.bin"]
    (run,) = track.runs
    # Seconds per unit of work: a run does four; the first one is a warm-up.
    assert run.values == (1.0, 1.5)


def test_the_first_round_only_shows_that_a_limit_runs() -> None:
    track, (argv,) = run_limit(make_ended(costs(8.0)), 0)
    assert argv[argv.index("--repeat") + 1] == "1"
    assert (track.runs, track.goes_on) == ([], True)


@pytest.mark.parametrize(
    ("ended", "reason"),
    [
        (make_ended(costs(8.0)), "'single'.* 1 of 3 "),
        (
            make_ended(stderr="curl: (7) Failed to connect\n", exit_code=7),
            r"'single' .* 7: curl: \(7\) Failed to connect$",
        ),
    ],
)
def test_a_limit_that_fails_or_is_cut_short_says_why_and_is_no_figure(ended: Ended, reason: str) -> None:
    track, _ = run_limit(ended, 1)
    assert track.outcome.state is State.FAILED
    assert re.match(reason, track.outcome.reason)
    assert (track.runs, track.goes_on) == ([], False)


def test_every_row_runs_once_in_each_round_until_it_is_decided() -> None:
    order: list[list[str]] = []
    plan = rounds.Schedule("7/trial", least=3, limit=9)
    members: list[Any] = [SimpleNamespace(label=label) for label in "abc"]

    def undecided(going_on: Sequence[Track]) -> list[Track]:
        left = "" if len(order) >= 7 else "abc" if len(order) < 4 else "ac"
        return [track for track in going_on if track.label in left]

    for block in rounds.planned_blocks(plan, "abc", [members], undecided):
        assert block.total == (9 * 3 if block.round <= 4 else 4 * 3 + 5 * 2)
        order.append([track.label for track in block.tracks])
    # Looks come after 4, 5 and 7 rounds.
    assert [sorted(labels) for labels in order] == [["a", "b", "c"]] * 4 + [["a", "c"]] * 3
    assert len({tuple(labels) for labels in order[:4]}) > 1
