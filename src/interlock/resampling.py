"""A percentile bootstrap of sums of means, of any number of cases by the same resamples. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
from threadpoolctl import ThreadpoolController

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

RESAMPLES = 9_999
# A report that is made again says the same.
SEED = 2015
# Where each resample is fitted anew.
FEWER = 1_999
# So many cases are resampled at once: their sums, 1.3 MB, stay in the processor's cache.
CHUNK = 32
# Only what is further out than so many standard deviations is sorted, in a quarter of the time that all of it takes: an
# end is at about two. Where it is not, all of it is.
FURTHER = 1.4
# Rounds whose resamples are kept for the next cases: they take 10 MB.
KEPT = 256


def ends(distances: Singles, sizes: tuple[int, ...], level: float) -> Floats:
    """Two rows: the ends of the middle `level` of each case's resampled sums.

    `distances` has a row for each case: of one or more samples, of these sizes, what each number adds to its mean.
    Each sample is resampled on its own, as scipy.stats.bootstrap does with this seed.
    """
    return np.concatenate(list(_pieces(distances, sizes, level)), axis=1)


def means(samples: Floats) -> Floats:
    """Of each row the mean in each of the first resamples; all rows are resampled by the same rounds."""
    return np.asarray(samples @ _resamples((samples.shape[1],))[:, :FEWER].astype(np.float64))


def _pieces(distances: Singles, sizes: tuple[int, ...], level: float) -> Iterator[Floats]:
    """The ends for as many cases at a time as stay in the cache; each piece is computed where the last one was."""
    resamples, deviations = _resamples(sizes), _deviations(distances, sizes)
    room = np.empty((min(CHUNK, len(distances)), RESAMPLES), dtype=np.float32)
    # Matrices this flat gain nothing from threads, and on a busy machine threads that wait for each other cost tenfold.
    with _blas().limit(limits=1, user_api="blas"):
        for start in range(0, len(distances), CHUNK):
            part = slice(start, start + CHUNK)
            sums = np.matmul(distances[part], resamples, out=room[: len(distances[part])])
            yield _quantiles(sums, FURTHER * deviations[part], level)


def _deviations(distances: Singles, sizes: tuple[int, ...]) -> Singles:
    """The standard deviation of each case's resampled sums."""
    return np.asarray(
        np.sqrt(np.square(distances) @ np.repeat(np.float32(1) / np.square(sizes, dtype=np.float32), sizes))
    )


@cache
def _blas() -> ThreadpoolController:
    """What numpy multiplies matrices with."""
    return ThreadpoolController()


def _resamples(sizes: tuple[int, ...]) -> Singles:
    """A column for each resample: the share of each round of each sample; those that scipy.stats.bootstrap draws."""
    return _kept(sizes) if sum(sizes) <= KEPT else _drawn(sizes)


def _drawn(sizes: tuple[int, ...]) -> Singles:
    rng, first = np.random.default_rng(SEED), np.arange(RESAMPLES)[:, None]
    shares = []
    for size in sizes:
        places = rng.integers(0, size, (RESAMPLES, size)) + first * size
        counts = np.bincount(places.ravel(), minlength=RESAMPLES * size).reshape(RESAMPLES, size)
        shares.append((counts.T / size).astype(np.float32))
    return np.concatenate(shares)


_kept = lru_cache(maxsize=32)(_drawn)


def _quantiles(sums: Singles, bounds: Singles, level: float) -> Floats:
    """Two rows: the ends of the middle `level` of each case's resampled sums, between two of which they interpolate.

    Beyond its bound, on either side, is what of a case is sorted first.
    """
    tail = (1 - level) / 2
    places = [share * (RESAMPLES - 1) for share in (tail, 1 - tail)]
    cases = list(zip(sums, bounds.tolist(), strict=True))
    return np.array([[_interpolated(case, bound, place) for case, bound in cases] for place in places])


def _interpolated(case: Singles, bound: float, place: float) -> float:
    """The number at this place, which need not be whole, of the case's numbers in their order."""
    below = min(int(place), RESAMPLES - 2)
    low, high = _ordered(case, bound, below).tolist()
    return float(low + (high - low) * (place - below))


def _ordered(case: Singles, bound: float, place: int) -> Singles:
    """The number at this place of the case's numbers in their order, and the next one."""
    upper = place > RESAMPLES // 2
    outside = case.compress(case > bound if upper else case < -bound)
    first = place - (RESAMPLES - len(outside)) * upper
    if not 0 <= first < len(outside) - 1:
        outside, first = case, place
    return np.sort(outside)[first : first + 2]
