"""Ratios are taken round by round, and the baseline's twin decides what counts as a difference."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import compare
from interlock.compare import Ratio, Row, Table
from interlock.model import BenchmarkValues, CellResult, Gil, Outcome, State
from tests.builders import OK, make_built, make_cell, make_experiment, make_facts, make_profile, make_values

BASE, OTHER, CONTROL = "cpython-3.13", "cpython-3.14t", "cpython-3.14"
FAILED = Outcome(state=State.FAILED, reason="it crashed")
LATE = Outcome(state=State.TIMED_OUT, reason="it had not ended")
CANNOT = Outcome(state=State.UNSUPPORTED, reason="no threads")
MISSING = Outcome(state=State.UNAVAILABLE, reason="no place has it")
TIMES = st.lists(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=5), min_size=1, max_size=5)


def table_of(
    values: Mapping[str, BenchmarkValues], variants: tuple[str, ...] = (BASE, OTHER), **changes: object
) -> Table:
    experiment = make_experiment(variants, **changes)
    by_cell = {(label, "locks"): {"uncontended": one} for label, one in values.items()}
    (table,) = compare.tables(experiment, by_cell, {(OTHER, "locks"): {"uncontended": make_profile(0.25)}})
    return table


def row_of(table: Table, label: str = OTHER) -> Row:
    return next(row for row in table.rows if row.label == label)


def test_a_ratio_is_taken_round_by_round_from_the_medians_of_the_processes() -> None:
    mine = make_values([2.0, 2.0, 9.0], [30.0], [400.0])
    other = make_values([1.0], [10.0], [100.0, 100.0])
    assert compare.ratio_of(mine, other) == Ratio(3.0, 2.0, 4.0)


def test_rounds_that_only_one_has_do_not_count() -> None:
    assert compare.ratio_of(make_values([2.0], [3.0]), make_values([1.0])) == Ratio(2.0, 2.0, 2.0)
    assert compare.ratio_of(make_values(), make_values([1.0])) is None


@given(TIMES)
def test_the_ratio_of_values_to_themselves_is_exactly_1(processes: list[list[float]]) -> None:
    values = make_values(*processes)
    assert compare.ratio_of(values, values) == Ratio(1.0, 1.0, 1.0)


@given(TIMES, TIMES)
def test_a_ratio_lies_within_its_range(mine: list[list[float]], other: list[list[float]]) -> None:
    ratio = compare.ratio_of(make_values(*mine), make_values(*other))
    assert ratio is not None
    assert ratio.low <= ratio.median <= ratio.high


def test_the_spread_is_half_the_range_as_a_share_of_the_median() -> None:
    assert compare.spread_of(make_values([9.0], [10.0], [12.0])) == pytest.approx(0.15)
    assert compare.spread_of(make_values([9.0])) == 0


@pytest.mark.parametrize(
    ("low", "high", "noise", "expected"),
    [
        (1.01, 1.02, None, True),
        (0.98, 0.99, None, True),
        (0.99, 1.01, None, False),
        (1.03, 1.05, Ratio(1.0, 0.99, 1.04), False),
        (1.05, 1.06, Ratio(1.0, 0.99, 1.04), True),
        (0.92, 0.95, Ratio(1.0, 0.99, 1.04), True),
        # Noise has no direction: a twin that was 4 % slower says as much of what is 3 % faster.
        (0.95, 0.97, Ratio(1.0, 0.99, 1.04), False),
        (1.03, 1.05, Ratio(0.95, 0.95, 0.95), False),
        # A twin that was slower in every round does not make what equals the baseline a difference.
        (0.99, 1.0, Ratio(1.1, 1.05, 1.2), False),
        (1.02, 1.03, Ratio(1.1, 1.05, 1.2), False),
    ],
)
def test_a_ratio_differs_only_where_no_round_lies_in_the_noise(
    low: float, high: float, noise: Ratio | None, expected: bool
) -> None:
    assert Ratio((low + high) / 2, low, high).apart_from(noise) is expected


@pytest.mark.parametrize(("twin", "differs"), [(1.01, True), (1.2, False)])
def test_the_twins_spread_decides_what_differs(twin: float, differs: bool) -> None:
    table = table_of(
        {
            BASE: make_values([1.0], [1.0]),
            f"{BASE}+twin": make_values([1.0], [twin]),
            OTHER: make_values([1.1], [1.12]),
        }
    )
    assert table.noise == Ratio((1 + twin) / 2, 1.0, twin)
    assert row_of(table).ratio == Ratio((1.1 + 1.12) / 2, 1.1, 1.12)
    assert row_of(table).differs is differs


def test_the_baseline_has_no_ratio_to_itself_and_the_twin_no_row() -> None:
    table = table_of({BASE: make_values([1.0]), f"{BASE}+twin": make_values([1.0]), OTHER: make_values([2.0])})
    assert [row.label for row in table.rows] == [BASE, OTHER]
    assert row_of(table, BASE).ratio is None
    assert row_of(table, BASE).seconds == 1.0


def test_a_row_has_seconds_memory_and_calls() -> None:
    row = row_of(table_of({BASE: make_values([1.0]), OTHER: make_values([2.0], [4.0], rss=5_000_000)}))
    assert (row.seconds, row.max_rss_bytes, row.calls_per_unit) == (3.0, 5_000_000, 0.25)
    assert row.spread == pytest.approx(1 / 3)


def test_a_variant_is_compared_with_its_control_too() -> None:
    values = {BASE: make_values([1.0]), CONTROL: make_values([2.0]), OTHER: make_values([1.0])}
    table = table_of(values, (BASE, CONTROL, OTHER), controls={OTHER: CONTROL})
    row = row_of(table)
    assert (row.control, row.control_ratio, row.control_differs) == (CONTROL, Ratio(0.5, 0.5, 0.5), True)
    assert (row.ratio, row.differs) == (Ratio(1.0, 1.0, 1.0), False)
    assert row_of(table, CONTROL).control_ratio is None


def test_a_control_that_was_not_measured_leaves_no_ratio() -> None:
    row = row_of(table_of({BASE: make_values([1.0]), OTHER: make_values([1.0])}, controls={OTHER: "cpython-2.7"}))
    assert (row.control, row.control_ratio) == ("cpython-2.7", None)


def test_a_cell_without_values_keeps_its_outcome() -> None:
    row = row_of(table_of({BASE: make_values([1.0])}, cells=[make_cell(BASE), make_cell(OTHER, outcome=CANNOT)]))
    assert (row.outcome, row.seconds, row.ratio) == (CANNOT, None, None)


def test_a_benchmarks_own_outcome_comes_before_the_cells() -> None:
    cell = make_cell(OTHER, outcome=FAILED, benchmarks={"uncontended": OK})
    assert row_of(table_of({OTHER: make_values([1.0])}, cells=[cell])).outcome == OK


@pytest.mark.parametrize(
    ("before", "after", "notes"),
    [
        ("off", Gil.OFF, ("GIL off before and after",)),
        ("off", Gil.ON, ("GIL off at start, on after the work",)),
        ("on", None, ()),
    ],
)
def test_a_gil_that_came_back_during_the_work_is_noted(before: str, after: Gil | None, notes: tuple[str, ...]) -> None:
    values = {BASE: make_values([1.0]), OTHER: make_values([1.0], gil=after)}
    assert row_of(table_of(values, facts={OTHER: make_facts(gil=before)})).notes == notes


def test_a_profile_that_failed_is_noted() -> None:
    cells = [make_cell(BASE, profile=OK), make_cell(OTHER, profile=FAILED)]
    table = table_of({BASE: make_values([1.0])}, cells=cells)
    assert [row.notes for row in table.rows] == [(), ("no profile",)]


def test_everything_without_a_figure_has_a_line_with_its_reason() -> None:
    experiment = make_experiment(
        [BASE, OTHER, "nogil-3.9"],
        images=[make_built(BASE), make_built(OTHER), make_built("nogil-3.9", MISSING)],
        cells=[
            make_cell(BASE, outcome=LATE, benchmarks={"queue": LATE, "uncontended": OK}),
            make_cell(OTHER, outcome=CANNOT, benchmarks={"queue": CANNOT, "uncontended": CANNOT}, profile=FAILED),
            make_cell("nogil-3.9", outcome=MISSING),
        ],
    )
    assert compare.skipped(experiment) == [
        "nogil-3.9: unavailable: no place has it",
        "cpython-3.13 / locks / queue: timed out: it had not ended",
        "cpython-3.14t / locks / queue, uncontended: unsupported: no threads",
        "cpython-3.14t / locks: no profile: it crashed",
    ]


def test_a_cell_that_was_never_reached_is_listed() -> None:
    experiment = make_experiment([BASE], cells=[make_cell(BASE, outcome=FAILED)])
    assert compare.skipped(experiment) == ["cpython-3.13 / locks / all: failed: it crashed"]


def test_a_twin_that_failed_is_listed_because_without_it_there_is_no_noise_to_compare_with() -> None:
    experiment = make_experiment([BASE], cells=[make_cell(BASE), make_cell(BASE, mode="twin", outcome=FAILED)])
    (line,) = compare.skipped(experiment)
    assert "twin" in line
    assert "it crashed" in line


def test_where_all_is_well_nothing_is_skipped() -> None:
    assert compare.skipped(make_experiment()) == []


def test_only_what_failed_is_a_failure() -> None:
    cells: list[CellResult] = [make_cell("v", outcome=outcome) for outcome in (OK, CANNOT, FAILED, LATE, MISSING)]
    assert compare.failures(cells) == [cells[2]]
