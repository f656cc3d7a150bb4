"""Who is faster than whom: by shares, round by round, with the noise and the number of comparisons in view."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import astuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.analysis.pick.evidence import Evidence
from interlock.analysis.pick.ranking import (
    RatioOf,
    announced,
    fits_of,
    rank,
    ranks,
    ratios,
    switch_elsewhere,
)
from interlock.analysis.statistics import Ratio, ratio_from, ratio_of
from interlock.analysis.verdicts import judged
from interlock.results.answers import Rank, Standing
from tests.builders import present
from tests.picks import SIX, make_evidence, noisy, queue

Rounds = Sequence[float]


def material_of(base: Rounds = SIX, **figures: Rounds) -> Evidence:
    """Figures of `locks/queue`; `base` is the baseline."""
    return make_evidence(queue(base, **figures))


def ratio_of_mix(evidence: Evidence, mine: str, theirs: str = "base") -> Ratio:
    """The weighted ratio of the times of two labels."""
    return ratios(fits_of(evidence, evidence.shares), [mine], theirs)[mine]


def standings(evidence: Evidence, labels: Sequence[str] | None = None) -> dict[str, tuple[Standing, Rank]]:
    rows = rank(evidence, evidence.labels if labels is None else labels)
    return {row.label: (row.standing, row.rank) for row in rows}


def test_the_fastest_is_first_and_the_baseline_stands_among_them() -> None:
    found = standings(material_of(slow=noisy(1.5), fast=noisy(0.5)))
    assert found == {
        "fast": (Standing.FASTER, Rank.BEST),
        "base": (Standing.BASELINE, Rank.WORSE),
        "slow": (Standing.SLOWER, Rank.WORSE),
    }


def test_what_is_not_shown_to_differ_from_the_fastest_may_be_the_best() -> None:
    found = standings(material_of(fast=noisy(0.5), near=noisy(0.501, off=0.02), equal=noisy(1.001, off=0.02)))
    assert found == {
        "fast": (Standing.FASTER, Rank.OPEN),
        "near": (Standing.FASTER, Rank.OPEN),
        "base": (Standing.BASELINE, Rank.WORSE),
        "equal": (Standing.SAME, Rank.WORSE),
    }


def test_what_is_noisy_below_one_that_is_worse_is_not_placed() -> None:
    found = standings(material_of(fast=noisy(0.5), next=noisy(0.6), wild=noisy(0.8, off=0.6)))
    assert {label: place for label, (_, place) in found.items()} == {
        "fast": Rank.OPEN,
        "next": Rank.WORSE,
        "wild": Rank.UNCLEAR,
        "base": Rank.WORSE,
    }


def test_contenders_are_compared_round_by_round_with_each_other_not_by_their_intervals() -> None:
    """What disturbs a round disturbs all but the baseline: to it they vary, to each other hardly."""
    disturbed = [1.0, 1.3, 0.8, 1.25, 0.9, 1.1]
    a = [0.5 * figure for figure in disturbed]
    b = [0.52 * figure * (1 + 0.002 * (-1) ** number) for number, figure in enumerate(disturbed)]
    evidence = material_of(a=a, b=b)
    first, second = rank(evidence, ["a", "b", "base"])[:2]
    assert first.ratio.high > second.ratio.low
    assert [(first.label, first.rank), (second.label, second.rank)] == [("a", Rank.BEST), ("b", Rank.WORSE)]


def test_the_interval_of_a_contender_is_the_one_that_decides_among_all() -> None:
    """It said 1.02 to 1.12 times the throughput, and undecided."""
    many = {f"v{number}": noisy(1.0, off=0.03) for number in range(30)}
    for others, standing in (({}, Standing.FASTER), (many, Standing.UNDECIDED)):
        evidence = material_of(near=noisy(0.95, off=0.035), **others)
        (row,) = [row for row in rank(evidence, evidence.labels) if row.label == "near"]
        assert row.standing is standing
        assert (row.ratio.low <= 1 <= row.ratio.high) is (standing is Standing.UNDECIDED)


def test_one_round_shows_nothing() -> None:
    found = rank(material_of(base=[1.0], x=[0.5]), ["base", "x"])
    assert [(row.label, row.standing, row.rank) for row in found] == [
        ("x", Standing.UNDECIDED, Rank.OPEN),
        ("base", Standing.BASELINE, Rank.OPEN),
    ]
    assert (found[0].ratio.low, found[0].ratio.high) == (0.0, math.inf)


def test_one_round_of_one_of_two_benchmarks_shows_nothing_either() -> None:
    two: dict[str, dict[str, Rounds]] = {label: {"locks/queue": SIX, "startup/pass": [1.0]} for label in ("base", "x")}
    ratio = ratio_of_mix(make_evidence(two, ["locks", "startup"]), "x")
    assert (ratio.p, ratio.rounds, ratio.low, ratio.high) == (1.0, 1, 0.0, math.inf)


def test_the_ratio_is_the_geometric_mean_by_shares() -> None:
    two: dict[str, dict[str, Rounds]] = {
        "base": {"locks/queue": SIX, "startup/pass": SIX},
        "x": {"locks/queue": noisy(0.5), "startup/pass": noisy(2.0)},
    }
    for weights, expected in ((["locks=3", "startup=1"], 0.5**0.5), (["locks", "startup"], 1.0), (["startup"], 2.0)):
        ratio = ratio_of_mix(make_evidence(two, weights), "x")
        assert ratio.estimate == pytest.approx(expected, rel=1e-3)


def test_one_benchmark_has_the_figures_of_a_report() -> None:
    ratio = ratio_of_mix(material_of(x=noisy(0.9)), "x")
    expected = present(ratio_of(noisy(0.9), SIX))
    assert astuple(ratio) == pytest.approx(astuple(expected), rel=1e-5)


seconds = st.floats(0.5, 2.0)
fields = st.lists(st.lists(seconds, min_size=5, max_size=5), min_size=2, max_size=6)


def material_of_field(field: list[list[float]]) -> Evidence:
    return material_of([1.0] * 5, **{f"v{number}": mine for number, mine in enumerate(field)})


@given(fields, st.data())
def test_an_exclusion_never_changes_the_order_of_the_others(field: list[list[float]], data: st.DataObject) -> None:
    evidence = material_of_field(field)
    kept = data.draw(st.lists(st.sampled_from(evidence.labels), min_size=1, unique=True))
    everyone = [row.label for row in rank(evidence, evidence.labels)]
    assert [row.label for row in rank(evidence, sorted(kept, key=evidence.labels.index))] == [
        label for label in everyone if label in kept
    ]


@given(fields, st.floats(0.01, 100))
def test_scaling_all_weights_changes_nothing(field: list[list[float]], factor: float) -> None:
    figures = {
        "base": {"locks/queue": [1.0] * 5, "startup/pass": [1.0] * 5},
        **{f"v{number}": {"locks/queue": mine, "startup/pass": field[0]} for number, mine in enumerate(field)},
    }
    one, scaled = (make_evidence(figures, [f"locks={3 * by}", f"startup={by}"]) for by in (1.0, factor))
    mine, theirs = rank(one, one.labels), rank(scaled, scaled.labels)
    assert {row.label: pytest.approx(row.ratio.estimate) for row in mine} == {
        row.label: row.ratio.estimate for row in theirs
    }
    assert {row.label: row.standing for row in mine} == {row.label: row.standing for row in theirs}


@given(fields, st.integers(1, 50))
def test_a_comparison_is_symmetric(field: list[list[float]], number: int) -> None:
    evidence = material_of(a=field[0], b=field[1], base=[1.0] * 5)
    forth = ratio_of_mix(evidence, "a", "b")
    back = ratio_of_mix(evidence, "b", "a")
    assert forth.estimate == pytest.approx(1 / back.estimate)
    assert forth.low == pytest.approx(1 / back.high, rel=1e-5)
    mirrored = {
        Standing.SAME: Standing.SAME,
        Standing.UNDECIDED: Standing.UNDECIDED,
        Standing.FASTER: Standing.SLOWER,
        Standing.SLOWER: Standing.FASTER,
    }
    on_the_edge = any(abs(math.log(end)) < 1e-5 for end in (forth.low, forth.high, forth.p * number / 0.05) if end > 0)
    if not on_the_edge:
        mine, theirs = (Standing(judged("x", one, number).verdict) for one in (back, forth))
        assert mine is mirrored[theirs]


@given(fields)
def test_the_fastest_is_never_worse_and_only_it_is_the_best(field: list[list[float]]) -> None:
    first, *others = rank(evidence := material_of_field(field), evidence.labels)
    assert first.rank is not Rank.WORSE
    assert Rank.BEST not in {row.rank for row in others}
    assert (first.rank is Rank.BEST) <= all(row.rank is Rank.WORSE for row in others)


def test_hundreds_of_contenders_take_seconds() -> None:
    rng = random.Random(1)
    evidence = material_of_field([[rng.lognormvariate(0, 0.2) for _ in range(5)] for _ in range(200)])
    assert len(rank(evidence, evidence.labels)) == 201


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ratio_from(math.log(0.8), 0.05, 20, 6), Standing.FASTER),
        (ratio_from(math.log(1.25), 0.05, 20, 6), Standing.SLOWER),
        (ratio_from(math.log(0.8), 0.11, 20, 6), Standing.UNDECIDED),
        (ratio_from(math.log(1.01), 0.01, 20, 6), Standing.SAME),
    ],
)
def test_a_standing_is_the_verdict_on_the_ratio(found: Ratio, expected: Standing) -> None:
    assert Standing(judged("base", found).verdict) is expected


def ratio(log: float, error: float = 0.02) -> Ratio:
    return ratio_from(log, error, 20, 6)


def between(logs: Mapping[str, float], error: float = 0.02) -> RatioOf:
    return lambda mine, theirs: ratio(logs[mine] - logs[theirs], error)


@pytest.mark.parametrize(
    ("logs", "places"),
    [
        ({"a": 0.0, "b": 0.1, "c": 0.2}, [Rank.BEST, Rank.WORSE, Rank.WORSE]),
        ({"a": 0.0, "b": 0.01, "c": 0.2}, [Rank.OPEN, Rank.OPEN, Rank.WORSE]),
        ({"a": 0.0}, [Rank.BEST]),
        ({}, []),
    ],
)
def test_the_one_that_is_shown_to_be_better_than_all_is_the_best_and_of_two_that_are_close_both_may_be(
    logs: dict[str, float], places: list[Rank]
) -> None:
    assert list(ranks(list(logs), between(logs)).items()) == list(zip(logs, places, strict=True))


def test_one_is_worse_if_any_other_is_shown_to_be_better_though_the_first_is_not() -> None:
    logs = {"wild": 0.0, "sure": 0.02, "last": 0.1}

    def compared(mine: str, theirs: str) -> Ratio:
        return ratio(logs[mine] - logs[theirs], 0.5 if "wild" in {mine, theirs} else 0.01)

    assert ranks(list(logs), compared) == {"wild": Rank.OPEN, "sure": Rank.OPEN, "last": Rank.WORSE}


def test_a_difference_that_two_show_may_be_none_among_many() -> None:
    logs = {"a": 0.0, "b": 0.045}
    assert ranks(list(logs), between(logs))["b"] is Rank.WORSE
    crowd = logs | {f"c{number}": 0.5 for number in range(30)}
    assert ranks(list(crowd), between(crowd))["b"] is Rank.OPEN


def test_without_figures_nothing_is_shown() -> None:
    assert ranks(["a", "b"], lambda _, __: None) == {"a": Rank.OPEN, "b": Rank.OPEN}


def test_where_all_differ_by_noise_alone_the_best_is_announced_as_their_mean() -> None:
    found = [ratio(one, 0.05) for one in (-0.04, -0.01, 0.0, 0.02, 0.03)]
    assert announced(found[0], found).log == pytest.approx(0.0, abs=1e-12)


def test_where_they_differ_by_far_more_than_noise_nothing_is_taken_off() -> None:
    found = [ratio(one, 0.001) for one in (-0.4, -0.1, 0.3)]
    assert announced(found[0], found).log == pytest.approx(-0.4, abs=1e-5)


def test_the_part_of_the_spread_that_is_noise_is_taken_off_the_distance_from_the_mean() -> None:
    """The logarithms' variance is 0.01, that of the noise 0.005: half of the distance is luck."""
    found = [ratio(one, 0.1) for one in (-0.1, 0.0, 0.1)]
    gain = announced(found[0], found)
    assert gain.log == pytest.approx(-0.05)
    assert gain.error < found[0].error
    assert gain.low < gain.estimate < gain.high


