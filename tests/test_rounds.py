"""When rounds are enough, what they took, and what a cell is told by processes; the engine's answers are made up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import measure, rounds, stability
from interlock.engine import cells
from interlock.engine.cells import Ended
from interlock.model import Gil, Outcome, State, Subject
from interlock.stage import Cell, Stage, Step
from interlock.visits import Spent
from tests.builders import (
    OK,
    make_benchmark,
    make_cost,
    make_ended,
    make_facts,
    make_settings,
    make_stand,
    make_workload,
)

STEADY = [1.0, 1.01, 1.0, 1.01, 1.0]
UNSTEADY = [1.0, 2.0, 1.0, 2.0, 1.0]


def test_rounds_are_enough_when_every_interval_is_narrow() -> None:
    assert rounds.settled({"base": STEADY, "a": STEADY[::-1], "b": [2.0] * 5}, "base", 0.03)


@pytest.mark.parametrize(
    "figures",
    [
        {"base": STEADY, "a": STEADY, "b": UNSTEADY},
        {"base": STEADY, "a": []},
    ],
    ids=["another cell", "a cell without a figure"],
)
def test_one_wide_interval_asks_for_another_round(figures: dict[str, list[float]]) -> None:
    assert not rounds.settled(figures, "base", 0.03)


def test_the_wider_the_interval_may_be_the_sooner_rounds_are_enough() -> None:
    figures = {"base": STEADY, "a": UNSTEADY}
    assert not rounds.settled(figures, "base", 0.1)
    assert rounds.settled(figures, "base", 10.0)


def test_an_unsteady_round_that_both_met_is_no_reason_to_go_on() -> None:
    assert rounds.settled({"base": UNSTEADY, "a": [figure * 3 for figure in UNSTEADY]}, "base", 0.001)


@pytest.mark.parametrize("figures", [{}, {"a": UNSTEADY}, {"base": UNSTEADY}])
def test_where_no_ratio_can_be_had_none_is_waited_for(figures: dict[str, list[float]]) -> None:
    assert rounds.settled(figures, "base", 0.01)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=6), st.floats(1e-3, 1e3))
def test_how_fast_the_machine_is_does_not_decide_the_number_of_rounds(figures: list[float], factor: float) -> None:
    base = [1.0] * len(figures)
    scaled = {"base": [factor] * len(figures), "a": [figure * factor for figure in figures]}
    assert rounds.settled({"base": base, "a": figures}, "base", 0.05) == rounds.settled(scaled, "base", 0.05)


def test_more_slow_processes_than_trimming_takes_out_are_warned_of() -> None:
    calm, disturbed = [1.0, 1.01, 0.99, 1.0, 1.3, 1.0], [2.0, 2.0, 2.9, 2.0, 3.1, 2.0]
    assert rounds.unsteady("queue", {"a": calm, "b": calm[::-1], "c": []}) == []
    (warning,) = rounds.unsteady("queue", {"a": calm, "b": disturbed})
    assert warning.startswith("in 'queue' more processes than trimming takes out were 1.2 times as slow")
    assert "(1 of 2 cells: b)" in warning


def test_where_most_cells_were_disturbed_a_few_are_named() -> None:
    disturbed = {f"v{number}": [2.0, 2.0, 2.9, 2.0, 3.1, 2.0] for number in range(9)}
    (warning,) = rounds.unsteady("queue", disturbed)
    assert "(9 of 9 cells: v0, v1, v2, v3, v4 and 4 more)" in warning


def printed(value_s: float, loops: str, **metadata: bool) -> str:
    """What the launcher and a program print for one process."""
    report: dict[str, Any] = {"interlock": 1, "loops": 1, "inner_loops": 1, "values": [value_s], "metadata": metadata}
    if loops == "auto":
        report |= {"values": [], "calibration": [[1, value_s]]}
    return json.dumps(report) + "\n" + json.dumps({"interlock_process": make_cost(1.5).model_dump()}) + "\n"


class Engine:
    """Answers in the engine's place: for each label, how a process ends, given its number and the loops."""

    def __init__(self, **answers: Callable[[int, str], Ended]) -> None:
        self.answers = answers
        self.started: Counter[str] = Counter()
        self.steps: list[Step] = []

    def run_process(
        self, _client: Any, container: Any, argv: list[str], _deadline_s: float, _environment: Mapping[str, str]
    ) -> Ended:
        number = self.started[container.id]
        self.started[container.id] += 1
        return self.answers[container.id](number, argv[argv.index("--loops") + 1])

    def stage(self, **settings: Any) -> Stage:
        stand = make_stand(
            settings=make_settings(["base"]).model_copy(update=settings),
            on_step=self.steps.append,
        )
        return Stage(stand, make_workload(), None, None, None)

    def cells(self) -> list[Cell]:
        return [Cell(Subject(variant=label, image_id="i"), SimpleNamespace(id=label)) for label in self.answers]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Engine], Engine]:
    def put(engine: Engine) -> Engine:
        monkeypatch.setattr(cells, "run_process", engine.run_process)
        # The container that stands in for one that was killed at its deadline.
        monkeypatch.setattr(cells, "start_cell", lambda *_: SimpleNamespace(id="another"))
        return engine

    return put


