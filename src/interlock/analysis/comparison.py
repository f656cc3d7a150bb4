"""Values and profiles of an experiment -> the tables of a report, each figure with the noise of its experiment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from interlock.analysis.pairing import compared_figures
from interlock.analysis.statistics import Interval, Ratio, mean_by_group, ratio_of, relative_error
from interlock.analysis.verdicts import Comparison, Pair, Verdict, compare_rows
from interlock.catalog.services import cpus_in
from interlock.catalog.types import LIMIT, TWIN, label_of, split_label
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Benchmark, Detail, Workload
from interlock.results.experiments import (
    TOO_DISTURBED,
    BenchmarkValues,
    Built,
    CellResult,
    Experiment,
    Outcome,
    Profiles,
    State,
    Values,
)
from interlock.results.profiles import BenchmarkProfile

# (workload, benchmark): each has a table of its own.
BenchmarkKey = tuple[str, str]


@dataclass(frozen=True)
class Contents:
    """What the files of an experiment hold."""

    experiment: Experiment
    values: Values
    profiles: Profiles

    def values_of(self, label: str, workload: str, benchmark: str) -> BenchmarkValues | None:
        """Return the values of a row in one benchmark; None if it has none."""
        return self.values.get((label, workload), {}).get(benchmark)


@dataclass(frozen=True)
class DetailFigure:
    """The figures of one detail in one cell, one for each process."""

    detail: Detail
    processes: tuple[float, ...]
    blocks: tuple[int, ...]  # of each process

    @property
    def value(self) -> float:
        return median(self.processes)

    @property
    def error(self) -> float | None:
        """Return the standard error of the figure as a share of it; None if there is one process."""
        return relative_error(self.processes)

    @property
    def high(self) -> float:
        return max(self.processes)


def details_of(
    workload: Workload, benchmark: Benchmark, measured: BenchmarkValues | None
) -> tuple[DetailFigure | None, ...]:
    """Return a figure for each detail of the benchmark; None where its processes did not report it."""
    return tuple(_figure(detail, measured) for detail in workload.details_of(benchmark))


def _figure(detail: Detail, measured: BenchmarkValues | None) -> DetailFigure | None:
    reported = measured.reported.get(detail.of) if measured else None
    if not measured or not reported:
        return None
    counts = zip(reported, measured.processes, measured.units, strict=True)
    shown = tuple(detail.shown(count, len(values), units) for count, values, units in counts)
    return DetailFigure(detail, shown, tuple(measured.blocks))


@dataclass(frozen=True)
class Row:
    """One label (a variant in a mode, or a limit) in one benchmark. Times are in seconds per unit of work."""

    label: str
    outcome: Outcome
    seconds: float | None
    error: float | None  # the standard error of the figure, as a share of it; None of one round
    to_baseline: Comparison | None
    to_control: Comparison | None
    profile: BenchmarkProfile | None
    max_rss_bytes: int | None
    notes: tuple[str, ...]
    figures: tuple[float, ...] = ()  # of each block, in their order
    blocks: tuple[int, ...] = ()  # the numbers of these blocks
    details: tuple[DetailFigure | None, ...] = ()  # in the order of the benchmark's own
    share: Interval | None = None  # throughput divided by the best limit's
    built_otherwise: str = ""  # what optimised its interpreter and what the baseline's, if not the same


@dataclass(frozen=True)
class Table:
    """All variants in one benchmark of one workload."""

    workload: Workload
    benchmark: Benchmark
    baseline: str
    rounds: int
    cores: int  # that its processes may use: those of the machine, of a user's service its own
    twin: Ratio | None
    rows: tuple[Row, ...]
    limits: tuple[Row, ...] = ()

    @property
    def best_limit(self) -> Row | None:
        """Return the limit that takes the least time; None if none has a figure."""
        return min((row for row in self.limits if row.seconds), key=lambda row: row.seconds or 0, default=None)


@dataclass(frozen=True)
class Summary:
    """One label compared with the baseline over all benchmarks that rank; `missing` counts those without a ratio."""

    label: str
    ratio: Interval | None
    verdicts: Counter[Verdict]
    missing: int
    built_otherwise: bool  # than the baseline, which the ratio includes


def tables(experiment: Experiment, values: Values, profiles: Profiles) -> list[Table]:
    """Return a table for each benchmark, in the order of the experiment."""
    contents = Contents(experiment, values, profiles)
    workloads = [experiment.workloads[name] for name in experiment.settings.workloads]
    return [_table(contents, workload, benchmark) for workload in workloads for benchmark in workload.benchmarks]


def warnings_of(experiment: Experiment, workload: str) -> list[str]:
    """Return an experiment's warnings of one workload, without its name."""
    mine = f"{workload}: "
    return [warning.removeprefix(mine) for warning in experiment.warnings if warning.startswith(mine)]


