"""What a trial's table and its GIL probe say of each variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from interlock.analysis.comparison import DetailFigure
from interlock.analysis.statistics import Ratio, ratio_from
from interlock.analysis.trials import (
    Bottleneck,
    Busy,
    Figure,
    JudgedRow,
    TrialVerdict,
    best_of,
    busy_of,
    faults,
    gains_by_cpus,
    gil_problem,
    gil_text,
    judge,
)
from interlock.analysis.verdicts import Verdict
from interlock.catalog.services import Probed
from interlock.catalog.variants import Gil
from interlock.results.experiments import TOO_DISTURBED, Outcome, State
from interlock.results.trials import OWN, GilStates, TriedImage
from interlock.trial.options import conditions_of
from tests.builders import OK, present
from tests.trials import NOISE, around, make_trial, make_tried

BACK = GilStates(processes=1, off_at_start=1, came_back=1, modules=["lxml.etree"])
NEW = "cpython-3.14"


def judged(seconds: float | None, outcome: Outcome | None = None, about: TriedImage | None = None) -> JudgedRow:
    """The verdict on a variant of these seconds per request; the user's own takes 1 ms."""
    rows = {} if seconds is None else {NEW: around(seconds, NOISE[::-1])}
    trial = make_trial(tried={NEW: about or TriedImage()})
    (found,) = judge(*make_tried(rows, {} if outcome is None else {NEW: outcome}, trial=trial))
    return found


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0005, TrialVerdict.SWITCH), (0.002, TrialVerdict.STAY), (0.001, TrialVerdict.SAME)],
)
def test_the_verdict_is_that_of_the_table(seconds: float, expected: TrialVerdict) -> None:
    found = judged(seconds)
    assert found.verdict is expected
    assert found.problem == ""
    assert present(found.comparison).ratio.estimate == pytest.approx(seconds / 0.001, rel=0.02)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (State.UNAVAILABLE, TrialVerdict.NOT_TRIED),
        (State.UNSUPPORTED, TrialVerdict.NOT_TRIED),
        (State.FAILED, TrialVerdict.STAY),
        (State.TIMED_OUT, TrialVerdict.STAY),
        (State.NOT_MEASURED, TrialVerdict.UNDECIDED),
    ],
)
def test_what_has_no_image_was_not_tried_and_what_fails_is_none_to_switch_to(
    state: State, expected: TrialVerdict
) -> None:
    outcome = Outcome(state=state, reason="it does not build: error: no wheel")
    found = judged(None, outcome)
    assert found.verdict is expected
    assert found.problem == f"{state.value}: {outcome.reason}"


def test_a_gil_that_came_back_forbids_to_switch_however_fast_it_is() -> None:
    found = judged(0.0005, about=TriedImage(declared_gil=Gil.OFF, gil=BACK))
    assert found.verdict is TrialVerdict.STAY
    assert "'lxml.etree'" in found.problem
    assert present(found.comparison).verdict is Verdict.FASTER


@pytest.mark.parametrize("state", [State.FAILED, State.NOT_MEASURED])
def test_the_gil_is_said_of_what_failed_or_was_not_reached_as_well(state: State) -> None:
    """Of what a budget had ended before the first round it was undecided, and the gate let it through."""
    outcome = Outcome(state=state, reason="exit code 139")
    found = judged(None, outcome, TriedImage(declared_gil=Gil.OFF, gil=BACK))
    assert (found.verdict, found.has_failed) == (TrialVerdict.STAY, True)
    assert found.problem.startswith(f"{state.value}: {outcome.reason}; ")
    assert "'lxml.etree'" in found.problem


def test_the_users_own_and_its_twin_are_judged_by_nobody() -> None:
    experiment, table = make_tried({})
    assert judge(experiment, table) == []
    assert present(table.twin).estimate == pytest.approx(1.0)


def test_the_best_are_those_that_are_not_shown_to_be_slower_than_the_fastest() -> None:
    rows = {
        "cpython-3.13": around(0.0007),
        "cpython-3.14": around(0.0005, NOISE[::-1]),
        "cpython-3.14t": around(0.000501, NOISE[3:] + NOISE[:3]),
        "cpython-3.9": around(0.002),
    }
    experiment, table = make_tried(rows)
    found = judge(experiment, table)
    assert best_of(found, table) == ["cpython-3.14", "cpython-3.14t"]
    assert best_of([one for one in found if one.verdict is TrialVerdict.STAY], table) == []


def test_the_best_are_compared_block_by_block_though_one_lacks_a_block() -> None:
    """Ctrl-C within a block, then --resume: what blocks differ by hid that one takes a fifth longer."""
    by_block = (1.0, 1.5, 0.8, 1.4, 0.9, 1.6, 1.1, 1.3)
    slower = [0.0006 * by * noise for by, noise in zip(by_block, NOISE, strict=True)]
    rows = {OWN: around(0.001, by_block), NEW: around(0.0005, by_block), "cpython-3.14t": slower}
    experiment, table = make_tried(rows)
    *others, last = table.rows
    figures, blocks = ((*whole[:1], *whole[2:]) for whole in (last.figures, last.blocks))
    table = replace(table, rows=(*others, replace(last, figures=figures, blocks=blocks)))
    assert best_of(judge(experiment, table), table) == [NEW]


