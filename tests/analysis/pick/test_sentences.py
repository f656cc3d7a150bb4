"""The two sentences of a pick: what to run for what gain and cost, and where the figures are from."""

from __future__ import annotations

import re
from typing import Any

import pytest

from interlock.analysis.pick.sentences import as_measured, candidate_lines, costs_text, origin, recommendation
from interlock.results.answers import (
    Costs,
    Decision,
    Elsewhere,
    Estimate,
    Exclusion,
    MachineDifference,
    Sides,
    Standing,
    Whose,
)
from tests.builders import present
from tests.picks import make_pick


def estimate(middle: float, low: float, high: float | None) -> Estimate:
    return Estimate(estimate=middle, low=low, high=high)


@pytest.mark.parametrize(
    ("rss_bytes", "start_s", "ratio", "text"),
    [
        (4_100_000, 0.0, estimate(1, 0.98, 1.02), "+4 MB memory, same start-up"),
        (400_000, None, None, "same memory, start-up not measured"),
        (None, None, None, "memory not measured, start-up not measured"),
        (-31_000_000, 0.011, estimate(1.5, 1.4, 1.6), "-31 MB memory, +11.0 ms start-up"),
        (0, 0.001, estimate(1.1, 0.9, 1.3), "same memory, start-up undecided"),
        (0, 0.001, estimate(1.1, 0, None), "same memory, start-up undecided"),
    ],
)
def test_a_cost_is_said_only_where_it_was_measured_and_shown(
    rss_bytes: int | None, start_s: float | None, ratio: Estimate | None, text: str
) -> None:
    assert costs_text(Costs(max_rss_bytes=rss_bytes, image_bytes=0, start_s=start_s, start_ratio=ratio)) == text


def test_a_switch_has_its_gain_with_cpus_and_interval_and_its_cost() -> None:
    said = recommendation(make_pick())
    assert said.startswith("SWITCH from cpython-3.13 to cpython-3.14t: ")
    assert re.search(r"\b42 %.*\b2 CPUs\b.*\b95 %.*\b36 to 49 %.*\+31 MB\b.*\+2\.1 ms\b", said), said


def test_the_answer_has_one_figure_and_the_measured_one_is_said_apart_where_it_is_another() -> None:
    pick = make_pick({"gain": estimate(1.4, 1.3, 1.5)})
    assert "42 %" not in recommendation(pick)
    assert "+42 %" in as_measured(present(pick.recommended))
    assert as_measured(present(make_pick().recommended)) == ""


def test_that_the_best_of_the_others_is_the_same_is_said() -> None:
    contenders = [
        one.model_copy(update={"standing": Standing.SAME}) if one.standing is Standing.FASTER else one
        for one in make_pick().contenders
    ]
    said = recommendation(make_pick(decision=Decision.STAY, recommended=None, contenders=contenders))
    assert re.search(r"^STAY with cpython-3\.13: .*\b2 CPUs\b.*, the same within 5 %\.$", said)


@pytest.mark.parametrize(
    ("changes", "first", "named"),
    [
        ({"decision": Decision.MEASURE, "recommended": None}, "MEASURE", "cpython-3.13"),
        (
            {"decision": Decision.NOTHING, "excluded": [Exclusion(label="x", reasons=["old"])], "recommended": None},
            "NOTHING FITS",
            "1 variants",
        ),
        ({"decision": Decision.STAY, "contenders": [], "recommended": None}, "STAY", "nothing else"),
    ],
)
def test_every_decision_has_its_word(changes: dict[str, Any], first: str, named: str) -> None:
    said = recommendation(make_pick(**changes))
    assert said.startswith(first)
    assert named in said


@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"apart": [MachineDifference(what="cores", there="2", here="8")]}, "a 2-core Example CPU 9000, not "),
        ({"apart": [MachineDifference(what="kernel", there="6", here="7")]}, "a 2-core Example CPU 9000 like yours"),
        ({}, "the project's figures: "),
        ({}, "2026-11-21, builds with PGO and LTO"),
        ({}, "(yours: none here)"),
        ({"whose": Whose.HERE}, "yours in this folder (2026-11-21-a): "),
        ({"whose": Whose.ELSEWHERE}, "yours elsewhere (2026-11-21-a): "),
        ({"cpus": 8}, "8 CPUs not measured"),
        ({"cpus": 2, "measured_cpus": 8}, "2 CPUs not measured"),
        ({}, "dependencies"),
        ({"measured_otherwise": "neither PGO nor LTO instead of PGO"}, "with neither PGO nor LTO instead of PGO"),
    ],
)
def test_what_the_figures_do_not_say_is_said(changes: dict[str, Any], part: str) -> None:
    assert part in origin(make_pick(**changes))


@pytest.mark.parametrize(
    ("asked", "figures"),
    [
        ("computing", ["SWITCH", "42 %", "22 %", "audit"]),
        ("elsewhere", ["SWITCH", "35 %", "42 %", "audit"]),
        ("", ["SWITCH", "42 %", "35 %", "22 %", "audit"]),
    ],
)
def test_both_sides_stand_in_one_line_and_what_is_asked_once(asked: str, figures: list[str]) -> None:
    pick = make_pick()
    sides = Sides(computing=estimate(1.35, 1.2, 1.5), elsewhere=estimate(0.78, 0.7, 0.86))
    free, *rest = pick.contenders
    free = free.model_copy(update={"sides": sides.model_copy(update={asked: free.speed} if asked else {})})
    line = candidate_lines(pick.model_copy(update={"contenders": [free, *rest]}))[0]
    places = [line.index(figure) for figure in figures]
    assert places == sorted(places)
    assert line.count("throughput") == (1 if asked else 2)


def test_a_machine_on_which_the_same_switch_was_slower_is_named() -> None:
    other = Elsewhere(
        experiment="2026-11-22-b",
        machine="a 64-core Other CPU",
        measured_otherwise="",
        speed=estimate(0.8, 0.7, 0.9),
        standing=Standing.SLOWER,
    )
    said = origin(make_pick(elsewhere=[other]))
    assert all(one in said for one in ("a 64-core Other CPU", "slower", "2026-11-22-b"))
    faster = other.model_copy(update={"standing": Standing.FASTER})
    assert "Other CPU" not in origin(make_pick(elsewhere=[faster]))
