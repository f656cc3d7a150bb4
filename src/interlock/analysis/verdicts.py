"""When a ratio is a difference: the one rule for tables, picks, trials, claims and comparisons of experiments."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from interlock.analysis import statistics
from interlock.analysis.statistics import NO_PART, BlockFigure, Key, Ratio, benjamini_hochberg, fit_levels
from interlock.results.experiments import RoundsEnd

# The error rate of tests of sameness, of the best and of an order.
SIGNIFICANT = 0.05
# Of the ratios of a family that are called different, at most this share is not, in the mean: less than usual, because
# rows of a table differ in noise, which few rounds show badly (docs/decisions/0005-verdicts.md).
DIFFERENT = 0.03
# Two that differ by less than this are the same to most people; a workload may declare another margin.
MARGIN = 0.05
# The numbers of rounds after which there is a look whether more are needed, each with its share of the error.
LOOKS = {4: 0.20, 5: 0.10, 7: 0.15, 10: 0.20, 14: 0.20, 20: 0.15}
MOST_ROUNDS = max(LOOKS)
# Nobody measures more rounds than this for one verdict: it is not said how many it would take.
HOPELESS = 200

# (label, the label that it is compared with)
Pair = tuple[str, str]


class Verdict(StrEnum):
    """What is shown of a ratio of times or bytes."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"

    @property
    def differs(self) -> bool:
        """Return whether a difference is shown."""
        return self in {Verdict.SLOWER, Verdict.FASTER}


@dataclass(frozen=True)
class Comparison:
    """The ratio of a variant to another one in one benchmark, and what decides whether it is a difference.

    `p` is that of equals and `p_same` that of a difference of the margin or more, both adjusted for the looks that were
    taken, `p` also for the family; the interval of what is undecided is as wide as that makes it. `more_rounds` is
    about how many would decide, None if it is decided or if nothing can be said.
    """

    other: str
    ratio: Ratio
    p: float
    p_same: float
    margin: float = MARGIN
    is_disturbed: bool = False  # too much to decide by it

    @property
    def verdict(self) -> Verdict:
        if self.is_disturbed:
            return Verdict.UNDECIDED
        if self.p < DIFFERENT and not self.ratio.low <= 1 <= self.ratio.high:
            return Verdict.SLOWER if self.ratio.estimate > 1 else Verdict.FASTER
        return Verdict.SAME if self.p_same < SIGNIFICANT else Verdict.UNDECIDED

    @property
    def words(self) -> str:
        """Return the verdict as it is said: 'same within 5 %', 'undecided, about 6 more rounds'."""
        more = self.more_rounds
        if self.is_disturbed:
            return f"{self.verdict}, disturbed: measure again"
        if self.verdict is Verdict.SAME:
            return f"same within {100 * self.margin:g} %"
        if more is None or more > HOPELESS:
            return self.verdict
        return f"{self.verdict}, about {more} more round{'s' * (more > 1)}"

    @property
    def more_rounds(self) -> int | None:
        if self.verdict is not Verdict.UNDECIDED or self.is_disturbed or not math.isfinite(self.ratio.error):
            return None
        return _rounds_to_decide(self.ratio, self.margin)

    @property
    def fewest_more_rounds(self) -> int | None:
        """Return the same if the true ratio lies one standard error away, on whichever side decides sooner."""
        return None if self.more_rounds is None else _rounds_to_decide(self.ratio, self.margin, self.ratio.error)


def _rounds_to_decide(ratio: Ratio, margin: float, off: float = 0.0) -> int:
    """Return about how many more rounds show a difference or sameness, whichever is sooner, if nothing changes.

    The error shrinks with the root of the rounds; about three of them show a difference among others, two sameness.
    The logarithm of the true ratio is taken to be that of the estimate, or up to `off` nearer to 0 or further from it.
    """
    distance, edge = abs(ratio.log), math.log1p(margin)
    near, far = max(0.0, distance - off), distance + off
    needs = [(3 * ratio.error / far) ** 2 if far else math.inf]
    needs += [(2 * ratio.error / (edge - near)) ** 2] if near < edge else []
    return max(1, math.ceil(min(ratio.rounds * min(needs), 1e6)) - ratio.rounds)


def p_of_difference(ratio: Ratio, margin: float) -> float:
    """Return p of the hypothesis that two differ by the margin or more: the larger of two one-sided t-tests.

    Schuirmann, A Comparison of the Two One-Sided Tests Procedure, Journal of Pharmacokinetics 15, 1987.
    """
    if not math.isfinite(ratio.error):
        return 1.0
    return statistics.probability_below(ratio.freedom, -(math.log1p(margin) - abs(ratio.log)) / ratio.error)


def judged(other: str, ratio: Ratio, number: int = 1) -> Comparison:
    """Return the comparison by one of a number of ratios, with p multiplied by that number (Bonferroni).

    Unlike a family's its verdict does not depend on the other p-values.
    """
    return among(Comparison(other, ratio, ratio.p, p_of_difference(ratio, MARGIN)), number)


def among(comparison: Comparison, number: int) -> Comparison:
    """Return a comparison as one of so many, with p multiplied by that number (Bonferroni)."""
    return _with_deciding_interval(replace(comparison, p=min(1.0, comparison.p * number)))


def compared(other: str, ratios: Mapping[Key, Ratio]) -> dict[Key, Comparison]:
    """Return the comparison of each ratio of one family, looked at once."""
    adjusted = benjamini_hochberg({key: ratio.p for key, ratio in ratios.items()})
    return {
        key: _with_deciding_interval(Comparison(other, ratio, adjusted[key], p_of_difference(ratio, MARGIN)))
        for key, ratio in ratios.items()
    }