measured = st.lists(st.tuples(st.floats(-1, 1), st.floats(0.001, 0.5)), min_size=1, max_size=8)


@given(measured, st.data())
@example([(-0.06, 0.04), (-0.055, 0.04), (-0.03, 0.008)], None)
def test_what_is_announced_is_never_more_than_was_measured(
    field: list[tuple[float, float]], data: st.DataObject | None
) -> None:
    """1.050 times the throughput was announced of a measured 1.030, whose interval is the narrowest."""
    contenders = [ratio(*one) for one in field]
    picked = data.draw(st.sampled_from(contenders)) if data else contenders[-1]
    assert announced(picked, contenders).log >= picked.log - 1e-12


def test_of_two_or_of_single_rounds_nothing_is_known_of_the_spread() -> None:
    two = [ratio(-0.1), ratio(0.1)]
    assert announced(two[0], two) == two[0]
    single = ratio_from(-0.1, math.inf, 0, 1)
    assert announced(single, [single, *two]) == single


def test_the_same_switch_elsewhere_has_its_own_gain_and_standing() -> None:
    ratio, standing = present(switch_elsewhere(material_of(x=noisy(1.2)), "x"))
    assert ratio.estimate == pytest.approx(1.2, rel=0.01)
    assert standing is Standing.SLOWER
    assert switch_elsewhere(material_of(y=noisy(1.2)), "x") is None