def too_disturbed_by(experiment: Experiment, workload: str) -> list[str]:
    """Return what took so much while a workload was measured that its figures decide nothing."""
    said = (warning.partition(TOO_DISTURBED) for warning in warnings_of(experiment, workload))
    return [what.rstrip(", ") for what, too_much, _ in said if too_much]


def is_too_disturbed(experiment: Experiment, workload: str) -> bool:
    """Return whether the figures of a workload decide nothing."""
    return bool(too_disturbed_by(experiment, workload))


def fitted_rows(values: Values, workload: str, benchmark: str) -> dict[str, BenchmarkValues]:
    """Return the rows that a table is fitted by, by label.

    A limit is none of them: it runs no interpreter, and its noise would widen the intervals of those that do.
    """
    return {
        label: cell[benchmark]
        for (label, of), cell in values.items()
        if of == workload and benchmark in cell and split_label(label)[0] != LIMIT
    }


def compared_pairs(labels: Collection[str], baseline: str, controls: Mapping[str, str]) -> list[Pair]:
    """Return what is compared in a table: each label with the baseline and its control, the twin with none.

    `controls` are by variant. What failed in a later round is none of the labels: what it did before says nothing of
    what it does. It has no verdict and is in no family, but its rounds help to fit the others.
    """
    pairs = [
        (label, other)
        for label in labels
        if label != label_of(baseline, TWIN)
        for other in (baseline, control_of(label, controls))
        if other and other != label and other in labels
    ]
    return list(dict.fromkeys(pairs))


def control_of(label: str, controls: Mapping[str, str]) -> str | None:
    """Return the label of a row's control; that of a mode is its plain variant."""
    variant, mode = split_label(label)
    return variant if mode else controls.get(variant)


def _table(contents: Contents, workload: Workload, benchmark: Benchmark) -> Table:
    experiment = contents.experiment
    baseline = experiment.settings.baseline
    figures = compared_figures(fitted_rows(contents.values, workload.name, benchmark.name))
    names = [limit.name for limit in workload.limits_of(benchmark.name)]
    cells = [cell for cell in experiment.cells if cell.workload == workload.name and cell.mode != TWIN]
    limits = [cell for cell in experiment.limits if cell.workload == workload.name and cell.mode in names]
    failed = {cell.label for cell in cells if cell.outcome_of(benchmark.name).state is not State.OK}
    pairs = compared_pairs([label for label in figures if label not in failed], baseline, experiment.controls)
    end, disturbed = experiment.rounds_end(workload.name), is_too_disturbed(experiment, workload.name)
    found = compare_rows(figures, pairs, baseline, end=end, margin=workload.margin)
    compared = {pair: replace(comparison, is_disturbed=disturbed) for pair, comparison in found.items()}
    rows = tuple(_row(contents, cell, benchmark, compared) for cell in cells)
    table = Table(
        workload=workload,
        benchmark=benchmark,
        baseline=baseline,
        cores=_cpus_of(experiment, workload),
        rounds=max((len(row.figures) for row in rows), default=0),
        twin=ratio_of(figures.get(label_of(baseline, TWIN), []), figures.get(baseline, [])),
        rows=rows,
        limits=tuple(_row(contents, cell, benchmark, compared) for cell in limits),
    )
    return _with_shares(table)


