"""Which of several may be the best, and what the one that was picked is worth. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean, variance

from interlock.analysis.statistics import Ratio, ratio_from
from interlock.analysis.verdicts import SIGNIFICANT
from interlock.results.answers import Rank

# What is divided by what: the time of the first by that of the second; None without figures.
RatioOf = Callable[[str, str], Ratio | None]


def ranks(order: Sequence[str], ratio: RatioOf) -> dict[str, Rank]:
    """Return the rank of each, given the fastest first.

    Multiple comparisons with the best (Hsu, Multiple Comparisons, Chapman and Hall 1996, chapter 4), with Bonferroni's
    bound in place of Dunnett's quantile, since their errors differ: one is worse if any of the others is shown to be
    better by a one-sided test, and the best if it is shown to be better than all. The true best is called worse in at
    most 5 % of lists. What is not shown to be worse, but stands below one that is, is too noisy to be placed.
    """
    found = {label: Rank.WORSE if _worse(order, number, ratio) else Rank.OPEN for number, label in enumerate(order)}
    below = False
    for label in order:
        below = below or found[label] is Rank.WORSE
        if below and found[label] is Rank.OPEN:
            found[label] = Rank.UNCLEAR
    first, *others = order or [""]
    if all(_is_better(ratio(label, first), len(others)) for label in others):
        found |= dict.fromkeys(order[:1], Rank.BEST)
    return found


def _worse(order: Sequence[str], number: int, ratio: RatioOf) -> bool:
    return any(_is_better(ratio(order[number], other), len(order) - 1) for other in order[:number])


def _is_better(ratio: Ratio | None, comparisons: int) -> bool:
    """Return whether the divisor takes less time, by a one-sided test among this many."""
    return ratio is not None and ratio.estimate > 1 and ratio.p / 2 * comparisons < SIGNIFICANT


def announced(picked: Ratio, all_of_them: Sequence[Ratio]) -> Ratio:
    """Return the ratio of the one that was picked as the best of several, drawn towards their mean.

    The best of several was lucky as well as good. Their logarithms spread by what they are and by noise; the share of
    the spread that is noise is taken off its distance from the mean (the normal empirical Bayes estimate, which is not
    biased by the choice: Efron, Tweedie's Formula and Selection Bias, JASA 106, 2011). Half of a ratio's variance is
    taken for noise: the other half is the baseline's, which all share, so that it chooses nobody. The picked one is
    among `all_of_them`; of one or two, whose spread is not known, and of single rounds nothing is taken off.
    """
    if len(all_of_them) < 3 or not all(math.isfinite(one.error) for one in all_of_them):
        return picked
    logs, own = [one.log for one in all_of_them], picked.error**2 / 2
    true_spread = max(0.0, variance(logs) - fmean(one.error**2 / 2 for one in all_of_them))
    kept = true_spread / (true_spread + own)
    log = fmean(logs) + kept * (picked.log - fmean(logs))
    error = math.sqrt(own + own * (kept + (1 - kept) / len(logs)))
    return ratio_from(log, error, picked.freedom, picked.rounds)
