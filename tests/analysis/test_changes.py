"""Between experiments: the ratio of two ratios, and what cannot be compared."""

from __future__ import annotations

import pytest

from interlock.analysis.changes import Change, Changes, Side, changes_between
from interlock.analysis.cohorts import Extract
from interlock.analysis.statistics import change_of
from interlock.errors import KindError
from interlock.results.experiments import TOO_DISTURBED
from tests.analysis.extracts import BASE, OTHER, THIRD, make_extract
from tests.builders import make_workload

Packages = dict[str, dict[str, str]]


def compared(before: Extract, after: Extract) -> Changes:
    return changes_between(Side("A", before), Side("B", after))


def row_of(found: Changes, label: str = OTHER) -> Change:
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


def test_p_values_are_adjusted_within_a_table() -> None:
    labels = {f"cpython-3.{number}": 1.0 for number in range(5)}
    found = compared(make_extract(labels, noise=0.05), make_extract({**labels, "cpython-3.0": 1.1}, 1, noise=0.05))
    row = row_of(found, "cpython-3.0")
    assert row.change.p == pytest.approx(5 * row.change.ratio.p)


@pytest.mark.parametrize("disturbed", [(True, False), (False, True)])
def test_what_was_too_disturbed_on_either_side_decides_nothing(disturbed: tuple[bool, bool]) -> None:
    warnings = [[f"locks: {TOO_DISTURBED}"] if one else [] for one in disturbed]
    sides = [make_extract({OTHER: 2.0 + number}, number, warnings=warnings[number]) for number in (0, 1)]
    found = compared(*sides)
    row = row_of(found)
    assert (row.change.verdict, row.change.is_disturbed, found.differing) == ("undecided", True, [])
    assert row.change.ratio.estimate == pytest.approx(1.5)


def test_images_are_the_same_changed_or_not_recorded() -> None:
    hashes = {BASE: "b", OTHER: "o", THIRD: ""}
    before = make_extract({OTHER: 2.0, THIRD: 3.0}, content_hashes=hashes)
    after = make_extract({OTHER: 2.0, THIRD: 3.0}, 1, content_hashes={**hashes, OTHER: "new"})
    found = compared(before, after)
    images = (found.baseline_image, row_of(found).image, row_of(found, THIRD).image)
    assert images == ("same", "changed", "not recorded")


def test_what_equal_images_show_is_counted_as_noise_only_beside_an_equal_baseline() -> None:
    before, after = make_extract({OTHER: 2.0, THIRD: 3.0}), make_extract({OTHER: 2.0, THIRD: 4.0}, 1)
    assert [row.label for row in compared(before, after).of_the_same] == [OTHER, THIRD]
    rebuilt = make_extract({OTHER: 2.0, THIRD: 4.0}, 1, content_hashes={BASE: "new"})
    assert compared(before, rebuilt).of_the_same == []


OLD, NEW = {"waitress": "3.0.1", "same": "1"}, {"waitress": "3.0.2", "same": "1"}


@pytest.mark.parametrize(
    ("before", "after", "own", "of_baseline", "same"),
    [
        ({OTHER: OLD, BASE: OLD}, {OTHER: OLD, BASE: OLD}, "", "", [OTHER, THIRD]),
        ({OTHER: OLD}, {OTHER: NEW}, "waitress 3.0.1 to 3.0.2", "", [THIRD]),
        ({BASE: OLD}, {BASE: NEW}, "", "waitress 3.0.1 to 3.0.2", []),
        ({}, {OTHER: {"new": "2"}}, "new none to 2", "", [THIRD]),
        ({OTHER: OLD}, {}, "same 1 to none, waitress 3.0.1 to none", "", [THIRD]),
    ],
)
def test_packages_that_changed_are_named_and_their_ratios_show_no_noise(
    before: Packages, after: Packages, own: str, of_baseline: str, same: list[str]
) -> None:
    """A change of a library read as one of the interpreter, or of the machine."""
    sides = [make_extract({OTHER: 2.0, THIRD: 3.0}, packages=packages) for packages in (before, after)]
    found = compared(*sides)
    assert (row_of(found).packages, row_of(found, THIRD).packages) == (own, "")
    assert found.tables[0].baseline_packages == of_baseline
    assert [row.label for row in found.of_the_same] == same


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


def test_a_benchmark_whose_program_changed_under_its_name_is_left_out() -> None:
    """An edited benchmark would show as a slower interpreter."""
    old, new = "a" * 64, "b" * 64
    before = make_extract({OTHER: 2.0}, programs={"locks": {"locks.py": old, "protocol.py": old}})
    edited = make_extract({OTHER: 3.0}, 1, programs={"locks": {"locks.py": new, "protocol.py": old}})
    found = compared(before, edited)
    assert found.tables == ()
    assert found.left_out == ("locks uncontended does something else: workloads/locks.py changed",)


@pytest.mark.parametrize(
    "sums",
    [
        pytest.param({"locks.py": "a" * 64, "protocol.py": "b" * 64}, id="only how times are taken changed"),
        pytest.param({"locks.py": "a" * 64, "another.py": "b" * 64}, id="a file beside it is new"),
        pytest.param({}, id="no sums were recorded"),
    ],
)
def test_a_benchmark_that_runs_the_same_program_is_compared(sums: dict[str, str]) -> None:
    before = make_extract({OTHER: 2.0}, programs={"locks": {"locks.py": "a" * 64, "protocol.py": "a" * 64}})
    found = compared(before, make_extract({OTHER: 3.0}, 1, programs={"locks": sums}))
    assert (row_of(found).change.verdict, found.left_out) == ("slower", ())


def test_experiments_of_different_kinds_of_host_are_refused() -> None:
    other = make_extract({OTHER: 2.0}, 1, facts_of_host={"cores": 96})
    with pytest.raises(KindError, match="cores 2 and 96"):
        compared(make_extract({OTHER: 2.0}), other)
