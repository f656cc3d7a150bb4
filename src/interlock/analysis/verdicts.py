"""When a ratio is a difference: the one rule for tables, picks, trials and comparisons of experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from interlock.analysis.statistics import Interval, Key, Ratio, holm_adjusted, ratios_over

# One table in a hundred calls equals different: at 5 % it would be one in twenty.
SIGNIFICANT = 0.01


class Verdict(StrEnum):
    """What is shown of a ratio of times."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "no difference"


def verdict_of(ratio: Ratio, p: float, band: float) -> Verdict:
    """Return 'slower' or 'faster' if p, the interval and the band all agree, else 'no difference'.

    p must be below 0.01 and is adjusted by the caller for the number of ratios looked at, the interval must exclude 1,
    and the estimate must lie further from 1 than `band`, the ratio that equal images showed.
    """
    apart = not ratio.low <= 1 <= ratio.high and max(ratio.estimate, 1 / ratio.estimate) > band
    if p >= SIGNIFICANT or not apart:
        return Verdict.SAME
    return Verdict.SLOWER if ratio.estimate > 1 else Verdict.FASTER


def band_of(twin: Interval | None) -> float:
    """Return how far from 1, in either direction, equal images seemed to be; 1 without a twin."""
    return 1.0 if twin is None else max(twin.estimate, 1 / twin.estimate)


@dataclass(frozen=True)
class Comparison:
    """The ratio of a variant to another one in one benchmark, and what decides whether it is a difference."""

    other: str
    by_round: tuple[float, ...]
    ratio: Ratio
    p: float  # adjusted for all ratios of the table
    band: float  # what equal images showed: 1.05 is 5 % slower or faster

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.ratio, self.p, self.band)


def comparisons_over(other: str, by_round: Mapping[Key, Sequence[float]], band: float) -> dict[Key, Comparison]:
    """Compare each row of one table with `other`: its ratios by round, with p adjusted for all rows (Holm)."""
    ratios = dict(zip(by_round, ratios_over(list(by_round.values())), strict=True))
    adjusted = holm_adjusted({key: ratio.p for key, ratio in ratios.items()})
    return {key: Comparison(other, tuple(by_round[key]), ratio, adjusted[key], band) for key, ratio in ratios.items()}
