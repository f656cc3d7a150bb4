"""Values and profiles of an experiment -> figures beside the baseline's, with the experiment's own noise in view."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.model import (
    TWIN,
    Benchmark,
    BenchmarkProfile,
    BenchmarkValues,
    CellResult,
    Experiment,
    Gil,
    Outcome,
    State,
    Workload,
    label_of,
)

CellKey = tuple[str, str]
Values = Mapping[CellKey, Mapping[str, BenchmarkValues]]
Profiles = Mapping[CellKey, Mapping[str, BenchmarkProfile]]


@dataclass(frozen=True)
class Ratio:
    """Time per unit of work divided by another's, round by round: the median, and the range over the rounds."""

    median: float
    low: float
    high: float

    def apart_from(self, noise: Ratio | None) -> bool:
        """Whether no round's ratio lies inside what equal images showed, in whichever direction they showed it."""
        width = max(noise.high, 1 / noise.low, 1.0) if noise else 1.0
        return self.low > width or self.high < 1 / width


@dataclass(frozen=True)
class Row:
    """One variant in one benchmark. Times are seconds per unit of work."""

    label: str
    outcome: Outcome
    seconds: float | None = None
    spread: float | None = None
    ratio: Ratio | None = None
    differs: bool = False
    control: str | None = None
    control_ratio: Ratio | None = None
    control_differs: bool = False
    calls_per_unit: float | None = None
    max_rss_bytes: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """One benchmark of one workload over all variants."""

    workload: Workload
    benchmark: Benchmark
    baseline: str
    noise: Ratio | None
    rows: tuple[Row, ...]


def process_medians(values: BenchmarkValues) -> list[float]:
    """One figure for each process: values within a process are not independent of each other."""
    return [statistics.median(process) for process in values.processes]


def ratio_of(values: BenchmarkValues, other: BenchmarkValues) -> Ratio | None:
    """Paired by round, because what disturbs a round disturbs all that ran in it."""
    pairs = list(zip(process_medians(values), process_medians(other), strict=False))
    if not pairs:
        return None
    ratios = [mine / theirs for mine, theirs in pairs]
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def spread_of(values: BenchmarkValues) -> float:
    """Half the range of the processes' medians, as a share of their median."""
    medians = process_medians(values)
    return (max(medians) - min(medians)) / 2 / statistics.median(medians)


def tables(experiment: Experiment, values: Values, profiles: Profiles) -> list[Table]:
    """A table for each benchmark, in the order of the experiment."""
    return [
        _table(experiment, workload, benchmark, values, profiles)
        for name in experiment.settings.workloads
        for workload in [experiment.workloads[name]]
        for benchmark in workload.benchmarks
    ]


def _table(
    experiment: Experiment, workload: Workload, benchmark: Benchmark, values: Values, profiles: Profiles
) -> Table:
    baseline = experiment.settings.baseline

    def of(label: str) -> BenchmarkValues | None:
        return values.get((label, workload.name), {}).get(benchmark.name)

    twin, base = of(label_of(baseline, TWIN)), of(baseline)
    noise = ratio_of(twin, base) if twin and base else None
    cells = [cell for cell in experiment.cells if cell.workload == workload.name and cell.mode != TWIN]
    rows = []
    for cell in cells:
        mine, control = of(cell.variant), experiment.controls.get(cell.variant)
        theirs = of(control) if control else None
        profile = profiles.get((cell.variant, workload.name), {}).get(benchmark.name)
        row = Row(
            label=cell.variant,
            outcome=cell.benchmarks.get(benchmark.name, cell.outcome),
            control=control,
            calls_per_unit=profile.futex_per_unit if profile else None,
            notes=_notes(experiment, cell, mine),
        )
        rows.append(_with_values(row, mine, base, theirs, noise) if mine else row)
    return Table(workload, benchmark, baseline, noise, tuple(rows))


def _with_values(
    row: Row,
    mine: BenchmarkValues,
    base: BenchmarkValues | None,
    theirs: BenchmarkValues | None,
    noise: Ratio | None,
) -> Row:
    ratio = ratio_of(mine, base) if base and base is not mine else None
    control_ratio = ratio_of(mine, theirs) if theirs else None
    return Row(
        **{
            **vars(row),
            "seconds": statistics.median(process_medians(mine)),
            "spread": spread_of(mine),
            "ratio": ratio,
            "differs": ratio is not None and ratio.apart_from(noise),
            "control_ratio": control_ratio,
            "control_differs": control_ratio is not None and control_ratio.apart_from(noise),
            "max_rss_bytes": mine.max_rss_bytes,
        }
    )


def _notes(experiment: Experiment, cell: CellResult, mine: BenchmarkValues | None) -> tuple[str, ...]:
    """What a reader must know beside the figure: above all a GIL that came back during the work."""
    facts = experiment.facts.get(cell.variant)
    notes = []
    if facts and mine and mine.gil_after is not None and Gil.OFF in {facts.gil, mine.gil_after}:
        notes.append(
            "GIL off before and after"
            if mine.gil_after == facts.gil
            else f"GIL {facts.gil.value} at start, {mine.gil_after.value} after the work"
        )
    if cell.profile and cell.profile.state is not State.OK:
        notes.append("no profile")
    return tuple(notes)


def skipped(experiment: Experiment) -> list[str]:
    """A line for each thing that has no figure, and why; benchmarks with the same reason share one."""
    missing = [image for image in experiment.images if image.outcome.state is not State.OK]
    lines = [f"{image.variant}: {image.outcome.state.value}: {image.outcome.reason}" for image in missing]
    without_image = {image.variant for image in missing}
    originals = {(cell.variant, cell.workload): cell.outcome for cell in experiment.cells if cell.mode is None}
    for cell in experiment.cells:
        # What the twin shares with the baseline is said once; a twin that failed alone leaves no noise to compare with.
        repeated = cell.mode is not None and cell.outcome == originals.get((cell.variant, cell.workload))
        if cell.variant not in without_image and not repeated:
            lines += _skipped_in(cell)
    return lines


def _skipped_in(cell: CellResult) -> list[str]:
    by_outcome: dict[Outcome, list[str]] = {}
    for name, outcome in (cell.benchmarks or {"all": cell.outcome}).items():
        if outcome.state is not State.OK:
            by_outcome.setdefault(outcome, []).append(name)
    where = f"{cell.label} / {cell.workload}"
    lines = [
        f"{where} / {', '.join(names)}: {outcome.state.value}: {outcome.reason}"
        for outcome, names in by_outcome.items()
    ]
    if cell.profile and cell.profile.state is not State.OK:
        lines.append(f"{where}: no profile: {cell.profile.reason}")
    return lines


def failures(cells: Sequence[CellResult]) -> list[CellResult]:
    """Cells that failed: what is unsupported, unavailable or timed out is a result, a failure is not."""
    return [cell for cell in cells if cell.outcome.state is State.FAILED]
