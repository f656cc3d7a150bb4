"""Ratios are taken round by round; the rounds, their number and the baseline's twin decide what is a difference."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Mapping
from statistics import stdev
from typing import Any

import pytest

from interlock.analysis import comparison as compare
from interlock.analysis import statistics
from interlock.analysis.comparison import DetailFigure, Row, Summary, Table, counted, details_of
from interlock.analysis.pick.criteria import Criteria, parse_weights
from interlock.analysis.pick.evidence import missing_from
from interlock.analysis.statistics import relative_error
from interlock.analysis.verdicts import Comparison, Verdict
from interlock.catalog import project as catalogs
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Detail
from interlock.measure import disturbances
from interlock.results.experiments import BenchmarkValues, Outcome, State
from tests.builders import (
    OK,
    ROOT,
    make_benchmark,
    make_built,
    make_cell,
    make_experiment,
    make_facts,
    make_profile,
    make_settings,
    make_values,
    make_workload,
    present,
)


def values(**reported: list[float]) -> BenchmarkValues:
    """Three processes of two values of 10, 20 and 10 units."""
    return make_values([1.0, 1.0], [1.0, 1.0], [1.0, 1.0]).model_copy(
        update={"units": [10, 20, 10], "reported": reported}
    )


def detail(of: str = "work_user_s", **changes: Any) -> dict[str, Any]:
    return {"label": f"a {of}", "of": of, **changes}


def found(*details: dict[str, Any], measured: BenchmarkValues | None) -> tuple[DetailFigure | None, ...]:
    benchmark = make_benchmark(details=details)
    return details_of(make_workload(benchmarks=[benchmark]), benchmark, measured)


@pytest.mark.parametrize(
    ("per", "processes"),
    [("process", (6.0, 16.0, 4.0)), ("value", (3.0, 8.0, 2.0)), ("unit", (0.3, 0.4, 0.2))],
)
def test_a_figure_is_divided_by_what_it_is_per_in_its_own_process(per: str, processes: tuple[float, ...]) -> None:
    measured = values(work_user_s=[6.0, 16.0, 4.0])
    (one,) = found(detail(per=per), measured=measured)
    assert present(one).processes == pytest.approx(processes)


def test_its_value_is_the_median_over_the_processes_and_its_high_the_most() -> None:
    (one,) = map(present, found(detail(scale=1000), measured=values(work_user_s=[6.0, 16.0, 4.0])))
    assert (one.value, one.high) == (6000, 16000)
    assert one.error == pytest.approx(relative_error([6.0, 16.0, 4.0]))


def test_what_was_not_reported_is_none_and_leaves_the_others_their_places() -> None:
    first, second = found(detail("latency_s"), detail(), measured=values(work_user_s=[1.0, 1.0, 1.0]))
    assert first is None
    assert present(second).detail == Detail.model_validate(detail())


def test_a_cell_without_values_has_none() -> None:
    assert found(detail(), detail("x"), measured=None) == (None, None)


def test_the_workloads_details_come_before_the_benchmarks_own() -> None:
    benchmark = make_benchmark(details=[detail("own")])
    workload = make_workload(details=[detail("shared")], benchmarks=[benchmark])
    shown = details_of(workload, benchmark, values(own=[1.0] * 3, shared=[2.0] * 3))
    assert [one.detail.of for one in shown if one] == ["shared", "own"]


BASE, OTHER, CONTROL = "cpython-3.13", "cpython-3.14t", "cpython-3.14"
FAILED = Outcome(state=State.FAILED, reason="it crashed")
LATE = Outcome(state=State.TIMED_OUT, reason="it had not ended")
CANNOT = Outcome(state=State.UNSUPPORTED, reason="no threads")
MISSING = Outcome(state=State.UNAVAILABLE, reason="no place has it")


def table_of(
    values: Mapping[str, BenchmarkValues], variants: tuple[str, ...] = (BASE, OTHER), **changes: object
) -> Table:
    experiment = make_experiment(variants, **changes)
    by_cell = {(label, "locks"): {"uncontended": one} for label, one in values.items()}
    (table,) = compare.tables(experiment, by_cell, {(OTHER, "locks"): {"uncontended": make_profile(0.25)}})
    return table


def row_of(table: Table, label: str = OTHER) -> Row:
    return next(row for row in table.rows if row.label == label)


def comparison_of(row: Row) -> Comparison:
    return present(row.to_baseline)


def by_rounds(ratio: float, noise: float = 0.002, rounds: int = 8) -> BenchmarkValues:
    """Processes around a figure, to both sides of it in turn."""
    return make_values(*([ratio * math.exp(noise * (-1) ** number)] for number in range(rounds)))


def test_a_ratio_is_taken_round_by_round_from_the_means_of_the_processes() -> None:
    mine = make_values([1.0, 1.0, 4.0], [30.0], [400.0])
    base = make_values([1.0], [10.0], [100.0, 100.0])
    measured = comparison_of(row_of(table_of({BASE: base, OTHER: mine}))).ratio
    expected = present(statistics.ratio_of([2.0, 30.0, 400.0], [1.0, 10.0, 100.0]))
    assert (measured.estimate, measured.error, measured.p) == (expected.estimate, expected.error, expected.p)


def test_the_error_of_a_figure_shrinks_as_rounds_are_added_and_one_round_has_none() -> None:
    few, many = (present(relative_error([9.0, 10.0, 12.0] * times)) for times in (1, 9))
    assert few == pytest.approx(stdev(map(math.log, [9.0, 10.0, 12.0])) / math.sqrt(3))
    assert many < few / 2
    assert relative_error([9.0]) is None
    assert relative_error([0.0, 1.0]) == pytest.approx(1.0)
    assert relative_error([5.0, 5.0]) == pytest.approx(1e-4 / math.sqrt(2))


def test_the_twin_is_shown_and_gates_nothing() -> None:
    table = table_of({BASE: by_rounds(1, 0), f"{BASE}+twin": by_rounds(1.05), OTHER: by_rounds(1.04)})
    assert present(table.twin).estimate == pytest.approx(1.05)
    assert comparison_of(row_of(table)).verdict == "slower"
    assert table_of({BASE: by_rounds(1, 0), OTHER: by_rounds(1.04)}).twin is None


def test_a_workloads_margin_decides_what_is_the_same() -> None:
    other = make_values(*([1.03 * factor] for factor in (0.97, 1.03, 1.0, 1.02, 0.98, 1.03, 0.97, 1.0)))
    values = {BASE: by_rounds(1, 0), OTHER: other}
    strict, wide = (table_of(values, workloads={"locks": make_workload(margin=margin)}) for margin in (0.01, 0.2))
    assert comparison_of(row_of(strict)).p_same > 0.5
    assert comparison_of(row_of(wide)).p_same < 0.01
    assert comparison_of(row_of(wide)).margin == 0.2


def test_what_a_budget_ended_may_be_the_same_where_what_somebody_ended_is_undecided() -> None:
    limited = make_settings([BASE, OTHER]).model_copy(update={"rounds_limit": 10})
    values = {BASE: by_rounds(1, 0, rounds=4), OTHER: by_rounds(1, 0.025, rounds=4)}
    verdicts = [
        comparison_of(row_of(table_of(values, settings=limited, ended_by=reason, unfinished=["locks"]))).verdict
        for reason in ("the budget of 12 min", "Ctrl-C")
    ]
    assert verdicts == ["same", "undecided"]


def test_p_is_adjusted_for_the_number_of_rows() -> None:
    rng = random.Random(1)
    others = [f"other-{number}" for number in range(19)]
    noise = {one: make_values(*([math.exp(rng.gauss(0, 0.02))] for _ in range(8))) for one in (BASE, OTHER, *others)}
    found = {row.label: row.to_baseline for row in table_of(noise, (BASE, OTHER, *others)).rows if row.to_baseline}
    adjusted = statistics.benjamini_hochberg({label: one.ratio.p for label, one in found.items()})
    assert {label: one.p for label, one in found.items()} == pytest.approx(adjusted)


def test_the_twin_is_not_counted_among_the_comparisons_and_a_control_that_is_the_baseline_once() -> None:
    values = {BASE: by_rounds(1, 0), f"{BASE}+twin": by_rounds(1), OTHER: by_rounds(1.02, 0.02)}
    row = row_of(table_of(values, controls={OTHER: BASE}))
    assert row.to_control == row.to_baseline
    assert comparison_of(row).p == comparison_of(row).ratio.p


def test_the_baseline_has_no_ratio_to_itself_and_the_twin_no_row() -> None:
    table = table_of({BASE: make_values([1.0]), f"{BASE}+twin": make_values([1.0]), OTHER: make_values([2.0])})
    assert [row.label for row in table.rows] == [BASE, OTHER]
    assert row_of(table, BASE).to_baseline is None
    assert row_of(table, BASE).seconds == 1.0


def test_a_row_has_seconds_memory_and_calls() -> None:
    row = row_of(table_of({BASE: make_values([1.0]), OTHER: make_values([2.0], [4.0], rss=5_000_000)}))
    assert (row.seconds, row.max_rss_bytes, row.profile) == (3.0, 5_000_000, make_profile(0.25))
    assert row.error == relative_error([2.0, 4.0])


def test_a_variant_is_compared_with_its_control_too() -> None:
    values = {BASE: by_rounds(1, 0), CONTROL: by_rounds(2, 0), OTHER: by_rounds(1, 0)}
    table = table_of(values, (BASE, CONTROL, OTHER), controls={OTHER: CONTROL})
    beside = present(row_of(table).to_control)
    assert beside.other == CONTROL
    assert beside.ratio.estimate == pytest.approx(0.5)
    assert (beside.verdict, comparison_of(row_of(table)).verdict) == ("faster", "same")
    assert row_of(table, CONTROL).to_control is None


def test_the_control_of_a_mode_is_its_variant() -> None:
    mode = f"{OTHER}+gil"
    table = table_of(
        {BASE: by_rounds(1, 0), OTHER: by_rounds(2, 0), mode: by_rounds(3, 0)},
        cells=[make_cell(BASE), make_cell(OTHER), make_cell(OTHER, mode="gil")],
        controls={OTHER: CONTROL},
    )
    assert [row.label for row in table.rows] == [BASE, OTHER, mode]
    beside = present(row_of(table, mode).to_control)
    assert beside.other == OTHER
    assert beside.ratio.estimate == pytest.approx(1.5)
    assert comparison_of(row_of(table, mode)).ratio.estimate == pytest.approx(3)


def test_a_mode_has_its_own_figures_profile_and_facts() -> None:
    mode = f"{OTHER}+gil"
    experiment = make_experiment(
        cells=[make_cell(BASE), make_cell(OTHER), make_cell(OTHER, mode="gil")],
        facts={OTHER: make_facts(gil="off"), mode: make_facts(gil="on")},
    )
    values = {(mode, "locks"): {"uncontended": make_values([3.0], gil=Gil.ON)}}
    (table,) = compare.tables(experiment, values, {(mode, "locks"): {"uncontended": make_profile(0.75)}})
    assert (row_of(table, mode).seconds, row_of(table, mode).profile) == (3, make_profile(0.75))
    assert row_of(table, mode).notes == ()
    assert (row_of(table).seconds, row_of(table).profile) == (None, None)


def test_a_control_that_was_not_measured_leaves_no_ratio() -> None:
    row = row_of(table_of({BASE: make_values([1.0]), OTHER: make_values([1.0])}, controls={OTHER: "cpython-2.7"}))
    assert row.to_control is None


def test_a_cell_without_values_keeps_its_outcome() -> None:
    row = row_of(table_of({BASE: make_values([1.0])}, cells=[make_cell(BASE), make_cell(OTHER, outcome=CANNOT)]))
    assert (row.outcome, row.seconds, row.to_baseline) == (CANNOT, None, None)


@pytest.mark.parametrize(
    ("failed", "outcome", "compared"),
    [
        (OTHER, FAILED, [(CONTROL, BASE)]),
        (OTHER, LATE, [(CONTROL, BASE)]),
        (CONTROL, FAILED, [(OTHER, BASE)]),
        (BASE, FAILED, [(OTHER, CONTROL)]),
    ],
)
def test_what_failed_in_a_later_round_keeps_its_figures_and_is_compared_with_nothing(
    failed: str, outcome: Outcome, compared: list[tuple[str, str]]
) -> None:
    values = {BASE: by_rounds(1, 0), CONTROL: by_rounds(1, 0), OTHER: by_rounds(2)}
    cells = [make_cell(label, benchmarks={"uncontended": outcome} if label == failed else {}) for label in values]
    table = table_of(values, (BASE, CONTROL, OTHER), cells=cells, controls={OTHER: CONTROL})
    assert (row_of(table, failed).outcome, len(row_of(table, failed).figures)) == (outcome, 8)
    pairs = [(row.label, one.other) for row in table.rows for one in (row.to_baseline, row.to_control) if one]
    assert pairs == compared


def test_what_failed_in_a_later_round_helps_to_fit_the_others_and_is_in_no_family() -> None:
    values = {BASE: by_rounds(1, 0), CONTROL: by_rounds(1, 0.01, rounds=3), OTHER: by_rounds(1.02, 0.02)}
    (whole, after) = (
        row_of(table_of(values, (BASE, CONTROL, OTHER), cells=[make_cell(BASE), cell, make_cell(OTHER)]))
        for cell in (make_cell(CONTROL), make_cell(CONTROL, outcome=FAILED))
    )
    assert comparison_of(after).ratio == comparison_of(whole).ratio
    assert comparison_of(after).p == comparison_of(after).ratio.p
    assert comparison_of(whole).p > comparison_of(whole).ratio.p


def test_a_table_counts_the_rounds_that_its_own_benchmark_took() -> None:
    """A workload's other benchmarks may have taken more."""
    assert table_of({BASE: by_rounds(1, 0)}, order={"locks": [[BASE, OTHER]] * 20}).rounds == 8
    assert table_of({}).rounds == 0
    assert table_of({}, order={}).rounds == 0


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


