"""A curve over workers has a point for each number of workers, in the metric's unit, and the best limit beside it."""

from __future__ import annotations

import pytest

from interlock.analysis.comparison import tables
from interlock.analysis.scaling import CurveGroup, curve_groups
from interlock.results.experiments import Experiment, Values
from tests.reports import example, scaled, scaling


def only(cores: int = 2, variants: int = 3) -> CurveGroup:
    experiment, found = scaled(variants, cores)
    (one,) = curve_groups(experiment, found)
    return one


def without(experiment: Experiment, values: Values, benchmark: str) -> CurveGroup:
    """The first variant has no figure in this benchmark."""
    key = ("cpython-3.13", "threads")
    less = {**values, key: {name: one for name, one in values[key].items() if name != benchmark}}
    (one,) = curve_groups(experiment, tables(experiment, less, {}))
    return one


def test_a_curve_has_a_point_for_each_number_of_workers_in_the_metrics_unit() -> None:
    found = only()
    assert (found.workload.name, found.name, found.unit, found.workers) == ("threads", "pure", "tasks/s", (1, 2, 4, 8))
    first = found.curves[0]
    assert first.label == "cpython-3.13"
    assert [point.workers for point in first.points] == [1, 2, 4, 8]
    assert first.points[0].throughput.estimate == pytest.approx(100, rel=0.01)
    assert first.points[0].throughput.low < 100.5 < first.points[0].throughput.high * 1.01


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


def test_an_experiment_without_workers_has_no_curves() -> None:
    experiment, found = example()
    assert curve_groups(experiment, found) == []
