"""Which ratios to the baseline changed between two experiments, or two groups of them, and when in a series of them.

Times of two experiments are not compared, since the machine was another one or in another state. Each experiment has
its own baseline: what is compared is the ratio to it, and its change is a ratio of two ratios.

Changes in a series are found by seeded binary segmentation (Kovács, Bühlmann, Li and Munk, Seeded Binary Segmentation,
Biometrika 110, 2023): every split of every seeded interval is tested by a t-test, the one with the smallest p is taken,
the intervals that contain it are dropped, and so on. It finds a step that was taken back, which a search for one step
at a time misses. p-values are multiplied by the number of splits tested, which bounds the chance of a false alarm
(Worsley, On the Likelihood Ratio Test for a Shift in Location of Normal Populations, JASA 74, 1979).

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
from typing import TYPE_CHECKING

from interlock.analysis.cohorts import BaselineRatio, BenchmarkRatios, Cohort, Extract, by_cohort, check_comparable
from interlock.analysis.comparison import BenchmarkKey
from interlock.analysis.statistics import Ratio, change_of, grouped_by_shape, ratio_over
from interlock.analysis.verdicts import Comparison, compared
from interlock.catalog.workloads import Benchmark
from interlock.errors import LazyModule

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import scipy

    from interlock.analysis.statistics import Floats
else:
    np, scipy = LazyModule("numpy", "measure"), LazyModule("scipy", "measure")

UNCHANGED, CHANGED, UNKNOWN = "same", "changed", "not recorded"
# Each layer of intervals is shorter than the last by this factor, as the authors advise.
DECAY = 1 / math.sqrt(2)
SHORTEST = 3  # points on each side of a split
SHORTEST_INTERVAL = 2 * SHORTEST
# Series are tested together as long as their arrays stay in the processor's cache.
TOGETHER = 20_000
# The significance level of one table (one benchmark over all variants), shared equally by its series.
LEVEL = 0.05


@dataclass(frozen=True)
class ExperimentGroup:
    """Experiments of one cohort that are compared as one side.

    With one experiment on each side their ratios are compared as their rounds gave them. If either side has several,
    each experiment counts as one value, since hosts, and runs on one host, differ by more than rounds do.
    """

    name: str
    extracts: tuple[Extract, ...]
    by_round: bool

    @property
    def cohort(self) -> Cohort:
        return self.extracts[0].cohort

    def of(self, key: BenchmarkKey) -> list[BenchmarkRatios]:
        return [one.measured[key] for one in self.extracts if key in one.measured]

    def ratio(self, key: BenchmarkKey, label: str) -> Ratio:
        """Return a label's ratio: that of one experiment, or the mean of several experiments'."""
        ratios = [measured.points[label].ratio for measured in self.of(key) if label in measured.points]
        return ratios[0] if self.by_round else ratio_over([one.estimate for one in ratios])

    def seconds(self, key: BenchmarkKey, label: str) -> float:
        """Return a label's time in seconds; only for a group of one experiment, since hosts' times are not averaged."""
        (measured,) = self.of(key)
        return measured.seconds[label]

    @property
    def hosts(self) -> set[str]:
        return {one.host for one in self.extracts}

    def images(self, label: str) -> set[str]:
        return {one.image(label) for one in self.extracts}


@dataclass(frozen=True)
class Change:
    """One label in one benchmark: its ratio on both sides, and the second divided by the first."""

    label: str
    before: Ratio
    after: Ratio
    change: Comparison
    image: str
    seconds: tuple[float, float] | None = None  # before and after, if each side is one experiment


@dataclass(frozen=True)
class ChangeTable:
    """The changes in one benchmark of one workload."""

    workload: str
    benchmark: Benchmark
    rows: tuple[Change, ...]


@dataclass(frozen=True)
class CohortChanges:
    """The changes between two groups of one cohort, and what could not be compared."""

    before: ExperimentGroup
    after: ExperimentGroup
    baseline_image: str
    tables: tuple[ChangeTable, ...]
    left_out: tuple[str, ...]

    @property
    def differing(self) -> list[tuple[ChangeTable, Change]]:
        return [(table, row) for table in self.tables for row in table.rows if row.change.verdict.differs]

    @property
    def same_images(self) -> list[Change]:
        """Return the changes of labels whose image and baseline image are the same: they show the noise of the host."""
        if self.baseline_image != UNCHANGED:
            return []
        return [row for table in self.tables for row in table.rows if row.image == UNCHANGED]


def changes_between(before: tuple[str, Sequence[Extract]], after: tuple[str, Sequence[Extract]]) -> list[CohortChanges]:
    """Return the changes of each cohort that both sides have; raise KindError if there is none."""
    sides = [by_cohort(extracts) for _, extracts in (before, after)]
    cohorts = [cohort for cohort in sides[0] if cohort in sides[1]]
    if not cohorts:
        check_comparable(f"{before[0]} and {after[0]}", next(iter(sides[0])), next(iter(sides[1])))
    found = []
    for cohort in cohorts:
        old, new = (tuple(_repetitions(side[cohort])) for side in sides)
        by_round = len(old) == len(new) == 1
        found.append(
            _cohort_changes(ExperimentGroup(before[0], old, by_round), ExperimentGroup(after[0], new, by_round))
        )
    return found


def _repetitions(extracts: Iterable[Extract]) -> list[Extract]:
    """Return what counts once each: of several hosts the latest experiment of each, of one host all of its."""
    ordered = sorted(extracts, key=lambda one: one.started)
    latest = {one.host: one for one in ordered}
    return ordered if len(latest) == 1 else list(latest.values())


def _cohort_changes(before: ExperimentGroup, after: ExperimentGroup) -> CohortChanges:
    keys = list(dict.fromkeys(key for one in before.extracts for key in one.measured))
    common = [key for key in keys if after.of(key) and _commands(before, key) == _commands(after, key)]
    tables = [_table(before, after, key) for key in common]
    return CohortChanges(
        before,
        after,
        _image(before, after, before.cohort.baseline),
        tuple(table for table in tables if table.rows),
        tuple(_left_out(before, after)),
    )


def _commands(side: ExperimentGroup, key: BenchmarkKey) -> set[str]:
    return {measured.command for measured in side.of(key)}


def _image(before: ExperimentGroup, after: ExperimentGroup, label: str) -> str:
    old, new = before.images(label), after.images(label)
    if "" in old | new:
        return UNKNOWN
    return UNCHANGED if old == new and len(old) == 1 else CHANGED


def _table(before: ExperimentGroup, after: ExperimentGroup, key: BenchmarkKey) -> ChangeTable:
    labels = [label for label in _labels(before, key) if label in _labels(after, key)]
    old, new = ({label: side.ratio(key, label) for label in labels} for side in (before, after))
    found = compared(before.name, {label: change_of(old[label], new[label]) for label in labels})
    rows = tuple(
        Change(
            label,
            old[label],
            new[label],
            found[label],
            _image(before, after, label),
            _seconds(before, after, key, label),
        )
        for label in labels
    )
    return ChangeTable(key[0], after.of(key)[-1].benchmark, rows)


def _labels(side: ExperimentGroup, key: BenchmarkKey) -> dict[str, None]:
    return dict.fromkeys(label for measured in side.of(key) for label in measured.points)


def _seconds(
    before: ExperimentGroup, after: ExperimentGroup, key: BenchmarkKey, label: str
) -> tuple[float, float] | None:
    if not before.by_round:
        return None
    return before.seconds(key, label), after.seconds(key, label)


def _left_out(before: ExperimentGroup, after: ExperimentGroup) -> list[str]:
    """Return a sentence for each thing that cannot be compared."""
    lines = []
    for one, other in ((before, after), (after, before)):
        here, there = _labels_by_benchmark(one), _labels_by_benchmark(other)
        keys = [key for key in here if key not in there]
        labels = {label: None for key in here for label in here[key] if label not in set().union(*there.values())}
        lines += [f"only in {one.name}: {', '.join(' '.join(key) for key in keys)}"] * bool(keys)
        lines += [f"only in {one.name}: {', '.join(labels)}"] * bool(labels)
        for key in here:
            alone = [label for label in here[key] if label not in {*there.get(key, {}), *labels}]
            if key in there and alone:
                lines.append(f"only in {one.name} {' '.join(key)}: {', '.join(alone)}")
    for key in _labels_by_benchmark(before):
        if after.of(key) and _commands(before, key) != _commands(after, key):
            lines.append(
                f"{' '.join(key)} does something else: {_commands_text(before, key)}; now {_commands_text(after, key)}"
            )
    return lines


def _labels_by_benchmark(side: ExperimentGroup) -> dict[BenchmarkKey, dict[str, None]]:
    """Return the labels of each benchmark, both in their order."""
    keys = dict.fromkeys(key for one in side.extracts for key in one.measured)
    return {key: _labels(side, key) for key in keys}


def _commands_text(side: ExperimentGroup, key: BenchmarkKey) -> str:
    return " or ".join(sorted(_commands(side, key)))


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
    tables = [_history_table(cohort, key, extracts) for key in keys]
    return History(cohort, tuple(extracts), tuple(table for table in tables if table.series))


def _history_table(cohort: Cohort, key: BenchmarkKey, extracts: Sequence[Extract]) -> HistoryTable:
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