def test_what_a_cell_notes_stands_after_what_is_found_here() -> None:
    cells = [make_cell(OTHER, profile=FAILED, notes=["stopped at 10 rounds"])]
    assert row_of(table_of({}, cells=cells)).notes == ("no profile", "stopped at 10 rounds")


def summarised(values: Mapping[str, Mapping[str, BenchmarkValues]]) -> list[Summary]:
    """Of two workloads, `locks` with two benchmarks and `more` with one; values by label, then by benchmark."""
    workloads = {
        "locks": make_workload(benchmarks=[make_benchmark("a"), make_benchmark("b")]),
        "more": make_workload("more", benchmarks=[make_benchmark("c")]),
    }
    experiment = make_experiment(
        settings=make_settings([BASE, OTHER]).model_copy(update={"workloads": list(workloads)}),
        workloads=workloads,
        cells=[make_cell(label, name) for name in workloads for label in (BASE, CONTROL, OTHER)],
    )
    by_cell = {(label, name): benchmarks for label, benchmarks in values.items() for name in workloads}
    return compare.summaries(experiment, compare.tables(experiment, by_cell, {}))


def test_a_summary_counts_what_is_slower_faster_or_missing_and_gives_each_workload_the_same_weight() -> None:
    ones = {name: by_rounds(1, 0) for name in "abc"}
    mixed = {"a": by_rounds(8, 0), "b": by_rounds(2, 0), "c": by_rounds(0.25, 0)}
    control, other = summarised({BASE: ones, CONTROL: {"b": by_rounds(1)}, OTHER: mixed})
    assert (other.label, other.verdicts, other.missing) == (OTHER, {"slower": 2, "faster": 1}, 0)
    assert present(other.ratio).estimate == pytest.approx(1)
    assert (control.label, control.verdicts, control.missing) == (CONTROL, {"same": 1}, 2)
    assert present(control.ratio).low < 1 < present(control.ratio).high


