"""Figures of an experiment as figures.json has them: made of its values, and read in their place. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from interlock.analysis.comparison import fitted_rows
from interlock.analysis.pairing import compared_figures
from interlock.analysis.scaling import ThroughputsByWorkers, predicted_ratios
from interlock.analysis.statistics import Ratio, fit_levels, ratio_from
from interlock.catalog.types import TWIN
from interlock.catalog.workloads import Benchmark
from interlock.results.answers import CurveFigures, RecordedFigures, TableFigures
from interlock.results.experiments import BenchmarkValues, Experiment, Values

# No law that was fitted on a few cores says anything of more CPUs than this.
MOST_CPUS = 64
# Digits that are kept: more than anything is printed with, fewer than machines agree on.
DIGITS = 6

NO_ROWS = TableFigures(labels=[], seconds=[], max_rss_bytes=[], rounds=[], levels=[], errors=[], freedoms=[])


@dataclass(frozen=True)
class RecordedLevels:
    """The recorded fit of one benchmark's rows."""

    table: TableFigures

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {label: row for row, label in enumerate(self.table.labels)}

    def seconds(self, label: str) -> float | None:
        """Return a row's figure; None if it has none."""
        row = self._rows.get(label)
        return None if row is None else self.table.seconds[row]

    def max_rss_bytes(self, label: str) -> int:
        """Return the largest memory of one process; 0 if it is not known."""
        row = self._rows.get(label)
        return 0 if row is None else self.table.max_rss_bytes[row]

    def ratio(self, mine: str, theirs: str) -> Ratio | None:
        """Return one row's figure divided by another's; None if either has no figures."""
        if mine not in self._rows or theirs not in self._rows:
            return None
        one, other, rounds = self._rows[mine], self._rows[theirs], self.table.rounds
        row, column = max(one, other), min(one, other)
        error = self.table.errors[row][column]
        return ratio_from(
            self.table.levels[one] - self.table.levels[other],
            math.inf if error is None else error,
            self.table.freedoms[row][column],
            min(rounds[one], rounds[other]),
        )


def contending_labels(experiment: Experiment) -> list[str]:
    """Return every variant and mode of an experiment, without conditions: they are the baseline measured again."""
    ours = [cell for cell in experiment.cells if cell.mode not in {TWIN, *experiment.conditions}]
    return list(dict.fromkeys(cell.label for cell in ours))


def recorded_figures(experiment: Experiment, values: Values, made_of: str = "") -> RecordedFigures:
    """Return what figures.json has of an experiment, of those benchmarks that have values."""
    labels = contending_labels(experiment)
    tables: dict[str, dict[str, TableFigures]] = {}
    for name, workload in experiment.workloads.items():
        for benchmark in workload.benchmarks:
            rows = fitted_rows(values, name, benchmark.name)
            if known := [label for label in labels if label in rows]:
                tables.setdefault(name, {})[benchmark.name] = _table(rows, known)
    curves = {name: list(_curves(experiment, values, name, labels)) for name in tables}
    return RecordedFigures(made_of=made_of, tables=tables, curves={name: some for name, some in curves.items() if some})


def _table(rows: Mapping[str, BenchmarkValues], contending: Sequence[str]) -> TableFigures:
    """Return the figures of the contending labels, fitted with all rows of their table as the report does."""
    levels = fit_levels(compared_figures(rows))
    labels = [label for label in contending if label in levels.rows]
    pairs = [[levels.difference(mine, one) for one in labels[: number + 1]] for number, mine in enumerate(labels)]
    return TableFigures(
        labels=labels,
        seconds=[_rounded(median(rows[label].figures)) for label in labels],
        max_rss_bytes=[rows[label].max_rss_bytes for label in labels],
        rounds=[levels.rounds_of(label) for label in labels],
        levels=[round(float(levels.level[levels.rows[label]]), DIGITS) for label in labels],
        errors=[[_rounded(error) if math.isfinite(error) else None for _, error, _, _ in row] for row in pairs],
        freedoms=[[_rounded(freedom) for _, _, freedom, _ in row] for row in pairs],
    )


def _curves(experiment: Experiment, values: Values, workload: str, labels: Sequence[str]) -> Iterator[CurveFigures]:
    """Yield what a workload's curves predict. Workers that wait need no CPU each: their curves predict nothing."""
    baseline = experiment.settings.baseline
    for name, group in experiment.workloads[workload].curves.items():
        if any(one.scaling and one.scaling.wait for _, one in group):
            continue
        fitted = [(workers, one) for workers, one in group if workers <= experiment.host["cores"]]
        theirs = _throughputs(values.get((baseline, workload), {}), fitted)
        faster = {}
        for label in labels:
            mine = _throughputs(values.get((label, workload), {}), fitted) if label != baseline else {}
            ratios = predicted_ratios(mine, theirs, range(2, MOST_CPUS + 1))
            faster[label] = {
                cpus: (_rounded(one.estimate), _rounded(one.low), _rounded(one.high))
                for cpus, one in ratios.items()
                if one.low > 1
            }
        if found := {label: some for label, some in faster.items() if some}:
            yield CurveFigures(name=name, fitted_to=max(workers for workers, _ in fitted), faster=found)


def _throughputs(cell: Mapping[str, BenchmarkValues], group: Sequence[tuple[int, Benchmark]]) -> ThroughputsByWorkers:
    """Return units of work in a second by number of workers, one for each round."""
    return {workers: [1 / one for one in cell[mine.name].figures] for workers, mine in group if mine.name in cell}


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
