"""Which ratios to the baseline changed between two experiments, or two groups of them.

Times of two experiments are not compared, since the machine was another one or in another state. Each experiment has
its own baseline: what is compared is the ratio to it, and its change is a ratio of two ratios.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.analysis.cohorts import BenchmarkRatios, Cohort, Extract, by_cohort, check_comparable
from interlock.analysis.comparison import BenchmarkKey
from interlock.analysis.statistics import Ratio, change_of, ratio_over
from interlock.analysis.verdicts import Comparison, compared
from interlock.catalog.workloads import Benchmark

UNCHANGED, CHANGED, UNKNOWN = "same", "changed", "not recorded"


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
    changes = []
    for cohort in cohorts:
        old, new = (tuple(_repetitions(side[cohort])) for side in sides)
        by_round = len(old) == len(new) == 1
        both = (ExperimentGroup(name, extracts, by_round) for (name, _), extracts in ((before, old), (after, new)))
        changes.append(_cohort_changes(*both))
    return changes


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
    comparisons = compared(before.name, {label: change_of(old[label], new[label]) for label in labels})
    rows = tuple(
        Change(
            label,
            old[label],
            new[label],
            comparisons[label],
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
