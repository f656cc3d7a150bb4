"""Benchmarks that are one curve -> throughput by workers of each variant, the law that fits it, and the limit. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.compare import Row, Table
from interlock.model import Benchmark, Experiment, Workload
from interlock.scaling import Fit, fit
from interlock.statistics import Interval, ratios_over


@dataclass(frozen=True)
class Point:
    """What so many workers did in a second, in the metric's unit."""

    workers: int
    throughput: Interval


@dataclass(frozen=True)
class Curve:
    """One variant (in one mode)."""

    label: str
    points: tuple[Point, ...]
    fit: Fit | None

    @property
    def best(self) -> Point:
        return max(self.points, key=lambda point: point.throughput.estimate)

    def gain(self, point: Point) -> float | None:
        """How many times what its fewest workers do; none if those were not measured."""
        first = self.points[0]
        return point.throughput.estimate / first.throughput.estimate if first.workers == 1 else None


@dataclass(frozen=True)
class Curves:
    """Benchmarks of a workload that differ in the number of their workers alone."""

    workload: Workload
    name: str
    unit: str
    workers: tuple[int, ...]
    cores: int
    known_to: int  # workers that the fit is made of, at most; what it says beyond is extrapolated
    limit: tuple[Point, ...]  # the best one of each number of workers
    curves: tuple[Curve, ...]

    @property
    def title(self) -> str:
        return f"{self.workload.name} {self.name}"

    def extrapolated(self, workers: float) -> bool:
        return workers > self.known_to


def curves(experiment: Experiment, tables: Sequence[Table]) -> list[Curves]:
    """In the order of the experiment; those of which fewer than two numbers of workers were measured are no curves."""
    found = []
    by_place = {(table.workload.name, table.benchmark.name): table for table in tables}
    for name in experiment.settings.workloads:
        workload = experiment.workloads[name]
        for curve, group in workload.curves.items():
            benchmarks = [by_place[name, benchmark.name] for _, benchmark in group]
            one = _curves(workload, curve, benchmarks, experiment.host["cores"])
            if len(one.workers) > 1 and one.curves:
                found.append(one)
    return found


def _curves(workload: Workload, name: str, group: Sequence[Table], cores: int) -> Curves:
    tables = {_workers(table.benchmark): table for table in group}
    waits = all(table.benchmark.scaling and table.benchmark.scaling.wait for table in group)
    known_to = max((one for one in tables if waits or one <= cores), default=min(tables))
    labels = dict.fromkeys(row.label for table in group for row in table.rows)
    rows = {label: _rows(tables, label) for label in labels}
    metric = group[0].benchmark.metric
    return Curves(
        workload=workload,
        name=name,
        unit=metric.label if metric.inverse else f"{workload.unit}s/s",
        workers=tuple(tables),
        cores=cores,
        known_to=known_to,
        limit=_points({workers: table.best_limit for workers, table in tables.items() if table.best_limit}, group[0]),
        curves=tuple(_curve(label, some, group[0], known_to) for label, some in rows.items() if some),
    )


def _workers(benchmark: Benchmark) -> int:
    return benchmark.scaling.workers if benchmark.scaling else 1


def _rows(tables: dict[int, Table], label: str) -> dict[int, Row | None]:
    rows = {workers: next((row for row in table.rows if row.label == label), None) for workers, table in tables.items()}
    return {workers: row for workers, row in rows.items() if row and row.medians}


def _curve(label: str, rows: dict[int, Row | None], any_table: Table, known_to: int) -> Curve:
    throughputs = {workers: _throughputs(row, any_table) for workers, row in rows.items() if row}
    return Curve(
        label=label,
        points=_points(rows, any_table),
        fit=fit({workers: some for workers, some in throughputs.items() if workers <= known_to}),
    )


def _points(rows: dict[int, Row | None], any_table: Table) -> tuple[Point, ...]:
    measured = {workers: _throughputs(row, any_table) for workers, row in rows.items() if row and row.medians}
    intervals = ratios_over(list(measured.values()))
    return tuple(Point(workers, one) for workers, one in zip(measured, intervals, strict=True))


def _throughputs(row: Row, any_table: Table) -> list[float]:
    """One for each round, in the metric's unit where it has one for throughput, else in units of work."""
    metric = any_table.benchmark.metric
    return [metric.shown(seconds) if metric.inverse else 1 / seconds for seconds in row.medians]


def peak_text(found: Fit, of: Curves) -> str:
    """Where throughput is highest, with its interval, and whether that is more than the fit knows of."""
    peak = found.peak_workers
    if found.coherence is None and peak.estimate > 1:
        return "-"
    if math.isinf(peak.estimate):
        return "none"
    text = f"{peak.estimate:.1f} [{peak.low:.1f}, {'none' if math.isinf(peak.high) else f'{peak.high:.1f}'}]"
    return f"{text}, extrapolated" if of.extrapolated(peak.estimate) else text
