"""Ratios over rounds: estimate, bootstrap interval and p-value, for many ratios at once; changes; geometric means."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import scipy  # loads scipy.special only where it is used
from threadpoolctl import ThreadpoolController

Key = TypeVar("Key", bound=Hashable)
Floats = npt.NDArray[np.float64]

# The share of the rounds that is cut from each end.
TRIMMED = 1 / 6
# Logarithms closer than this differ only by the rounding of doubles.
ROUNDING = 1e-12
# For each workload, for each of its benchmarks: the ratios by round of one label.
RatiosByWorkload = Sequence[Sequence[Sequence[float]]]
Singles = npt.NDArray[np.float32]
RESAMPLES = 9_999
# A report that is made again has the same figures.
SEED = 2015
# Fewer where each resample needs a fit of its own.
FIT_RESAMPLES = 1_999
# Cases that are resampled at once: their sums, 1.3 MB, stay in the processor's cache.
CHUNK = 32
# Only sums further out than this many standard deviations are sorted, in a quarter of the time of sorting all: an end
# lies at about two. If it does not, all are sorted.
TAIL_START = 1.4
# Up to this many rounds in all, resamples are cached: they take 10 MB.
CACHED_ROUNDS = 256


@dataclass(frozen=True)
class Interval:
    """A ratio and its 95 % confidence interval, which one round leaves open: 0 to infinity."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio(Interval):
    """A figure per unit of work divided by another's, paired by round; p is that of the hypothesis that they are equal.

    For a change it is the ratio of two ratios, and `rounds` is the smaller number of the two.
    """

    p: float
    rounds: int