def test_a_variant_without_figures_has_a_summary_without_a_ratio() -> None:
    (_, other) = summarised({BASE: {"a": by_rounds(1)}})
    assert other == Summary(OTHER, None, Counter(), 3, built_otherwise=False)


def test_of_a_workload_with_figures_for_more_cpus_nothing_that_is_pinned_to_one_counts_there() -> None:
    workloads = catalogs.load(ROOT).workloads.values()
    wrong = {
        workload.name: [one.name for one in counting if one.cpus == "one"]
        for workload in workloads
        for counting in [counted(workload.benchmarks, 2)]
        if any(one.counts_for == "more" for one in workload.benchmarks)
    }
    assert {name: pinned for name, pinned in wrong.items() if pinned} == {}
    assert wrong.keys() >= {"download", "download-b2", "download-b2-large", "service"}


def test_what_does_not_rank_is_in_no_summary() -> None:
    workload = make_workload(benchmarks=[make_benchmark("a"), make_benchmark("b", counts_for="named")])
    experiment = make_experiment([BASE, OTHER], workloads={"locks": workload})
    values = {
        (BASE, "locks"): {"a": by_rounds(1, 0), "b": by_rounds(1, 0)},
        (OTHER, "locks"): {"a": by_rounds(2, 0), "b": by_rounds(9, 0)},
    }
    (found,) = compare.summaries(experiment, compare.tables(experiment, values, {}))
    assert present(found.ratio).estimate == pytest.approx(2)
    assert (found.verdicts, found.missing) == ({"slower": 1}, 0)