def _cpus_of(experiment: Experiment, workload: Workload) -> int:
    """Return how many CPUs what is measured may use: those of the machine, of a user's service those that it has."""
    of_trial = experiment.trial.service_cpus if experiment.trial else ""
    return cpus_in(workload.of_user.cpus or of_trial, experiment.host["cores"])


def _with_shares(table: Table) -> Table:
    """Return the table with each row's share of the best limit, paired by round: a row may have joined later."""
    best = table.best_limit
    if best is None:
        return table
    theirs = _by_number(best)

    def share(row: Row) -> Row:
        mine = _by_number(row)
        both = [number for number in mine if number in theirs]
        return replace(row, share=ratio_of([theirs[each] for each in both], [mine[each] for each in both]))

    return replace(table, rows=tuple(map(share, table.rows)), limits=tuple(map(share, table.limits)))


def _by_number(row: Row) -> dict[int, float]:
    """Return a row's figures by the numbers of their blocks."""
    return dict(zip(row.blocks, row.figures, strict=True))


def _row(contents: Contents, cell: CellResult, benchmark: Benchmark, compared: Mapping[Pair, Comparison]) -> Row:
    experiment, label = contents.experiment, cell.label
    baseline, control = experiment.settings.baseline, control_of(label, experiment.controls)
    mine = contents.values_of(label, cell.workload, benchmark.name)
    figures = mine.figures if mine else []
    otherwise = built_otherwise(experiment.images, label, baseline) if mine else ""
    return Row(
        label=label,
        outcome=cell.outcome_of(benchmark.name),
        seconds=median(figures) if figures else None,
        error=relative_error(figures) if figures else None,
        to_baseline=compared.get((label, baseline)),
        to_control=compared.get((label, control)) if control else None,
        profile=contents.profiles.get((label, cell.workload), {}).get(benchmark.name),
        max_rss_bytes=mine.max_rss_bytes if mine else None,
        notes=_notes(experiment, cell, mine, otherwise),
        details=details_of(experiment.workloads[cell.workload], benchmark, mine),
        figures=tuple(figures),
        blocks=tuple(dict.fromkeys(mine.blocks)) if mine else (),
        built_otherwise=otherwise,
    )


def _notes(experiment: Experiment, cell: CellResult, mine: BenchmarkValues | None, otherwise: str) -> tuple[str, ...]:
    """Return remarks on a cell, above all that the GIL came back on during the work."""
    facts = experiment.facts.get(cell.label)
    notes = [f"built otherwise: {otherwise}"] if otherwise else []
    if facts and mine and mine.gil_after is not None and Gil.OFF in {facts.gil, mine.gil_after}:
        notes.append(
            "GIL off before and after"
            if mine.gil_after == facts.gil
            else f"GIL {facts.gil.value} at start, {mine.gil_after.value} after the work"
        )
    if cell.profile and cell.profile.state is not State.OK:
        notes.append("no profile")
    return (*notes, *cell.notes)


def built_otherwise(images: Iterable[Built], label: str, other: str) -> str:
    """Return what optimised two rows' interpreters, if not the same; empty if alike. The -O option does not count."""
    known = {image.variant: image.optimisations for image in images}
    return other_optimisation(known.get(split_label(label)[0]), known.get(split_label(other)[0]))


def other_optimisation(mine: Sequence[str] | None, theirs: Sequence[str] | None) -> str:
    """Return what optimised one and what the other, if not the same; what is unknown counts as the same."""
    if mine is None or theirs is None or list(mine) == list(theirs):
        return ""
    return f"{optimisation_text(mine)} instead of {optimisation_text(theirs)}"