def tried(gil: GilStates | None, declared: Gil | None = Gil.OFF) -> TriedImage:
    return TriedImage(declared_gil=declared, gil=gil)


def test_a_gil_that_came_back_is_trouble_and_who_did_it_is_named() -> None:
    back = GilStates(processes=2, off_at_start=2, came_back=1, modules=["a", "b"])
    assert all(module in gil_problem(tried(back)) for module in ("'a'", "'b'"))
    unnamed = GilStates(processes=1, off_at_start=1, came_back=1)
    assert gil_problem(tried(unnamed))
    assert "'" not in gil_problem(tried(unnamed))


def test_a_gil_that_was_on_from_the_start_is_trouble_where_it_should_be_off_alone() -> None:
    on, off = GilStates(processes=2, off_at_start=0), GilStates(processes=2, off_at_start=2)
    assert gil_problem(tried(on))
    promised_by_nobody = [tried(on, Gil.ON), tried(on, None)]
    assert [gil_problem(one) for one in (tried(off), tried(None), *promised_by_nobody)] == [""] * 4


def test_the_state_in_a_word() -> None:
    states = {
        "-": None,
        "off": GilStates(processes=2, off_at_start=2),
        "on": GilStates(processes=2, off_at_start=0),
        "off in 1 of 2": GilStates(processes=2, off_at_start=1),
        "came back": GilStates(processes=2, off_at_start=2, came_back=1),
    }
    assert {word: gil_text(tried(gil)) for word, gil in states.items()} == {word: word for word in states}


OWN_FIGURES: dict[str, float | Sequence[float]] = {
    "latency_p50_s": 0.01,
    "latency_p99_s": 0.02,
    "unit_cpu_s": 0.001,
    "memory_bytes": 5e7,
    "healthy_after_s": 0.5,
    "service_cpus": 0.95,
    "load_cpus": 0.3,
}


def with_figures(
    seconds: float, *, decides: Any = "time", warnings: Sequence[str] = (), **changes: float | Sequence[float]
) -> JudgedRow:
    """The verdict on a variant that differs from the user's own in its seconds and in these figures."""
    rows = {NEW: around(seconds, NOISE[::-1])}
    reported = {OWN: OWN_FIGURES, NEW: OWN_FIGURES | changes}
    (found,) = judge(*make_tried(rows, reported=reported, probed=Probed(decides=decides), warnings=list(warnings)))
    return found


def test_gain_and_price_are_figures_that_are_shown_to_differ() -> None:
    found = with_figures(0.0005, memory_bytes=6e7, latency_p99_s=0.01)
    shares = {change.figure: (change.verdict, round(change.share, 2)) for change in found.changes}
    assert shares == {
        Figure.RATE: (Verdict.FASTER, 1.0),
        Figure.P50: (Verdict.SAME, 0.0),
        Figure.P99: (Verdict.FASTER, -0.5),
        Figure.CPU: (Verdict.SAME, 0.0),
        Figure.MEMORY: (Verdict.SLOWER, 0.2),
        Figure.START: (Verdict.SAME, 0.0),
        Figure.IMAGE: (Verdict.SAME, 0.0),
    }


def test_a_figure_is_compared_block_by_block_though_a_row_lacks_one() -> None:
    """Ctrl-C within a block, then --resume: all later blocks were compared with those of another round."""
    own = [5e7 * by for by in (1.0, 1.5, 0.8, 1.4, 0.9, 1.6, 1.1, 1.3)]
    mine = [1.2 * figure * noise for figure, noise in zip(own, NOISE, strict=True)]
    reported = {OWN: OWN_FIGURES | {"memory_bytes": own}, NEW: OWN_FIGURES | {"memory_bytes": mine}}
    experiment, table = make_tried({NEW: around(0.001, NOISE[::-1])}, reported=reported)

    def cut(figure: DetailFigure | None) -> DetailFigure | None:
        without = [(*row[:1], *row[2:]) for row in (figure.processes, figure.blocks)] if figure else []
        return figure and replace(figure, processes=without[0], blocks=without[1])

    rows = tuple(replace(row, details=tuple(map(cut, row.details))) if row.label == NEW else row for row in table.rows)
    (found,) = judge(experiment, replace(table, rows=rows))
    (memory,) = [change for change in found.changes if change.figure is Figure.MEMORY]
    assert (memory.verdict, round(memory.share, 2)) == (Verdict.SLOWER, 0.2)


def test_where_cpu_time_decides_worse_latency_forbids_to_switch() -> None:
    assert with_figures(0.0005, decides="cpu").verdict is TrialVerdict.SWITCH
    found = with_figures(0.0005, decides="cpu", latency_p99_s=0.04)
    assert found.verdict is TrialVerdict.STAY
    assert "p99" in found.problem
    assert with_figures(0.0005, latency_p99_s=0.04).verdict is TrialVerdict.SWITCH


