"""Between experiments: the ratio of two ratios, and what cannot be compared. In a series: where its level changes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.analysis import changes
from interlock.analysis.changes import (
    Change,
    ChangePoint,
    CohortChanges,
    Series,
    Split,
    changes_between,
    find_splits,
    histories,
)
from interlock.analysis.cohorts import Extract
from interlock.analysis.statistics import change_of
from interlock.errors import KindError
from tests.analysis.extracts import BASE, OTHER, THIRD, make_extract
from tests.analysis.simulated import Noise, disturbed, false_alarms, found, heavy, normal, shown
from tests.builders import make_workload


def compared(before: Extract | Sequence[Extract], after: Extract | Sequence[Extract]) -> CohortChanges:
    sides = [[side] if isinstance(side, Extract) else side for side in (before, after)]
    (found,) = changes_between(("A", sides[0]), ("B", sides[1]))
    return found


def row_of(found: CohortChanges, label: str = OTHER) -> Change:
    return next(row for row in found.tables[0].rows if row.label == label)


def test_a_change_is_the_ratio_after_divided_by_the_ratio_before_and_not_of_times() -> None:
    """The second machine's hour was twice as slow for all: no ratio shows it."""
    before, after = make_extract({OTHER: 2.0, THIRD: 3.0}), make_extract({OTHER: 2.4, THIRD: 3.0}, 1)
    row = row_of(compared(before, after))
    assert (row.before.estimate, row.after.estimate) == pytest.approx((2.0, 2.4))
    assert row.change.ratio.estimate == pytest.approx(1.2)
    assert row.change.verdict == "slower"
    assert row_of(compared(before, after), THIRD).change.verdict == "same"
    points = [one.measured["locks", "uncontended"].points[OTHER].ratio for one in (before, after)]
    alone = change_of(points[0], points[1])
    ends = (alone.low, alone.high, alone.p)
    assert (row.change.ratio.low, row.change.ratio.high, row.change.ratio.p) == pytest.approx(ends)


def test_what_became_faster_is_faster() -> None:
    assert row_of(compared(make_extract({OTHER: 2.0}), make_extract({OTHER: 1.5}, 1))).change.verdict == "faster"


def test_p_values_are_adjusted_within_a_table() -> None:
    labels = {f"cpython-3.{number}": 1.0 for number in range(5)}
    found = compared(make_extract(labels, noise=0.05), make_extract({**labels, "cpython-3.0": 1.1}, 1, noise=0.05))
    row = row_of(found, "cpython-3.0")
    assert row.change.p == pytest.approx(5 * row.change.ratio.p)


def test_images_are_the_same_changed_or_not_recorded() -> None:
    hashes = {BASE: "b", OTHER: "o", THIRD: ""}
    before = make_extract({OTHER: 2.0, THIRD: 3.0}, content_hashes=hashes)
    after = make_extract({OTHER: 2.0, THIRD: 3.0}, 1, content_hashes={**hashes, OTHER: "new"})
    found = compared(before, after)
    assert (found.baseline_image, row_of(found).image, row_of(found, THIRD).image) == (
        "same",
        "changed",
        "not recorded",
    )


def test_what_equal_images_show_is_counted_as_noise_only_beside_an_equal_baseline() -> None:
    before, after = make_extract({OTHER: 2.0, THIRD: 3.0}), make_extract({OTHER: 2.0, THIRD: 4.0}, 1)
    assert [row.label for row in compared(before, after).same_images] == [OTHER, THIRD]
    rebuilt = make_extract({OTHER: 2.0, THIRD: 4.0}, 1, content_hashes={BASE: "new"})
    assert compared(before, rebuilt).same_images == []


def test_what_only_one_side_has_is_left_out_and_named_once() -> None:
    found = compared(make_extract({OTHER: 2.0, "cpython-3.9": 1.0}), make_extract({OTHER: 2.0, THIRD: 3.0}, 1))
    assert [row.label for row in found.tables[0].rows] == [OTHER]
    assert found.left_out == ("only in A: cpython-3.9", "only in B: cpython-2.7")


