"""Values and profiles of an experiment -> figures beside the baseline's, with the experiment's own noise in view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median

from interlock.details import DetailFigure, details_of
from interlock.model import (
    TWIN,
    Benchmark,
    BenchmarkProfile,
    BenchmarkValues,
    CellResult,
    Experiment,
    Gil,
    Outcome,
    Profiles,
    State,
    Values,
    Workload,
    label_of,
)
from interlock.statistics import Interval, Ratio, by_round, geometric_means, holm_within, ratio_of, ratios_over

# Workload and benchmark: what has a table of its own.
Place = tuple[str, str]
# Workload, benchmark, label, and the label that it is compared with.
Pair = tuple[str, str, str, str]

# One table in a hundred calls equals different: at 5 % it would be one in twenty.
SIGNIFICANT = 0.01
SLOWER, FASTER, SAME = "slower", "faster", "no difference"


@dataclass(frozen=True)
class Comparison:
    """A variant beside another in one benchmark: the ratio, and what it has to pass to be called a difference."""

    other: str
    by_round: tuple[float, ...]
    ratio: Ratio
    p: float  # adjusted for all ratios of the table
    band: float  # what equal images showed: 1.05 is 5 % slower or faster

    @property
    def verdict(self) -> str:
        """'slower', 'faster' or, unless p, interval and band all speak against it, 'no difference'."""
        ratio = self.ratio
        apart = not ratio.low <= 1 <= ratio.high and max(ratio.estimate, 1 / ratio.estimate) > self.band
        if self.p >= SIGNIFICANT or not apart:
            return SAME
        return SLOWER if ratio.estimate > 1 else FASTER


@dataclass(frozen=True)
class Row:
    """One variant (in one mode), or one limit, in one benchmark. Times are seconds per unit of work."""

    label: str
    outcome: Outcome
    seconds: float | None
    spread: float | None
    to_baseline: Comparison | None
    to_control: Comparison | None
    profile: BenchmarkProfile | None
    max_rss_bytes: int | None
    notes: tuple[str, ...]
    medians: tuple[float, ...] = ()  # one for each process, in the order of the rounds
    details: tuple[DetailFigure | None, ...] = ()  # in the order of the benchmark's
    share: Interval | None = None  # of what the best limit does in the same time


@dataclass(frozen=True)
class Table:
    """One benchmark of one workload over all variants."""

    workload: Workload
    benchmark: Benchmark
    baseline: str
    rounds: int
    twin: Ratio | None
    rows: tuple[Row, ...]
    limits: tuple[Row, ...] = ()

    @property
    def best_limit(self) -> Row | None:
        """The one that takes the least time; none if none has a figure."""
        return min((row for row in self.limits if row.seconds), key=lambda row: row.seconds or 0, default=None)


@dataclass(frozen=True)
class Summary:
    """One variant (in one mode) beside the baseline over all benchmarks that rank, those without a ratio as missing."""

    label: str
    ratio: Interval | None
    slower: int
    faster: int
    same: int
    missing: int


@dataclass(frozen=True)
class _Recorded:
    """What an experiment's files hold."""

    experiment: Experiment
    values: Values
    profiles: Profiles

    def of(self, label: str, workload: str, benchmark: str) -> BenchmarkValues | None:
        return self.values.get((label, workload), {}).get(benchmark)

    @cached_property
    def medians(self) -> dict[tuple[str, str, str], list[float]]:
        """One figure for each process, by workload, benchmark and label."""
        return {
            (workload, benchmark, label): one.medians
            for (label, workload), cell in self.values.items()
            for benchmark, one in cell.items()
        }

    def by_round(self, pair: Pair) -> list[float]:
        workload, benchmark, label, other = pair
        mine, theirs = (self.medians.get((workload, benchmark, one), []) for one in (label, other))
        return by_round(mine, theirs)


@dataclass(frozen=True)
class _Compared:
    """All ratios of an experiment."""

    comparisons: Mapping[Pair, Comparison]
    twins: Mapping[Place, Ratio]


def spread_of(medians: Sequence[float]) -> float:
    """Half the range of the processes' medians, as a share of their median."""
    return (max(medians) - min(medians)) / 2 / median(medians)


def band_of(twin: Interval | None) -> float:
    """How far from 1, in either direction, equal images seemed to be: noise has no direction."""
    return 1.0 if twin is None else max(twin.estimate, 1 / twin.estimate)


def tables(experiment: Experiment, values: Values, profiles: Profiles) -> list[Table]:
    """A table for each benchmark, in the order of the experiment."""
    recorded = _Recorded(experiment, values, profiles)
    compared = _compared(recorded)
    return [
        _table(recorded, workload, benchmark, compared)
        for name in experiment.settings.workloads
        for workload in [experiment.workloads[name]]
        for benchmark in workload.benchmarks
    ]


def _compared(recorded: _Recorded) -> _Compared:
    """Every ratio of the report; a control that is the baseline makes one comparison, not two."""
    pairs, twins = _pairs(recorded.experiment), _twins(recorded.experiment)
    rounds = {pair: ratios for pair in [*pairs, *twins] if (ratios := recorded.by_round(pair))}
    found = dict(zip(rounds, ratios_over(list(rounds.values())), strict=True))
    shown = {pair[:2]: found[pair] for pair in twins if pair in found}
    adjusted = holm_within({pair: (pair[:2], found[pair].p) for pair in pairs if pair in found})
    comparisons = {
        pair: Comparison(pair[3], tuple(rounds[pair]), found[pair], p, band_of(shown.get(pair[:2])))
        for pair, p in adjusted.items()
    }
    return _Compared(comparisons, shown)


