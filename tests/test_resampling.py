"""The ends are those of scipy's bootstrap, however many cases are resampled at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from interlock import resampling


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
    ends = resampling.ends(np.concatenate(samples, axis=1).astype(np.float32), sizes, 0.96)
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
    whole = resampling.ends(distances, (7,), 0.95)
    monkeypatch.setattr(resampling, "CHUNK", 5)
    monkeypatch.setattr(resampling, "KEPT", 3)
    assert resampling.ends(distances, (7,), 0.95) == pytest.approx(whole, rel=1e-5)
    assert resampling.ends(distances[4:5], (7,), 0.95)[:, 0] == pytest.approx(whole[:, 4], rel=1e-5)


@settings(deadline=None)
@given(
    st.lists(st.floats(-1, 1, width=32), min_size=4, max_size=9),
    st.floats(0, 0.98),
    st.sampled_from([0.0, 0.5, resampling.FURTHER, 4.0]),
)
def test_sorting_only_what_is_further_out_finds_the_same(numbers: list[float], level: float, further: float) -> None:
    """Skewed, with equal numbers, with none beyond the bound: the ends are those of all resamples in their order."""
    case = np.array([numbers], dtype=np.float32)
    case -= case.mean(axis=1, keepdims=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampling, "FURTHER", 1e9)
        whole = resampling.ends(case, (len(numbers),), level)
        patch.setattr(resampling, "FURTHER", further)
        assert np.array_equal(resampling.ends(case, (len(numbers),), level), whole)