def optimisation_text(names: Sequence[str] | None) -> str:
    """Return what optimised an interpreter besides -O, in words."""
    return "PGO and LTO unknown" if names is None else " and ".join(names) or "neither PGO nor LTO"


def baseline_optimisation(experiment: Experiment) -> str:
    """Return what optimised the baseline's interpreter, in words."""
    name = split_label(experiment.settings.baseline)[0]
    known = (image.optimisations for image in experiment.images if image.variant == name)
    return optimisation_text(next(known, None))


def summaries(experiment: Experiment, tables: Sequence[Table]) -> list[Summary]:
    """Return a summary of each variant and mode but the baseline, in the order of the experiment.

    Each workload has the same weight in the mean.
    """
    baseline = experiment.settings.baseline
    labels = dict.fromkeys(cell.label for cell in experiment.cells if cell.mode != TWIN and cell.label != baseline)
    compared: dict[str, list[tuple[str, Comparison]]] = {label: [] for label in labels}
    otherwise = {row.label for table in tables for row in table.rows if row.built_otherwise}
    ranking = counting_tables(experiment, tables)
    for table in ranking:
        for row in table.rows:
            if row.to_baseline:
                compared[row.label].append((table.workload.name, row.to_baseline))
    means = []
    for label, comparisons in compared.items():
        groups: dict[str, list[Ratio]] = {}
        for workload, comparison in comparisons:
            groups.setdefault(workload, []).append(comparison.ratio)
        verdicts, mean = Counter(comparison.verdict for _, comparison in comparisons), mean_by_group(groups.values())
        means.append(Summary(label, mean, verdicts, len(ranking) - verdicts.total(), label in otherwise))
    return means


def counting_tables(experiment: Experiment, tables: Sequence[Table]) -> list[Table]:
    """Return the tables of the benchmarks that count on as many CPUs as the experiment's machine has."""
    counting = {
        (name, benchmark.name)
        for name, workload in experiment.workloads.items()
        if not is_too_disturbed(experiment, name)
        for benchmark in counted(workload.benchmarks, experiment.host["cores"])
    }
    return [table for table in tables if (table.workload.name, table.benchmark.name) in counting]


def counted(benchmarks: Sequence[Benchmark], cpus: int) -> list[Benchmark]:
    """Return the benchmarks that count for a program with this many CPUs, one of each curve.

    Of a curve it is the one with as many workers as CPUs: the fewest workers that use all CPUs, else the most. If
    workers wait, which takes no CPU, it is the one with the most. With several CPUs, benchmarks for one CPU count if
    there are none for more.
    """
    fits = {"any", "one"} if cpus == 1 else {"any", "more"}
    counting = [benchmark for benchmark in benchmarks if benchmark.counts_for in fits]
    counting = counting or [benchmark for benchmark in benchmarks if benchmark.counts_for == "one"]
    curves: dict[str, list[Benchmark]] = {}
    for benchmark in counting:
        if benchmark.scaling:
            curves.setdefault(benchmark.scaling.name, []).append(benchmark)
    chosen = {name: _of_curve(group, cpus) for name, group in curves.items()}
    return [
        benchmark for benchmark in counting if benchmark.scaling is None or chosen[benchmark.scaling.name] is benchmark
    ]


def _of_curve(group: Sequence[Benchmark], cpus: int) -> Benchmark | None:
    scalings = [(benchmark, benchmark.scaling) for benchmark in group if benchmark.scaling]
    by_workers = {scaling.workers: benchmark for benchmark, scaling in scalings}
    most = max(by_workers)
    if any(scaling.wait for _, scaling in scalings):
        return by_workers[most]
    if cpus == 1:  # more workers have more CPUs than one
        return by_workers.get(1)
    return by_workers[min((workers for workers in by_workers if workers >= cpus), default=most)]