def paired_ratios(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Return the ratios of figures with the same index; none if a figure is not positive and finite."""
    rounds = min(len(mine), len(theirs))
    figures = [*mine[:rounds], *theirs[:rounds]]
    if not (figures and min(figures) > 0 and math.isfinite(sum(figures))):
        return []
    return [one / other for one, other in zip(mine, theirs, strict=False)]


def ratio_over(ratios: Sequence[float]) -> Ratio:
    """Return the trimmed geometric mean of ratios by round, its 95 % bootstrap interval and p of a trimmed t-test."""
    return ratios_over([ratios])[0]


def ratios_over(many: Sequence[Sequence[float]]) -> list[Ratio]:
    """Return `ratio_over` of each; those with equally many rounds share their resamples, in one matrix product."""
    found: dict[int, Ratio] = {}
    for rounds, numbers in grouped_by_shape(map(len, many)).items():
        logs = trimmed(np.log([many[number] for number in numbers]))
        p_values = _p_values(logs)
        for number, mean, p in zip(numbers, _intervals([logs], [1.0]), p_values, strict=True):
            found[number] = Ratio(mean.estimate, mean.low, mean.high, p, rounds)
    return [found[number] for number in range(len(many))]


def changes_over(many: Sequence[tuple[Sequence[float], Sequence[float]]]) -> list[Ratio]:
    """Return, for each pair, the ratio over its second rounds divided by that over its first, independent ones.

    p is of Yuen's test for two trimmed means (The Two-Sample Trimmed t for Unequal Population Variances, Biometrika 61,
    1974; of fewer than six rounds it is Welch's); the interval's bootstrap resamples each side on its own.
    """
    found: dict[int, Ratio] = {}
    for (before, after), numbers in grouped_by_shape((len(one), len(other)) for one, other in many).items():
        old, new = (trimmed(np.log([many[number][side] for number in numbers])) for side in (0, 1))
        means, p_values = _intervals([new, old], [1.0, -1.0]), _p_values_of_two(new, old)
        for number, mean, p in zip(numbers, means, p_values, strict=True):
            found[number] = Ratio(mean.estimate, mean.low, mean.high, p, min(before, after))
    return [found[number] for number in range(len(many))]


def grouped_by_shape(shapes: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the indices of the items of each shape."""
    numbers: dict[Key, list[int]] = {}
    for number, shape in enumerate(shapes):
        numbers.setdefault(shape, []).append(number)
    return numbers


def trimmed(logs: Floats) -> Floats:
    """Return numbers (a row for each row of logarithms) with the trimmed mean as mean and its uncertainty as spread.

    A shared machine makes one process in twenty or so half as slow again: such a round would move a mean by several
    per cent, and its variance would hide everything else. So up to a sixth of the rounds, rounded down, is cut from
    each end. The numbers are the mean and, added to it, each round's distance in the Winsorised sample, stretched
    so that their t-test is that of the trimmed mean (Tukey and McLaughlin, Less Vulnerable Confidence and
    Significance Procedures for Location, Sankhya A 25, 1963) with the variance of Yuen (Biometrika 61, 1974), for
    one sample.
    """
    size, cut = logs.shape[1], _cut(logs.shape[1])
    if not cut:
        return logs
    kept = np.sort(logs, axis=1)[:, cut : size - cut]
    winsorised = np.clip(logs, kept[:, :1], kept[:, -1:])
    stretch = math.sqrt(size * (size - 1) / (kept.shape[1] * (kept.shape[1] - 1)))
    return _mean(kept) + (winsorised - _mean(winsorised)) * stretch


def _mean(rows: Floats) -> Floats:
    """Return the mean of each row, as a column."""
    return np.asarray(rows.mean(axis=1, keepdims=True))


def _cut(rounds: int) -> int:
    """Return how many rounds are cut from each end."""
    return int(TRIMMED * rounds)


def ratio_of(mine: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """Return the ratio of figures paired by round; None without a pair, or if a figure is not above 0."""
    ratios = paired_ratios(mine, theirs)
    return ratio_over(ratios) if ratios else None


def geometric_mean(groups: RatiosByWorkload) -> Interval | None:
    """Return the mean over groups (workloads) of the means over each group's benchmarks.

    Each benchmark is resampled on its own. The interval is of these benchmarks; it says nothing about others.
    """
    return geometric_means([groups])[0]


def geometric_means(many: Sequence[RatiosByWorkload]) -> list[Interval | None]:
    """Return `geometric_mean` of each; those with the same numbers of rounds are computed together."""
    found: list[Interval | None] = [None] * len(many)
    filled = [[group for group in groups if group] for groups in many]
    for shape, numbers in grouped_by_shape(
        tuple(tuple(map(len, group)) for group in groups) for groups in filled
    ).items():
        members = [(group, member) for group, sizes in enumerate(shape) for member in range(len(sizes))]
        if members:
            logs = [trimmed(np.log([filled[number][group][member] for number in numbers])) for group, member in members]
            means = _intervals(logs, [1 / len(shape) / len(shape[group]) for group, _ in members])
            for number, mean in zip(numbers, means, strict=True):
                found[number] = mean
    return found


def _intervals(samples: Sequence[Floats], shares: Sequence[float]) -> list[Interval]:
    """Return the interval of each row's weighted sum of means, given logarithms; each sample is resampled on its own.

    It is the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, Chapman & Hall 1993, chapter
    13) as scipy.stats.bootstrap computes it, with the same resamples for all rows. If samples differ in size, the
    interval is widened for the smallest.
    """
    estimates = np.asarray(sum(share * sample.mean(axis=1) for share, sample in zip(shares, samples, strict=True)))
    sizes = tuple(sample.shape[1] for sample in samples)
    if min(sizes) == 1:
        return [Interval(estimate, 0.0, math.inf) for estimate in np.exp(estimates).tolist()]
    level = max(map(expanded_level, sizes))
    # Distances from the mean: their single precision, in half the time, costs far less than a millionth of the mean.
    parts = [share * (one - _mean(one)) for share, one in zip(shares, samples, strict=True)]
    resampled = bootstrap_ends(np.concatenate(parts, axis=1).astype(np.float32), sizes, level)
    equal = np.all([_equal(sample) for sample in samples], axis=0)
    ends = np.where(equal, 0.0, resampled) + estimates
    return [Interval(*row) for row in np.exp(np.stack([estimates, *ends], axis=1)).tolist()]


@cache
def expanded_level(size: int) -> float:
    """Return the level at which a percentile interval of `size` values covers 95 %.

    A bootstrap of n values has (n - 1)/n of the variance, and a small sample needs the t distribution's quantile:
    Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69:4 (2015).
    """
    quantile = scipy.special.stdtrit(degrees_of_freedom(size), 0.975)
    return float(1 - 2 * scipy.special.ndtr(-math.sqrt(size / (size - 1)) * quantile))


def degrees_of_freedom(rounds: int) -> int:
    """Return the degrees of freedom of a trimmed mean over this many rounds."""
    return rounds - 2 * _cut(rounds) - 1


def _p_values(logs: Floats) -> list[float]:
    """Return p of each row's mean being 0, two-sided; without spread it is 0 or 1, for one round 1."""
    if logs.shape[1] == 1:
        return [1.0] * len(logs)
    return _two_sided(
        logs.mean(axis=1), _squared_errors(logs), np.full(len(logs), float(degrees_of_freedom(logs.shape[1])))
    )


def _p_values_of_two(mine: Floats, theirs: Floats) -> list[float]:
    """Return p of each row's two means being equal, with Welch's degrees of freedom (Biometrika 34, 1947)."""
    if 1 in {mine.shape[1], theirs.shape[1]}:
        return [1.0] * len(mine)
    errors = [_squared_errors(mine), _squared_errors(theirs)]
    both = errors[0] + errors[1]
    parts = [error**2 / degrees_of_freedom(side.shape[1]) for error, side in zip(errors, (mine, theirs), strict=True)]
    freedom = np.divide(both**2, parts[0] + parts[1], out=np.ones_like(both), where=both > 0)
    return _two_sided(mine.mean(axis=1) - theirs.mean(axis=1), both, freedom)


def _squared_errors(logs: Floats) -> Floats:
    """Return the squared standard error of each row's mean; 0 if its numbers differ only by rounding."""
    return np.where(_equal(logs), 0.0, logs.var(axis=1, ddof=1) / logs.shape[1])


def _two_sided(means: Floats, squared_errors: Floats, freedom: Floats) -> list[float]:
    certain = np.where(np.abs(means) <= ROUNDING, 1.0, 0.0)
    statistic = np.abs(means) / np.sqrt(np.where(squared_errors > 0, squared_errors, 1.0))
    p_values: list[float] = np.where(squared_errors > 0, 2 * scipy.special.stdtr(freedom, -statistic), certain).tolist()
    return p_values


def _equal(logs: Floats) -> npt.NDArray[np.bool_]:
    """Return, for each row, whether its numbers differ only by rounding."""
    return np.asarray(np.ptp(logs, axis=1) <= ROUNDING * np.maximum(1.0, np.abs(logs[:, 0])))


def holm_adjusted(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return p-values adjusted for their number: the chance of any error among those below 0.05 is at most 5 %.

    Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6:2, 1979.
    """
    adjusted: dict[Key, float] = {}
    floor = 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[key]))
        adjusted[key] = floor
    return adjusted


def holm_adjusted_by_family(p_values: Mapping[Key, tuple[Hashable, float]]) -> dict[Key, float]:
    """Return p-values adjusted for the number in their family; given are (family, p)."""
    families: dict[Hashable, dict[Key, float]] = {}
    for key, (family, p) in p_values.items():
        families.setdefault(family, {})[key] = p
    adjusted = {key: p for family in families.values() for key, p in holm_adjusted(family).items()}
    return {key: adjusted[key] for key in p_values}


def is_narrow(ratio: Interval, half_width: float) -> bool:
    """Return whether half the interval's width is at most this share of the estimate: then rounds may end.

    It looks at the width only, never at whether a difference was found: looking again after each round until there is
    one would find one. What is left is that a width which came out small by chance ends the rounds early: of 5 to 20
    rounds beside the twin, which must be narrow as well, the interval covers in 93 % at worst, and p is below 0.05 for
    7 % of equals (simulated).
    """
    return (ratio.high - ratio.low) / 2 <= half_width * ratio.estimate


def bootstrap_ends(distances: Singles, sizes: tuple[int, ...], level: float) -> Floats:
    """Return two rows: the ends of the middle `level` of each case's resampled sums.

    `distances` has a row for each case: of one or more samples, of these sizes, what each number adds to its mean.
    Each sample is resampled on its own, as scipy.stats.bootstrap does with this seed.
    """
    return np.concatenate(list(_chunks(distances, sizes, level)), axis=1)


def bootstrap_means(samples: Floats) -> Floats:
    """Return the means of each row in the first resamples; all rows are resampled by the same rounds."""
    return np.asarray(samples @ _resamples((samples.shape[1],))[:, :FIT_RESAMPLES].astype(np.float64))


def _chunks(distances: Singles, sizes: tuple[int, ...], level: float) -> Iterator[Floats]:
    """Yield the ends of as many cases at a time as fit in the cache; chunks share one buffer."""
    resamples, deviations = _resamples(sizes), _deviations(distances, sizes)
    room = np.empty((min(CHUNK, len(distances)), RESAMPLES), dtype=np.float32)
    # Flat matrices gain nothing from threads; on a busy machine threads that wait for each other take ten times longer.
    with _blas().limit(limits=1, user_api="blas"):
        for start in range(0, len(distances), CHUNK):
            part = slice(start, start + CHUNK)
            sums = np.matmul(distances[part], resamples, out=room[: len(distances[part])])
            yield _quantiles(sums, TAIL_START * deviations[part], level)


def _deviations(distances: Singles, sizes: tuple[int, ...]) -> Singles:
    """Return the standard deviation of each case's resampled sums."""
    return np.asarray(
        np.sqrt(np.square(distances) @ np.repeat(np.float32(1) / np.square(sizes, dtype=np.float32), sizes))
    )


@cache
def _blas() -> ThreadpoolController:
    """Return the library that multiplies numpy's matrices."""
    return ThreadpoolController()


def _resamples(sizes: tuple[int, ...]) -> Singles:
    """Return a column for each resample, with each round's share in it, as scipy.stats.bootstrap draws them."""
    return _cached(sizes) if sum(sizes) <= CACHED_ROUNDS else _draw(sizes)


def _draw(sizes: tuple[int, ...]) -> Singles:
    rng, first = np.random.default_rng(SEED), np.arange(RESAMPLES)[:, None]
    shares = []
    for size in sizes:
        positions = rng.integers(0, size, (RESAMPLES, size)) + first * size
        counts = np.bincount(positions.ravel(), minlength=RESAMPLES * size).reshape(RESAMPLES, size)
        shares.append((counts.T / size).astype(np.float32))
    return np.concatenate(shares)


_cached = lru_cache(maxsize=32)(_draw)


def _quantiles(sums: Singles, bounds: Singles, level: float) -> Floats:
    """Return two rows: the interpolated ends of the middle `level` of each case's resampled sums.

    Only the sums of a case beyond its bound, on either side, are sorted first.
    """
    tail = (1 - level) / 2
    positions = [share * (RESAMPLES - 1) for share in (tail, 1 - tail)]
    cases = list(zip(sums, bounds.tolist(), strict=True))
    return np.array([[_interpolated(case, bound, position) for case, bound in cases] for position in positions])


def _interpolated(case: Singles, bound: float, position: float) -> float:
    """Return the number at a position of the sorted case, interpolated if it is not whole."""
    below = min(int(position), RESAMPLES - 2)
    low, high = _ordered(case, bound, below).tolist()
    return float(low + (high - low) * (position - below))


def _ordered(case: Singles, bound: float, position: int) -> Singles:
    """Return the number at a position of the sorted case, and the next one."""
    upper = position > RESAMPLES // 2
    outside = case.compress(case > bound if upper else case < -bound)
    first = position - (RESAMPLES - len(outside)) * upper
    if not 0 <= first < len(outside) - 1:
        outside, first = case, position
    return np.sort(outside)[first : first + 2]
