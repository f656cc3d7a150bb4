"""Two experiments, or two groups of them: which ratios to the baseline changed from the one to the other. Pure.

Times of two experiments are not compared: the machine was another one, or in another state. Each experiment has its
own baseline, so what is compared is the ratio to that; its change is a ratio of two ratios.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.across.extract import Cohort, Extract, Measured, by_cohort, check_alike
from interlock.compare import SAME, Comparison, Place, band_of
from interlock.model import Benchmark
from interlock.statistics import Ratio, changes_over, holm, ratio_over, ratios_over

UNCHANGED, CHANGED, UNKNOWN = "same", "changed", "not recorded"


@dataclass(frozen=True)
class Side:
    """Experiments of one cohort that stand together.

    What is compared is the rounds of one experiment with those of another; if either side has several experiments, each
    counts as one round does, since hosts differ by more than rounds.
    """

    name: str
    extracts: tuple[Extract, ...]
    by_round: bool

    @property
    def cohort(self) -> Cohort:
        return self.extracts[0].cohort

    def of(self, place: Place) -> list[Measured]:
        return [one.measured[place] for one in self.extracts if place in one.measured]

    def ratios(self, place: Place, label: str) -> list[float]:
        """By round of the one experiment, or one for each of several."""
        points = [measured.points[label] for measured in self.of(place) if label in measured.points]
        if self.by_round:
            return [ratio for point in points for ratio in point.by_round]
        return [point.ratio.estimate for point in points]

    def twin(self, place: Place) -> Ratio | None:
        twins = [measured.twin for measured in self.of(place) if measured.twin]
        if self.by_round:
            return twins[0] if twins else None
        return ratio_over([twin.estimate for twin in twins]) if twins else None

    def seconds(self, place: Place, label: str) -> float:
        """The median would be of different hosts: only of one experiment there is a time."""
        (measured,) = self.of(place)
        return measured.seconds[label]

    def images(self, label: str) -> set[str]:
        return {one.image(label) for one in self.extracts}


@dataclass(frozen=True)
class Change:
    """A variant (in a mode) in one benchmark: its ratio on both sides, and the one divided by the other."""

    label: str
    before: Ratio
    after: Ratio
    change: Comparison
    image: str
    seconds: tuple[float, float] | None = None  # before and after, if both sides are one experiment


@dataclass(frozen=True)
class ChangeTable:
    """One benchmark of one workload."""

    workload: str
    benchmark: Benchmark
    band: float
    rows: tuple[Change, ...]


@dataclass(frozen=True)
class Changes:
    """What two sides of one cohort have in common, and what only one of them has."""

    before: Side
    after: Side
    baseline_image: str
    tables: tuple[ChangeTable, ...]
    left_out: tuple[str, ...]

    @property
    def differing(self) -> list[tuple[ChangeTable, Change]]:
        return [(table, row) for table in self.tables for row in table.rows if row.change.verdict != SAME]

    @property
    def same_images(self) -> list[Change]:
        """Those whose own image and whose baseline's did not change: a change in them is noise, or the host's."""
        if self.baseline_image != UNCHANGED:
            return []
        return [row for table in self.tables for row in table.rows if row.image == UNCHANGED]


def changes(before: tuple[str, Sequence[Extract]], after: tuple[str, Sequence[Extract]]) -> list[Changes]:
    """For each cohort that both names have experiments of; KindError if there is none."""
    sides = [by_cohort(_latest(extracts)) for _, extracts in (before, after)]
    cohorts = [cohort for cohort in sides[0] if cohort in sides[1]]
    if not cohorts:
        check_alike(f"{before[0]} and {after[0]}", next(iter(sides[0])), next(iter(sides[1])))
    found = []
    for cohort in cohorts:
        old, new = (tuple(side[cohort]) for side in sides)
        by_round = len(old) == len(new) == 1
        found.append(_changes(Side(before[0], old, by_round), Side(after[0], new, by_round)))
    return found


def _latest(extracts: Iterable[Extract]) -> list[Extract]:
    """A host counts once, with what it was last measured with."""
    ordered = sorted(extracts, key=lambda one: one.started)
    return list({(one.cohort, one.host): one for one in ordered}.values())


def _changes(before: Side, after: Side) -> Changes:
    places = list(dict.fromkeys(place for one in before.extracts for place in one.measured))
    common = [place for place in places if after.of(place) and _does(before, place) == _does(after, place)]
    tables = [_table(before, after, place) for place in common]
    return Changes(
        before,
        after,
        _image(before, after, before.cohort.baseline),
        tuple(table for table in tables if table.rows),
        tuple(_left_out(before, after)),
    )


def _does(side: Side, place: Place) -> set[str]:
    return {measured.does for measured in side.of(place)}


def _image(before: Side, after: Side, label: str) -> str:
    old, new = before.images(label), after.images(label)
    if "" in old | new:
        return UNKNOWN
    return UNCHANGED if old == new and len(old) == 1 else CHANGED


def _table(before: Side, after: Side, place: Place) -> ChangeTable:
    labels = [label for label in _labels(before, place) if label in _labels(after, place)]
    pairs = [(before.ratios(place, label), after.ratios(place, label)) for label in labels]
    old, new = (ratios_over([pair[side] for pair in pairs]) for side in (0, 1))
    found, band = changes_over(pairs), _band(before, after, place)
    adjusted = holm(dict(enumerate(ratio.p for ratio in found)))
    rows = tuple(
        Change(
            label,
            old[number],
            new[number],
            Comparison(before.name, (), found[number], adjusted[number], band),
            _image(before, after, label),
            _seconds(before, after, place, label),
        )
        for number, label in enumerate(labels)
    )
    return ChangeTable(place[0], after.of(place)[-1].benchmark, band, rows)


def _labels(side: Side, place: Place) -> dict[str, None]:
    return dict.fromkeys(label for measured in side.of(place) for label in measured.points)


def _seconds(before: Side, after: Side, place: Place, label: str) -> tuple[float, float] | None:
    if not before.by_round:
        return None
    return before.seconds(place, label), after.seconds(place, label)


def _band(before: Side, after: Side, place: Place) -> float:
    """The most that equal images showed: within either side, or as a change from the one to the other."""
    old, new = before.twin(place), after.twin(place)
    if old is None or new is None:
        return max(band_of(old), band_of(new))
    change = new.estimate / old.estimate
    return max(band_of(old), band_of(new), change, 1 / change)


def _left_out(before: Side, after: Side) -> list[str]:
    """A line for each thing that cannot be compared, and why."""
    lines = []
    for one, other in ((before, after), (after, before)):
        here, there = _everything(one), _everything(other)
        places = [place for place in here if place not in there]
        labels = {label: None for place in here for label in here[place] if label not in set().union(*there.values())}
        lines += [f"only in {one.name}: {', '.join(' '.join(place) for place in places)}"] * bool(places)
        lines += [f"only in {one.name}: {', '.join(labels)}"] * bool(labels)
        for place in here:
            alone = [label for label in here[place] if label not in {*there.get(place, {}), *labels}]
            if place in there and alone:
                lines.append(f"only in {one.name} {' '.join(place)}: {', '.join(alone)}")
    for place in _everything(before):
        if after.of(place) and _does(before, place) != _does(after, place):
            lines.append(f"{' '.join(place)} does something else: {_shown(before, place)}; now {_shown(after, place)}")
    return lines


def _everything(side: Side) -> dict[Place, dict[str, None]]:
    """The labels of each benchmark, both in their order."""
    places = dict.fromkeys(place for one in side.extracts for place in one.measured)
    return {place: _labels(side, place) for place in places}


def _shown(side: Side, place: Place) -> str:
    return " or ".join(sorted(_does(side, place)))
