"""Figures of an experiment as figures.json has them: made of its values, and read in their place. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from interlock.analysis.comparison import fitted_rows
from interlock.analysis.pairing import compared_figures
from interlock.analysis.statistics import Ratio, fit_levels, ratio_from
from interlock.catalog.types import TWIN
from interlock.results.answers import RecordedFigures, TableFigures
from interlock.results.experiments import BenchmarkValues, Experiment, Values

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
        my_row, their_row, rounds = self._rows[mine], self._rows[theirs], self.table.rounds
        row, column = max(my_row, their_row), min(my_row, their_row)
        error = self.table.errors[row][column]
        return ratio_from(
            self.table.levels[my_row] - self.table.levels[their_row],
            math.inf if error is None else error,
            self.table.freedoms[row][column],
            min(rounds[my_row], rounds[their_row]),
        )


def contending_labels(experiment: Experiment) -> list[str]:
    """Return every variant and mode of an experiment, without the twin: it is the baseline measured again."""
    ours = [cell for cell in experiment.cells if cell.mode != TWIN]
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
    return RecordedFigures(made_of=made_of, tables=tables)


def _table(rows: Mapping[str, BenchmarkValues], contending: Sequence[str]) -> TableFigures:
    """Return the figures of the contending labels, fitted with all rows of their table as the report does."""
    levels = fit_levels(compared_figures(rows))
    labels = [label for label in contending if label in levels.rows]
    pairs = [[levels.difference(mine, theirs) for theirs in labels[: number + 1]] for number, mine in enumerate(labels)]
    return TableFigures(
        labels=labels,
        seconds=[_rounded(median(rows[label].figures)) for label in labels],
        max_rss_bytes=[rows[label].max_rss_bytes for label in labels],
        rounds=[levels.rounds_of(label) for label in labels],
        levels=[round(float(levels.level[levels.rows[label]]), DIGITS) for label in labels],
        errors=[[_rounded(error) if math.isfinite(error) else None for _, error, _, _ in row] for row in pairs],
        freedoms=[[_rounded(freedom) for _, _, freedom, _ in row] for row in pairs],
    )


def _rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")
