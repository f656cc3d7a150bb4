"""Throughput by number of workers: the curve of each variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.analysis.comparison import Row, Table
from interlock.analysis.statistics import Interval, ratio_over
from interlock.catalog.workloads import Benchmark, Workload
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

    @property
    def title(self) -> str:
        return f"{self.workload.name} {self.name}"


def curve_groups(experiment: Experiment, tables: Sequence[Table]) -> list[CurveGroup]:
    """Return the curves with at least two numbers of workers, in the order of the experiment."""
    groups = []
    by_key = {(table.workload.name, table.benchmark.name): table for table in tables}
    for name in experiment.settings.workloads:
        workload = experiment.workloads[name]
        for curve, group in workload.curves.items():
            benchmarks = [by_key[name, benchmark.name] for _, benchmark in group]
            curves = _curve_group(workload, curve, benchmarks, experiment.host["cores"])
            if len(curves.workers) > 1 and curves.curves:
                groups.append(curves)
    return groups


def _curve_group(workload: Workload, name: str, group: Sequence[Table], cores: int) -> CurveGroup:
    tables = {_workers(table.benchmark): table for table in group}
    labels = dict.fromkeys(row.label for table in group for row in table.rows)
    rows = {label: _rows(tables, label) for label in labels}
    metric = group[0].benchmark.metric
    return CurveGroup(
        workload=workload,
        name=name,
        unit=metric.label if metric.inverse else f"{workload.unit}s/s",
        workers=tuple(tables),
        cores=cores,
        limit=_points({workers: best for workers, table in tables.items() if (best := table.best_limit)}, group[0]),
        curves=tuple(Curve(label, _points(measured, group[0])) for label, measured in rows.items() if measured),
    )


def _workers(benchmark: Benchmark) -> int:
    return benchmark.scaling.workers if benchmark.scaling else 1


def _rows(tables: dict[int, Table], label: str) -> dict[int, Row]:
    """Return the rows of a label that have figures, by their number of workers."""
    rows = ((workers, row) for workers, table in tables.items() for row in table.rows)
    return {workers: row for workers, row in rows if row.label == label and row.figures}


def _points(rows: dict[int, Row], any_table: Table) -> tuple[ThroughputPoint, ...]:
    return tuple(ThroughputPoint(workers, ratio_over(_throughputs(row, any_table))) for workers, row in rows.items())


def _throughputs(row: Row, any_table: Table) -> list[float]:
    """Return a throughput for each round, in the metric's unit if that is one of throughput, else in units of work."""
    metric = any_table.benchmark.metric
    return [metric.shown(seconds) if metric.inverse else 1 / seconds for seconds in row.figures]
