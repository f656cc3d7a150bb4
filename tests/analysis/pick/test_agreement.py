"""Whether two experiments, one of each profile, put variants in the same order, and the same switch elsewhere."""

from __future__ import annotations

import pytest

from interlock.analysis.pick.agreement import order_in_profiles, switch_elsewhere
from interlock.analysis.pick.evidence import Evidence
from interlock.results.answers import ProfileOrder, Standing
from tests.picks import SIX, make_evidence, noisy

LABELS = ["base", "x", "y"]


def found(**factors: float) -> Evidence:
    figures = {label: {"locks/queue": noisy(factor)} for label, factor in factors.items()}
    return make_evidence({"base": {"locks/queue": SIX}, **figures})


@pytest.mark.parametrize(
    ("standard", "expected"),
    [
        (found(x=0.6, y=0.8), ProfileOrder.SAME),
        (found(x=0.8, y=0.6), ProfileOrder.OTHER),
        (found(x=0.8, y=0.8), ProfileOrder.OPEN),
        (found(x=0.5), ProfileOrder.SAME),
        (make_evidence({"base": {"locks/queue": SIX}}), ProfileOrder.NOT_MEASURED),
        (None, ProfileOrder.NOT_MEASURED),
    ],
)
def test_only_differences_that_one_profile_shows_count_and_only_of_what_both_have(
    standard: Evidence | None, expected: ProfileOrder
) -> None:
    release = found(x=0.5, y=0.7)
    assert order_in_profiles(release, standard, LABELS) is expected
    assert order_in_profiles(standard, release, LABELS) is expected


def test_the_same_switch_elsewhere_has_its_own_gain_and_standing() -> None:
    ratio, standing = switch_elsewhere(found(x=1.2), "x") or pytest.fail("it is measured")
    assert ratio.estimate == pytest.approx(1.2, rel=0.01)
    assert standing is Standing.SLOWER
    assert switch_elsewhere(found(y=1.2), "x") is None