def test_what_was_measured_beside_a_busy_program_decides_nothing() -> None:
    """An audit beside six rows made 3.857x [3.340, 4.456] of 1.133x."""
    before, after = disturbances.Sample(0.0), disturbances.Sample(10.0, busy_s=16.0)
    (warning,) = disturbances.warnings(before, after, 10.0, ["pip 60%"])
    workload = make_workload(benchmarks=[make_benchmark("a")])
    values = {(BASE, "locks"): {"a": by_rounds(1, 0)}, (OTHER, "locks"): {"a": by_rounds(2, 0)}}
    experiment = make_experiment([BASE, OTHER], workloads={"locks": workload})
    found = []
    for warnings in ([], [f"import-loop: {warning}"], [f"locks: {warning}"]):
        told = experiment.model_copy(update={"warnings": warnings})
        tables = compare.tables(told, values, {})
        (compared,) = [row.to_baseline for row in tables[0].rows if row.to_baseline]
        (summary,) = compare.summaries(told, tables)
        found.append((compared.verdict, summary.missing, missing_from(told, Criteria(parse_weights(["locks"]), 1), {})))
    assert found[0] == found[1] == (Verdict.SLOWER, 0, "")
    assert found[2][:2] == (Verdict.UNDECIDED, 0)
    assert "locks" in found[2][2]


