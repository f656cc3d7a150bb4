"""Between experiments: the ratio of two ratios, and what cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from interlock.analysis.changes import Change, CohortChanges, changes_between
from interlock.analysis.cohorts import Extract
from interlock.analysis.statistics import change_of
from interlock.errors import KindError
from tests.analysis.extracts import BASE, OTHER, THIRD, make_extract
from tests.builders import make_workload


def compared(before: Extract | Sequence[Extract], after: Extract | Sequence[Extract]) -> CohortChanges:
    sides = [[side] if isinstance(side, Extract) else side for side in (before, after)]
    (found,) = changes_between(("A", sides[0]), ("B", sides[1]))
    return found


def row_of(found: CohortChanges, label: str = OTHER) -> Change:
    return next(row for row in found.tables[0].rows if row.label == label)


def test_a_change_is_the_ratio_after_divided_by_the_ratio_before_and_not_of_times() -> None:
    """The second machine's hour was twice as slow for all: no ratio shows it."""
    before, after = make_extract({OTHER: 2.0, THIRD: 3.0}), make_extract({OTHER: 2.4, THIRD: 3.0}, 1)
    row = row_of(compared(before, after))
    assert (row.before.estimate, row.after.estimate) == pytest.approx((2.0, 2.4))
    assert row.change.ratio.estimate == pytest.approx(1.2)
    assert row.change.verdict == "slower"
    assert row_of(compared(before, after), THIRD).change.verdict == "same"
    points = [one.measured["locks", "uncontended"].points[OTHER].ratio for one in (before, after)]
    alone = change_of(points[0], points[1])
    ends = (alone.low, alone.high, alone.p)
    assert (row.change.ratio.low, row.change.ratio.high, row.change.ratio.p) == pytest.approx(ends)


def test_what_became_faster_is_faster() -> None:
    assert row_of(compared(make_extract({OTHER: 2.0}), make_extract({OTHER: 1.5}, 1))).change.verdict == "faster"


def test_p_values_are_adjusted_within_a_table() -> None:
    labels = {f"cpython-3.{number}": 1.0 for number in range(5)}
    found = compared(make_extract(labels, noise=0.05), make_extract({**labels, "cpython-3.0": 1.1}, 1, noise=0.05))
    row = row_of(found, "cpython-3.0")
    assert row.change.p == pytest.approx(5 * row.change.ratio.p)


def test_images_are_the_same_changed_or_not_recorded() -> None:
    hashes = {BASE: "b", OTHER: "o", THIRD: ""}
    before = make_extract({OTHER: 2.0, THIRD: 3.0}, content_hashes=hashes)
    after = make_extract({OTHER: 2.0, THIRD: 3.0}, 1, content_hashes={**hashes, OTHER: "new"})
    found = compared(before, after)
    assert (found.baseline_image, row_of(found).image, row_of(found, THIRD).image) == (
        "same",
        "changed",
        "not recorded",
    )


def test_what_equal_images_show_is_counted_as_noise_only_beside_an_equal_baseline() -> None:
    before, after = make_extract({OTHER: 2.0, THIRD: 3.0}), make_extract({OTHER: 2.0, THIRD: 4.0}, 1)
    assert [row.label for row in compared(before, after).same_images] == [OTHER, THIRD]
    rebuilt = make_extract({OTHER: 2.0, THIRD: 4.0}, 1, content_hashes={BASE: "new"})
    assert compared(before, rebuilt).same_images == []


def test_what_only_one_side_has_is_left_out_and_named_once() -> None:
    found = compared(make_extract({OTHER: 2.0, "cpython-3.9": 1.0}), make_extract({OTHER: 2.0, THIRD: 3.0}, 1))
    assert [row.label for row in found.tables[0].rows] == [OTHER]
    assert found.left_out == ("only in A: cpython-3.9", "only in B: cpython-2.7")


