"""Ratios over rounds: estimates, intervals that cover, p-values, geometric means, and the bootstrap behind them."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap, ttest_1samp, ttest_ind
from scipy.stats import t as student

from interlock.analysis import statistics
from interlock.analysis import statistics as resampling
from interlock.analysis.statistics import Interval, Ratio

# Hours of sleep gained with the right-handed isomer over the left-handed one, ten patients: Student (1908), table 1.
SLEEP = [1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4]
ROUNDS = st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=8)
P_VALUES = st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=6)


def simulated(rng: np.random.Generator, rounds: int, deviation: float = 0.05) -> list[float]:
    """Ratios by round of two that are equal."""
    return [float(ratio) for ratio in np.exp(rng.normal(0, deviation, rounds))]


def covers(ratio: Ratio) -> bool:
    return ratio.low <= 1 <= ratio.high


def test_the_estimate_is_the_geometric_mean_of_the_ratios_of_each_round() -> None:
    ratio = statistics.ratio_of([2.0, 80.0], [1.0, 10.0])
    assert ratio is not None
    assert ratio.estimate == pytest.approx(4)
    assert ratio.rounds == 2


def test_rounds_that_only_one_has_do_not_count() -> None:
    assert statistics.ratio_of([2.0, 4.0, 9.0], [1.0, 1.0]) == statistics.ratio_over([2.0, 4.0])
    assert statistics.ratio_of([2.0, 4.0], []) is None


@pytest.mark.parametrize("broken", [0.0, -1.0, math.nan, math.inf])
def test_figures_without_a_logarithm_have_no_ratio(broken: float) -> None:
    assert statistics.ratio_of([1.0, broken], [1.0, 1.0]) is None
    assert statistics.ratio_of([1.0, 1.0], [1.0, broken]) is None


def test_the_p_value_of_fewer_than_six_rounds_is_students() -> None:
    few = SLEEP[:5]
    assert statistics.ratio_over([math.exp(gain) for gain in few]).p == pytest.approx(ttest_1samp(few, 0).pvalue)


def test_of_ten_rounds_one_is_trimmed_from_each_end_and_the_p_value_is_yuens() -> None:
    """By hand: trimmed mean 1.4, Winsorised deviation 0.58538, t = 1.4 / (0.58538 * sqrt(9 / (8 * 7))) = 5.9657."""
    ratio = statistics.ratio_over([math.exp(gain) for gain in SLEEP])
    assert math.log(ratio.estimate) == pytest.approx(1.4)
    assert ratio.p == pytest.approx(2 * student.sf(5.9657, 7), rel=1e-3)


@pytest.mark.parametrize("disturbed", [1.7, 0.6])
def test_a_disturbed_round_in_twelve_hides_no_difference(disturbed: float) -> None:
    """A mean of all would be 4 % off, with an interval that holds 1."""
    calm = [1.05 * math.exp(0.01 * step) for step in (-3, -2, -2, -1, -1, 0, 1, 1, 2, 2, 3)]
    ratio = statistics.ratio_over([*calm, disturbed])
    assert ratio.estimate == pytest.approx(1.05, abs=0.005)
    assert ratio.low > 1.02
    assert ratio.p < 1e-3


def test_one_round_leaves_the_interval_open() -> None:
    ratio = statistics.ratio_over([2.0])
    assert (ratio.low, ratio.high, ratio.p, ratio.rounds) == (0, math.inf, 1, 1)
    assert ratio.estimate == pytest.approx(2)
    assert not statistics.is_narrow(ratio, 1000)


@given(st.floats(1e-9, 1e9), st.integers(2, 8))
def test_rounds_without_any_spread_are_certain(value: float, rounds: int) -> None:
    ratio = statistics.ratio_over([value] * rounds)
    assert ratio.low == ratio.estimate == ratio.high == pytest.approx(value)
    assert ratio.p == (1 if abs(math.log(value)) < 1e-12 else 0)


def test_what_the_rounding_of_doubles_makes_differ_is_equal() -> None:
    ratio = statistics.ratio_of([0.3, 3.0], [0.1, 1.0])
    assert ratio is not None
    assert ratio.low == ratio.high == pytest.approx(3)


@given(ROUNDS)
def test_the_ratio_of_figures_to_themselves_is_exactly_1(figures: list[float]) -> None:
    ratio = statistics.ratio_of(figures, figures)
    assert ratio is not None
    assert (ratio.estimate, ratio.p) == (1, 1)


@settings(max_examples=50)
@given(ROUNDS, ROUNDS)
def test_a_ratio_lies_in_its_interval_and_turned_round_it_is_its_reciprocal(
    mine: list[float], theirs: list[float]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ratio, turned = statistics.ratio_of(mine, theirs), statistics.ratio_of(theirs, mine)
    assert ratio is not None
    assert turned is not None
    assert ratio.low <= ratio.estimate <= ratio.high
    assert 0 <= ratio.p <= 1
    assert turned.estimate == pytest.approx(1 / ratio.estimate)
    assert turned.p == pytest.approx(ratio.p)
    if ratio.rounds > 1:
        assert (turned.low, turned.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))


def test_the_interval_of_even_rounds_is_about_as_wide_as_students() -> None:
    """Without the correction for few rounds it would be a third narrower."""
    logs = [0.01 * step for step in (-2, -1, 0, 1, 2)]
    ratio = statistics.ratio_over([math.exp(log) for log in logs])
    students = 2.776445 * np.std(logs, ddof=1) / math.sqrt(len(logs))
    assert math.log(ratio.high) == pytest.approx(students, rel=0.1)
    assert math.log(ratio.low) == pytest.approx(-students, rel=0.1)


def test_the_same_rounds_have_the_same_interval_every_time() -> None:
    ratios = simulated(np.random.default_rng(1), 6)
    assert statistics.ratio_over(ratios) == statistics.ratio_over(ratios)


def test_many_ratios_at_once_are_those_of_each_alone() -> None:
    rng = np.random.default_rng(6)
    many = [simulated(rng, rounds) for rounds in (5, 1, 8, 5, 2, 8, 13)] + [[2.0] * 5]
    together = statistics.ratios_over(many)
    for one, ratios in zip(together, many, strict=True):
        alone = statistics.ratio_over(ratios)
        assert (one.estimate, one.low, one.high, one.p, one.rounds) == pytest.approx(
            (alone.estimate, alone.low, alone.high, alone.p, alone.rounds), rel=1e-6
        )


def test_a_change_is_the_ratio_of_two_ratios_and_its_p_value_of_few_rounds_is_welchs() -> None:
    rng = np.random.default_rng(8)
    before, after = simulated(rng, 5, 0.01), [1.2 * one for one in simulated(rng, 4, 0.05)]
    (change,) = statistics.changes_over([(before, after)])
    assert math.log(change.estimate) == pytest.approx(np.mean(np.log(after)) - np.mean(np.log(before)))
    assert change.p == pytest.approx(ttest_ind(np.log(before), np.log(after), equal_var=False).pvalue)
    assert change.low < change.estimate < change.high
    assert change.rounds == 4


def test_the_p_value_of_a_change_over_many_rounds_is_yuens() -> None:
    rng = np.random.default_rng(9)
    before, after = simulated(rng, 12), [1.03 * one for one in simulated(rng, 18, 0.03)]
    (change,) = statistics.changes_over([(before, after)])
    assert change.p == pytest.approx(ttest_ind(np.log(before), np.log(after), equal_var=False, trim=1 / 6).pvalue)


def test_a_change_from_or_to_one_round_is_open_and_one_without_spread_certain() -> None:
    from_one, same, apart = statistics.changes_over(
        [([1.0], [2.0, 2.1]), ([2.0] * 3, [2.0] * 4), ([2.0] * 3, [3.0] * 3)]
    )
    assert (from_one.low, from_one.high, from_one.p) == (0, math.inf, 1)
    assert (same.low, same.estimate, same.high, same.p) == (1, 1, 1, 1)
    assert apart.estimate == pytest.approx(1.5)
    assert apart.p == 0


def test_the_interval_of_a_change_covers_the_truth_and_equals_seldom_differ() -> None:
    rng = np.random.default_rng(10)
    changes = statistics.changes_over([(simulated(rng, 5), simulated(rng, 8, 0.02)) for _ in range(1000)])
    assert sum(map(covers, changes)) >= 920
    assert 20 <= sum(change.p < 0.05 for change in changes) <= 70


# Five rounds cover in 92.3 % (of 16,000): near enough to 90 % to need more experiments than the others.
@pytest.mark.parametrize(("rounds", "experiments"), [(5, 1000), (8, 400), (12, 400)])
def test_the_interval_covers_the_truth_in_at_least_90_percent_of_experiments(rounds: int, experiments: int) -> None:
    rng = np.random.default_rng(rounds)
    ratios = [statistics.ratio_over(simulated(rng, rounds)) for _ in range(experiments)]
    assert sum(map(covers, ratios)) >= 0.9 * experiments


def first_narrow(mine: Sequence[float], twins: Sequence[float], half_width: float) -> Ratio:
    """What a measurement of 5 rounds up to all of these says that stops where both intervals are narrow."""
    for rounds in range(5, len(mine)):
        looks = [statistics.ratio_over(ratios[:rounds]) for ratios in (mine, twins)]
        if all(statistics.is_narrow(look, half_width) for look in looks):
            return looks[0]
    return statistics.ratio_over(mine)


def test_stopping_where_the_intervals_are_narrow_makes_few_differences_of_equals() -> None:
    rng = np.random.default_rng(7)
    stopped = [first_narrow(simulated(rng, 20, 0.04), simulated(rng, 20, 0.04), 0.025) for _ in range(150)]
    assert len({ratio.rounds for ratio in stopped}) > 5
    assert sum(ratio.p < 0.05 for ratio in stopped) <= 18


@given(st.floats(0.1, 10), st.floats(0.001, 0.5))
def test_whether_an_interval_is_narrow_does_not_depend_on_where_it_lies(estimate: float, half_width: float) -> None:
    for share in (0.9, 1.1):
        interval = Interval(estimate, estimate * (1 - share * half_width), estimate * (1 + share * half_width))
        assert statistics.is_narrow(interval, half_width) is (share < 1)


def closed_test(p_values: dict[str, float], key: str) -> float:
    """Adjusted by definition: the worst that Bonferroni says of any set of hypotheses that this one is in."""
    others = [other for other in p_values if other != key]
    sets = [(key, *more) for size in range(len(p_values)) for more in itertools.combinations(others, size)]
    return max(min(1.0, len(one) * min(p_values[name] for name in one)) for one in sets)


@given(P_VALUES)
def test_holms_p_values_are_those_of_the_closed_test(p_values: dict[str, float]) -> None:
    assert statistics.holm_adjusted(p_values) == pytest.approx({key: closed_test(p_values, key) for key in p_values})


@given(P_VALUES)
def test_holms_p_values_are_never_below_the_raw_ones_and_in_their_order(p_values: dict[str, float]) -> None:
    adjusted = statistics.holm_adjusted(p_values)
    assert all(p <= adjusted[key] <= 1 for key, p in p_values.items())
    in_order = sorted(p_values, key=p_values.__getitem__)
    assert all(adjusted[one] <= adjusted[next_one] for one, next_one in itertools.pairwise(in_order))
    if in_order:
        assert adjusted[in_order[0]] == min(1, p_values[in_order[0]] * len(p_values))


def test_holm_gives_a_small_p_value_no_more_than_its_number_allows() -> None:
    assert statistics.holm_adjusted({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx(
        {"a": 0.03, "c": 0.06, "b": 0.06}
    )


def test_p_values_are_adjusted_for_the_number_of_their_family_alone() -> None:
    found = statistics.holm_adjusted_by_family({"a": (1, 0.01), "b": (2, 0.04), "c": (1, 0.03)})
    assert list(found) == ["a", "b", "c"]
    assert found == pytest.approx({"a": 0.02, "b": 0.04, "c": 0.03})


def test_the_geometric_mean_of_one_benchmark_is_its_ratio() -> None:
    ratios = simulated(np.random.default_rng(2), 6)
    one = statistics.ratio_over(ratios)
    assert statistics.geometric_mean([[ratios]]) == Interval(one.estimate, one.low, one.high)


def test_each_workload_has_the_same_weight_however_many_benchmarks_it_has() -> None:
    mean = statistics.geometric_mean([[[2.0, 2.0]], [[8.0, 8.0], [8.0, 8.0, 8.0], [8.0, 8.0]], []])
    assert mean is not None
    assert (mean.estimate, mean.low, mean.high) == pytest.approx((4, 4, 4))


def test_many_benchmarks_together_are_known_better_than_each() -> None:
    rng = np.random.default_rng(3)
    benchmarks = [simulated(rng, 6) for _ in range(16)]
    mean = statistics.geometric_mean([benchmarks])
    assert mean is not None
    widths = [one.high - one.low for one in map(statistics.ratio_over, benchmarks)]
    assert mean.high - mean.low < min(widths)


def test_the_geometric_means_interval_covers_the_truth() -> None:
    """Benchmarks of different size and noise in two workloads."""
    rng = np.random.default_rng(4)
    means = [
        statistics.geometric_mean([[simulated(rng, 5, 0.1)], [simulated(rng, 5), simulated(rng, 8, 0.02)]])
        for _ in range(100)
    ]
    assert sum(mean is not None and mean.low <= 1 <= mean.high for mean in means) >= 93


def test_a_benchmark_of_one_round_leaves_the_geometric_mean_open() -> None:
    mean = statistics.geometric_mean([[[2.0], [2.0, 2.1]]])
    assert mean is not None
    assert mean.estimate == pytest.approx(2**0.75 * 2.1**0.25)
    assert (mean.low, mean.high) == (0, math.inf)


def test_no_benchmark_has_no_geometric_mean() -> None:
    assert statistics.geometric_mean([[], []]) is None


def centred(rng: np.random.Generator, cases: int, size: int) -> np.ndarray:
    numbers = rng.normal(0, 0.05, (cases, size))
    return np.asarray(numbers - numbers.mean(axis=1, keepdims=True))


def sum_of_means(*samples: np.ndarray, axis: int) -> np.ndarray:
    return np.asarray(sum(sample.mean(axis=axis) for sample in samples))


@pytest.mark.parametrize("sizes", [(5,), (2,), (20,), (5, 4), (4, 5, 4)])
def test_the_ends_are_those_of_scipys_bootstrap(sizes: tuple[int, ...]) -> None:
    """Also of sums of samples of several sizes; what differs is the rounding of singles."""
    rng = np.random.default_rng(5)
    samples = [centred(rng, 3, size) for size in sizes]
    ends = resampling.bootstrap_ends(np.concatenate(samples, axis=1).astype(np.float32), sizes, 0.96)
    for case in range(3):
        scipys = bootstrap(
            tuple(sample[case] for sample in samples),
            sum_of_means,
            confidence_level=0.96,
            n_resamples=resampling.RESAMPLES,
            method="percentile",
            vectorized=True,
            rng=resampling.SEED,
        ).confidence_interval
        assert (ends[0, case], ends[1, case]) == pytest.approx((scipys.low, scipys.high), rel=1e-5, abs=1e-8)


def test_cases_beyond_one_chunk_and_rounds_that_are_not_kept_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    distances = centred(np.random.default_rng(6), 12, 7).astype(np.float32)
    whole = resampling.bootstrap_ends(distances, (7,), 0.95)
    monkeypatch.setattr(resampling, "CHUNK", 5)
    monkeypatch.setattr(resampling, "CACHED_ROUNDS", 3)
    assert resampling.bootstrap_ends(distances, (7,), 0.95) == pytest.approx(whole, rel=1e-5)
    assert resampling.bootstrap_ends(distances[4:5], (7,), 0.95)[:, 0] == pytest.approx(whole[:, 4], rel=1e-5)


@settings(deadline=None)
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=9),
    st.floats(0, 0.98),
    st.sampled_from([0.0, 0.5, resampling.TAIL_START, 4.0]),
)
def test_sorting_only_what_is_further_out_finds_the_same(numbers: list[float], level: float, further: float) -> None:
    """Skewed, with equal numbers, with none beyond the bound: the ends are those of all resamples in their order."""
    case = np.array([numbers], dtype=np.float32)
    case -= case.mean(axis=1, keepdims=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampling, "TAIL_START", 1e9)
        whole = resampling.bootstrap_ends(case, (len(numbers),), level)
        patch.setattr(resampling, "TAIL_START", further)
        assert np.array_equal(resampling.bootstrap_ends(case, (len(numbers),), level), whole)