def limited(*, best: float = 0.5, other: float = 0.8) -> Table:
    """The baseline takes 1 s, another 2 s; two limits take less, of which one failed in another workload."""
    limits = [
        {"name": name, "command": ["x"], "benchmarks": ["uncontended"], "unit_count": 1} for name in ("best", "other")
    ]
    experiment = make_experiment(
        [BASE, OTHER],
        workloads={"locks": make_workload(limits=limits)},
        limits=[make_cell("limit", mode="other"), make_cell("limit", mode="best")],
    )
    seconds = {BASE: 1.0, OTHER: 2.0, "limit+best": best, "limit+other": other}
    values = {(label, "locks"): {"uncontended": by_rounds(one)} for label, one in seconds.items()}
    (table,) = compare.tables(experiment, values, {})
    assert [one.label for one in compare.summaries(experiment, [table])] == [OTHER]
    return table


def test_every_row_has_its_share_of_the_best_limit() -> None:
    table = limited()
    assert present(table.best_limit).label == "limit+best"
    shares = {row.label: row.share.estimate for row in (*table.rows, *table.limits) if row.share}
    assert shares == pytest.approx({BASE: 0.5, OTHER: 0.25, "limit+best": 1.0, "limit+other": 0.625}, rel=0.01)
    assert [row.label for row in table.rows] == [BASE, OTHER]


