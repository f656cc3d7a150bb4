"""Experiments on many hosts: what the hosts of a kind say together. Pure.

Kinds are never ranked, nor are hosts: each experiment has its own baseline, and a ratio of one host stands beside the
same ratio of the others of its kind. There a host is what a round is within an experiment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from interlock.across.extract import Cohort, Extract, Measured, Point, by_cohort
from interlock.compare import FASTER, SAME, SLOWER, Comparison, Place, band_of
from interlock.model import Benchmark
from interlock.statistics import Interval, Ratio, geometric_means, holm, ratio_over, ratios_over


@dataclass(frozen=True)
class HostRow:
    """A variant (in a mode) in one benchmark over the hosts of a kind."""

    label: str
    over: Comparison
    lowest: tuple[float, str]  # a ratio, and whose it is
    highest: tuple[float, str]
    slower: int  # hosts by their own verdict
    faster: int
    same: int

    @property
    def hosts(self) -> int:
        return self.slower + self.faster + self.same


@dataclass(frozen=True)
class HostTable:
    """One benchmark of one workload."""

    workload: str
    benchmark: Benchmark
    twin: Ratio | None
    rows: tuple[HostRow, ...]


@dataclass(frozen=True)
class KindSummary:
    """All hosts of one kind with one baseline and profile; each host counts once, with its last experiment."""

    cohort: Cohort
    hosts: tuple[str, ...]
    older: int  # experiments of a host that has a newer one
    tables: tuple[HostTable, ...]
    means: Mapping[str, Interval]  # over the workloads, by label


def summaries(extracts: Iterable[Extract]) -> list[KindSummary]:
    """One for each cohort, the one with the most hosts first."""
    found = [_summary(cohort, ones) for cohort, ones in by_cohort(extracts).items()]
    return sorted(found, key=lambda one: -len(one.hosts))


def _summary(cohort: Cohort, extracts: Sequence[Extract]) -> KindSummary:
    latest = {one.host: one for one in extracts}
    places = dict.fromkeys(place for one in latest.values() for place in one.measured)
    tables = [_table(cohort, place, latest) for place in places]
    filled = tuple(table for table in tables if table.rows)
    return KindSummary(cohort, tuple(latest), len(extracts) - len(latest), filled, _means(filled))


def _table(cohort: Cohort, place: Place, latest: Mapping[str, Extract]) -> HostTable:
    measured = {host: one.measured[place] for host, one in latest.items() if place in one.measured}
    last = list(measured.values())[-1]
    measured = {host: one for host, one in measured.items() if one.does == last.does}
    labels = list(dict.fromkeys(label for one in measured.values() for label in one.points))
    points = [{host: one.points[label] for host, one in measured.items() if label in one.points} for label in labels]
    ratios = ratios_over([_units(of_hosts) for of_hosts in points])
    adjusted = holm(dict(enumerate(ratio.p for ratio in ratios)))
    twin = _twin(measured.values())
    rows = tuple(
        _row(
            label,
            Comparison(cohort.baseline, _units(points[number]), ratios[number], adjusted[number], band_of(twin)),
            points[number],
        )
        for number, label in enumerate(labels)
    )
    return HostTable(place[0], last.benchmark, twin, rows)


def _units(points: Mapping[str, Point]) -> tuple[float, ...]:
    """What is resampled: the hosts; of a single one its rounds."""
    if len(points) == 1:
        return next(iter(points.values())).by_round
    return tuple(point.ratio.estimate for point in points.values())


def _twin(measured: Iterable[Measured]) -> Ratio | None:
    twins = [one.twin for one in measured if one.twin]
    if len(twins) == 1:
        return twins[0]
    return ratio_over([twin.estimate for twin in twins]) if twins else None


def _row(label: str, over: Comparison, points: Mapping[str, Point]) -> HostRow:
    verdicts = Counter(point.verdict for point in points.values())
    ends = sorted((point.ratio.estimate, host) for host, point in points.items())
    return HostRow(label, over, ends[0], ends[-1], verdicts[SLOWER], verdicts[FASTER], verdicts[SAME])


def _means(tables: Sequence[HostTable]) -> dict[str, Interval]:
    """Geometric means over the workloads of those over their benchmarks that rank, resampled over the hosts."""
    found: dict[str, dict[str, list[tuple[float, ...]]]] = {}
    for table in [one for one in tables if one.benchmark.ranks]:
        for row in table.rows:
            found.setdefault(row.label, {}).setdefault(table.workload, []).append(row.over.by_round)
    means = geometric_means([list(groups.values()) for groups in found.values()])
    return {label: mean for label, mean in zip(found, means, strict=True) if mean}
