"""The experiments of one cohort over time: each ratio's series, where its level changed, and what else changed there.

Changes are found by seeded binary segmentation (Kovács, Bühlmann, Li and Munk, Seeded Binary Segmentation, Biometrika
110, 2023): every split of every seeded interval is tested by a t-test, the one with the smallest p is taken, the
intervals that contain it are dropped, and so on. It finds a step that was taken back, which a search for one step at a
time misses. p-values are multiplied by the number of splits tested, which bounds the chance of a false alarm (Worsley,
On the Likelihood Ratio Test for a Shift in Location of Normal Populations, JASA 74, 1979).

A split has three points on each side and must hold whichever one point of its interval is left out: so one or two odd
experiments, which a shared machine produces now and then, are no change, and a real one is found with its third point.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import fmean

import numpy as np
import numpy.typing as npt
import scipy  # loads scipy.special only where it is used

from interlock.analysis.cohorts import BaselineRatio, Cohort, Extract, by_cohort
from interlock.analysis.comparison import BenchmarkKey
from interlock.analysis.statistics import Floats, grouped_by_shape
from interlock.catalog.workloads import Benchmark

# Each layer of intervals is shorter than the last by this factor, as the authors advise.
DECAY = 1 / math.sqrt(2)
SHORTEST = 3  # points on each side of a split
SHORTEST_INTERVAL = 2 * SHORTEST
# Series are tested together as long as their arrays stay in the processor's cache.
TOGETHER = 20_000
# The significance level of one table (one benchmark over all variants), shared equally by its series.
LEVEL = 0.05


@dataclass(frozen=True)
class Split:
    """The first point of a new level, and p, adjusted for all splits tested in the series."""

    at: int
    p: float


def find_splits(many: Sequence[Sequence[float]], level: float) -> list[list[Split]]:
    """Return, for each series, the changes of level whose adjusted p is below `level`, in their order.

    Series of one length are tested together, which is much faster.
    """
    found: dict[int, list[Split]] = {}
    for size, numbers in grouped_by_shape(map(len, many)).items():
        step = max(1, TOGETHER // max(1, size) ** 2)
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step]
            rows = np.asarray([many[number] for number in part], dtype=np.float64)
            found |= dict(zip(part, _splits_of_rows(rows, level), strict=True))
    return [found[number] for number in range(len(many))]


def _splits_of_rows(rows: Floats, level: float) -> list[list[Split]]:
    """Return the splits of each row."""
    intervals = seeded(rows.shape[1])
    tried = sum(end - start - 2 * SHORTEST + 1 for start, end in intervals)
    best = [_best_splits(rows[:, start:end]) for start, end in intervals]
    return [
        _surest(
            [
                (float(p[row]) * tried, start + int(keys[row]), start, end)
                for (start, end), (keys, p) in zip(intervals, best, strict=True)
            ],
            level,
        )
        for row in range(len(rows))
    ]


def _surest(splits: list[tuple[float, int, int, int]], level: float) -> list[Split]:
    """Return the split with the smallest p, then that of the intervals that do not contain it, and so on."""
    found: list[Split] = []
    while splits and (surest := min(splits))[0] < level:
        p, at, _, _ = surest
        found.append(Split(at, p))
        splits = [split for split in splits if not split[2] < at < split[3]]
    return sorted(found, key=lambda split: split.at)


@cache
def seeded(size: int) -> list[tuple[int, int]]:
    """Return overlapping intervals [start, end): one of all points, then more and more of shorter and shorter ones."""
    found: dict[tuple[int, int], None] = {}
    length = float(size)
    while length >= SHORTEST_INTERVAL:
        number = 2 * math.ceil(size / length) - 1
        shift = (size - length) / (number - 1) if number > 1 else 0.0
        for index in range(number):
            found[math.floor(index * shift), min(size, math.ceil(index * shift + length))] = None
        length *= DECAY
    return list(found)


def _best_splits(rows: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """Return, for each row of an interval, the split with the smallest p whichever point is left out, and that p."""
    size = rows.shape[1]
    # Axes: rows, the point that is left out, splits.
    points = (rows - rows.mean(axis=1, keepdims=True))[:, :, None]
    splits = np.arange(SHORTEST, size - SHORTEST + 1)
    on_the_left = np.arange(size)[:, None] < splits
    left = splits - on_the_left
    right = (size - 1) - left
    sums = np.cumsum(points, axis=1)[:, splits - 1].transpose(0, 2, 1) - np.where(on_the_left, points, 0.0)
    total = points.sum(axis=1, keepdims=True) - points
    squares = (points**2).sum(axis=1, keepdims=True) - points**2
    within = np.maximum(squares - sums**2 / left - (total - sums) ** 2 / right, 0.0)
    apart = np.abs(sums / left - (total - sums) / right)
    errors = np.sqrt(within / (size - 3) * (1 / left + 1 / right))
    # Values that differ only by the rounding of doubles are equal.
    floor = 1e-9 * np.maximum(1.0, np.abs(points).max(axis=1, keepdims=True))
    statistic = np.where(apart > floor, apart / np.maximum(errors, floor * 1e-9), 0.0).min(axis=1)
    best = statistic.argmax(axis=1)
    return splits[best], 2 * scipy.special.stdtr(size - 3, -statistic[np.arange(len(rows)), best])


@dataclass(frozen=True)
class ChangePoint:
    """The index of the experiment that starts a new level, the geometric means before and after it, and p."""

    at: int
    before: float
    after: float
    p: float  # adjusted for all splits tested in the table
    what: tuple[str, ...]  # recorded facts that differ from the experiment before

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True)
class Series:
    """One label in one benchmark, in the order in which the experiments were started."""

    label: str
    experiments: tuple[Extract, ...]
    points: tuple[BaselineRatio, ...]
    changes: tuple[ChangePoint, ...]


@dataclass(frozen=True)
class HistoryTable:
    """The series of one benchmark of one workload."""

    workload: str
    benchmark: Benchmark
    series: tuple[Series, ...]


@dataclass(frozen=True)
class History:
    """The experiments of one cohort and their series."""

    cohort: Cohort
    experiments: tuple[Extract, ...]
    tables: tuple[HistoryTable, ...]


def histories(extracts: Iterable[Extract]) -> list[History]:
    """Return the history of each cohort, the longest first; an experiment given twice counts once."""
    once = {(one.cohort, one.started, one.name, one.host): one for one in extracts}
    found = [_history(cohort, ones) for cohort, ones in by_cohort(once.values()).items()]
    return sorted(found, key=lambda one: -len(one.experiments))


def _history(cohort: Cohort, extracts: Sequence[Extract]) -> History:
    keys = dict.fromkeys(key for one in extracts for key in one.measured)
    tables = [_table(cohort, key, extracts) for key in keys]
    return History(cohort, tuple(extracts), tuple(table for table in tables if table.series))


def _table(cohort: Cohort, key: BenchmarkKey, extracts: Sequence[Extract]) -> HistoryTable:
    """Return the series over the experiments in which the benchmark ran the same command as in the latest."""
    measured = [one for one in extracts if key in one.measured]
    last = measured[-1].measured[key]
    alike = [one for one in measured if one.measured[key].command == last.command]
    labels = list(dict.fromkeys(label for one in alike for label in one.measured[key].points))
    known = {label: [one for one in alike if label in one.measured[key].points] for label in labels}
    points = {label: [one.measured[key].points[label] for one in ones] for label, ones in known.items()}
    logs = [[math.log(point.ratio.estimate) for point in points[label]] for label in labels]
    found = find_splits(logs, LEVEL / max(1, len(labels)))
    series = []
    for label, levels, splits in zip(labels, logs, found, strict=True):
        adjusted = [replace(split, p=split.p * len(labels)) for split in splits]
        changes = _change_points((label, cohort.baseline), known[label], levels, adjusted)
        series.append(Series(label, tuple(known[label]), tuple(points[label]), changes))
    return HistoryTable(key[0], last.benchmark, tuple(series))


def _change_points(
    names: tuple[str, str], known: Sequence[Extract], logs: Sequence[float], splits: Sequence[Split]
) -> tuple[ChangePoint, ...]:
    """Return the change points of one series, given its label and baseline, logarithms and splits."""
    ends = [0, *(split.at for split in splits), len(logs)]
    levels = [math.exp(fmean(logs[start:end])) for start, end in itertools.pairwise(ends)]
    return tuple(
        ChangePoint(split.at, levels[number], levels[number + 1], split.p, _recorded_changes(names, known, split.at))
        for number, split in enumerate(splits)
    )


def _recorded_changes(names: tuple[str, str], known: Sequence[Extract], at: int) -> tuple[str, ...]:
    """Return the recorded facts that differ from the series' experiment before."""
    before, after = known[at - 1], known[at]
    found = []
    if before.tool_version != after.tool_version:
        found.append(f"Interlock {before.tool_version} -> {after.tool_version}")
    if before.host != after.host:
        found.append(f"host {before.host} -> {after.host}")
    for name in dict.fromkeys(names):
        old, new = before.image(name), after.image(name)
        if old != new:
            found.append(f"image of {name} {old[:8] or 'not recorded'} -> {new[:8] or 'not recorded'}")
    return tuple(found)
