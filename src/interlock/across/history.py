"""Many experiments of one kind of host: each ratio over time, where its level changed, and what else did. Pure."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from interlock.across import changepoints
from interlock.across.changepoints import Split
from interlock.across.extract import Cohort, Extract, Point, by_cohort
from interlock.compare import Place
from interlock.model import Benchmark

# Of a table, which is one benchmark over all variants: the p of each series is asked to be below its share of this.
LEVEL = 0.05


@dataclass(frozen=True)
class ChangePoint:
    """From this experiment of the series on the level is another one: the geometric means on both sides, and p."""

    at: int
    before: float
    after: float
    p: float  # adjusted for all splits that were tried in the table
    what: tuple[str, ...]  # that changed from the experiment before to this one

    @property
    def ratio(self) -> float:
        return self.after / self.before


@dataclass(frozen=True)
class Series:
    """A variant (in a mode) in one benchmark, in the order in which its experiments were started."""

    label: str
    experiments: tuple[Extract, ...]
    points: tuple[Point, ...]
    changes: tuple[ChangePoint, ...]


@dataclass(frozen=True)
class HistoryTable:
    """One benchmark of one workload."""

    workload: str
    benchmark: Benchmark
    series: tuple[Series, ...]


@dataclass(frozen=True)
class History:
    """The experiments of one cohort."""

    cohort: Cohort
    experiments: tuple[Extract, ...]
    tables: tuple[HistoryTable, ...]


def histories(extracts: Iterable[Extract]) -> list[History]:
    """One for each cohort, the longest first; an experiment that was given twice counts once."""
    once = {(one.cohort, one.started, one.name, one.host): one for one in extracts}
    found = [_history(cohort, ones) for cohort, ones in by_cohort(once.values()).items()]
    return sorted(found, key=lambda one: -len(one.experiments))


def _history(cohort: Cohort, extracts: Sequence[Extract]) -> History:
    places = dict.fromkeys(place for one in extracts for place in one.measured)
    tables = [_table(cohort, place, extracts) for place in places]
    return History(cohort, tuple(extracts), tuple(table for table in tables if table.series))


def _table(cohort: Cohort, place: Place, extracts: Sequence[Extract]) -> HistoryTable:
    """Of the experiments in which the benchmark did what it did in the last one."""
    measured = [one for one in extracts if place in one.measured]
    last = measured[-1].measured[place]
    alike = [one for one in measured if one.measured[place].does == last.does]
    labels = list(dict.fromkeys(label for one in alike for label in one.measured[place].points))
    known = {label: [one for one in alike if label in one.measured[place].points] for label in labels}
    points = {label: [one.measured[place].points[label] for one in ones] for label, ones in known.items()}
    logs = [[math.log(point.ratio.estimate) for point in points[label]] for label in labels]
    found = changepoints.find_each(logs, LEVEL / max(1, len(labels)))
    series = []
    for label, levels, splits in zip(labels, logs, found, strict=True):
        adjusted = [replace(split, p=split.p * len(labels)) for split in splits]
        changes = _changes((label, cohort.baseline), known[label], levels, adjusted)
        series.append(Series(label, tuple(known[label]), tuple(points[label]), changes))
    return HistoryTable(place[0], last.benchmark, tuple(series))


def _changes(
    names: tuple[str, str], known: Sequence[Extract], logs: Sequence[float], splits: Sequence[Split]
) -> tuple[ChangePoint, ...]:
    """Of one series and its baseline, whose logarithms are split there."""
    ends = [0, *(split.at for split in splits), len(logs)]
    levels = [math.exp(fmean(logs[start:end])) for start, end in itertools.pairwise(ends)]
    return tuple(
        ChangePoint(split.at, levels[number], levels[number + 1], split.p, _what(names, known, split.at))
        for number, split in enumerate(splits)
    )


def _what(names: tuple[str, str], known: Sequence[Extract], at: int) -> tuple[str, ...]:
    """What was recorded otherwise than in the series' experiment before."""
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