def test_a_limit_is_compared_with_nothing_and_makes_no_difference_harder_to_show() -> None:
    table = limited()
    assert [(row.to_baseline, row.to_control) for row in table.limits] == [(None, None)] * 2
    assert comparison_of(row_of(table)).p == comparison_of(row_of(table)).ratio.p


def test_the_noise_of_a_limit_widens_no_interval() -> None:
    """With limits of a download 24 of 156 rows were undecided in the report, of which 8 had been called decided."""
    rows = {BASE: by_rounds(1.0), OTHER: by_rounds(1.1)}
    alone, beside = (
        compare.tables(
            make_experiment([BASE, OTHER], workloads={"locks": make_workload()}),
            {(label, "locks"): {"uncontended": one} for label, one in some.items()},
            {},
        )
        for some in (rows, rows | {"limit+noisy": make_values(*([3.0**number] * 2 for number in range(5)))})
    )
    assert [row.to_baseline for row in alone[0].rows] == [row.to_baseline for row in beside[0].rows]


def test_a_row_that_joined_later_has_its_share_of_the_limit_in_its_own_blocks() -> None:
    """Its first block was divided by the limit's first one, which was another round."""
    limits = [{"name": "best", "command": ["x"], "benchmarks": ["uncontended"], "unit_count": 1}]
    experiment = make_experiment(
        [BASE, OTHER], workloads={"locks": make_workload(limits=limits)}, limits=[make_cell("limit", mode="best")]
    )
    whole = [0.5, 0.5, 0.5, 0.5, 1.0, 1.5, 1.0, 1.5]
    late = make_values(*([4 * figure] for figure in whole[4:])).model_copy(update={"blocks": [4, 5, 6, 7]})
    rows = {"limit+best": make_values(*([figure] for figure in whole)), BASE: by_rounds(1.0), OTHER: late}
    (table,) = compare.tables(experiment, {(label, "locks"): {"uncontended": row} for label, row in rows.items()}, {})
    share = present(row_of(table).share)
    assert (share.low, share.estimate, share.high) == pytest.approx((0.25, 0.25, 0.25), rel=0.01)


def test_without_a_limit_that_has_figures_there_is_no_share() -> None:
    table = table_of({BASE: by_rounds(1), OTHER: by_rounds(2)})
    assert table.limits == ()
    assert [row.share for row in table.rows] == [None, None]


def test_a_row_that_is_built_otherwise_than_the_baseline_says_so_as_far_as_it_is_known() -> None:
    """Debian's 3.13 with PGO and LTO was 0.675x beside one with -O3, without a word."""
    images = [
        make_built(BASE, optimisations=[]),
        make_built(OTHER, optimisations=["PGO", "LTO"]),
        make_built("unknown"),
        make_built("alike", optimisations=[]),
    ]
    experiment = make_experiment([BASE, OTHER], images=images)
    said = compare.built_otherwise(images, OTHER, BASE)
    assert re.fullmatch(r"PGO and LTO .* neither PGO nor LTO", said)
    assert compare.built_otherwise(images, f"{OTHER}+mode", BASE) == said
    assert compare.built_otherwise(images, "unknown", BASE) == ""
    assert compare.built_otherwise(images, "alike", BASE) == ""
    assert compare.baseline_optimisation(experiment) == "neither PGO nor LTO"
    (table,) = compare.tables(experiment, {(OTHER, "locks"): {"uncontended": by_rounds(2)}}, {})
    assert {row.label: row.notes for row in table.rows} == {
        BASE: (),
        OTHER: (f"built otherwise: {said}",),
    }


def test_of_every_shipped_workload_something_counts_on_one_cpu_and_on_more() -> None:
    for workload in catalogs.load(ROOT).workloads.values():
        for cpus in (1, 2, 64):
            assert counted(workload.benchmarks, cpus), (workload.name, cpus)
            curves = [one.scaling.name for one in counted(workload.benchmarks, cpus) if one.scaling]
            assert len(curves) == len(set(curves)), (workload.name, cpus)
