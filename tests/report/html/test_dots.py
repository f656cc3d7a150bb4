"""The chart of a benchmark: where dots, intervals, band and ticks are on its logarithmic axis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis import comparison
from interlock.report.html.dots import MOST_TICKS, Dots, answer_dots, dots_of, log_ticks
from interlock.results.answers import Share
from tests.builders import make_experiment, make_values, present
from tests.picks import make_pick
from tests.reports import answered, example


def chart(number: int = 0) -> Dots:
    return present(dots_of(example()[1][number]))


@given(st.floats(0.002, 1), st.floats(1, 900), st.integers(4, 12))
def test_ticks_are_round_few_and_inside(low: float, high: float, most: int) -> None:
    ticks = log_ticks(low, high, most)
    assert all(low <= tick <= high for tick in ticks)
    assert len(ticks) <= max(most, 6)
    assert 1 in ticks
    assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.93, 1.35, [1, 1.1, 1.2, 1.3]),
        (0.72, 3.5, [1, 1.5, 2, 3]),
        (0.005, 12, [0.01, 0.1, 1, 10]),
    ],
)
def test_ticks_of_an_axis(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high, MOST_TICKS) == ticks


def test_a_dot_lies_in_its_interval_and_the_baseline_at_1_in_the_middle_of_the_band() -> None:
    dots = chart()
    by_label = {dot.label: dot for dot in dots.rows}
    for dot in dots.rows:
        assert 0 <= dot.low <= dot.place <= dot.high <= 100
    assert by_label["cpython-3.13"].place == dots.centre == dots.ticks["1x"]
    assert dots.centre == pytest.approx(sum(dots.band) / 2, abs=0.02)
    assert by_label["cpython-3.14"].place < dots.band[0] < dots.band[1] < by_label["cpython-2.7-pth"].place


def test_a_dot_has_its_verdict_and_says_its_figures() -> None:
    by_label = {dot.label: dot for dot in chart().rows}
    assert {label: dot.verdict for label, dot in by_label.items()} == {
        "cpython-3.13": "baseline",
        "cpython-2.7-pth": "slower",
        "cpython-3.14": "faster",
    }
    assert by_label["cpython-2.7-pth"].says.startswith("750 ±1%; 7.500x [")
    assert "to its control" in by_label["cpython-2.7-pth"].says
    assert [dot.figure for dot in by_label.values()] == ["1.000x", "7.500x", "0.700x"]


def test_a_single_round_is_a_dot_without_an_interval() -> None:
    experiment = make_experiment(["cpython-3.13", "cpython-3.14t"])
    values = {("cpython-3.13", "locks"): {"uncontended": make_values([1.0])}}
    assert dots_of(comparison.tables(experiment, values, {})[0]) is None
    values |= {("cpython-3.14t", "locks"): {"uncontended": make_values([2.0])}}
    dots = present(dots_of(comparison.tables(experiment, values, {})[0]))
    (dot,) = [dot for dot in dots.rows if dot.label == "cpython-3.14t"]
    assert dot.low == dot.place == dot.high
    assert "one round" in dot.says


def test_it_says_in_one_sentence_what_it_shows_with_the_unit_the_rounds_and_the_twin() -> None:
    assert chart().title == "locks uncontended"
    assert "(x, logarithmic)" in chart().says
    assert "8 rounds" in chart().says
    assert "twin" in chart().says
    assert ". " not in chart().says.removesuffix(".")


def weighing(**shares: float) -> list[Share]:
    """Return shares of benchmarks of downloads and services, whose names have `_` for `-`."""
    named = {name.replace("_", "-"): share for name, share in shares.items()}
    return [
        Share(workload="service" if "-" in name else "download", benchmark=name, share=share)
        for name, share in named.items()
    ]


def test_the_chart_beside_the_answer_has_what_it_names_and_weighs_the_heaviest_first() -> None:
    _, tables, opening = answered("2026-11-29-a")
    labels, benchmarks = ("cpython-3.14", "cpython-3.14t"), ("waitress-database", "uvicorn-json", "single", "many")
    found = present(answer_dots(tables, present(opening.pick)))
    assert [dot.name for dot in found.rows] == [f"{label} {name}" for name in benchmarks for label in labels]
    by_name = {dot.name: dot.ratio for dot in found.rows}
    assert by_name["cpython-3.14 many"] < 1 < by_name["cpython-3.14t many"]
    heavier = weighing(waitress_json_8=0.1, uvicorn_json=0.1, many=0.5, single=0.2, waitress_database=0.1)
    found = present(answer_dots(tables, make_pick(shares=heavier)))
    benchmarks = ("many", "single", "waitress-json-8", "uvicorn-json")
    assert [dot.name for dot in found.rows] == [f"{label} {name}" for name in benchmarks for label in labels]
    without = [table for table in tables if table.benchmark.name != "many"]
    assert len(present(answer_dots(without, present(opening.pick))).rows) == 6
    fifth = present(answer_dots(without, make_pick(shares=heavier)))
    assert fifth.rows[-1].name == "cpython-3.14t waitress-database"
    assert answer_dots(tables, make_pick(named=["cpython-3.13"])) is None
    assert answer_dots(tables, make_pick(shares=[])) is None
