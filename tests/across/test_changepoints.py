"""Change points: where the level changed, seldom where it did not, and never for one odd point."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.across import changepoints
from interlock.across.changepoints import find
from tests.across.simulated import Noise, disturbed, false_alarms, found, heavy, normal, shown


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
    (split,) = find([0.0] * 5 + [1.0] * 5, 0.05)
    assert split.at == 5
    assert split.p < 1e-9
    assert find([0.3] * 10, 0.99) == []


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
    assert find([1.0, 9.0, 1.0, 9.0, 9.0][:size], 0.99) == []


@given(st.lists(st.floats(-30, 30), max_size=14))
def test_changes_lie_within_the_series_in_their_order(series: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        places = [split.at for split in find(series, 0.99)]
    assert places == sorted(set(places))
    assert all(changepoints.SHORTEST <= place <= len(series) - changepoints.SHORTEST for place in places)


@pytest.mark.parametrize("size", [6, 7, 11, 64])
def test_the_intervals_lie_within_the_series_and_reach_everywhere(size: int) -> None:
    intervals = changepoints.seeded(size)
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
    together = changepoints.find_each([series.tolist() for series in many], 0.05)
    assert together == [find(series.tolist(), 0.05) for series in many]
    assert any(together)
