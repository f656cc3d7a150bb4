"""The fitted law has the terms that data was made with, none negative; curves tell measured from extrapolated."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from interlock.analysis.comparison import tables
from interlock.analysis.scaling import CurveGroup, Fit, curve_groups, fit_law, peak_text, predicted_ratios
from interlock.results.experiments import Experiment, Values
from tests.reports import example, scaled, scaling

WORKERS = (1, 2, 4, 8, 16)


def law(workers: float, contention: float, coherence: float, rate: float = 100.0) -> float:
    return rate * workers / (1 + contention * (workers - 1) + coherence * workers * (workers - 1))


def exact(contention: float, coherence: float, workers: Iterable[int] = WORKERS, rounds: int = 5) -> Fit:
    found = fit_law({count: [law(count, contention, coherence)] * rounds for count in workers})
    assert found
    return found


def noisy(rng: np.random.Generator, contention: float, coherence: float, rounds: int, noise: float = 0.03) -> Fit:
    found = fit_law(
        {
            count: (law(count, contention, coherence) * np.exp(rng.normal(0, noise, rounds))).tolist()
            for count in WORKERS
        }
    )
    assert found
    return found


@pytest.mark.parametrize(
    ("contention", "coherence"), [(0.05, 0.002), (0.3, 0.0), (0.0, 0.02), (0.9, 0.01), (1.4, 0.0), (0.0, 0.0)]
)
def test_known_terms_come_back_from_figures_without_noise(contention: float, coherence: float) -> None:
    found = exact(contention, coherence)
    assert found.coherence
    assert found.rate.estimate == pytest.approx(100)
    assert found.contention.estimate == pytest.approx(contention, abs=1e-9)
    assert found.coherence.estimate == pytest.approx(coherence, abs=1e-9)
    assert [found.throughput(count) for count in WORKERS] == pytest.approx(
        [law(count, contention, coherence) for count in WORKERS]
    )


@pytest.mark.parametrize("rounds", [5, 10])
@pytest.mark.parametrize(("contention", "coherence"), [(0.05, 0.002), (0.02, 0.02), (0.9, 0.01)])
def test_the_intervals_cover_the_truth_in_about_95_percent(contention: float, coherence: float, rounds: int) -> None:
    rng = np.random.default_rng(4)
    cases = 150
    covered = np.zeros(3)
    for _ in range(cases):
        found = noisy(rng, contention, coherence, rounds)
        assert found.coherence
        truths = ((found.rate, 100.0), (found.contention, contention), (found.coherence, coherence))
        covered += [one.low <= truth <= one.high for one, truth in truths]
    assert covered.min() >= 0.88 * cases
    assert covered.mean() <= 0.99 * cases


def test_the_peak_is_where_throughput_is_highest() -> None:
    found = exact(0.1, 0.01)
    assert found.peak_workers.estimate == pytest.approx(math.sqrt(0.9 / 0.01))
    peak = found.peak_workers.estimate
    assert found.throughput(peak) > max(found.throughput(peak * 0.9), found.throughput(peak * 1.1))


def test_without_coherence_there_is_no_peak() -> None:
    assert exact(0.2, 0.0).peak_workers.estimate == math.inf


@pytest.mark.parametrize("figures", [[100.0, 80.0, 70.0, 66.0], [100.0, 60.0, 30.0, 15.0]])
def test_where_every_further_worker_lowers_throughput_the_peak_is_one_worker(figures: list[float]) -> None:
    found = fit_law({count: [figure] * 5 for count, figure in zip((1, 2, 4, 8), figures, strict=True)})
    assert found
    assert found.peak_workers.estimate == 1
    assert "more workers do less than one" in found.remarks


def test_of_two_numbers_of_workers_all_loss_is_contention_and_coherence_unknown() -> None:
    found = exact(0.2, 0.01, workers=(1, 2))
    assert found.coherence is None
    assert found.throughput(2) == pytest.approx(law(2, 0.2, 0.01))
    assert len(found.remarks) == 1


def test_more_than_in_proportion_is_no_loss_and_stays_at_the_bound() -> None:
    found = fit_law({1: [100.0] * 5, 2: [210.0] * 5, 4: [430.0] * 5, 8: [880.0] * 5})
    assert found
    assert found.coherence
    assert (found.contention.estimate, found.coherence.estimate) == (0, 0)
    assert any("bound, 0" in remark for remark in found.remarks)


def test_a_workers_own_time_is_above_0_whatever_fits_best() -> None:
    found = fit_law({2: [100.0] * 5, 4: [40.0] * 5, 8: [5.0] * 5})
    assert found
    assert 0 < found.rate.low <= found.rate.high < math.inf


def test_terms_are_the_best_of_all_that_are_not_negative() -> None:
    """The unconstrained fit has a negative contention; its coherence is not that of the best fit without contention."""
    throughputs = {1: 100.0, 2: 198.0, 4: 370.0, 8: 560.0}
    found = fit_law({workers: [one] * 5 for workers, one in throughputs.items()})
    assert found
    assert found.coherence
    assert found.contention.estimate == 0

    def squares(rate: float, coherence: float) -> float:
        times = {count: (1 + coherence * count * (count - 1)) / rate for count in throughputs}
        return sum((times[count] * one / count - 1) ** 2 for count, one in throughputs.items())

    best = squares(found.rate.estimate, found.coherence.estimate)
    for rate, coherence in ((1.001, 1.0), (0.999, 1.0), (1.0, 1.01), (1.0, 0.99)):
        assert squares(found.rate.estimate * rate, found.coherence.estimate * coherence) > best


def test_contention_at_its_bound_is_said() -> None:
    (remark,) = exact(0.0, 0.02).remarks
    assert remark.startswith("contention ")


def test_one_round_leaves_the_intervals_open() -> None:
    found = exact(0.1, 0.01, rounds=1)
    assert (found.contention.low, found.contention.high) == (0, math.inf)


@pytest.mark.parametrize("known", [{}, {4: [1.0, 2.0]}, {1: [1.0], 2: []}])
def test_fewer_than_two_numbers_of_workers_make_no_curve(known: dict[int, list[float]]) -> None:
    assert fit_law(known) is None


def test_a_round_that_disturbs_all_numbers_alike_widens_no_term_but_the_rate() -> None:
    drift = [1.0, 0.8, 1.1, 0.9, 1.2]
    found = fit_law({count: [law(count, 0.1, 0.01) * one for one in drift] for count in WORKERS})
    assert found
    assert found.contention.high - found.contention.low < 1e-6
    assert found.rate.high / found.rate.low > 1.2


def test_only_rounds_that_all_numbers_have_count() -> None:
    longer = fit_law({1: [100.0] * 5 + [1.0] * 5, 2: [180.0] * 5})
    assert longer == fit_law({1: [100.0] * 5, 2: [180.0] * 5})


def test_one_disturbed_round_of_eight_moves_nothing_much() -> None:
    figures = {count: [law(count, 0.1, 0.01)] * 8 for count in WORKERS}
    figures[4] = [*figures[4][:-1], figures[4][-1] / 3]
    found = fit_law(figures)
    assert found
    assert found.contention.estimate == pytest.approx(0.1, abs=1e-6)


def only(cores: int = 2, variants: int = 3) -> CurveGroup:
    experiment, found, _ = scaled(variants, cores)
    (one,) = curve_groups(experiment, found)
    return one


def without(experiment: Experiment, values: Values, benchmark: str) -> CurveGroup:
    """The first variant has no figure in this benchmark."""
    key = ("cpython-3.13", "threads")
    less = {**values, key: {name: one for name, one in values[key].items() if name != benchmark}}
    (one,) = curve_groups(experiment, tables(experiment, less, {}))
    return one


def test_a_curve_has_a_point_for_each_number_of_workers_in_the_metrics_unit() -> None:
    found = only()
    assert (found.title, found.unit, found.workers) == ("threads pure", "tasks/s", (1, 2, 4, 8))
    first = found.curves[0]
    assert first.label == "cpython-3.13"
    assert [point.workers for point in first.points] == [1, 2, 4, 8]
    assert first.points[0].throughput.estimate == pytest.approx(100, rel=0.01)
    assert first.points[0].throughput.low < 100.5 < first.points[0].throughput.high * 1.01


def test_workers_that_compute_are_fitted_up_to_the_cores_because_more_lack_them() -> None:
    found = only(cores=4)
    assert found.fitted_to == 4
    assert [found.extrapolated(workers) for workers in found.workers] == [False, False, False, True]
    fitted = found.curves[1].fit
    assert fitted
    assert fitted.coherence
    assert (fitted.contention.low, fitted.coherence.low) <= (0.55, 0.01)
    assert (fitted.contention.high, fitted.coherence.high) >= (0.55, 0.01)


def test_workers_that_wait_are_fitted_as_far_as_they_were_measured() -> None:
    experiment, values = scaling()
    workload = experiment.workloads["threads"]
    waiting = [
        one.model_copy(update={"scaling": one.scaling and one.scaling.model_copy(update={"wait": True})})
        for one in workload.benchmarks
    ]
    changed = experiment.model_copy(
        update={"workloads": {"threads": workload.model_copy(update={"benchmarks": waiting})}}
    )
    (found,) = curve_groups(changed, tables(changed, values, {}))
    assert found.fitted_to == 8


def test_the_limit_of_each_number_of_workers_is_the_best_one() -> None:
    assert [point.workers for point in only().limit] == [1, 2, 4, 8]
    assert all(point.throughput.estimate == pytest.approx(400, rel=0.01) for point in only().limit)


def test_what_a_variant_gains_is_beside_its_own_single_worker() -> None:
    curve = only().curves[2]
    assert curve.best.workers == 8
    assert curve.gain(curve.best) == pytest.approx(1.94, abs=0.02)
    lacking = without(*scaling(), "pure-1").curves[0]
    assert [point.workers for point in lacking.points] == [2, 4, 8]
    assert lacking.gain(lacking.best) is None


def test_too_few_numbers_of_workers_are_no_fit_but_still_points() -> None:
    found = without(*scaling(), "pure-1")
    assert found.curves[0].fit is None
    assert [point.workers for point in found.curves[0].points] == [2, 4, 8]


def test_a_peak_beyond_the_cores_is_labelled_extrapolated() -> None:
    found = only(cores=4)
    fits = [curve.fit for curve in found.curves if curve.fit]
    assert [peak_text(one, found).endswith(", extrapolated") for one in fits] == [False, True, True]
    assert peak_text(fits[0], found).startswith("1.0 [")


def test_of_two_numbers_of_workers_a_peak_is_not_known() -> None:
    found = only()
    peaks = [peak_text(curve.fit, found) for curve in found.curves if curve.fit]
    assert peaks == ["1.0 [1.0, 1.0]", "-", "-"]


def test_an_experiment_without_workers_has_no_curves() -> None:
    experiment, found, _ = example()
    assert curve_groups(experiment, found) == []


def test_a_predicted_ratio_is_that_of_the_laws_and_its_interval_holds_it() -> None:
    random = np.random.default_rng(7)
    curves = [
        {n: list(rate * n / (1 + c * (n - 1)) * np.exp(random.normal(0, 0.02, 10))) for n in (1, 2)}
        for rate, c in ((100, 0.1), (150, 0.9))
    ]
    mine, theirs = curves
    true = (100 * 8 / 1.7) / (150 * 8 / 7.3)
    found = predicted_ratios(mine, theirs, [8])[8]
    assert found is not None
    assert found.low < true < found.high
    assert found.estimate == pytest.approx(true, rel=0.2)


def test_without_two_numbers_of_workers_or_two_rounds_nothing_is_predicted() -> None:
    two = {1: [1.0, 1.0], 2: [2.0, 2.0]}
    assert predicted_ratios(two, {1: [1.0, 1.0]}, [4]) == {}
    assert predicted_ratios(two, {1: [1.0], 2: [2.0]}, [4]) == {}
