"""Which ratios to the baseline changed between two experiments.

Times of two experiments are not compared, since the machine was another one or in another state. Each experiment has
its own baseline: what is compared is the ratio to it, and its change is a ratio of two ratios.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from interlock.analysis.cohorts import BenchmarkRatios, Extract, check_comparable
from interlock.analysis.comparison import BenchmarkKey
from interlock.analysis.statistics import Ratio, change_of
from interlock.analysis.verdicts import Comparison, compared
from interlock.catalog.workloads import Benchmark

UNCHANGED, CHANGED, UNKNOWN = "same", "changed", "not recorded"


@dataclass(frozen=True)
class Side:
    """One of the two experiments, under the name that it was asked for by."""

    name: str
    extract: Extract


@dataclass(frozen=True)
class Change:
    """One label in one benchmark: its ratio on both sides, and the second divided by the first."""

    label: str
    before: Ratio
    after: Ratio
    change: Comparison
    image: str
    packages: str  # the packages of which it has other versions, and which; empty if it has the same


@dataclass(frozen=True)
class ChangeTable:
    """The changes in one benchmark of one workload."""

    workload: str
    benchmark: Benchmark
    baseline_packages: str
    rows: tuple[Change, ...]

    def has_other_packages(self, row: Change) -> bool:
        """Return whether packages changed in a row's ratio: its own, or the baseline's."""
        return bool(row.packages or self.baseline_packages)


@dataclass(frozen=True)
class Changes:
    """The changes between two experiments, and what could not be compared."""

    before: Side
    after: Side
    baseline_image: str
    tables: tuple[ChangeTable, ...]
    left_out: tuple[str, ...]

    @property
    def differing(self) -> list[tuple[ChangeTable, Change]]:
        return [(table, row) for table in self.tables for row in table.rows if row.change.verdict.differs]

    @property
    def of_the_same(self) -> list[Change]:
        """Return the changes of ratios of the same images and packages: they show the noise of the host."""
        if self.baseline_image != UNCHANGED:
            return []
        rows = [(table, row) for table in self.tables for row in table.rows]
        return [row for table, row in rows if row.image == UNCHANGED and not table.has_other_packages(row)]


def changes_between(before: Side, after: Side) -> Changes:
    """Return the changes from one experiment to another; raise KindError if they are not of one kind."""
    check_comparable(f"{before.name} and {after.name}", before.extract.cohort, after.extract.cohort)
    old, new = before.extract.measured, after.extract.measured
    common = [key for key in old if key in new and not new[key].change_since(old[key])]
    tables = [_table(before, after, key) for key in common]
    return Changes(
        before,
        after,
        _image(before, after, before.extract.cohort.baseline),
        tuple(table for table in tables if table.rows),
        tuple(_left_out(before, after)),
    )


def _image(before: Side, after: Side, label: str) -> str:
    old, new = before.extract.image(label), after.extract.image(label)
    if not old or not new:
        return UNKNOWN
    return UNCHANGED if old == new else CHANGED


def _table(before: Side, after: Side, key: BenchmarkKey) -> ChangeTable:
    old, new = before.extract.measured[key], after.extract.measured[key]
    sides = {label: (old.points[label].ratio, new.points[label].ratio) for label in old.points if label in new.points}
    comparisons = compared(before.name, {label: change_of(*ratios) for label, ratios in sides.items()})
    is_disturbed = old.is_disturbed or new.is_disturbed
    rows = tuple(
        Change(
            label,
            *sides[label],
            replace(comparison, is_disturbed=is_disturbed),
            _image(before, after, label),
            _packages(old, new, label),
        )
        for label, comparison in comparisons.items()
    )
    return ChangeTable(key[0], new.benchmark, _packages(old, new, before.extract.cohort.baseline), rows)


def _packages(before: BenchmarkRatios, after: BenchmarkRatios, label: str) -> str:
    return changed_packages(before.packages.get(label, {}), after.packages.get(label, {}))


def changed_packages(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return which packages have other versions, and which; empty if none. They are installed versions by name."""
    changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return ", ".join(f"{name} {old.get(name, 'none')} to {new.get(name, 'none')}" for name in changed)


def _left_out(before: Side, after: Side) -> list[str]:
    """Return a sentence for each thing that cannot be compared."""
    lines = []
    for mine, theirs in ((before, after), (after, before)):
        here, there = ({key: ratios.points for key, ratios in side.extract.measured.items()} for side in (mine, theirs))
        keys = [key for key in here if key not in there]
        labels = {label: None for key in here for label in here[key] if label not in set().union(*there.values())}
        lines += [f"only in {mine.name}: {', '.join(' '.join(key) for key in keys)}"] * bool(keys)
        lines += [f"only in {mine.name}: {', '.join(labels)}"] * bool(labels)
        for key in here:
            alone = [label for label in here[key] if label not in {*there.get(key, {}), *labels}]
            if key in there and alone:
                lines.append(f"only in {mine.name} {' '.join(key)}: {', '.join(alone)}")
    for key, old in before.extract.measured.items():
        new = after.extract.measured.get(key)
        if new and (change := new.change_since(old)):
            lines.append(f"{' '.join(key)} does something else: {change}")
    return lines