def test_too_much_disturbance_decides_no_figure_but_the_images_size() -> None:
    disturbed = [f"trial-service: other programs took {TOO_DISTURBED}"]
    found = with_figures(0.0005, decides="cpu", warnings=disturbed, latency_p99_s=0.04)
    assert found.verdict is TrialVerdict.UNDECIDED
    assert {change.figure for change in found.changes if change.verdict is not Verdict.UNDECIDED} == {Figure.IMAGE}


def test_the_interval_of_a_figure_that_is_undecided_among_many_has_1_in_it() -> None:
    widened = 0
    for share in range(1, 12):
        memory = around(5e7 * (1 + share / 100), (1.08, 0.96, 1.05, 0.95, 1.0, 1.07, 0.94, 1.02))
        change = next(one for one in with_figures(0.001, memory_bytes=memory).changes if one.figure is Figure.MEMORY)
        assert isinstance(change.cost, Ratio)
        alone = ratio_from(change.cost.log, change.cost.error, change.cost.freedom, change.cost.rounds)
        assert change.cost.low <= 1 or change.verdict.differs
        widened += change.cost.low <= 1 < alone.low
    assert widened


def test_a_row_that_failed_makes_no_figure_of_the_others_harder_to_show() -> None:
    """Each figure's table counted it, as that of what decides did not."""
    shown = {}
    for outcome in (OK, Outcome(state=State.FAILED, reason="exit code 139")):
        memory = [
            around(5e7 * (1 + share / 200), (1.08, 0.96, 1.05, 0.95, 1.0, 1.07, 0.94, 1.02)) for share in range(40)
        ]
        rows = {NEW: around(0.001, NOISE[::-1]), "cpython-3.13": around(0.001, NOISE[::-1])}
        judged = [
            judge(
                *make_tried(
                    rows,
                    {"cpython-3.13": outcome},
                    reported={OWN: OWN_FIGURES, "cpython-3.13": OWN_FIGURES, NEW: OWN_FIGURES | {"memory_bytes": one}},
                )
            )
            for one in memory
        ]
        changes = [change for found in judged for row in found if row.label == NEW for change in row.changes]
        shown[outcome.state] = sum(one.figure is Figure.MEMORY and one.verdict.differs for one in changes)
    assert shown[State.FAILED] > shown[State.OK] > 0


@pytest.mark.parametrize(
    ("used", "load", "cpus", "bound"),
    [
        (0.95, 0.95, 1, Bottleneck.SERVICE),
        (0.4, 0.95, 1, Bottleneck.LOAD),
        (0.4, 0.3, 1, Bottleneck.NOTHING),
        (1.0, 0.3, 2, Bottleneck.GIL),
        (1.5, 0.3, 2, Bottleneck.SERVICE),
        (0.5, 0.3, 2, Bottleneck.NOTHING),
    ],
)
def test_what_bounds_a_service_is_what_is_busy(used: float, load: float, cpus: int, bound: Bottleneck) -> None:
    assert Busy(used, cpus, load).bound is bound


def test_how_busy_the_users_own_was_is_in_its_figures() -> None:
    _, table = make_tried({}, reported={OWN: OWN_FIGURES})
    busy = present(busy_of(table))
    assert busy.used == pytest.approx(0.95)
    assert busy.load == pytest.approx(0.3)
    assert busy_of(make_tried({})[1]) is None


def test_a_sweep_tells_what_a_second_cpu_gives_each_row() -> None:
    _, one = make_tried({NEW: around(0.001)})
    _, two = make_tried({OWN: around(0.00098), NEW: around(0.0005)}, trial=make_trial(service_cpus="0-1"))
    gains = gains_by_cpus([one, two])
    assert {label: round(gain, 1) for label, gain in gains.items()} == {OWN: 1.0, NEW: 2.0}
    assert gains_by_cpus([one]) == {}


@pytest.mark.parametrize(
    ("seconds", "text", "met"),
    [
        (0.002, "slower", [(NEW, "slower")]),
        (0.0005, "slower|undecided|failed", []),
        (0.001, "more-memory=10%", [(NEW, "memory +20%")]),
        (0.001, "more-memory=25%", []),
        (0.002, "less-throughput=40%", [(NEW, "throughput -50%")]),
        (0.002, "less-throughput=60%", []),
        (0.0005, "less-throughput=10%", []),
    ],
)
def test_a_gate_is_shut_by_what_is_shown_and_by_more_than_its_share(
    seconds: float, text: str, met: list[tuple[str, str]]
) -> None:
    found = with_figures(seconds, memory_bytes=6e7)
    assert faults([found], conditions_of(text)) == met


def test_what_does_not_build_or_has_its_gil_back_has_failed() -> None:
    failed = judged(None, Outcome(state=State.FAILED, reason="no wheel"))
    back = judged(0.0005, about=TriedImage(declared_gil=Gil.OFF, gil=BACK))
    assert faults([failed, back], conditions_of("failed,undecided")) == [(NEW, "failed")] * 2
    left = judged(None, Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first"))
    assert faults([left], conditions_of("undecided")) == [(NEW, "undecided")]
