"""Which images are faster than which, over all weighted benchmarks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import scipy  # loads scipy.special only where it is used

from interlock.analysis.pick.evidence import Evidence
from interlock.analysis.statistics import ROUNDING, Ratio, degrees_of_freedom, paired_ratios, ratios_over
from interlock.analysis.verdicts import band_of, verdict_of
from interlock.results.picks import Standing

# Below this t statistic a p-value is too close to 1 to give the standard error back.
CLOSE = 1e-3


@dataclass(frozen=True)
class RankedVariant:
    """A contender: its time divided by the baseline's, and the fastest contender that it ties with."""

    label: str
    ratio: Ratio
    standing: Standing
    tied_with: str | None


def rank(evidence: Evidence, labels: Sequence[str]) -> list[RankedVariant]:
    """Rank the labels, the fastest first; those with the same estimate keep their order."""
    baseline, band = evidence.baseline, twin_band(evidence)
    to_baseline = ratios(evidence, labels, baseline)
    compared = max(1, len(labels) - (baseline in labels))
    order = sorted(labels, key=lambda label: to_baseline[label].estimate)
    ties = _ties(evidence, order, band, compared)
    return [
        RankedVariant(
            label,
            to_baseline[label],
            Standing.BASELINE if label == baseline else standing_of(to_baseline[label], band, compared),
            ties.get(label),
        )
        for label in order
    ]


def _ties(evidence: Evidence, order: Sequence[str], band: float, compared: int) -> dict[str, str]:
    """Return, by label, the fastest contender that it is not shown to differ from.

    All are compared with the fastest; then those that differ from it with the fastest of them, and so on.
    """
    ties: dict[str, str] = {}
    left = list(order)
    while left:
        first, *others = left
        found = ratios(evidence, others, first)
        tied = [label for label in others if standing_of(found[label], band, compared) is Standing.SAME]
        ties |= dict.fromkeys(tied, first)
        left = [label for label in others if label not in ties]
    return ties


def standing_of(ratio: Ratio, band: float, compared: int) -> Standing:
    """Return what `verdict_of` says, with p adjusted for the number compared by Bonferroni instead of Holm.

    That does not depend on the other p-values, so a tie with the baseline and no difference from it are the same.
    """
    return Standing(verdict_of(ratio, ratio.p * compared, band))


def twin_band(evidence: Evidence) -> float:
    """Return the band of the twin's ratio, weighted as the contenders' are; 1 without a twin."""
    if not all(evidence.medians(evidence.twin, key) for key in evidence.shares):
        return 1.0
    return band_of(ratios(evidence, [evidence.twin], evidence.experiment.settings.baseline)[evidence.twin])


def ratios(evidence: Evidence, labels: Iterable[str], other: str) -> dict[str, Ratio]:
    """Return, by label, the weighted ratio of its times to the other's, paired by round in each benchmark."""
    labels, keys = list(labels), list(evidence.shares)
    pairs = [(label, key) for label in labels for key in keys]
    many = ratios_over([paired_ratios(evidence.medians(label, at), evidence.medians(other, at)) for label, at in pairs])
    found = dict(zip(pairs, many, strict=True))
    shares = list(evidence.shares.values())
    return {label: weighted_mean([found[label, key] for key in keys], shares) for label in labels}


def weighted_mean(parts: Sequence[Ratio], shares: Sequence[float]) -> Ratio:
    """Return the weighted geometric mean of independent ratios; the shares add up to 1.

    Its interval is made from theirs (Zou and Donner, Construction of Confidence Limits about Effect Measures: A General
    Approach, Statistics in Medicine 27:10, 2008): each end is as far from the mean as the root of the sum of the
    squares of the parts' distances from it. p is of a t-test with the errors that the parts' own tests had, and the
    degrees of freedom of Satterthwaite (An Approximate Distribution of Estimates of Variance Components, Biometrics
    Bulletin 2:6, 1946). A single part is returned as it is.
    """
    if len(parts) == 1:
        return parts[0]
    mean = sum(share * math.log(part.estimate) for share, part in zip(shares, parts, strict=True))
    rounds = min(part.rounds for part in parts)
    if rounds == 1:
        return Ratio(math.exp(mean), 0.0, math.inf, 1.0, 1)
    pairs = list(zip(shares, parts, strict=True))
    below = math.hypot(*(share * math.log(part.estimate / part.low) for share, part in pairs))
    above = math.hypot(*(share * math.log(part.high / part.estimate) for share, part in pairs))
    p = _p_value(mean, parts, shares)
    return Ratio(math.exp(mean), math.exp(mean - below), math.exp(mean + above), p, rounds)


def _p_value(mean: float, parts: Sequence[Ratio], shares: Sequence[float]) -> float:
    squares = [(share * _error(part)) ** 2 for share, part in zip(shares, parts, strict=True)]
    total = sum(squares)
    if total == 0:
        return 1.0 if abs(mean) <= ROUNDING else 0.0
    freedom = total**2 / sum(
        square**2 / degrees_of_freedom(part.rounds) for square, part in zip(squares, parts, strict=True)
    )
    return min(1.0, float(2 * scipy.special.stdtr(freedom, -abs(mean) / math.sqrt(total))))


def _error(ratio: Ratio) -> float:
    """Return the standard error of the ratio's logarithm, from p or, where p is too close to 1, from the interval."""
    freedom = degrees_of_freedom(ratio.rounds)
    statistic = -float(scipy.special.stdtrit(freedom, ratio.p / 2))
    if statistic > CLOSE:
        return abs(math.log(ratio.estimate)) / statistic
    return math.log(ratio.high / ratio.low) / 2 / float(scipy.special.stdtrit(freedom, 0.975))
