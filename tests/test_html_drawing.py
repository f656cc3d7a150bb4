"""What all charts have in common: axes, the order of rows, which records are drawn."""

from __future__ import annotations

from typing import Any

import altair as alt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.html.drawing import NARROW, WIDE, Chart, Layout, log_scale, log_ticks, ordered, rows, y_of

RECORDS: list[dict[str, Any]] = [
    {"variant": "b", "benchmark": "x", "ratio": 2.0},
    {"variant": "a", "benchmark": "x", "ratio": None},
    {"variant": "c", "benchmark": "y", "ratio": 0.5},
]


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
        (0.005, 12, [0.01, 0.03, 0.1, 0.3, 1, 3, 10]),
    ],
)
def test_ticks_of_a_wide_axis(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high, WIDE.ticks) == ticks


def test_a_logarithmic_scale_holds_every_figure_and_1() -> None:
    low, high = log_scale([3.0, None, 20.0]).domain
    assert low < 1
    assert high > 20


def test_rows_stand_as_their_names_do_or_least_ratio_first_and_what_has_none_last() -> None:
    def standing(best_first: bool) -> list[str]:
        found = ordered(RECORDS, "variant", ["a", "b", "c"], best_first=best_first)
        return [one["variant"] for one in sorted(found, key=lambda one: one["order"])]

    assert standing(False) == ["a", "b", "c"]
    assert standing(True) == ["c", "b", "a"]


def nothing(_layout: Layout) -> alt.LayerChart:
    return alt.LayerChart(layer=[])


def test_a_chart_draws_the_records_of_its_benchmark_that_have_the_figure() -> None:
    chart = Chart("name", "title", "says", "ratios", nothing, {"benchmark": "x"}, needs="ratio")
    assert [one["variant"] for one in chart.records(RECORDS)] == ["b"]


def test_names_stand_beside_their_rows_where_there_is_room_and_above_them_where_not() -> None:
    def axis(narrow: bool) -> object:
        chart = rows().mark_point().encode(y=y_of(NARROW if narrow else WIDE))
        return chart.to_dict()["encoding"]["y"]["axis"]

    assert axis(narrow=False) is not None
    assert axis(narrow=True) is None
