"""The Universal Scalability Law: known terms come back, intervals cover them, and what cannot be known is said."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from interlock.scaling import Fit, fit

WORKERS = (1, 2, 4, 8, 16)


def law(workers: float, contention: float, coherence: float, rate: float = 100.0) -> float:
    return rate * workers / (1 + contention * (workers - 1) + coherence * workers * (workers - 1))


def exact(contention: float, coherence: float, workers: Iterable[int] = WORKERS, rounds: int = 5) -> Fit:
    found = fit({count: [law(count, contention, coherence)] * rounds for count in workers})
    assert found
    return found


def noisy(rng: np.random.Generator, contention: float, coherence: float, rounds: int, noise: float = 0.03) -> Fit:
    found = fit(
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
    found = fit({count: [figure] * 5 for count, figure in zip((1, 2, 4, 8), figures, strict=True)})
    assert found
    assert found.peak_workers.estimate == 1
    assert "more workers do less than one" in found.says


def test_of_two_numbers_of_workers_all_loss_is_contention_and_coherence_unknown() -> None:
    found = exact(0.2, 0.01, workers=(1, 2))
    assert found.coherence is None
    assert found.throughput(2) == pytest.approx(law(2, 0.2, 0.01))
    assert found.says == ("two numbers of workers: all loss is called contention",)


def test_more_than_in_proportion_is_no_loss_and_stays_at_the_bound() -> None:
    found = fit({1: [100.0] * 5, 2: [210.0] * 5, 4: [430.0] * 5, 8: [880.0] * 5})
    assert found
    assert found.coherence
    assert (found.contention.estimate, found.coherence.estimate) == (0, 0)
    assert "no loss was seen: both terms are at their bound, 0" in found.says


def test_contention_at_its_bound_is_said() -> None:
    assert exact(0.0, 0.02).says == ("contention is at its bound, 0",)


def test_one_round_leaves_the_intervals_open() -> None:
    found = exact(0.1, 0.01, rounds=1)
    assert (found.contention.low, found.contention.high) == (0, math.inf)


@pytest.mark.parametrize("known", [{}, {4: [1.0, 2.0]}, {1: [1.0], 2: []}])
def test_fewer_than_two_numbers_of_workers_make_no_curve(known: dict[int, list[float]]) -> None:
    assert fit(known) is None


def test_a_round_that_disturbs_all_numbers_alike_widens_no_term_but_the_rate() -> None:
    drift = [1.0, 0.8, 1.1, 0.9, 1.2]
    found = fit({count: [law(count, 0.1, 0.01) * one for one in drift] for count in WORKERS})
    assert found
    assert found.contention.high - found.contention.low < 1e-6
    assert found.rate.high / found.rate.low > 1.2


def test_only_rounds_that_all_numbers_have_count() -> None:
    longer = fit({1: [100.0] * 5 + [1.0] * 5, 2: [180.0] * 5})
    assert longer == fit({1: [100.0] * 5, 2: [180.0] * 5})


def test_one_disturbed_round_of_eight_moves_nothing_much() -> None:
    figures = {count: [law(count, 0.1, 0.01)] * 8 for count in WORKERS}
    figures[4] = [*figures[4][:-1], figures[4][-1] / 3]
    found = fit(figures)
    assert found
    assert found.contention.estimate == pytest.approx(0.1, abs=1e-6)
