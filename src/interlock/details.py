"""Figures beside a benchmark's metric: what its processes reported, as its details ask to be shown. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from interlock.model import Benchmark, BenchmarkValues, Detail, Workload


@dataclass(frozen=True)
class DetailFigure:
    """One detail of one cell: a figure for each process."""

    detail: Detail
    processes: tuple[float, ...]

    @property
    def value(self) -> float:
        return median(self.processes)

    @property
    def low(self) -> float:
        return min(self.processes)

    @property
    def high(self) -> float:
        return max(self.processes)


def details_of(
    workload: Workload, benchmark: Benchmark, measured: BenchmarkValues | None
) -> tuple[DetailFigure | None, ...]:
    """One for each detail of the benchmark; none of what its processes did not report."""
    return tuple(_figure(detail, measured) for detail in workload.details_of(benchmark))


def _figure(detail: Detail, measured: BenchmarkValues | None) -> DetailFigure | None:
    reported = measured.reported.get(detail.of) if measured else None
    if not measured or not reported:
        return None
    counts = zip(reported, measured.processes, measured.units, strict=True)
    return DetailFigure(detail, tuple(detail.shown(one, len(values), units) for one, values, units in counts))
