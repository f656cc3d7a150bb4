"""Rows fitted together: estimates, intervals that cover, p-values that are as small as they say, and means."""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, ttest_1samp, ttest_ind, ttest_rel

from interlock.analysis import statistics
from interlock.analysis.statistics import NO_PART, RESOLUTION, BlockFigure, Ratio, fit_levels
from tests.builders import present

# Hours of sleep gained with either isomer, ten patients: Student, The Probable Error of a Mean, Biometrika 6 (1908).
DEXTRO = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
LAEVO = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
ROUNDS = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=8)
P_VALUES = st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=6)


def simulated(rng: np.random.Generator, rounds: int, deviation: float = 0.05) -> list[float]:
    """Figures, or ratios, around 1."""
    return [float(ratio) for ratio in np.exp(rng.normal(0, deviation, rounds))]


def covers(ratio: Ratio | None) -> bool:
    return present(ratio).low <= 1 <= present(ratio).high


def test_the_estimate_is_the_geometric_mean_of_the_ratios_of_each_round() -> None:
    ratio = present(statistics.ratio_of([2.0, 80.0], [1.0, 10.0]))
    assert ratio.estimate == pytest.approx(4)
    assert ratio.rounds == 2


def test_rounds_that_only_one_has_do_not_count() -> None:
    assert statistics.ratio_of([2.0, 4.0, 9.0], [1.0, 1.0]) == statistics.ratio_of([2.0, 4.0], [1.0, 1.0])
    assert statistics.ratio_of([2.0, 4.0], []) is None


@pytest.mark.parametrize("broken", [0.0, -1.0, math.nan, math.inf])
def test_figures_without_a_logarithm_have_no_ratio(broken: float) -> None:
    assert statistics.ratio_of([1.0, broken], [1.0, 1.0]) is None
    assert statistics.ratio_of([1.0, 1.0], [1.0, broken]) is None


def test_two_rows_without_outliers_are_students_paired_test() -> None:
    mine, theirs = ([math.exp(hours / 10) for hours in row] for row in (LAEVO[:8], DEXTRO[:8]))
    ratio = present(statistics.ratio_of(mine, theirs))
    student = ttest_rel(np.log(mine), np.log(theirs))
    assert ratio.p == pytest.approx(student.pvalue, rel=1e-3)
    assert ratio.freedom == pytest.approx(7)
    low, high = student.confidence_interval(0.95)
    assert (math.log(ratio.low), math.log(ratio.high)) == pytest.approx((low, high), rel=1e-3)


@pytest.mark.parametrize("disturbed", [1.7, 0.6])
def test_a_disturbed_round_in_twelve_hides_no_difference(disturbed: float) -> None:
    """A mean of all would be 4 % off, with an interval that holds 1."""
    calm = [1.05 * math.exp(0.01 * step) for step in (-3, -2, -2, -1, -1, 0, 1, 1, 2, 2, 3)]
    ratio = present(statistics.ratio_of([*calm, disturbed], [1.0] * 12))
    assert ratio.estimate == pytest.approx(1.05, abs=0.01)
    assert ratio.low > 1.02
    assert ratio.p < 1e-3


def test_one_round_leaves_the_interval_open() -> None:
    for ratio in (statistics.ratio_over([2.0]), present(statistics.ratio_of([2.0], [1.0]))):
        assert (ratio.low, ratio.high, ratio.p, ratio.rounds) == (0, math.inf, 1, 1)
        assert ratio.estimate == pytest.approx(2)


@given(st.floats(1e-9, 1e9), st.integers(2, 8))
def test_figures_without_any_spread_are_no_certainty(value: float, rounds: int) -> None:
    """No clock, page or count is finer than what it counts in."""
    figures = [value] * rounds
    for ratio in (statistics.ratio_over(figures), present(statistics.ratio_of(figures, [1.0] * rounds))):
        assert ratio.low < ratio.estimate < ratio.high
        assert ratio.error >= RESOLUTION / math.sqrt(rounds)
        assert ratio.p > 0 or abs(ratio.log) > 1000 * ratio.error


