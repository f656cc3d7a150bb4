"""Who is faster than whom, over all benchmarks that count, each with its share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import scipy  # loads scipy.special only where it is used

from interlock.compare import SIGNIFICANT, band_of
from interlock.model import Standing
from interlock.pick.material import Material
from interlock.statistics import ROUNDING, TRIMMED, Ratio, by_round, ratios_over

# So close to 1, as a share of its error, a ratio's p-value says too little of that error.
CLOSE = 1e-3


@dataclass(frozen=True)
class Row:
    """A contender: its time divided by the baseline's, and the fastest one that it is not shown to differ from."""

    label: str
    ratio: Ratio
    standing: Standing
    tied_with: str | None


def rank(material: Material, labels: Sequence[str]) -> list[Row]:
    """Those that meet the demands, the fastest first; those with the same estimate in their own order."""
    baseline, band = material.baseline, twin_band(material)
    to_baseline = ratios(material, labels, baseline)
    compared = max(1, len(labels) - (baseline in labels))
    order = sorted(labels, key=lambda label: to_baseline[label].estimate)
    ties = _ties(material, order, band, compared)
    return [
        Row(
            label,
            to_baseline[label],
            Standing.BASELINE if label == baseline else standing(to_baseline[label], band, compared),
            ties.get(label),
        )
        for label in order
    ]


def _ties(material: Material, order: Sequence[str], band: float, compared: int) -> dict[str, str]:
    """By label the first one that it is not shown to differ from.

    All are compared with the fastest; then those that differ from it with the fastest of them, and so on.
    """
    ties: dict[str, str] = {}
    left = list(order)
    while left:
        first, *others = left
        found = ratios(material, others, first)
        tied = [label for label in others if standing(found[label], band, compared) is Standing.SAME]
        ties |= dict.fromkeys(tied, first)
        left = [label for label in others if label not in ties]
    return ties


def standing(ratio: Ratio, band: float, compared: int) -> Standing:
    """'slower' and 'faster' need what a report asks of them, but Bonferroni's adjustment for the number compared.

    It does not depend on the other p-values, so that a tie with the baseline and no difference from it are the same.
    """
    apart = not ratio.low <= 1 <= ratio.high and max(ratio.estimate, 1 / ratio.estimate) > band
    if ratio.p * compared >= SIGNIFICANT or not apart:
        return Standing.SAME
    return Standing.SLOWER if ratio.estimate > 1 else Standing.FASTER


def twin_band(material: Material) -> float:
    """What the twin's ratio, weighted as the contenders' are, says of the noise; 1 without a twin."""
    if not all(material.medians(material.twin, place) for place in material.shares):
        return 1.0
    return band_of(ratios(material, [material.twin], material.experiment.settings.baseline)[material.twin])


def ratios(material: Material, labels: Iterable[str], other: str) -> dict[str, Ratio]:
    """By label: time divided by the other's, paired by round in each benchmark, and weighted."""
    labels, places = list(labels), list(material.shares)
    pairs = [(label, place) for label in labels for place in places]
    many = ratios_over([by_round(material.medians(label, at), material.medians(other, at)) for label, at in pairs])
    found = dict(zip(pairs, many, strict=True))
    shares = list(material.shares.values())
    return {label: weighted([found[label, place] for place in places], shares) for label in labels}


def weighted(parts: Sequence[Ratio], shares: Sequence[float]) -> Ratio:
    """The weighted geometric mean of ratios that are independent of each other; the shares add up to 1.

    Its interval is made from theirs (Zou and Donner, Construction of Confidence Limits about Effect Measures: A General
    Approach, Statistics in Medicine 27:10, 2008): each end is as far from the mean as the root of the sum of the
    squares of the parts' distances from it. p is of a t-test with the errors that the parts' own tests had, and the
    degrees of freedom of Satterthwaite (An Approximate Distribution of Estimates of Variance Components, Biometrics
    Bulletin 2:6, 1946). Of one part it is that part.
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
    freedom = total**2 / sum(square**2 / _freedom(part) for square, part in zip(squares, parts, strict=True))
    return min(1.0, float(2 * scipy.special.stdtr(freedom, -abs(mean) / math.sqrt(total))))


def _error(ratio: Ratio) -> float:
    """The standard error of the ratio's logarithm that its t-test had; where that is lost, its interval's."""
    freedom = _freedom(ratio)
    statistic = -float(scipy.special.stdtrit(freedom, ratio.p / 2))
    if statistic > CLOSE:
        return abs(math.log(ratio.estimate)) / statistic
    return math.log(ratio.high / ratio.low) / 2 / float(scipy.special.stdtrit(freedom, 0.975))


def _freedom(ratio: Ratio) -> int:
    """That of a trimmed mean over so many rounds."""
    return ratio.rounds - 2 * int(TRIMMED * ratio.rounds) - 1