def steady(_number: int, loops: str) -> Ended:
    return make_ended(printed(0.5, loops))


def unsteady(number: int, loops: str) -> Ended:
    return make_ended(printed(0.5 + number % 2, loops))


def test_without_a_limit_there_are_as_many_rounds_as_asked_for(use: Callable[[Engine], Engine]) -> None:
    engine = use(Engine(base=steady, a=steady))
    order = rounds._rounds(engine.stage(rounds=4), engine.cells(), Spent())
    assert len(order) == 1 + 4
    assert engine.started == {"base": 5, "a": 5}


@pytest.mark.parametrize(("answer", "expected"), [(steady, 3), (unsteady, 6)])
def test_rounds_go_on_until_the_intervals_are_narrow_or_the_limit_is_reached(
    use: Callable[[Engine], Engine], answer: Callable[[int, str], Ended], expected: int
) -> None:
    engine = use(Engine(base=steady, a=answer))
    stage = engine.stage(rounds=3, rounds_limit=6, half_width=0.01)
    assert len(rounds._rounds(stage, engine.cells(), Spent())) == 1 + expected
    assert {step.total for step in engine.steps} == {2 * (1 + 6)}
    assert engine.steps[0].stage == "round 0 of 3 to 6"


def test_a_benchmark_that_is_known_well_enough_leaves_the_rounds_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = Counter[tuple[str, str]]()

    def run_process(_client: Any, container: Any, argv: list[str], *_: Any) -> Ended:
        name = "wild" if "wild" in argv else "calm"
        started[name, container.id] += 1
        answer = unsteady if (name, container.id) == ("wild", "a") else steady
        return answer(started[name, container.id], argv[argv.index("--loops") + 1])

    monkeypatch.setattr(cells, "run_process", run_process)
    engine = Engine(base=steady, a=steady)
    benchmarks = [make_benchmark(name, arguments=[name]) for name in ("wild", "calm")]
    stage = engine.stage(rounds=3, rounds_limit=6, half_width=0.01)
    stage = Stage(stage.stand, make_workload(benchmarks=benchmarks), None, None, None)
    assert len(rounds._rounds(stage, engine.cells(), Spent())) == 1 + 6
    assert started == {("wild", "base"): 7, ("wild", "a"): 7, ("calm", "base"): 4, ("calm", "a"): 4}


def test_a_cell_that_timed_out_is_not_waited_for(use: Callable[[Engine], Engine]) -> None:
    def late(number: int, loops: str) -> Ended:
        return make_ended(timed_out=True) if number == 4 else unsteady(number, loops)

    engine = use(Engine(base=steady, a=late))
    open_cells = engine.cells()
    order = rounds._rounds(engine.stage(rounds=2, rounds_limit=9, half_width=0.01), open_cells, Spent())
    assert len(order) == 1 + 4
    assert [cell.outcomes["uncontended"].state for cell in open_cells] == [State.OK, State.TIMED_OUT]


