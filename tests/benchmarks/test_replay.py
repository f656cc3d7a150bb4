"""How often verdicts of the core set are wrong, by the noise that the reference has recorded: printed, never asserted.

Each table of the reference is simulated again: the same rows, as many blocks at most as its workload had, what a block
did to all of its rows drawn from what its blocks did, and the error of each row drawn from the table's errors, as wide
as that row's. Rows stop as in an experiment. No engine, no quiet machine; 60 tables of each take two minutes.
`INTERLOCK_BLOCKS=20` asks what the time for so many blocks of each would find.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from interlock.analysis.comparison import compared_pairs, fitted_rows
from interlock.analysis.statistics import Levels, fit_levels
from interlock.analysis.verdicts import LOOKS, Comparison, Verdict, compare_rows, open_labels
from interlock.catalog.types import TWIN, label_of
from interlock.measure.rounds import FAR
from interlock.results import store
from interlock.results.experiments import RoundsEnd

REFERENCE = Path(__file__).parents[2] / "results/reference/2026-11-29-a"
TABLES = int(os.environ.get("INTERLOCK_TABLES", "60"))
BLOCKS = int(os.environ.get("INTERLOCK_BLOCKS", "0"))
SEED = 5
ALL, QUIET = "all four", "those of ±4 %"
# What equal rows of a quiet table differ by from block to block, at most.
QUIET_DEVIATION = 0.04

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Recorded:
    """One table of the reference: its rows as they were fitted, and the figures they were fitted to."""

    workload: str
    benchmark: str
    baseline: str
    margin: float
    limit: int  # how many blocks there was time for
    rows: Mapping[str, list[float]]

    @cached_property
    def levels(self) -> Levels:
        return fit_levels(self.rows)

    @cached_property
    def blocks(self) -> int:
        return max(map(len, self.rows.values()))

    @cached_property
    def labels(self) -> list[str]:
        return [str(label) for label in self.levels.rows]

    @cached_property
    def effects_and_errors(self) -> tuple[Floats, Floats]:
        """What each block did to its rows, and every error in standard deviations of its row."""
        levels = self.levels
        effects, errors = np.zeros(self.blocks), []
        logs = {label: np.log(self.rows[label]) - levels.level[levels.rows[label]] for label in self.labels}
        for block in range(self.blocks):
            there = [row for row in self.labels if len(logs[row]) > block]
            effects[block] = np.median([logs[row][block] for row in there])
        for label, row in logs.items():
            # Of few blocks the level is fitted to the errors, which are too small by that.
            grown = math.sqrt(len(row) / max(len(row) - 1, 1)) if len(row) > 1 else 0.0
            errors += list((row - effects[: len(row)]) * grown / self.deviation(label))
        return effects, np.array(errors)

    @property
    def is_quiet(self) -> bool:
        twice = 2 * float(np.median(self.levels.variance))
        return math.sqrt(twice) <= QUIET_DEVIATION

    def deviation(self, label: str) -> float:
        return math.sqrt(self.levels.variance[self.levels.rows[label]])

    def again(self, rng: np.random.Generator, ratios: Mapping[str, float]) -> dict[str, list[float]]:
        """Figures of as many blocks as there was time for, of rows with these true ratios; the others are equal."""
        effects, errors = self.effects_and_errors
        shared = rng.choice(effects, self.limit)
        return {
            label: np.exp(
                math.log(ratios.get(label, 1)) + shared + self.deviation(label) * rng.choice(errors, self.limit)
            ).tolist()
            for label in self.labels
        }

    def judge(self, figures: Mapping[str, list[float]]) -> dict[str, Comparison]:
        """Every ratio to the baseline, with rows that stop as those of an experiment do."""
        always = {self.baseline, label_of(self.baseline, TWIN)}
        limit = max(map(len, figures.values()))
        taken, going_on = dict.fromkeys(figures, limit), set(figures)
        pairs = [pair for pair in compared_pairs(figures, self.baseline, {}) if pair[1] == self.baseline]
        for look in [look for look in LOOKS if look < limit]:
            rows = {label: row[: min(look, taken[label])] for label, row in figures.items()}
            found = compare_rows(rows, pairs, self.baseline, end=None, margin=self.margin)
            still = open_labels(found, pairs, reach=FAR * (limit - look)) & going_on
            still = still | always if still - always else set()
            taken |= dict.fromkeys(going_on - still, look)
            going_on = still
        kept = {label: row[: taken[label]] for label, row in figures.items()}
        found = compare_rows(kept, pairs, self.baseline, end=RoundsEnd.REACHED, margin=self.margin)
        return {label: one for (label, _), one in found.items()}


def recorded() -> list[Recorded]:
    experiment = store.read_experiment(REFERENCE)
    values = store.read_cell_values(REFERENCE, experiment)
    found = []
    for name in experiment.settings.workloads:
        workload = experiment.workloads[name]
        tables = {
            benchmark.name: {
                label: one.figures for label, one in fitted_rows(values, name, benchmark.name).items() if one.figures
            }
            for benchmark in workload.benchmarks
        }
        limit = BLOCKS or max(len(row) for rows in tables.values() for row in rows.values())
        settings = experiment.settings
        found += [
            Recorded(name, benchmark, settings.baseline, workload.margin, limit, rows)
            for benchmark, rows in tables.items()
        ]
    return found


Judge = Callable[[np.random.Generator, Recorded], Counter[str]]


def equals(rng: np.random.Generator, table: Recorded) -> Counter[str]:
    found = table.judge(table.again(rng, {}))
    wrong = sum(one.verdict.differs for one in found.values())
    return Counter(
        ratios=len(found),
        different=wrong,
        tables=1,
        any=wrong > 0,
        covered=sum(one.ratio.low <= 1 <= one.ratio.high for one in found.values()),
        same=sum(one.verdict is Verdict.SAME for one in found.values()),
    )


def one_is_slower(ratio: float) -> Judge:
    """One row, another one each time, among equals: that is harder to tell than one among many that differ."""

    def judge(rng: np.random.Generator, table: Recorded) -> Counter[str]:
        others = [label for label in table.labels if label not in {table.baseline, label_of(table.baseline, TWIN)}]
        label = str(rng.choice(others))
        figures = table.again(rng, {label: ratio})
        one = table.judge(figures)[label]
        by_four = table.judge({label: row[:4] for label, row in figures.items()})[label]
        return Counter(
            ratios=1,
            found=one.verdict is Verdict.SLOWER,
            by_four=by_four.verdict is Verdict.SLOWER,
            same=one.verdict is Verdict.SAME,
            open=one.verdict is Verdict.UNDECIDED,
            covered=one.ratio.low <= ratio <= one.ratio.high,
        )

    return judge


def simulated(judge: Judge) -> tuple[dict[str, Counter[str]], float]:
    """What the simulations of each workload come to, and of all; and how many seconds they took."""
    start_s, counts, quiet = time.monotonic(), defaultdict[str, Counter[str]](Counter), Counter[str]()
    for number, table in enumerate(recorded()):
        rng = np.random.default_rng([SEED, number])
        for _ in range(TABLES):
            seen = judge(rng, table)
            counts[table.workload] += seen
            if table.is_quiet:
                quiet += seen
    counts[ALL] = sum(counts.values(), Counter[str]())
    counts[QUIET] = quiet
    return counts, time.monotonic() - start_s


def share(seen: Counter[str], part: str, whole: str) -> str:
    return f" ({seen[part] / seen[whole]:.1%})" if seen[whole] else ""


def show(capsys: pytest.CaptureFixture[str], title: str, judge: Judge, columns: Mapping[str, tuple[str, str]]) -> None:
    counts, took_s = simulated(judge)
    with capsys.disabled():
        print(f"\n{title}; {TABLES} tables of each benchmark, {took_s:.0f} s")
        print("| |", " | ".join(columns), "|")
        for workload, seen in counts.items():
            shares = [f"{seen[part]} of {seen[whole]}{share(seen, part, whole)}" for part, whole in columns.values()]
            print(f"| {workload} |", " | ".join(shares), "|")


def test_equals_in_the_noise_of_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    columns = {
        "called different": ("different", "ratios"),
        "tables with any": ("any", "tables"),
        "intervals cover 1": ("covered", "ratios"),
        "same": ("same", "ratios"),
    }
    show(capsys, "all rows equal", equals, columns)


@pytest.mark.parametrize("ratio", [1.03, 1.05, 1.1, 1.2, 1.5, 2.0])
def test_a_slower_row_in_the_noise_of_the_reference(ratio: float, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {
        "found": ("found", "ratios"),
        "by block 4": ("by_four", "ratios"),
        "called the same": ("same", "ratios"),
        "open": ("open", "ratios"),
        "covered": ("covered", "ratios"),
    }
    show(capsys, f"one row {ratio:g}x", one_is_slower(ratio), columns)
