"""Which images are faster than which, which may be the best, and what other experiments say of the same. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance

from interlock.analysis.comparison import BenchmarkKey
from interlock.analysis.pick.evidence import Evidence, Shares
from interlock.analysis.pick.figures import RecordedLevels
from interlock.analysis.statistics import Ratio, mean_ratio, ratio_from
from interlock.analysis.verdicts import SIGNIFICANT, judged
from interlock.catalog.variants import Gil
from interlock.results.answers import Rank, Standing

# The fit of each weighted benchmark, with its share.
Fits = Sequence[tuple[float, RecordedLevels]]


@dataclass(frozen=True)
class RankedVariant:
    """A contender: its time divided by the baseline's, and how it stands to the baseline and to the best.

    Of one without a GIL it is also known where threads compute on more CPUs, and elsewhere.
    """

    label: str
    ratio: Ratio
    standing: Standing
    rank: Rank
    sides: tuple[Ratio, Ratio] | None = None


def rank(evidence: Evidence, labels: Sequence[str]) -> list[RankedVariant]:
    """Rank the labels, the fastest first; those with the same estimate keep their order."""
    baseline, fits = evidence.baseline, fits_of(evidence, evidence.shares)
    to_baseline = ratios(fits, labels, baseline)
    number = max(1, len(labels) - (baseline in labels))
    order = sorted(labels, key=lambda label: to_baseline[label].estimate)
    judgements = {label: judged(baseline, to_baseline[label], number) for label in order}
    standings = {label: Standing(judgement.verdict) for label, judgement in judgements.items()}
    standings |= {baseline: Standing.BASELINE} if baseline in standings else {}

    def compared(mine: str, theirs: str) -> Ratio:
        """Return a ratio for the ranks; beside the baseline the standing decides, so that the two never differ."""
        ratio = ratios(fits, [mine], theirs)[mine]
        other = {mine, theirs} - {baseline}
        if len(other) == 1 and standings[other.pop()] not in {Standing.FASTER, Standing.SLOWER}:
            return replace(ratio, p=1.0)
        return ratio

    places = ranks(order, compared)
    return [
        RankedVariant(label, judgements[label].ratio, standings[label], places[label], _sides(evidence, label, number))
        for label in order
    ]


def fits_of(evidence: Evidence, shares: Shares) -> Fits:
    """Return the rows of each of these benchmarks, fitted together."""
    return [(share, evidence.levels(key)) for key, share in shares.items()]


def ratios(fits: Fits, labels: Iterable[str], other: str) -> dict[str, Ratio]:
    """Return, by label, the weighted ratio of its times to the other's."""
    return {
        label: mean_ratio([(share, ratio) for share, levels in fits if (ratio := levels.ratio(label, other))])
        for label in labels
    }


# What is divided by what: the time of the first by that of the second; None without figures.
RatioOf = Callable[[str, str], Ratio | None]


def ranks(order: Sequence[str], ratio: RatioOf) -> dict[str, Rank]:
    """Return the rank of each, given the fastest first.

    Multiple comparisons with the best (Hsu, Multiple Comparisons, Chapman and Hall 1996, chapter 4), with Bonferroni's
    bound in place of Dunnett's quantile, since their errors differ: one is worse if any of the others is shown to be
    better by a one-sided test, and the best if it is shown to be better than all. The true best is called worse in at
    most 5 % of lists. What is not shown to be worse, but stands below one that is, is too noisy to be placed.
    """
    places, others = dict[str, Rank](), len(order) - 1
    for number, label in enumerate(order):
        if any(_is_better(ratio(label, faster), others) for faster in order[:number]):
            places[label] = Rank.WORSE
        else:
            places[label] = Rank.UNCLEAR if Rank.WORSE in places.values() else Rank.OPEN
    first, *followers = order or [""]
    if all(_is_better(ratio(label, first), len(followers)) for label in followers):
        places |= dict.fromkeys(order[:1], Rank.BEST)
    return places


def _is_better(ratio: Ratio | None, comparisons: int) -> bool:
    """Return whether the divisor takes less time, by a one-sided test among this many."""
    return ratio is not None and ratio.estimate > 1 and ratio.p / 2 * comparisons < SIGNIFICANT


def announced(picked: Ratio, all_of_them: Sequence[Ratio]) -> Ratio:
    """Return the ratio of the one that was picked as the best of several, drawn towards their mean.

    The best of several was lucky as well as good. Their logarithms spread by what they are and by noise; the share of
    the spread that is noise is taken off its distance from the mean (the normal empirical Bayes estimate, which is not
    biased by the choice: Efron, Tweedie's Formula and Selection Bias, JASA 106, 2011). Half of a ratio's variance is
    taken for noise: the other half is the baseline's, which all share, so that it chooses nobody. The picked one is
    among `all_of_them`. Nothing is taken off of one or two, whose spread is not known, of single rounds, and of one
    that is not faster than the mean, which luck did not choose.
    """
    if len(all_of_them) < 3 or not all(math.isfinite(contender.error) for contender in all_of_them):
        return picked
    logs, own = [contender.log for contender in all_of_them], picked.error**2 / 2
    if picked.log >= fmean(logs):
        return picked
    true_spread = max(0.0, variance(logs) - fmean(contender.error**2 / 2 for contender in all_of_them))
    kept = true_spread / (true_spread + own)
    log = fmean(logs) + kept * (picked.log - fmean(logs))
    error = math.sqrt(own + own * (kept + (1 - kept) / len(logs)))
    return ratio_from(log, error, picked.freedom, picked.rounds)


def _sides(evidence: Evidence, label: str, number: int) -> tuple[Ratio, Ratio] | None:
    """Return both sides' ratios of a label without a GIL to a baseline with one, among this many contenders.

    None on one CPU, and where a side has no figures.
    """
    baseline = evidence.baseline
    if evidence.criteria.cpus == 1 or evidence.gil(label) is not Gil.OFF or evidence.gil(baseline) is Gil.OFF:
        return None
    if not all(shares and _is_measured(evidence, [label, baseline], shares) for shares in evidence.sides):
        return None
    measured = [ratios(fits_of(evidence, shares), [label], baseline)[label] for shares in evidence.sides]
    computing, elsewhere = (judged(baseline, ratio, number).ratio for ratio in measured)
    return computing, elsewhere


def _is_measured(evidence: Evidence, labels: Iterable[str], keys: Iterable[BenchmarkKey]) -> bool:
    return all(evidence.seconds(label, key) is not None for key in keys for label in labels)


def switch_elsewhere(evidence: Evidence, label: str) -> tuple[Ratio, Standing] | None:
    """Return the ratio of a label to the baseline in another experiment and its standing; None if it has no figures."""
    if not _is_measured(evidence, [label], evidence.shares):
        return None
    fits = fits_of(evidence, evidence.shares)
    judgement = judged(evidence.baseline, ratios(fits, [label], evidence.baseline)[label])
    return judgement.ratio, Standing(judgement.verdict)