@given(ROUNDS)
def test_the_ratio_of_figures_to_themselves_is_exactly_1(figures: list[float]) -> None:
    ratio = present(statistics.ratio_of(figures, figures))
    assert (ratio.estimate, ratio.p) == pytest.approx((1, 1))


@settings(max_examples=settings().max_examples // 2)
@given(ROUNDS, ROUNDS)
def test_a_ratio_lies_in_its_interval_and_turned_round_it_is_its_reciprocal(
    mine: list[float], theirs: list[float]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ratio, turned = present(statistics.ratio_of(mine, theirs)), present(statistics.ratio_of(theirs, mine))
    assert ratio.low <= ratio.estimate <= ratio.high
    assert 0 <= ratio.p <= 1
    assert turned.log == pytest.approx(-ratio.log, abs=1e-4)


def test_independent_ratios_are_students_test() -> None:
    ratios = simulated(np.random.default_rng(2), 6)
    ratio = statistics.ratio_over(ratios)
    assert ratio.p == pytest.approx(ttest_1samp(np.log(ratios), 0).pvalue)


def test_a_change_is_the_ratio_of_two_ratios_and_its_p_value_is_welchs() -> None:
    rng = np.random.default_rng(8)
    before, after = simulated(rng, 5, 0.01), [1.2 * one for one in simulated(rng, 4, 0.05)]
    change = statistics.change_of(statistics.ratio_over(before), statistics.ratio_over(after))
    assert change.log == pytest.approx(np.mean(np.log(after)) - np.mean(np.log(before)))
    assert change.p == pytest.approx(ttest_ind(np.log(before), np.log(after), equal_var=False).pvalue)
    assert change.low < change.estimate < change.high
    assert change.rounds == 4


def test_a_change_from_or_to_one_round_is_open() -> None:
    change = statistics.change_of(statistics.ratio_over([1.0]), statistics.ratio_over([2.0, 2.1]))
    assert (change.low, change.high, change.p) == (0, math.inf, 1)


def table(rng: np.random.Generator, rows: int, rounds: int, deviations: Sequence[float]) -> dict[int, list[float]]:
    """Rows that are equal but for their noise; what disturbs a round disturbs all of them."""
    common = rng.normal(0, 0.1, rounds)
    logs = rng.normal(0, 1, (rows, rounds)) * np.resize(deviations, rows)[:, None] + common
    return {number: np.exp(row).tolist() for number, row in enumerate(logs)}


@pytest.mark.parametrize(("rows", "rounds"), [(2, 4), (3, 3), (6, 5), (12, 3), (12, 10)])
def test_equal_rows_differ_as_seldom_as_p_says_and_intervals_cover(rows: int, rounds: int) -> None:
    rng = np.random.default_rng(rows * rounds)
    found = [fit_levels(table(rng, rows, rounds, [0.04])).ratio(1, 0) for _ in range(400)]
    assert sum(map(covers, found)) >= 0.92 * 400
    assert sum(one is not None and one.p < 0.01 for one in found) <= 12


def test_a_row_of_three_rounds_is_known_better_beside_others() -> None:
    """Alone it has two degrees of freedom."""
    figures = table(np.random.default_rng(3), 12, 3, [0.02])
    together, alone = present(fit_levels(figures).ratio(1, 0)), present(statistics.ratio_of(figures[1], figures[0]))
    assert alone.freedom == pytest.approx(2)
    assert together.freedom > 2 * alone.freedom
    assert together.log == pytest.approx(alone.log, abs=0.01)


def test_a_noisy_row_keeps_its_own_variance() -> None:
    figures = table(np.random.default_rng(4), 12, 8, [0.02])
    figures[5] = table(np.random.default_rng(5), 1, 8, [0.5])[0]
    levels = fit_levels(figures)
    assert present(levels.ratio(5, 0)).error > 5 * present(levels.ratio(1, 0)).error


def test_rows_that_ended_early_are_compared_in_their_rounds() -> None:
    """The others' rounds tell what the rounds did that only some have."""
    figures = table(np.random.default_rng(6), 8, 10, [0.01])
    figures[1] = [1.1 * figure for figure in figures[1][:4]]
    ratio = present(fit_levels(figures).ratio(1, 0))
    assert ratio.rounds == 4
    assert ratio.estimate == pytest.approx(1.1, abs=0.03)
    assert ratio.low < 1.1 < ratio.high


@pytest.mark.parametrize("shared", [2, 4])
def test_a_ratio_is_no_surer_by_rounds_that_one_row_has_alone(shared: int) -> None:
    """95 % intervals covered 88 to 92 % where one benchmark of a claim had more rounds than the other."""
    whole = table(np.random.default_rng(9), 3, 12, [0.03])
    cut = {number: row[:shared] for number, row in whole.items()}
    assert fit_levels({**cut, 0: whole[0]}).ratio(1, 0) == fit_levels(cut).ratio(1, 0)
    late: dict[int, list[BlockFigure]] = {number: [*[NO_PART] * 8, *row[8:]] for number, row in whole.items()}
    assert fit_levels({**late, 0: [*whole[0]]}).ratio(1, 0) == fit_levels(late).ratio(1, 0)


def test_a_row_of_one_round_spoils_no_other() -> None:
    figures = table(np.random.default_rng(7), 6, 6, [0.02])
    whole, with_one = fit_levels(figures), fit_levels({**figures, 9: [1.0]})
    ratio, one = present(with_one.ratio(1, 0)), present(with_one.ratio(9, 0))
    assert ratio.error == pytest.approx(present(whole.ratio(1, 0)).error, rel=0.3)
    assert (one.p, one.high) == (1, math.inf)


def test_without_a_row_there_is_no_ratio() -> None:
    assert fit_levels({}).ratio("a", "b") is None
    assert fit_levels({"a": [1.0, 2.0]}).ratio("a", "b") is None


def test_variances_that_differ_by_chance_alone_become_one_and_others_are_drawn_less() -> None:
    freedom = np.full(6, 4.0)
    same, known = statistics.moderate(np.array([1.0, 1.1, 0.9, 1.0, 1.2, 0.8]), freedom)
    assert np.ptp(same) == 0
    assert known.tolist() == [24.0] * 6
    apart, less = statistics.moderate(np.array([1e-4, 1e-2, 1.0, 1e2, 1e-3, 10.0]), freedom)
    assert np.all(np.diff(np.sort(apart)) > 0)
    assert (less < 6).all()


@given(P_VALUES)
def test_adjusted_p_values_are_those_of_scipy_and_in_the_order_of_the_raw_ones(p_values: dict[str, float]) -> None:
    adjusted = statistics.benjamini_hochberg(p_values)
    assert list(adjusted) == list(p_values)
    if p_values:
        assert list(adjusted.values()) == pytest.approx(false_discovery_control(list(p_values.values())).tolist())
    assert all(p <= adjusted[key] * (1 + 1e-12) and adjusted[key] <= 1 for key, p in p_values.items())
    in_order = sorted(p_values, key=p_values.__getitem__)
    assert all(adjusted[one] <= adjusted[next_one] for one, next_one in itertools.pairwise(in_order))


def test_the_mean_of_one_ratio_is_that_ratio() -> None:
    one = statistics.ratio_over(simulated(np.random.default_rng(2), 6))
    assert statistics.mean_by_group([[one]]) == one


def test_each_workload_has_the_same_weight_however_many_benchmarks_it_has() -> None:
    two, eight = (statistics.ratio_over([value] * 3) for value in (2.0, 8.0))
    mean = present(statistics.mean_by_group([[two], [eight, eight, eight], []]))
    assert mean.estimate == pytest.approx(4)


def test_of_four_equal_parts_the_mean_has_half_of_their_error() -> None:
    part = statistics.ratio_over(simulated(np.random.default_rng(3), 6))
    mean = present(statistics.mean_by_group([[part] * 4]))
    assert mean.error == pytest.approx(part.error / 2)
    assert mean.freedom == pytest.approx(4 * part.freedom)


def test_the_means_interval_covers_the_truth() -> None:
    """Benchmarks of different size and noise in two workloads."""
    rng = np.random.default_rng(4)
    means = [
        statistics.mean_by_group(
            [
                [statistics.ratio_over(simulated(rng, 5, 0.1))],
                [statistics.ratio_over(simulated(rng, 5)), statistics.ratio_over(simulated(rng, 8, 0.02))],
            ]
        )
        for _ in range(400)
    ]
    assert 0.92 * 400 <= sum(map(covers, means)) <= 0.98 * 400


def test_a_benchmark_of_one_round_leaves_the_mean_open() -> None:
    mean = present(statistics.mean_by_group([[statistics.ratio_over([2.0]), statistics.ratio_over([2.0, 2.1])]]))
    assert mean.estimate == pytest.approx(2**0.75 * 2.1**0.25)
    assert (mean.low, mean.high) == (0, math.inf)


def test_no_benchmark_has_no_mean() -> None:
    assert statistics.mean_by_group([[], []]) is None


def test_what_a_group_of_a_block_did_to_its_rows_is_in_no_ratio() -> None:
    rng = random.Random(3)
    slow = [{0: rng.uniform(0.5, 2), 1: rng.uniform(0.5, 2)} for _ in range(6)]
    noise = [rng.gauss(0, 0.01) for _ in range(100)]

    def row(level: float, members: Sequence[int], at: int) -> list[dict[int, float]]:
        return [
            {group: level * slow[block][group] * math.exp(noise[at + 2 * block + group]) for group in some}
            for block, some in enumerate(members_of(members))
        ]

    def members_of(members: Sequence[int]) -> list[tuple[int, ...]]:
        return [(0, 1) if member == 2 else (member,) for member in members]

    rows = {"base": row(1.0, [2] * 6, 0), "a": row(1.3, [0, 1, 0, 1, 1, 0], 12), "b": row(1.0, [1, 0, 1, 0, 0, 1], 24)}
    levels = fit_levels(rows)
    first, second = present(levels.ratio("a", "base")), present(levels.ratio("b", "base"))
    assert first.estimate == pytest.approx(1.3, rel=0.03)
    assert second.estimate == pytest.approx(1.0, rel=0.03)
    assert first.low > 1.2
    assert first.rounds == 6


FREEDOMS = st.floats(0.1, 1e5)


@given(FREEDOMS, st.floats(-50, 50))
def test_probabilities_are_those_of_scipy(freedom: float, t: float) -> None:
    assert statistics.probability_below(freedom, t) == pytest.approx(float(scipy.special.stdtr(freedom, t)), rel=1e-9)


@given(FREEDOMS, st.floats(0.6, 0.9999))
def test_quantiles_are_those_of_scipy(freedom: float, probability: float) -> None:
    found = statistics.quantile(freedom, probability)
    assert found == pytest.approx(float(scipy.special.stdtrit(freedom, probability)), rel=1e-8)


def test_without_degrees_of_freedom_there_is_no_quantile() -> None:
    assert statistics.quantile(1e-6, 0.975) == math.inf


@pytest.mark.parametrize(("t", "expected"), [(-math.inf, 0.0), (0.0, 0.5), (math.inf, 1.0)])
def test_the_ends_and_the_middle_are_exact(t: float, expected: float) -> None:
    assert statistics.probability_below(7.5, t) == expected