def test_a_benchmark_that_does_something_else_now_is_left_out() -> None:
    other = make_extract({OTHER: 2.0}, 1, workloads={"locks": make_workload(program="new.py")})
    found = compared(make_extract({OTHER: 2.0}), other)
    assert found.tables == ()
    (line,) = found.left_out
    assert line == (
        "locks uncontended does something else: locks.py per lock on all of the CPUs; "
        "now new.py per lock on all of the CPUs"
    )


def test_experiments_of_different_kinds_of_host_are_refused() -> None:
    other = make_extract({OTHER: 2.0}, 1, facts_of_host={"cores": 96})
    with pytest.raises(KindError, match="cores 2 and 96"):
        compared(make_extract({OTHER: 2.0}), other)


def hosts(ratio: float, day: int, number: int = 6) -> list[Extract]:
    """Some hosts of one kind, each a little different."""
    return [
        make_extract({OTHER: ratio * (1 + 0.01 * (one % 3 - 1))}, day, host=f"host-{one}", twin=1 + 0.002 * one)
        for one in range(number)
    ]


def test_of_several_hosts_each_is_what_a_round_is() -> None:
    found = compared(hosts(2.0, 1), hosts(2.2, 2))
    row = row_of(found)
    assert row.change.ratio.rounds == 6
    assert row.change.ratio.estimate == pytest.approx(1.1, rel=0.001)
    assert row.change.verdict == "slower"
    assert row.seconds is None


def test_a_host_counts_once_with_its_last_experiment() -> None:
    found = compared([*hosts(9.0, 0), *hosts(2.0, 1)], hosts(2.2, 2))
    assert len(found.before.extracts) == 6
    assert row_of(found).before.estimate == pytest.approx(2.0, rel=0.001)


def runs(ratio: float, day: int, number: int) -> list[Extract]:
    """Some experiments of one host, each a little different from the others and each sure of itself."""
    return [make_extract({OTHER: ratio * (1 + 0.1 * (one % 2))}, day + one) for one in range(number)]


def test_several_experiments_of_one_host_are_repetitions_and_their_rounds_are_not() -> None:
    """By its rounds the last run of each side would show a change of 10 %, which is what runs differ by."""
    before, after = runs(2.0, 0, 3), runs(2.0, 3, 4)
    row = row_of(compared(before, after))
    assert (row.before.rounds, row.after.rounds) == (3, 4)
    assert row.change.ratio.low < 1 < row.change.ratio.high
    assert not row.change.verdict.differs
    assert row_of(compared(before[-1:], after[-1:])).change.verdict.differs
    assert row_of(compared(before, runs(4.0, 3, 4))).change.verdict == "slower"


def test_one_experiment_beside_many_hosts_has_no_interval() -> None:
    """Its rounds do not tell how hosts differ."""
    one = make_extract({OTHER: 3.0}, 2)
    for sides in (compared(hosts(2.0, 1), one), compared(one, hosts(2.0, 3))):
        assert row_of(sides).change.ratio.low == 0
        assert row_of(sides).change.verdict == "undecided"


def test_each_kind_that_both_sides_have_is_compared_by_itself() -> None:
    big = {"cores": 96}
    before = [make_extract({OTHER: 2.0}), make_extract({OTHER: 5.0}, facts_of_host=big)]
    after = [make_extract({OTHER: 2.0}, 1), make_extract({OTHER: 6.0}, 1, facts_of_host=big)]
    found = changes_between(("A", before), ("B", after))
    assert [one.before.cohort.kind.cores for one in found] == [2, 96]
    assert [one.tables[0].rows[0].change.ratio.estimate for one in found] == pytest.approx([1.0, 1.2])


def test_raw_times_of_one_experiment_on_each_side_are_there_for_who_asks() -> None:
    row = row_of(compared(make_extract({OTHER: 2.0}), make_extract({OTHER: 2.4}, 1)))
    assert row.seconds == pytest.approx((2e-7, 2.4e-7), rel=0.01)
