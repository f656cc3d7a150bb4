"""Ratios over rounds: estimate, interval and p-value; many of them at a time; and their geometric mean. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import Any, TypeVar

import scipy  # loads scipy.stats, which takes most of a second, only where it is used

Key = TypeVar("Key", bound=Hashable)

RESAMPLES = 9_999
# A report that is made again says the same.
SEED = 2015
# Of the rounds, from each end.
TRIMMED = 1 / 6
# Logarithms this close are equal but for the rounding of doubles.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Interval:
    """A ratio and its 95 % confidence interval, which one round leaves open: 0 to infinity."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio(Interval):
    """Time (or anything) per unit of work divided by another's, paired by round; p is for their being equal."""

    p: float
    rounds: int


def by_round(mine: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Each of mine divided by that of theirs with the same index; nothing if a figure has no logarithm."""
    pairs = list(zip(mine, theirs, strict=False))
    if not all(0 < figure < math.inf for pair in pairs for figure in pair):
        return []
    return [one / other for one, other in pairs]


def ratio_over(ratios: Sequence[float]) -> Ratio:
    """The ratio over one round or more: trimmed geometric mean, 95 % bootstrap interval, p of a trimmed t-test."""
    logs = _trimmed(ratios)
    mean = _interval([logs], [1.0])
    return Ratio(mean.estimate, mean.low, mean.high, _p_value(logs), len(logs))


def _trimmed(ratios: Sequence[float]) -> list[float]:
    """Numbers whose mean is the trimmed mean of the ratios' logarithms, and whose spread is that mean's uncertainty.

    A shared machine makes one process in twenty or so half as slow again: such a round would move a mean by several
    per cent, and its variance would hide everything else. So up to a sixth of the rounds, rounded down, is cut from
    each end. The numbers are the mean and, added to it, each round's distance in the Winsorised sample, stretched
    so that their t-test is that of the trimmed mean (Tukey and McLaughlin, Less Vulnerable Confidence and
    Significance Procedures for Location, Sankhya A 25, 1963) with the variance of Yuen (Biometrika 61, 1974), for
    one sample.
    """
    logs = [math.log(ratio) for ratio in ratios]
    size, cut = len(logs), _cut(len(logs))
    kept = sorted(logs)[cut : size - cut]
    winsorised = [min(max(log, kept[0]), kept[-1]) for log in logs]
    stretch = math.sqrt(size * (size - 1) / (len(kept) * (len(kept) - 1))) if cut else 1.0
    return [fmean(kept) + (log - fmean(winsorised)) * stretch for log in winsorised]


def _cut(rounds: int) -> int:
    """How many rounds are cut from each end."""
    return int(TRIMMED * rounds)


def ratio_of(mine: Sequence[float], theirs: Sequence[float]) -> Ratio | None:
    """The ratio of figures that are paired by round; None without a pair, or if a figure is not above zero."""
    ratios = by_round(mine, theirs)
    return ratio_over(ratios) if ratios else None


def geometric_mean(groups: Sequence[Sequence[Sequence[float]]]) -> Interval | None:
    """The mean over groups (workloads) of the mean over each one's benchmarks of their ratios by round.

    Each benchmark is resampled on its own. The interval is of these benchmarks; it says nothing about others.
    """
    filled = [group for group in groups if group]
    if not filled:
        return None
    logs = [_trimmed(ratios) for group in filled for ratios in group]
    return _interval(logs, [1 / len(filled) / len(group) for group in filled for _ in group])


def _interval(samples: Sequence[Sequence[float]], shares: Sequence[float]) -> Interval:
    """The weighted mean of the samples' means, given logarithms; each sample is resampled on its own.

    Of samples of several sizes the one that needs it most decides how far the interval is widened.
    """

    def mean(*resampled: Any, axis: int) -> Any:
        return sum(share * one.mean(axis=axis) for share, one in zip(shares, resampled, strict=True))

    estimate = sum(share * fmean(sample) for share, sample in zip(shares, samples, strict=True))
    if min(map(len, samples)) == 1:
        return Interval(math.exp(estimate), 0.0, math.inf)
    if all(map(_equal, samples)):
        return Interval(math.exp(estimate), math.exp(estimate), math.exp(estimate))
    found = scipy.stats.bootstrap(
        samples,
        mean,
        confidence_level=max(_expanded(len(sample)) for sample in samples),
        n_resamples=RESAMPLES,
        method="percentile",
        vectorized=True,
        rng=SEED,
    ).confidence_interval
    return Interval(math.exp(estimate), math.exp(found.low), math.exp(found.high))


@cache
def _expanded(size: int) -> float:
    """The level at which a percentile interval of so few covers 95 %: a bootstrap of n has (n - 1)/n of the variance.

    Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69:4 (2015).
    """
    quantile = scipy.stats.t.ppf(0.975, _freedom(size))
    return float(1 - 2 * scipy.stats.norm.cdf(-math.sqrt(size / (size - 1)) * quantile))


def _freedom(rounds: int) -> int:
    return rounds - 2 * _cut(rounds) - 1


def _p_value(logs: Sequence[float]) -> float:
    """For a mean of 0, two-sided; without any spread all is certain, from one round nothing."""
    if len(logs) == 1:
        return 1.0
    if _equal(logs):
        return 1.0 if abs(logs[0]) <= ROUNDING else 0.0
    statistic = fmean(logs) / (stdev(logs) / math.sqrt(len(logs)))
    return float(2 * scipy.stats.t.sf(abs(statistic), _freedom(len(logs))))


def _equal(logs: Sequence[float]) -> bool:
    return max(logs) - min(logs) <= ROUNDING * max(1.0, abs(logs[0]))


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Adjusted for their number: the chance that any of those below 0.05 is an error is at most 5 % (Holm, 1979)."""
    adjusted: dict[Key, float] = {}
    floor = 0.0
    for rank, key in enumerate(sorted(p_values, key=p_values.__getitem__)):
        floor = max(floor, min(1.0, (len(p_values) - rank) * p_values[key]))
        adjusted[key] = floor
    return adjusted


def narrow(ratio: Interval, half_width: float) -> bool:
    """Whether half the interval is at most this share of the estimate: what rounds may be ended by.

    It looks at the width only, never at whether a difference was found: looking again after each round until there is
    one would find one. What is left is that a width which came out small by chance ends the rounds early: of 5 to 20
    rounds beside the twin, which must be narrow as well, the interval covers in 93 % at worst, and p is below 0.05 for
    7 % of equals (simulated).
    """
    return (ratio.high - ratio.low) / 2 <= half_width * ratio.estimate
