"""Which images are faster than which, over all weighted benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from interlock.analysis.pick.evidence import Evidence
from interlock.analysis.pick.figures import RecordedLevels
from interlock.analysis.selection import ranks
from interlock.analysis.statistics import Ratio, mean_ratio
from interlock.analysis.verdicts import verdict_of
from interlock.results.answers import Rank, Standing

# The fit of each weighted benchmark, with its share.
Fits = Sequence[tuple[float, RecordedLevels]]


@dataclass(frozen=True)
class RankedVariant:
    """A contender: its time divided by the baseline's, and how it stands to the baseline and to the best."""

    label: str
    ratio: Ratio
    standing: Standing
    rank: Rank


def rank(evidence: Evidence, labels: Sequence[str]) -> list[RankedVariant]:
    """Rank the labels, the fastest first; those with the same estimate keep their order."""
    baseline, fits = evidence.baseline, fits_of(evidence)
    to_baseline = ratios(fits, labels, baseline)
    number = max(1, len(labels) - (baseline in labels))
    order = sorted(labels, key=lambda label: to_baseline[label].estimate)
    standings = {
        label: Standing.BASELINE if label == baseline else standing_of(to_baseline[label], number) for label in order
    }

    def compared(mine: str, theirs: str) -> Ratio:
        """Return a ratio for the ranks; beside the baseline the standing decides, so that the two never differ."""
        ratio = ratios(fits, [mine], theirs)[mine]
        other = {mine, theirs} - {baseline}
        if len(other) == 1 and standings[other.pop()] not in {Standing.FASTER, Standing.SLOWER}:
            return replace(ratio, p=1.0)
        return ratio

    found = ranks(order, compared)
    return [RankedVariant(label, to_baseline[label], standings[label], found[label]) for label in order]


def standing_of(ratio: Ratio, number: int) -> Standing:
    """Return the verdict on one of a number of contenders.

    It does not depend on the other p-values, so it stays whatever the others are.
    """
    return Standing(verdict_of(ratio, number).value)


def fits_of(evidence: Evidence) -> Fits:
    """Return the rows of each weighted benchmark, fitted together."""
    return [(share, evidence.levels(key)) for key, share in evidence.shares.items()]


def ratios(fits: Fits, labels: Iterable[str], other: str) -> dict[str, Ratio]:
    """Return, by label, the weighted ratio of its times to the other's."""
    return {
        label: mean_ratio([(share, one) for share, levels in fits if (one := levels.ratio(label, other))])
        for label in labels
    }