def test_the_order_of_the_rounds_does_not_depend_on_when_they_end(use: Callable[[Engine], Engine]) -> None:
    engine = use(Engine(base=steady, a=steady, b=steady))
    exact = rounds._rounds(engine.stage(rounds=9, seed=5), engine.cells(), Spent())
    early = rounds._rounds(engine.stage(rounds=3, rounds_limit=9, half_width=0.01, seed=5), engine.cells(), Spent())
    assert early == exact[: 1 + 3]
    assert len({tuple(visit) for visit in exact}) > 1


def test_what_the_processes_took_is_summed_with_calibration_and_failures(use: Callable[[Engine], Engine]) -> None:
    def crash(_number: int, loops: str) -> Ended:
        return make_ended(printed(0.5, loops), "Segmentation fault", 139)

    engine = use(Engine(base=steady, a=crash))
    spent = Spent()
    rounds._rounds(engine.stage(rounds=2), engine.cells(), spent)
    assert (spent.in_processes_s, spent.cpu_s) == (1.5 * 4, 0.75 * 4)


def test_a_program_that_starts_with_another_gil_than_the_image_fails_and_is_not_started_again(
    use: Callable[[Engine], Engine],
) -> None:
    engine = use(Engine(base=steady, a=lambda _, loops: make_ended(printed(0.5, loops, gil_enabled_at_start=True))))
    open_cells = engine.cells()
    open_cells[1].gil = Gil.OFF
    rounds._rounds(engine.stage(rounds=2), open_cells, Spent())
    reason = "'uncontended' started with the GIL on, but it is declared off"
    assert [cell.outcomes["uncontended"] for cell in open_cells] == [OK, Outcome(state=State.FAILED, reason=reason)]
    assert engine.started["a"] == 1


def test_a_gil_that_came_back_is_noted_once_in_the_cell(use: Callable[[Engine], Engine]) -> None:
    def switching(_number: int, loops: str) -> Ended:
        return make_ended(printed(0.5, loops, gil_enabled_at_start=False, gil_enabled=True))

    engine = use(Engine(base=switching))
    (cell,) = engine.cells()
    cell.gil = Gil.OFF
    rounds._rounds(engine.stage(rounds=2), [cell], Spent())
    assert cell.notes == ["GIL off at start, on after the work: switched on by a module that was not named"]
    assert cell.outcomes["uncontended"] == OK


def test_what_disturbed_the_machine_is_said_with_the_workload(
    use: Callable[[Engine], Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    samples = iter([stability.Sample(0.0, total_s=0.0, steal_s=0.0), stability.Sample(9.0, total_s=9.0, steal_s=0.9)])
    monkeypatch.setattr(stability, "sample", lambda: next(samples))
    engine = use(Engine(base=steady))
    spent = Spent()
    _, warnings = rounds.watched_rounds(engine.stage(rounds=2), engine.cells(), spent)
    (warning,) = warnings
    assert warning.startswith("locks: 10.0% of the CPU time was stolen")
    assert 0 < spent.wall_s < 60


def test_an_engine_elsewhere_is_not_watched(use: Callable[[Engine], Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.1:2375")
    monkeypatch.setattr(stability, "sample", lambda: pytest.fail("this machine was looked at"))
    engine = use(Engine(base=steady))
    assert rounds.watched_rounds(engine.stage(rounds=2), engine.cells(), Spent())[1] == []


def test_options_and_environment_of_a_mode_reach_each_process(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def run_process(_client: Any, _container: Any, argv: list[str], _deadline_s: float, environment: Any) -> Ended:
        seen.append((argv[argv.index("python") :][:3], environment))
        return make_ended("".join(f"{key}={value}\n" for key, value in make_facts().model_dump().items()))

    monkeypatch.setattr(cells, "run_process", run_process)
    subject = Subject(variant="a", image_id="i", mode="m", environment={"LD_PRELOAD": "/a.so"}, options=["-X", "dev"])
    stage, cell = Engine().stage(rounds=2), Cell(subject, SimpleNamespace(id="m"))
    measure._ask_facts(stage, cell)
    rounds._rounds(stage, [cell], Spent())
    assert len(seen) >= 2
    assert {(*argv, *environment.items()) for argv, environment in seen} == {
        ("python", "-X", "dev", ("LD_PRELOAD", "/a.so"))
    }
