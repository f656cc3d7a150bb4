"""Throughput by number of workers: the curve of each variant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.analysis.comparison import Row, Table
from interlock.analysis.statistics import Interval, ratio_over
from interlock.catalog.workloads import Metric, Workload
from interlock.results.experiments import Experiment


@dataclass(frozen=True)
class ThroughputPoint:
    """The throughput of a number of workers, in the metric's unit."""

    workers: int
    throughput: Interval


@dataclass(frozen=True)
class Curve:
    """The throughput of one label by number of workers."""

    label: str
    points: tuple[ThroughputPoint, ...]

    @property
    def best(self) -> ThroughputPoint:
        return max(self.points, key=lambda point: point.throughput.estimate)

    def gain(self, point: ThroughputPoint) -> float | None:
        """Return the throughput divided by that of one worker; None if one worker was not measured."""
        first = self.points[0]
        return point.throughput.estimate / first.throughput.estimate if first.workers == 1 else None


@dataclass(frozen=True)
class CurveGroup:
    """Benchmarks of a workload that differ only in their number of workers."""

    workload: Workload
    name: str
    unit: str
    workers: tuple[int, ...]
    cores: int
    limit: tuple[ThroughputPoint, ...]  # the best limit of each number of workers
    curves: tuple[Curve, ...]


def curve_groups(experiment: Experiment, tables: Sequence[Table]) -> list[CurveGroup]:
    """Return the curves with at least two numbers of workers, in the order of the experiment."""
    groups = []
    by_key = {(table.workload.name, table.benchmark.name): table for table in tables}
    for name in experiment.settings.workloads:
        workload = experiment.workloads[name]
        for curve, group in workload.curves.items():
            tables_of = {workers: by_key[name, benchmark.name] for workers, benchmark in group}
            curves = _curve_group(workload, curve, tables_of, experiment.host["cores"])
            if len(curves.workers) > 1 and curves.curves:
                groups.append(curves)
    return groups


def _curve_group(workload: Workload, name: str, tables: Mapping[int, Table], cores: int) -> CurveGroup:
    labels = dict.fromkeys(row.label for table in tables.values() for row in table.rows)
    rows = {label: _rows(tables, label) for label in labels}
    metric = next(iter(tables.values())).benchmark.metric
    return CurveGroup(
        workload=workload,
        name=name,
        unit=metric.label if metric.inverse else f"{workload.unit}s/s",
        workers=tuple(tables),
        cores=cores,
        limit=_points({workers: best for workers, table in tables.items() if (best := table.best_limit)}, metric),
        curves=tuple(Curve(label, _points(measured, metric)) for label, measured in rows.items() if measured),
    )


def _rows(tables: Mapping[int, Table], label: str) -> dict[int, Row]:
    """Return the rows of a label that have figures, by their number of workers."""
    rows = ((workers, row) for workers, table in tables.items() for row in table.rows)
    return {workers: row for workers, row in rows if row.label == label and row.figures}


def _points(rows: Mapping[int, Row], metric: Metric) -> tuple[ThroughputPoint, ...]:
    return tuple(ThroughputPoint(workers, ratio_over(_throughputs(row, metric))) for workers, row in rows.items())


def _throughputs(row: Row, metric: Metric) -> list[float]:
    """Return a throughput for each round, in the metric's unit if that is one of throughput, else in units of work."""
    return [metric.shown(seconds) if metric.inverse else 1 / seconds for seconds in row.figures]