def _twins(experiment: Experiment) -> list[Pair]:
    baseline = experiment.settings.baseline
    places = {(workload.name, one.name) for workload in experiment.workloads.values() for one in workload.benchmarks}
    return [(*place, label_of(baseline, TWIN), baseline) for place in sorted(places)]


def _pairs(experiment: Experiment) -> list[Pair]:
    return [
        (cell.workload, benchmark.name, cell.label, other)
        for cell in experiment.cells
        if cell.mode != TWIN
        for benchmark in experiment.workloads[cell.workload].benchmarks
        for other in (experiment.settings.baseline, _control_of(experiment, cell))
        if other not in {None, cell.label}
    ]


def _control_of(experiment: Experiment, cell: CellResult) -> str | None:
    """A mode differs from its variant in the mode alone."""
    return cell.variant if cell.mode else experiment.controls.get(cell.variant)


def _table(recorded: _Recorded, workload: Workload, benchmark: Benchmark, compared: _Compared) -> Table:
    place = (workload.name, benchmark.name)
    cells = [cell for cell in recorded.experiment.cells if cell.workload == workload.name and cell.mode != TWIN]
    names = [limit.name for limit in workload.limits_of(benchmark.name)]
    limits = [
        _row(recorded, cell, benchmark, compared)
        for cell in recorded.experiment.limits
        if cell.workload == workload.name and cell.mode in names
    ]
    table = Table(
        workload=workload,
        benchmark=benchmark,
        baseline=recorded.experiment.settings.baseline,
        rounds=max((len(recorded.medians.get((*place, cell.label), [])) for cell in cells), default=0),
        twin=compared.twins.get(place),
        rows=tuple(_row(recorded, cell, benchmark, compared) for cell in cells),
        limits=tuple(limits),
    )
    return _with_shares(recorded, table)


def _with_shares(recorded: _Recorded, table: Table) -> Table:
    """Each row beside the best limit, paired by round."""
    best = table.best_limit
    if best is None:
        return table
    place = (table.workload.name, table.benchmark.name)

    def share(row: Row) -> Row:
        theirs, mine = (recorded.medians.get((*place, label), []) for label in (best.label, row.label))
        return replace(row, share=ratio_of(theirs, mine))

    return replace(table, rows=tuple(map(share, table.rows)), limits=tuple(map(share, table.limits)))


def _row(recorded: _Recorded, cell: CellResult, asked: Benchmark, compared: _Compared) -> Row:
    benchmark = asked.name
    experiment, place = recorded.experiment, (cell.workload, benchmark, cell.label)
    mine = recorded.of(cell.label, cell.workload, benchmark)
    profile = recorded.profiles.get((cell.label, cell.workload), {}).get(benchmark)
    medians = recorded.medians.get(place)
    control = _control_of(experiment, cell)
    return Row(
        label=cell.label,
        outcome=cell.benchmarks.get(benchmark, cell.outcome),
        seconds=median(medians) if medians else None,
        spread=spread_of(medians) if medians else None,
        to_baseline=compared.comparisons.get((*place, experiment.settings.baseline)),
        to_control=compared.comparisons.get((*place, control)) if control else None,
        profile=profile,
        max_rss_bytes=mine.max_rss_bytes if mine else None,
        notes=_notes(experiment, cell, mine),
        details=details_of(experiment.workloads[cell.workload], asked, mine),
        medians=tuple(medians or ()),
    )


def _notes(experiment: Experiment, cell: CellResult, mine: BenchmarkValues | None) -> tuple[str, ...]:
    """What a reader must know beside the figure: above all a GIL that came back during the work."""
    facts = experiment.facts.get(cell.label)
    notes = []
    if facts and mine and mine.gil_after is not None and Gil.OFF in {facts.gil, mine.gil_after}:
        notes.append(
            "GIL off before and after"
            if mine.gil_after == facts.gil
            else f"GIL {facts.gil.value} at start, {mine.gil_after.value} after the work"
        )
    if cell.profile and cell.profile.state is not State.OK:
        notes.append("no profile")
    return (*notes, *cell.notes)


def summaries(experiment: Experiment, tables: Sequence[Table]) -> list[Summary]:
    """One for each variant and mode but the baseline, in the order of the experiment; of benchmarks that rank."""
    baseline = experiment.settings.baseline
    labels = dict.fromkeys(cell.label for cell in experiment.cells if cell.mode != TWIN and cell.label != baseline)
    found: dict[str, list[tuple[str, Comparison]]] = {label: [] for label in labels}
    ranking = [table for table in tables if table.benchmark.ranks]
    for table in ranking:
        for row in table.rows:
            if row.to_baseline:
                found[row.label].append((table.workload.name, row.to_baseline))
    ratios = geometric_means([_by_workload(one) for one in found.values()])
    return [_summary(label, ratio, found[label], len(ranking)) for label, ratio in zip(found, ratios, strict=True)]


def _by_workload(compared: Sequence[tuple[str, Comparison]]) -> list[list[tuple[float, ...]]]:
    """The ratios by round of the benchmarks that have one; each workload has the same weight."""
    groups: dict[str, list[tuple[float, ...]]] = {}
    for workload, comparison in compared:
        groups.setdefault(workload, []).append(comparison.by_round)
    return list(groups.values())


def _summary(
    label: str, ratio: Interval | None, compared: Sequence[tuple[str, Comparison]], benchmarks: int
) -> Summary:
    verdicts = Counter(comparison.verdict for _, comparison in compared)
    missing = benchmarks - verdicts.total()
    return Summary(label, ratio, verdicts[SLOWER], verdicts[FASTER], verdicts[SAME], missing)
