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
# Rounds whose resamples are kept for the next cases: they take 10 MB.
KEPT = 256


def ends(distances: Singles, sizes: tuple[int, ...], level: float) -> Floats:
    """Two rows: the ends of the middle `level` of each case's resampled sums.

    `distances` has a row for each case: of one or more samples, of these sizes, what each number adds to its mean.
    Each sample is resampled on its own, as scipy.stats.bootstrap does with this seed.
    """
    return np.concatenate(list(_pieces(distances, _resamples(sizes), level)), axis=1)


def means(samples: Floats) -> Floats:
    """Of each row the mean in each of the first resamples; all rows are resampled by the same rounds."""
    return np.asarray(samples @ _resamples((samples.shape[1],))[:, :FEWER].astype(np.float64))


def _pieces(distances: Singles, resamples: Singles, level: float) -> Iterator[Floats]:
    """The ends for as many cases at a time as stay in the cache; each piece is computed where the last one was."""
    room = np.empty((min(CHUNK, len(distances)), RESAMPLES), dtype=np.float32)
    # Matrices this flat gain nothing from threads, and on a busy machine threads that wait for each other cost tenfold.
    with _blas().limit(limits=1, user_api="blas"):
        for start in range(0, len(distances), CHUNK):
            part = distances[start : start + CHUNK]
            yield _quantiles(np.matmul(part, resamples, out=room[: len(part)]), level)


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


def _quantiles(sums: Singles, level: float) -> Floats:
    """Two rows: the ends of the middle `level` of each case's resampled sums, between two of which they interpolate."""
    sums.sort(axis=1)
    tail = (1 - level) / 2
    return np.stack([_interpolated(sums, share * (RESAMPLES - 1)) for share in (tail, 1 - tail)])


def _interpolated(ordered: Singles, place: float) -> Floats:
    below = min(int(place), RESAMPLES - 2)
    low, high = ordered[:, below].astype(np.float64), ordered[:, below + 1].astype(np.float64)
    return np.asarray(low + (high - low) * (place - below))
