"""The one rule: what is a difference, what is the same, what stays undecided, and what looking often costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from interlock.analysis.statistics import NO_PART, BlockFigure, Ratio, ratio_from, ratio_over
from interlock.analysis.verdicts import (
    LOOKS,
    Comparison,
    Verdict,
    compare_rows,
    compared,
    looks_of,
    looks_of_sameness,
    open_labels,
    p_of_difference,
)
from interlock.results.experiments import RoundsEnd
from tests.builders import present

BASE = "base"


def ratio(estimate: float, error: float = 0.01, freedom: float = 20) -> Ratio:
    return ratio_from(math.log(estimate), error, freedom, 6)


@pytest.mark.parametrize(
    ("found", "p", "p_same", "verdict"),
    [
        (ratio(1.1), 0.029, 1.0, "slower"),
        (ratio(0.9), 0.029, 1.0, "faster"),
        (ratio(1.1), 0.03, 1.0, "undecided"),
        # An interval that holds 1 is no difference, whatever an earlier look found.
        (ratio(1.1, 0.09), 0.001, 1.0, "undecided"),
        (ratio(1.0), 0.9, 0.049, "same"),
        (ratio(1.0), 0.9, 0.05, "undecided"),
        # A difference that is shown comes before its smallness.
        (ratio(1.03, 0.005), 0.001, 0.001, "slower"),
    ],
)
def test_a_difference_needs_p_and_interval_and_what_is_within_the_margin_is_the_same(
    found: Ratio, p: float, p_same: float, verdict: str
) -> None:
    assert Comparison(BASE, found, p, p_same).verdict == verdict


def test_the_interval_is_the_one_that_decides() -> None:
    """It was 0.803x [0.693, 0.931], undecided."""
    alone = ratio(0.9, 0.04)
    assert alone.high < 1
    family = {"near": alone, **{str(number): ratio(1.0, 0.05) for number in range(9)}}
    decided, near = compared(BASE, {"near": alone})["near"], compared(BASE, family)["near"]
    assert (decided.verdict, decided.ratio) == (Verdict.FASTER, alone)
    assert near.verdict is Verdict.UNDECIDED
    assert near.ratio.low < alone.low
    assert near.ratio.low <= 1 <= near.ratio.high
    assert (near.ratio.estimate, near.ratio.p) == (alone.estimate, alone.p)


def test_no_interval_leaves_1_out_where_looks_and_family_leave_a_row_undecided() -> None:
    rng = np.random.default_rng(4)
    for _ in range(30):
        rows = {str(number): list(rng.lognormal(0.03 * number, 0.05, 7)) for number in range(6)}
        pairs = [(label, "0") for label in rows if label != "0"]
        for one in compare_rows(rows, pairs, "0", end=RoundsEnd.REACHED).values():
            assert one.verdict is not Verdict.UNDECIDED or one.ratio.low <= 1 <= one.ratio.high


@pytest.mark.parametrize(
    ("found", "margin", "shown"),
    [
        (ratio(1.0, 0.02), 0.05, True),
        (ratio(1.0, 0.04), 0.05, False),
        (ratio(1.04), 0.05, False),
        (ratio(1.04), 0.1, True),
    ],
)
def test_the_same_is_an_interval_of_90_percent_within_the_margin(found: Ratio, margin: float, shown: bool) -> None:
    assert (p_of_difference(found, margin) < 0.05) is shown


def test_one_round_shows_nothing_and_does_not_say_how_many_would() -> None:
    one = compared(BASE, {"x": ratio_over([9.0])})["x"]
    assert (one.verdict, one.more_rounds) == (Verdict.UNDECIDED, None)


def test_the_larger_the_error_the_more_rounds_are_asked_for_and_none_if_it_is_decided() -> None:
    few, many = (present(Comparison(BASE, ratio(1.03, error), 1.0, 1.0).more_rounds) for error in (0.02, 0.04))
    assert 0 < few < many
    assert Comparison(BASE, ratio(2.0), 0.0, 1.0).more_rounds is None


def test_what_needs_more_rounds_than_are_in_reach_is_not_waited_for() -> None:
    near, far = (Comparison(BASE, ratio(1.03, error), 1.0, 1.0) for error in (0.011, 0.2))
    found = {("near", BASE): near, ("far", BASE): far}
    assert 0 < present(near.more_rounds) < 10 < present(far.more_rounds)
    assert open_labels(found, found, reach=10) == {"near", BASE}
    assert open_labels(found, found) == {"near", "far", BASE}
    assert open_labels({}, [("far", BASE)], reach=0) == {"far", BASE}, "nothing is known of it yet"


def test_a_pair_is_waited_for_if_its_true_ratio_may_lie_where_it_is_decided_soon() -> None:
    between = Comparison(BASE, ratio(1.04, 0.03), 1.0, 1.0)  # halfway between sameness and a difference
    assert 0 < present(between.fewest_more_rounds) < 10 < present(between.more_rounds)
    assert open_labels({("a", BASE): between}, [("a", BASE)], reach=10) == {"a", BASE}
    assert Comparison(BASE, ratio(2.0), 0.0, 1.0).fewest_more_rounds is None


def test_a_fixed_number_of_rounds_is_looked_at_once_and_others_as_often_as_they_came_by() -> None:
    assert looks_of(6, RoundsEnd.FIXED) == {6: 1.0}
    assert looks_of(5, RoundsEnd.CUT) == {4: 0.20, 5: 0.10}
    assert looks_of(6, RoundsEnd.CUT) == {4: 0.20, 5: 0.10, 6: 0.15}
    assert sum(LOOKS.values()) == pytest.approx(1)
    for spent in (looks_of, looks_of_sameness):
        assert all(sum(spent(rounds, end).values()) <= 1.0001 for rounds in range(1, 30) for end in RoundsEnd)


def test_the_last_look_at_sameness_may_spend_what_is_left_unless_whoever_watched_ended_the_rounds() -> None:
    assert looks_of_sameness(4, RoundsEnd.REACHED) == {4: 1.0}
    assert looks_of_sameness(6, RoundsEnd.REACHED) == pytest.approx({4: 0.20, 5: 0.10, 6: 0.70})
    assert looks_of_sameness(10, RoundsEnd.REACHED) == pytest.approx({4: 0.20, 5: 0.10, 7: 0.15, 10: 0.55})
    assert looks_of_sameness(20, RoundsEnd.REACHED) == pytest.approx(LOOKS)
    assert looks_of_sameness(25, RoundsEnd.REACHED) == pytest.approx(looks_of(25, RoundsEnd.REACHED))
    assert looks_of_sameness(3, RoundsEnd.REACHED) == {3: 0.20}
    assert looks_of_sameness(6, RoundsEnd.CUT) == looks_of(6, RoundsEnd.CUT)
    assert looks_of_sameness(6, RoundsEnd.FIXED) == {6: 1.0}


def test_of_equals_more_are_called_the_same_after_four_rounds_if_no_more_can_follow() -> None:
    rng = np.random.default_rng(8)
    said = {RoundsEnd.REACHED: 0, RoundsEnd.CUT: 0}
    for _ in range(40):
        figures = rows(rng, [1.0] * 10, 4, noise=0.025)
        for end in said:
            found = compare_rows(figures, pairs_of(figures), BASE, end=end).values()
            said[end] += sum(one.verdict is Verdict.SAME for one in found)
    assert said[RoundsEnd.REACHED] > 1.3 * said[RoundsEnd.CUT] > 0


def rows(rng: np.random.Generator, ratios: Sequence[float], rounds: int, noise: float = 0.03) -> dict[str, list[float]]:
    """The baseline and rows with these true ratios; what disturbs a round disturbs all."""
    common = rng.normal(0, 0.1, rounds)
    found = {BASE: 1.0, **{f"v{number}": one for number, one in enumerate(ratios)}}
    return {label: [one * math.exp(shift + rng.normal(0, noise)) for shift in common] for label, one in found.items()}


def pairs_of(figures: dict[str, list[float]]) -> list[tuple[str, str]]:
    return [(label, BASE) for label in figures if label != BASE]


def test_of_equals_hardly_any_is_called_different_however_often_is_looked() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(60):
        figures = rows(rng, [1.0] * 10, 20)
        found.append(
            [one.verdict for one in compare_rows(figures, pairs_of(figures), BASE, end=RoundsEnd.REACHED).values()]
        )
    wrong = [sum(one in {Verdict.SLOWER, Verdict.FASTER} for one in table) for table in found]
    assert sum(wrong) <= 0.01 * 600
    assert sum(map(bool, wrong)) <= 3
    assert sum(one is Verdict.SAME for table in found for one in table) > 0.8 * 600


def test_ten_percent_are_found_and_five_are_hardly_ever_called_the_same() -> None:
    rng = np.random.default_rng(2)
    ten, five = [], []
    for _ in range(60):
        figures = rows(rng, [1.1, 1.05, *[1.0] * 8], 7)
        found = compare_rows(figures, pairs_of(figures), BASE, end=RoundsEnd.REACHED)
        ten.append(found["v0", BASE].verdict)
        five.append(found["v1", BASE].verdict)
    assert ten.count(Verdict.SLOWER) >= 0.95 * 60
    assert five.count(Verdict.SAME) <= 0.05 * 60


def undecided_labels(figures: Mapping[str, Sequence[BlockFigure]], pairs: list[tuple[str, str]]) -> set[str]:
    """Both of each pair that is not decided, before the first look of all."""
    return open_labels(compare_rows(figures, pairs, BASE, end=None), pairs)


def test_a_factor_of_two_is_decided_by_the_first_look() -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        figures = rows(rng, [2.0, 1.0, 1.0, 1.0], min(LOOKS), noise=0.05)
        assert "v0" not in undecided_labels(figures, pairs_of(figures))


def test_before_the_first_look_all_go_on_and_afterwards_what_is_undecided_with_what_it_is_compared_with() -> None:
    figures = rows(np.random.default_rng(4), [1.0, 3.0, 3.2], 2)
    pairs = [*pairs_of(figures), ("v2", "v1")]
    assert undecided_labels(figures, pairs) == {BASE, "v0", "v1", "v2"}
    figures = rows(np.random.default_rng(4), [1.0, 3.0, 3.1], 4)
    still_open = undecided_labels(figures, pairs)
    assert {"v1", "v2"} <= still_open
    decided = rows(np.random.default_rng(4), [2.0, 3.0, 9.0], 4)
    assert undecided_labels(decided, pairs_of(decided)) == set()


def test_a_row_without_figures_is_waited_for() -> None:
    figures = {**rows(np.random.default_rng(5), [2.0], 4), "broken": []}
    assert "broken" in undecided_labels(figures, pairs_of(figures))


def test_ratios_to_the_baseline_and_to_controls_are_families_of_their_own() -> None:
    figures = rows(np.random.default_rng(6), [1.02, 1.0, 1.0, 1.0], 6)
    alone = compare_rows(figures, pairs_of(figures), BASE, end=RoundsEnd.FIXED)
    with_control = compare_rows(figures, [*pairs_of(figures), ("v0", "v1")], BASE, end=RoundsEnd.FIXED)
    assert {pair: with_control[pair].p for pair in alone} == {pair: one.p for pair, one in alone.items()}
    control = with_control["v0", "v1"]
    assert control.p == control.ratio.p


def test_a_row_that_is_decided_stays_so_in_fewer_rounds_than_the_others() -> None:
    figures = rows(np.random.default_rng(7), [2.0, 1.0, 1.0], 10)
    figures["v0"] = figures["v0"][:3]
    found = compare_rows(figures, pairs_of(figures), BASE, end=RoundsEnd.REACHED)
    assert (found["v0", BASE].verdict, found["v0", BASE].ratio.rounds) == (Verdict.SLOWER, 3)


def test_without_rows_there_is_nothing_to_compare() -> None:
    assert compared(BASE, {}) == {}
    assert compare_rows({}, [("x", BASE)], BASE, end=RoundsEnd.REACHED) == {}


# Rows of a core set: the first ones have four blocks alone, and the others join them. Some differ by a fifth.
FIRST_TRUTH = {"base": 1.0, "base+twin": 1.0, "first": 1.2, "first-equal": 1.0}
LATE_TRUTH = {**{f"equal-{number}": 1.0 for number in range(5)}, "slower": 1.2, "faster": 1 / 1.2}
JOINED_AFTER = 4


def staged_table(rng: np.random.Generator, blocks: int) -> dict[str, list[BlockFigure]]:
    """Rows of a machine whose blocks differ by a third, and figures by 2 %; late rows lack the first blocks."""
    effects = rng.normal(0, 0.3, blocks)

    def row(truth: float, first: int) -> list[BlockFigure]:
        figures = np.exp(effects + rng.normal(0, 0.02, blocks)) * truth
        return [NO_PART] * first + [float(one) for one in figures[first:]]

    rows = {label: row(truth, 0) for label, truth in FIRST_TRUTH.items()}
    return rows | {label: row(truth, JOINED_AFTER) for label, truth in LATE_TRUTH.items()}


@pytest.mark.parametrize("own", [4, 6])
def test_rows_that_join_later_are_compared_in_the_blocks_that_both_have(own: int) -> None:
    """The simulated truth: intervals hold it, equals are not different, and a fifth is found."""
    rng, tables = np.random.default_rng(44), 150
    held = wrong = found = 0
    for _ in range(tables):
        rows = staged_table(rng, JOINED_AFTER + own)
        pairs = [(label, BASE) for label in rows if label not in {BASE, "base+twin"}]
        shown = compare_rows(rows, pairs, BASE, end=RoundsEnd.REACHED)
        for label, truth in LATE_TRUTH.items():
            one = shown[label, BASE]
            assert one.ratio.rounds == own
            held += one.ratio.low <= truth <= one.ratio.high
            wrong += truth == 1 and one.verdict.differs
            found += truth != 1 and one.verdict.differs
    assert held / (tables * len(LATE_TRUTH)) > 0.93
    assert wrong / (tables * 5) < 0.03
    assert found / (tables * 2) > 0.97
    # Beside the first blocks, which are others, they would be as uncertain as blocks differ.
    moved = {label: [one for one in row if one != NO_PART] for label, row in rows.items()}
    there = compare_rows(moved, pairs, BASE, end=RoundsEnd.REACHED)
    assert there["slower", BASE].ratio.error > 4 * shown["slower", BASE].ratio.error


def test_a_row_that_joined_later_has_its_first_look_after_as_many_blocks_of_its_own() -> None:
    rng = np.random.default_rng(7)
    rows = staged_table(rng, JOINED_AFTER + min(LOOKS) - 1)
    pairs = [("first", BASE), ("slower", BASE)]
    assert set(compare_rows(rows, pairs, BASE, end=None)) == {("first", BASE)}
    assert undecided_labels(rows, pairs) >= {"slower", BASE}
    rows = staged_table(rng, JOINED_AFTER + min(LOOKS))
    assert set(compare_rows(rows, pairs, BASE, end=None)) == set(pairs)
    # A look at rounds that were fixed beforehand is the only one, of each row's own.
    fixed = compare_rows(rows, pairs, BASE, end=RoundsEnd.FIXED)
    assert fixed["slower", BASE].p == pytest.approx(fixed["slower", BASE].ratio.p, rel=1)