def _with_deciding_interval(comparison: Comparison) -> Comparison:
    """Return a comparison with the interval that decides: it contains 1 if looks and family leave it undecided.

    Its level is the one at which p, as adjusted, would just show a difference.
    """
    ratio = comparison.ratio
    if comparison.verdict is not Verdict.UNDECIDED or ratio.low <= 1 <= ratio.high:
        return comparison
    return replace(comparison, ratio=statistics.at_level(ratio, 1 - DIFFERENT * ratio.p / comparison.p))


def open_labels(comparisons: Mapping[Pair, Comparison], pairs: Iterable[Pair], *, reach: float = math.inf) -> set[str]:
    """Return the labels of the pairs that are not decided and may be, in about `reach` more rounds.

    After few rounds an estimate may be off by its error.
    """
    far = {
        pair
        for pair, comparison in comparisons.items()
        if comparison.verdict is not Verdict.UNDECIDED or (comparison.fewest_more_rounds or 0) > reach
    }
    return {label for pair in pairs if pair not in far for label in pair}


def looks_of(rounds: int, end: RoundsEnd) -> dict[int, float]:
    """Return the numbers of rounds at which was looked, and what each look may spend.

    Rounds that were fixed beforehand are looked at once. An experiment that ended between two looks took the next one
    early.
    """
    if end is RoundsEnd.FIXED:
        return {rounds: 1.0}
    taken = {look: share for look, share in LOOKS.items() if look <= rounds}
    if rounds > MOST_ROUNDS:
        taken[rounds] = taken.pop(MOST_ROUNDS)
        return taken
    taken.setdefault(rounds, next(share for look, share in LOOKS.items() if look >= rounds))
    return taken


def looks_of_sameness(rounds: int, end: RoundsEnd) -> dict[int, float]:
    """Return the same for tests of sameness, of which the last look may spend what the others have left.

    Not if whoever had seen the rounds ended them, nor in fewer rounds than the first look has. Tests of a difference
    err too often with that (docs/decisions/0005-verdicts.md).
    """
    looks = looks_of(rounds, end)
    if end is RoundsEnd.REACHED and rounds >= min(LOOKS):
        looks[rounds] += 1 - sum(looks.values())
    return looks


def compare_rows(
    figures: Mapping[str, Sequence[BlockFigure]],
    pairs: Iterable[Pair],
    baseline: str,
    *,
    end: RoundsEnd | None,
    margin: float = MARGIN,
) -> dict[Pair, Comparison]:
    """Compare rows of one table; figures are by row, one for each block.

    `end` is why the rounds ended; while they go on it is None, and the last look that they have come to is the last.
    Ratios to the baseline are one family, those to controls another. Of all looks the least p, divided by the look's
    share of the error, is kept (Bonferroni's inequality), so that looking often does not find more.
    """
    blocks, wanted = max(map(len, figures.values()), default=0), list(pairs)
    comparisons: dict[Pair, Comparison] = {}
    for first, begun in _by_first(figures, wanted).items():
        for look, (share, of_sameness) in _shares(blocks - first, end).items():
            levels = fit_levels({label: row[: first + look] for label, row in figures.items()})
            for pair in begun:
                ratio = levels.ratio(*pair)
                if ratio is not None:
                    p_same = min(1.0, p_of_difference(ratio, margin) / of_sameness)
                    comparisons[pair] = _with_least_p(
                        comparisons.get(pair), Comparison(pair[1], ratio, min(1.0, ratio.p / share), p_same, margin)
                    )
    return _adjusted({pair: comparisons[pair] for pair in wanted if pair in comparisons}, baseline)


def _by_first(figures: Mapping[str, Sequence[BlockFigure]], pairs: Iterable[Pair]) -> dict[int, list[Pair]]:
    """Return the pairs by the number of blocks before the first that both have a part in.

    A row may have joined later: its looks are after as many rounds of its own as those of the others after theirs.
    """
    begins = {
        label: next((place for place, figure in enumerate(row) if figure != NO_PART), 0)
        for label, row in figures.items()
    }
    by_first: dict[int, list[Pair]] = {}
    for pair in pairs:
        if set(pair) <= begins.keys():
            by_first.setdefault(max(begins[label] for label in pair), []).append(pair)
    return by_first


def _shares(rounds: int, end: RoundsEnd | None) -> dict[int, tuple[float, float]]:
    """Return what each look may spend on differences and on sameness; nothing before the first one."""
    if end is None:
        rounds, end = max((look for look in LOOKS if look <= rounds), default=0), RoundsEnd.CUT
    if not rounds:
        return {}
    of_sameness = looks_of_sameness(rounds, end)
    return {look: (share, of_sameness[look]) for look, share in looks_of(rounds, end).items()}


def _with_least_p(before: Comparison | None, now: Comparison) -> Comparison:
    """Return a comparison with the least p of all looks so far."""
    return replace(now, p=min(before.p, now.p), p_same=min(before.p_same, now.p_same)) if before else now


def _adjusted(comparisons: Mapping[Pair, Comparison], baseline: str) -> dict[Pair, Comparison]:
    """Return the comparisons with p adjusted within each family, and the interval that it decides by."""
    families: dict[Hashable, dict[Pair, float]] = {}
    for pair, comparison in comparisons.items():
        families.setdefault(pair[1] == baseline, {})[pair] = comparison.p
    adjusted = {pair: p for family in families.values() for pair, p in benjamini_hochberg(family).items()}
    return {
        pair: _with_deciding_interval(replace(comparison, p=adjusted[pair])) for pair, comparison in comparisons.items()
    }
