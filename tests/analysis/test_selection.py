"""Which of several may be the best, and what a gain is worth that was picked as the largest."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from interlock.analysis.selection import RatioOf, announced, ranks
from interlock.analysis.statistics import Ratio, ratio_from
from interlock.results.answers import Rank


def ratio(log: float, error: float = 0.02) -> Ratio:
    return ratio_from(log, error, 20, 6)


def between(logs: Mapping[str, float], error: float = 0.02) -> RatioOf:
    return lambda mine, theirs: ratio(logs[mine] - logs[theirs], error)


def test_the_one_that_is_shown_to_be_better_than_all_is_the_best_and_the_others_are_worse() -> None:
    assert ranks(["a", "b", "c"], between({"a": 0.0, "b": 0.1, "c": 0.2})) == {
        "a": Rank.BEST,
        "b": Rank.WORSE,
        "c": Rank.WORSE,
    }


def test_where_the_first_two_are_close_both_may_be_the_best() -> None:
    assert ranks(["a", "b", "c"], between({"a": 0.0, "b": 0.01, "c": 0.2})) == {
        "a": Rank.OPEN,
        "b": Rank.OPEN,
        "c": Rank.WORSE,
    }


def test_one_is_worse_if_any_other_is_shown_to_be_better_though_the_first_is_not() -> None:
    logs = {"wild": 0.0, "sure": 0.02, "last": 0.1}

    def compared(mine: str, theirs: str) -> Ratio:
        return ratio(logs[mine] - logs[theirs], 0.5 if "wild" in {mine, theirs} else 0.01)

    assert ranks(list(logs), compared) == {"wild": Rank.OPEN, "sure": Rank.OPEN, "last": Rank.WORSE}


def test_a_difference_that_two_show_may_be_none_among_many() -> None:
    logs = {"a": 0.0, "b": 0.045}
    assert ranks(list(logs), between(logs))["b"] is Rank.WORSE
    crowd = logs | {f"c{number}": 0.5 for number in range(30)}
    assert ranks(list(crowd), between(crowd))["b"] is Rank.OPEN


def test_without_figures_nothing_is_shown_and_one_alone_is_the_best() -> None:
    assert ranks(["a", "b"], lambda _, __: None) == {"a": Rank.OPEN, "b": Rank.OPEN}
    assert ranks(["a"], between({"a": 0.0})) == {"a": Rank.BEST}
    assert ranks([], between({})) == {}


def test_where_all_differ_by_noise_alone_the_best_is_announced_as_their_mean() -> None:
    found = [ratio(one, 0.05) for one in (-0.04, -0.01, 0.0, 0.02, 0.03)]
    assert announced(found[0], found).log == pytest.approx(0.0, abs=1e-12)


def test_where_they_differ_by_far_more_than_noise_nothing_is_taken_off() -> None:
    found = [ratio(one, 0.001) for one in (-0.4, -0.1, 0.3)]
    assert announced(found[0], found).log == pytest.approx(-0.4, abs=1e-5)


def test_the_part_of_the_spread_that_is_noise_is_taken_off_the_distance_from_the_mean() -> None:
    """The logarithms' variance is 0.01, that of the noise 0.005: half of the distance is luck."""
    found = [ratio(one, 0.1) for one in (-0.1, 0.0, 0.1)]
    gain = announced(found[0], found)
    assert gain.log == pytest.approx(-0.05)
    assert gain.error < found[0].error
    assert gain.low < gain.estimate < gain.high


def test_of_two_or_of_single_rounds_nothing_is_known_of_the_spread() -> None:
    two = [ratio(-0.1), ratio(0.1)]
    assert announced(two[0], two) == two[0]
    single = ratio_from(-0.1, math.inf, 0, 1)
    assert announced(single, [single, *two]) == single
