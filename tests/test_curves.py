"""Benchmarks that differ in the number of their workers are one curve of each variant."""

from __future__ import annotations

import pytest

from interlock.beside import curves_section, detail_sections
from interlock.compare import tables
from interlock.curves import Curves, curves, peak_text
from interlock.html.curve_frames import curve_frames
from interlock.model import Experiment, Values
from tests.reports import example, scaled, scaling


def only(cores: int = 2, variants: int = 3) -> Curves:
    experiment, found, _ = scaled(variants, cores)
    (one,) = curves(experiment, found)
    return one


def without(experiment: Experiment, values: Values, benchmark: str) -> Curves:
    """The first variant has no figure in this benchmark."""
    key = ("cpython-3.13", "threads")
    less = {**values, key: {name: one for name, one in values[key].items() if name != benchmark}}
    (one,) = curves(experiment, tables(experiment, less, {}))
    return one


def test_a_curve_has_a_point_for_each_number_of_workers_in_the_metrics_unit() -> None:
    found = only()
    assert (found.title, found.unit, found.workers) == ("threads pure", "tasks/s", (1, 2, 4, 8))
    first = found.curves[0]
    assert first.label == "cpython-3.13"
    assert [point.workers for point in first.points] == [1, 2, 4, 8]
    assert first.points[0].throughput.estimate == pytest.approx(100, rel=0.01)
    assert first.points[0].throughput.low < 100.5 < first.points[0].throughput.high * 1.01


def test_workers_that_compute_are_fitted_up_to_the_cores_because_more_lack_them() -> None:
    found = only(cores=4)
    assert found.known_to == 4
    assert [found.extrapolated(workers) for workers in found.workers] == [False, False, False, True]
    fitted = found.curves[1].fit
    assert fitted
    assert fitted.coherence
    assert (fitted.contention.low, fitted.coherence.low) <= (0.55, 0.01)
    assert (fitted.contention.high, fitted.coherence.high) >= (0.55, 0.01)


def test_workers_that_wait_are_fitted_as_far_as_they_were_measured() -> None:
    experiment, values = scaling()
    workload = experiment.workloads["threads"]
    waiting = [
        one.model_copy(update={"scaling": one.scaling and one.scaling.model_copy(update={"wait": True})})
        for one in workload.benchmarks
    ]
    changed = experiment.model_copy(
        update={"workloads": {"threads": workload.model_copy(update={"benchmarks": waiting})}}
    )
    (found,) = curves(changed, tables(changed, values, {}))
    assert found.known_to == 8


def test_a_curve_that_is_fitted_as_far_as_it_was_measured_has_nothing_extrapolated() -> None:
    kinds = {cores: {one["kind"] for one in curve_frames([only(cores)])["points"]} for cores in (2, 8)}
    assert kinds[2] - kinds[8] == {"extrapolated"}


def test_the_limit_of_each_number_of_workers_is_the_best_one() -> None:
    assert [point.workers for point in only().limit] == [1, 2, 4, 8]
    assert all(point.throughput.estimate == pytest.approx(400, rel=0.01) for point in only().limit)


def test_what_a_variant_gains_is_beside_its_own_single_worker() -> None:
    curve = only().curves[2]
    assert curve.best.workers == 8
    assert curve.gain(curve.best) == pytest.approx(1.94, abs=0.02)
    lacking = without(*scaling(), "pure-1").curves[0]
    assert [point.workers for point in lacking.points] == [2, 4, 8]
    assert lacking.gain(lacking.best) is None


def test_too_few_numbers_of_workers_are_no_fit_but_still_points() -> None:
    found = without(*scaling(), "pure-1")
    assert found.curves[0].fit is None
    row = curves_section(found).rows[0]
    assert row[1] == "-"
    assert row[-1] == "too few numbers of workers up to 2 for a fit"


def test_a_peak_beyond_the_cores_is_labelled_extrapolated() -> None:
    found = only(cores=4)
    fits = [curve.fit for curve in found.curves if curve.fit]
    assert [peak_text(one, found).endswith(", extrapolated") for one in fits] == [False, True, True]
    assert peak_text(fits[0], found).startswith("1.0 [")


def test_of_two_numbers_of_workers_a_peak_is_not_known() -> None:
    found = only()
    peaks = [peak_text(curve.fit, found) for curve in found.curves if curve.fit]
    assert peaks == ["1.0 [1.0, 1.0]", "-", "-"]


def test_the_table_marks_more_workers_than_cores_and_ends_with_the_limit() -> None:
    section = curves_section(only())
    assert section.title == "threads: pure, tasks/s by workers, higher is better"
    assert section.columns[:5] == ("variant", "1", "2", "4 (> 2 cores)", "8 (> 2 cores)")
    assert section.rows[-1][0] == "best limit"
    assert section.rows[0][-1] == "two numbers of workers: all loss is called contention; more workers do less than one"


def test_an_experiment_without_workers_has_no_curves_and_no_details() -> None:
    experiment, found, _ = example()
    assert curves(experiment, found) == []
    assert detail_sections(found) == []


def test_details_have_a_table_for_each_benchmark_with_the_limits_rows() -> None:
    section = detail_sections(scaled()[1])[0]
    assert section.title == "threads: pure-1, details"
    assert section.columns == ("variant", "switches per task")
    assert [row[0] for row in section.rows][-2:] == ["limit: better", "limit: worse"]
    assert section.rows[0][1] == "4.5 ±78%"
