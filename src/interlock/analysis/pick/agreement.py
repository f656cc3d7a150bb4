"""What other experiments say of the same question: the order in both profiles, and the same switch elsewhere. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from interlock.analysis.pick.evidence import Evidence
from interlock.analysis.pick.ranking import Fits, fits_of, ratios, standing_of
from interlock.analysis.statistics import Ratio
from interlock.analysis.verdicts import SIGNIFICANT
from interlock.results.answers import ProfileOrder


def order_in_profiles(release: Evidence | None, standard: Evidence | None, labels: Iterable[str]) -> ProfileOrder:
    """Return whether two experiments, one of each profile, put these labels in the same order.

    Only what one of them shows counts: among equals the order is chance.
    """
    if release is None or standard is None:
        return ProfileOrder.NOT_MEASURED
    both = [one for one in labels if _is_measured(release, one) and _is_measured(standard, one)]
    if len(both) < 2:
        return ProfileOrder.NOT_MEASURED
    pairs = list(combinations(both, 2))
    found = list(zip(_ratios(release, pairs), _ratios(standard, pairs), strict=True))
    shown = [(_is_shown(one, len(pairs)), _is_shown(other, len(pairs)), one.log * other.log) for one, other in found]
    if any(in_one and in_other and sign < 0 for in_one, in_other, sign in shown):
        return ProfileOrder.OTHER
    differing = [sign for in_one, in_other, sign in shown if in_one or in_other]
    return ProfileOrder.SAME if differing and min(differing) > 0 else ProfileOrder.OPEN


def _is_measured(evidence: Evidence, label: str) -> bool:
    return all(evidence.seconds(label, key) is not None for key in evidence.shares)


def _ratios(evidence: Evidence, pairs: Iterable[tuple[str, str]]) -> Iterator[Ratio]:
    fits = fits_of(evidence)
    return (_ratio(fits, *pair) for pair in pairs)


def _ratio(fits: Fits, mine: str, theirs: str) -> Ratio:
    return ratios(fits, [mine], theirs)[mine]


def _is_shown(ratio: Ratio, comparisons: int) -> bool:
    return ratio.p * comparisons < SIGNIFICANT


def switch_elsewhere(evidence: Evidence, label: str) -> tuple[Ratio, str] | None:
    """Return the ratio of a label to the baseline in another experiment and its standing; None if it has no figures."""
    if not _is_measured(evidence, label):
        return None
    ratio = _ratio(fits_of(evidence), label, evidence.baseline)
    return ratio, standing_of(ratio, 1)
