"""Where a series changes its level, and what changed there as well."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis import history
from interlock.analysis.cohorts import Extract
from interlock.analysis.history import ChangePoint, Series, Split, find_splits, histories
from tests.analysis.extracts import BASE, OTHER, THIRD, make_extract
from tests.analysis.simulated import Noise, disturbed, false_alarms, found, heavy, normal, shown
from tests.builders import make_workload


def splits_of(series: Sequence[float], level: float) -> list[Split]:
    return find_splits([series], level)[0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_is_found_at_its_first_point(sign: int) -> None:
    series = normal(np.random.default_rng(1), 20)
    series[13:] += sign * math.log(1.3)
    assert shown(series) == [13]


def test_three_changes_are_three_and_what_holds_one_of_them_shows_no_fourth() -> None:
    for seed in range(40):
        series = normal(np.random.default_rng(seed), 40)
        series[12:20] += math.log(1.2)
        series[28:] -= math.log(1.2)
        assert len(shown(series)) == 3, seed


def test_a_step_that_was_taken_back_is_two() -> None:
    series = normal(np.random.default_rng(2), 30)
    series[10:20] += math.log(1.2)
    assert shown(series) == [10, 20]


def test_a_step_without_any_noise_is_certain_and_none_is_none() -> None:
    (split,) = splits_of([0.0] * 5 + [1.0] * 5, 0.05)
    assert split.at == 5
    assert split.p < 1e-9
    assert splits_of([0.3] * 10, 0.99) == []


@pytest.mark.parametrize("place", [0, 7, 19])
def test_one_odd_point_is_no_change_however_odd(place: int) -> None:
    series = normal(np.random.default_rng(3), 20)
    series[place] += math.log(5)
    assert shown(series, 1) == []


def test_two_odd_points_in_a_row_are_none_and_a_change_is_seen_with_the_third() -> None:
    series = normal(np.random.default_rng(4), 23)
    series[20:] += math.log(1.5)
    assert shown(series[:22]) == []
    assert shown(series) == [20]
    assert shown(np.append(series[:22], normal(np.random.default_rng(5), 10))) == []


@pytest.mark.parametrize("size", [0, 1, 3, 5])
def test_too_few_points_have_no_change(size: int) -> None:
    assert splits_of([1.0, 9.0, 1.0, 9.0, 9.0][:size], 0.99) == []


@given(st.lists(st.floats(-30, 30), max_size=14))
def test_changes_lie_within_the_series_in_their_order(series: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        places = [split.at for split in splits_of(series, 0.99)]
    assert places == sorted(set(places))
    assert all(history.SHORTEST <= place <= len(series) - history.SHORTEST for place in places)


@pytest.mark.parametrize("size", [6, 7, 11, 64])
def test_the_intervals_lie_within_the_series_and_reach_everywhere(size: int) -> None:
    intervals = history.seeded(size)
    assert intervals[0] == (0, size)
    assert all(start >= 0 and end <= size and end - start >= 6 for start, end in intervals)
    assert {split for start, end in intervals for split in range(start + 3, end - 2)} == set(range(3, size - 2))


@pytest.mark.parametrize(("noise", "most"), [(normal, 1), (heavy, 1), (disturbed, 1)])
def test_few_tables_without_a_change_show_one(noise: Noise, most: int) -> None:
    """Of 40 tables of 20 rows."""
    assert false_alarms(noise, 20, 40) <= most


@pytest.mark.parametrize(
    ("step", "size", "after", "least"), [(1.5, 8, 4, 48), (1.1, 20, 10, 48), (1.3, 12, 3, 48), (1.05, 40, 20, 30)]
)
def test_a_change_that_is_large_beside_the_noise_is_found(step: float, size: int, after: int, least: int) -> None:
    """In 50 series, each a row of a table of 20."""
    assert found(step, size, after, 50) >= least


def test_series_that_are_searched_together_have_the_splits_that_each_has_alone() -> None:
    rng = np.random.default_rng(8)
    many = [normal(rng, size) for size in (0, 5, 6, 20, 20, 40, 20, 150, 40, 20, 20)]
    for number, series in enumerate(many):
        series[len(series) // 2 :] += 0.05 * (number % 3)
    together = history.find_splits([series.tolist() for series in many], 0.05)
    assert together == [splits_of(series.tolist(), 0.05) for series in many]
    assert any(together)


def series_of(extracts: Sequence[Extract], label: str = OTHER) -> Series:
    (found,) = histories(extracts)
    return next(series for series in found.tables[0].series if series.label == label)


def stepped(at: int, size: int = 12, **after: Any) -> list[Extract]:
    """The ratio rises by a third with one experiment, in which something else changes too."""
    return [
        make_extract(
            {OTHER: 2.0 * (1 + 0.01 * (number % 2)) * (4 / 3 if number >= at else 1)},
            number,
            **(after if number >= at else {}),
        )
        for number in range(size)
    ]


def test_a_series_is_in_the_order_of_time_whatever_the_order_of_the_folders() -> None:
    series = series_of([make_extract({OTHER: 3.0}, 2), make_extract({OTHER: 1.0}, 0), make_extract({OTHER: 2.0}, 1)])
    assert [point.ratio.estimate for point in series.points] == pytest.approx([1, 2, 3])
    assert series.changes == ()


def test_a_change_has_the_levels_on_both_sides() -> None:
    (change,) = series_of(stepped(7)).changes
    assert isinstance(change, ChangePoint)
    assert change.at == 7
    assert (change.before, change.after) == pytest.approx((2.0 * 1.005, 8 / 3 * 1.005), rel=0.01)
    assert change.ratio == pytest.approx(4 / 3, rel=0.01)
    assert change.p < 0.05


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"tool_version": "0.2.0"}, "Interlock 0.1.0 -> 0.2.0"),
        ({"host": "other"}, "host box -> other"),
        ({"content_hashes": {OTHER: "0123456789"}}, "image of cpython-3.14t cpython- -> 01234567"),
        ({"content_hashes": {BASE: "0123456789"}}, "image of cpython-3.13 cpython- -> 01234567"),
        ({"content_hashes": {OTHER: ""}}, "image of cpython-3.14t cpython- -> not recorded"),
    ],
)
def test_what_else_changed_there_is_named(changed: dict[str, Any], what: str) -> None:
    (change,) = series_of(stepped(6, **changed)).changes
    assert change.what == (what,)


def test_where_nothing_else_changed_nothing_is_named() -> None:
    (change,) = series_of(stepped(6)).changes
    assert change.what == ()


def test_the_p_of_a_row_counts_all_rows_of_its_table() -> None:
    def extracts(others: Sequence[str]) -> list[Extract]:
        quiet = dict.fromkeys(others, 1.0)
        return [
            make_extract({OTHER: 2.0 * (1.03 if one >= 6 else 1) * (1 + 0.01 * (one % 3)), **quiet}, one)
            for one in range(12)
        ]

    (alone,) = series_of(extracts([])).changes
    (among,) = series_of(extracts(["cpython-3.8", "cpython-3.9"])).changes
    assert among.p == pytest.approx(3 * alone.p)
    assert series_of(extracts([f"cpython-3.{number}" for number in range(6)])).changes == ()


def test_a_variant_that_came_later_has_a_shorter_series() -> None:
    extracts = [make_extract({OTHER: 2.0, **({THIRD: 3.0} if number > 1 else {})}, number) for number in range(5)]
    assert [len(series_of(extracts, label).points) for label in (OTHER, THIRD)] == [5, 3]


def test_an_experiment_that_was_given_twice_counts_once() -> None:
    one = make_extract({OTHER: 2.0})
    assert len(series_of([one, one]).points) == 1


def test_kinds_of_host_have_histories_of_their_own_the_longest_first() -> None:
    other = make_extract({OTHER: 2.0}, 9, facts_of_host={"kernel": "7.0"})
    found = histories([other, make_extract({OTHER: 2.0}, 0), make_extract({OTHER: 2.0}, 1)])
    assert [(one.cohort.kind.kernel, len(one.experiments)) for one in found] == [("6.18.0", 2), ("7.0", 1)]


def test_experiments_in_which_the_benchmark_did_something_else_are_not_in_its_series() -> None:
    old = make_extract({OTHER: 9.0}, 0, workloads={"locks": make_workload(program="old.py")})
    series = series_of([old, make_extract({OTHER: 2.0}, 1), make_extract({OTHER: 2.0}, 2)])
    assert [math.isclose(point.ratio.estimate, 2, rel_tol=0.01) for point in series.points] == [True, True]
