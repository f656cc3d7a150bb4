"""Over time: series in their order, and what else changed where their level did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from interlock.across.extract import Extract
from interlock.across.history import ChangePoint, Series, histories
from tests.across.extracts import BASE, OTHER, THIRD, make_extract
from tests.builders import make_workload


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