def test_a_benchmark_that_does_something_else_now_is_left_out() -> None:
    other = make_extract({OTHER: 2.0}, 1, workloads={"locks": make_workload(program="new.py")})
    found = compared(make_extract({OTHER: 2.0}), other)
    assert found.tables == ()
    (line,) = found.left_out
    assert line == (
        "locks uncontended does something else: locks.py per lock on all of the CPUs; "
        "now new.py per lock on all of the CPUs"
    )


def test_experiments_of_different_kinds_of_host_are_refused() -> None:
    other = make_extract({OTHER: 2.0}, 1, facts_of_host={"cores": 96})
    with pytest.raises(KindError, match="cores 2 and 96"):
        compared(make_extract({OTHER: 2.0}), other)


def hosts(ratio: float, day: int, number: int = 6) -> list[Extract]:
    """Some hosts of one kind, each a little different."""
    return [
        make_extract({OTHER: ratio * (1 + 0.01 * (one % 3 - 1))}, day, host=f"host-{one}", twin=1 + 0.002 * one)
        for one in range(number)
    ]


def test_of_several_hosts_each_is_what_a_round_is() -> None:
    found = compared(hosts(2.0, 1), hosts(2.2, 2))
    row = row_of(found)
    assert row.change.ratio.rounds == 6
    assert row.change.ratio.estimate == pytest.approx(1.1, rel=0.001)
    assert row.change.verdict == "slower"
    assert row.seconds is None


def test_a_host_counts_once_with_its_last_experiment() -> None:
    found = compared([*hosts(9.0, 0), *hosts(2.0, 1)], hosts(2.2, 2))
    assert len(found.before.extracts) == 6
    assert row_of(found).before.estimate == pytest.approx(2.0, rel=0.001)


def runs(ratio: float, day: int, number: int) -> list[Extract]:
    """Some experiments of one host, each a little different from the others and each sure of itself."""
    return [make_extract({OTHER: ratio * (1 + 0.1 * (one % 2))}, day + one) for one in range(number)]


def test_several_experiments_of_one_host_are_repetitions_and_their_rounds_are_not() -> None:
    """By its rounds the last run of each side would show a change of 10 %, which is what runs differ by."""
    before, after = runs(2.0, 0, 3), runs(2.0, 3, 4)
    row = row_of(compared(before, after))
    assert (row.before.rounds, row.after.rounds) == (3, 4)
    assert row.change.ratio.low < 1 < row.change.ratio.high
    assert not row.change.verdict.differs
    assert row_of(compared(before[-1:], after[-1:])).change.verdict.differs
    assert row_of(compared(before, runs(4.0, 3, 4))).change.verdict == "slower"


def test_one_experiment_beside_many_hosts_has_no_interval() -> None:
    """Its rounds do not tell how hosts differ."""
    one = make_extract({OTHER: 3.0}, 2)
    for sides in (compared(hosts(2.0, 1), one), compared(one, hosts(2.0, 3))):
        assert row_of(sides).change.ratio.low == 0
        assert row_of(sides).change.verdict == "undecided"


def test_each_kind_that_both_sides_have_is_compared_by_itself() -> None:
    big = {"cores": 96}
    before = [make_extract({OTHER: 2.0}), make_extract({OTHER: 5.0}, facts_of_host=big)]
    after = [make_extract({OTHER: 2.0}, 1), make_extract({OTHER: 6.0}, 1, facts_of_host=big)]
    found = changes_between(("A", before), ("B", after))
    assert [one.before.cohort.kind.cores for one in found] == [2, 96]
    assert [one.tables[0].rows[0].change.ratio.estimate for one in found] == pytest.approx([1.0, 1.2])


def test_raw_times_of_one_experiment_on_each_side_are_there_for_who_asks() -> None:
    row = row_of(compared(make_extract({OTHER: 2.0}), make_extract({OTHER: 2.4}, 1)))
    assert row.seconds == pytest.approx((2e-7, 2.4e-7), rel=0.01)


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
    assert all(changes.SHORTEST <= place <= len(series) - changes.SHORTEST for place in places)


@pytest.mark.parametrize("size", [6, 7, 11, 64])
def test_the_intervals_lie_within_the_series_and_reach_everywhere(size: int) -> None:
    intervals = changes.seeded(size)
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
    together = changes.find_splits([series.tolist() for series in many], 0.05)
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
