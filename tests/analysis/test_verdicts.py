"""What is called a difference: p, interval and band must agree."""

from __future__ import annotations

import pytest

from interlock.analysis.statistics import Interval, Ratio, holm_adjusted, ratio_over
from interlock.analysis.verdicts import Comparison, Verdict, band_of, comparisons_over, verdict_of


@pytest.mark.parametrize(
    ("ratio", "p", "band", "verdict"),
    [
        (Ratio(1.1, 1.05, 1.15, 0.001, 8), 0.0099, 1.0, "slower"),
        (Ratio(0.9, 0.85, 0.95, 0.001, 8), 0.0099, 1.0, "faster"),
        (Ratio(1.1, 1.05, 1.15, 0.001, 8), 0.01, 1.0, "no difference"),
        (Ratio(1.1, 0.99, 1.15, 0.001, 8), 0.001, 1.0, "no difference"),
        (Ratio(1.1, 1.05, 1.15, 0.001, 8), 0.001, 1.11, "no difference"),
        # The estimate decides, not the interval's end.
        (Ratio(1.1, 1.05, 1.15, 0.001, 8), 0.001, 1.09, "slower"),
        # Noise has no direction: a twin that was 5 % slower says as much of what is 4 % faster.
        (Ratio(0.96, 0.95, 0.97, 0.001, 8), 0.001, 1.05, "no difference"),
        (Ratio(0.94, 0.93, 0.95, 0.001, 8), 0.001, 1.05, "faster"),
    ],
)
def test_a_difference_has_a_small_p_an_interval_without_1_and_lies_outside_the_band(
    ratio: Ratio, p: float, band: float, verdict: str
) -> None:
    assert verdict_of(ratio, p, band) == verdict
    assert Comparison("cpython-3.13", (), ratio, p, band).verdict is verdict_of(ratio, p, band)


@pytest.mark.parametrize(("estimate", "band"), [(1.0, 1.0), (1.04, 1.04), (0.8, 1.25)])
def test_the_band_is_the_twins_ratio_in_both_directions(estimate: float, band: float) -> None:
    assert band_of(Interval(estimate, 0.5, 2.0)) == pytest.approx(band)


def test_the_rows_of_a_table_are_one_family_of_comparisons() -> None:
    rounds = {"slow": [1.10, 1.11, 1.12, 1.11, 1.10], "equal": [1.0, 1.01, 0.99, 1.0, 1.0]}
    found = comparisons_over("cpython-3.13", rounds, 1.02)
    ratios = {label: ratio_over(some) for label, some in rounds.items()}
    adjusted = holm_adjusted({label: ratio.p for label, ratio in ratios.items()})
    for label, comparison in found.items():
        assert comparison.by_round == tuple(rounds[label])
        assert comparison.p == pytest.approx(adjusted[label])
        assert (comparison.other, comparison.band) == ("cpython-3.13", 1.02)
    assert [found[label].verdict for label in rounds] == [Verdict.SLOWER, Verdict.SAME]


def test_without_rows_there_is_nothing_to_compare() -> None:
    assert comparisons_over("cpython-3.13", {}, 1.0) == {}
