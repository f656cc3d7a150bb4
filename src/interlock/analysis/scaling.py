"""Throughput by number of workers: the curve of each variant, and the Universal Scalability Law fitted to it.

Gunther, Guerrilla Capacity Planning (Springer 2007), chapters 4 to 6: N workers do

    X(N) = rate N / (1 + contention (N - 1) + coherence N (N - 1))

units of work in a second. Contention is the share of the work that only one worker can do at a time; coherence is what
each pair of workers costs to keep each other's data up to date, and makes throughput fall after a peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock.analysis.comparison import Row, Table
from interlock.analysis.statistics import Interval, ratio_over
from interlock.catalog.workloads import Benchmark, Workload
from interlock.errors import LazyModule
from interlock.results.experiments import Experiment

if TYPE_CHECKING:
    import numpy as np
    import scipy

    from interlock.analysis.statistics import Floats
else:
    np, scipy = LazyModule("numpy", "measure"), LazyModule("scipy", "measure")

# With fewer numbers of workers than terms the coherence cannot be known.
FOR_COHERENCE = 3
# A term below this share of the largest is the rounding of doubles.
ROUNDING = 1e-12
RESAMPLES = 1_999
# The share of the rounds that is cut from each end.
TRIMMED = 1 / 6
# A report that is made again has the same figures.
SEED = 2015


# Throughputs by number of workers, one for each round.
ThroughputsByWorkers = Mapping[int, Sequence[float]]


@dataclass(frozen=True)
class Fit:
    """The law's three terms, the number of workers with the highest throughput, and remarks.

    One round leaves intervals open. Coherence is None if it cannot be told from contention; without a peak
    `peak_workers` is infinite.
    """

    rate: Interval  # units of work in a second by one worker
    contention: Interval
    coherence: Interval | None
    peak_workers: Interval
    remarks: tuple[str, ...] = field(default=())

    def throughput(self, workers: float) -> float:
        coherence = self.coherence.estimate if self.coherence else 0.0
        slowed = 1 + self.contention.estimate * (workers - 1) + coherence * workers * (workers - 1)
        return self.rate.estimate * workers / slowed


def fit_law(throughputs: ThroughputsByWorkers) -> Fit | None:
    """Fit the law to throughputs by number of workers, one for each round; None with fewer than two numbers of workers.

    The rounds that all numbers of workers have are resampled together, since what disturbs a round disturbs all of
    them. The trimmed geometric mean over the rounds is fitted.
    """
    known = {workers: some for workers, some in sorted(throughputs.items()) if some}
    if len(known) < 2:
        return None
    rounds = min(map(len, known.values()))
    workers = np.array(list(known), dtype=np.float64)
    logs = _trimmed(np.log([some[:rounds] for some in known.values()]))
    best = _terms(workers, np.exp(logs.mean(axis=1, keepdims=True)))[:, 0]
    if rounds == 1:
        bounds = np.array([[0.0, math.inf]] * 4)
    else:
        resampled = _terms(workers, np.exp(_resampled_means(logs)))
        tail = (1 - _expanded_level(rounds)) / 2
        bounds = np.quantile(resampled, [tail, 1 - tail], axis=1, method="closest_observation").T
    rate, contention, coherence, peak = (
        Interval(float(one), float(low), float(high)) for one, (low, high) in zip(best, bounds, strict=True)
    )
    known_coherence = coherence if len(known) >= FOR_COHERENCE else None
    return Fit(rate, contention, known_coherence, peak, tuple(_remarks(contention, known_coherence, peak)))


def predicted_ratios(
    mine: ThroughputsByWorkers, theirs: ThroughputsByWorkers, workers: Sequence[int]
) -> dict[int, Interval]:
    """Return the throughput that the law predicts of `mine` divided by that of `theirs`, with its 95 % interval.

    Nothing if one of them has fewer than two numbers of workers, or one round. Both are resampled by the same rounds.
    """
    rounds = min((len(some) for one in (mine, theirs) for some in one.values()), default=0)
    if min(len(mine), len(theirs)) < 2 or rounds < 2:
        return {}
    best, resampled = (
        _predicted(mine, rounds, workers, resample) - _predicted(theirs, rounds, workers, resample)
        for resample in (False, True)
    )
    tail = (1 - _expanded_level(rounds)) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], axis=1, method="closest_observation")
    bounds = np.exp(np.stack([best[:, 0], low, high], axis=1))
    return {count: Interval(*map(float, one)) for count, one in zip(workers, bounds, strict=True)}


def _predicted(throughputs: ThroughputsByWorkers, rounds: int, workers: Sequence[int], resample: bool) -> Floats:
    """Return logarithms of the law's throughput, a row for each number of workers: of the mean or of each resample."""
    known = sorted(throughputs.items())
    logs = _trimmed(np.log([some[:rounds] for _, some in known]))
    means = _resampled_means(logs) if resample else logs.mean(axis=1, keepdims=True)
    rate, contention, coherence, _ = _terms(np.array([one for one, _ in known], dtype=np.float64), np.exp(means))
    wanted = np.array(workers, dtype=np.float64)[:, None]
    slowed = 1 + contention * (wanted - 1) + coherence * wanted * (wanted - 1)
    return np.asarray(np.log(rate * wanted / slowed))


def _trimmed(logs: Floats) -> Floats:
    """Return numbers, a row for each row, with the trimmed mean as mean and its uncertainty as spread.

    Up to a sixth of the rounds, rounded down, is cut from each end. The numbers are that mean and, added to it, each
    round's distance in the Winsorised sample, stretched so that their variance is that of the trimmed mean (Yuen, The
    Two-Sample Trimmed t for Unequal Population Variances, Biometrika 61, 1974).
    """
    size, cut = logs.shape[1], int(TRIMMED * logs.shape[1])
    if not cut:
        return logs
    kept = np.sort(logs, axis=1)[:, cut : size - cut]
    winsorised = np.clip(logs, kept[:, :1], kept[:, -1:])
    stretch = math.sqrt(size * (size - 1) / (kept.shape[1] * (kept.shape[1] - 1)))
    return np.asarray(
        kept.mean(axis=1, keepdims=True) + (winsorised - winsorised.mean(axis=1, keepdims=True)) * stretch
    )


def _resampled_means(logs: Floats) -> Floats:
    """Return each row's means in resamples of the rounds; all rows are resampled by the same rounds."""
    rounds = logs.shape[1]
    drawn = np.random.default_rng(SEED).integers(0, rounds, (RESAMPLES, rounds))
    return np.asarray(logs[:, drawn].mean(axis=2))


def _expanded_level(size: int) -> float:
    """Return the level at which a percentile interval of `size` values covers 95 %.

    A bootstrap of n values has (n - 1)/n of the variance, and a small sample needs the t distribution's quantile:
    Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician 69:4 (2015).
    """
    quantile = scipy.special.stdtrit(size - 1, 0.975)
    return float(1 - 2 * scipy.special.ndtr(-math.sqrt(size / (size - 1)) * quantile))


def _terms(workers: Floats, throughputs: Floats) -> Floats:
    """Return rate, contention, coherence and peak (rows) of each column of throughputs, a row for each worker count.

    The time that a worker takes for a unit, N / X(N), is linear in the law's terms, none of which can be negative. They
    are fitted by non-negative least squares of the relative errors (Lawson and Hanson, Solving Least Squares Problems,
    Prentice-Hall 1974, chapter 23), with contention alone for two worker counts.
    """
    columns = np.stack([np.ones_like(workers), workers - 1, workers * (workers - 1)])
    columns = columns[: 2 if len(workers) < FOR_COHERENCE else 3]
    sizes = columns.max(axis=1)
    designs = (columns / sizes[:, None]).T[None] * (throughputs / workers[:, None]).T[:, :, None]
    found = np.zeros((3, len(designs)))
    found[: len(columns)] = _fitted(designs).T / sizes[:, None]
    rate, contention, coherence = 1 / found[0], found[1] / found[0], found[2] / found[0]
    return np.stack([rate, contention, coherence, _peaks(contention, coherence)])


def _fitted(designs: Floats) -> Floats:
    """Return the terms of each case (a row); the first, a worker's own time, is always above 0."""
    solved = np.linalg.solve(np.swapaxes(designs, 1, 2) @ designs, designs.sum(axis=1)[:, :, None])[:, :, 0]
    # Most solutions are not negative and need no bound; nnls takes twenty times as long for each.
    for case in np.flatnonzero((solved < 0).any(axis=1)):
        solved[case] = scipy.optimize.nnls(designs[case], np.ones(designs.shape[1]))[0]
    solved[solved < ROUNDING * solved.max(axis=1, keepdims=True)] = 0.0
    without = solved[:, 0] == 0
    own = designs[without, :, 0]
    solved[without] = 0.0
    solved[without, 0] = own.sum(axis=1) / np.square(own).sum(axis=1)
    return solved


def _peaks(contention: Floats, coherence: Floats) -> Floats:
    """Return the number of workers with the highest throughput; 1 if each further one lowers it, else infinite."""
    rising = np.clip(1 - contention, 0, None)
    with np.errstate(divide="ignore", invalid="ignore"):
        peaks = np.sqrt(rising / coherence)
    return np.where(contention > 1, 1.0, np.where(coherence > 0, np.maximum(peaks, 1.0), math.inf))


def _remarks(contention: Interval, coherence: Interval | None, peak: Interval) -> list[str]:
    remarks = []
    if coherence is None:
        remarks.append("two numbers of workers: all loss is called contention")
    if contention.estimate == 0 and (coherence is None or coherence.estimate == 0):
        remarks.append("no loss was seen: both terms are at their bound, 0")
    elif contention.estimate == 0:
        remarks.append("contention is at its bound, 0")
    if peak.estimate <= 1:
        remarks.append("more workers do less than one")
    return remarks


@dataclass(frozen=True)
class ThroughputPoint:
    """The throughput of a number of workers, in the metric's unit."""

    workers: int
    throughput: Interval


@dataclass(frozen=True)
class Curve:
    """The throughput of one label by number of workers."""

    label: str
    points: tuple[ThroughputPoint, ...]
    fit: Fit | None

    @property
    def best(self) -> ThroughputPoint:
        return max(self.points, key=lambda point: point.throughput.estimate)

    def gain(self, point: ThroughputPoint) -> float | None:
        """Return the throughput divided by that of one worker; None if one worker was not measured."""
        first = self.points[0]
        return point.throughput.estimate / first.throughput.estimate if first.workers == 1 else None


@dataclass(frozen=True)
class CurveGroup:
    """Benchmarks of a workload that differ only in their number of workers."""

    workload: Workload
    name: str
    unit: str
    workers: tuple[int, ...]
    cores: int
    fitted_to: int  # the most workers that the fit uses; beyond it is extrapolated
    limit: tuple[ThroughputPoint, ...]  # the best limit of each number of workers
    curves: tuple[Curve, ...]

    @property
    def title(self) -> str:
        return f"{self.workload.name} {self.name}"

    def extrapolated(self, workers: float) -> bool:
        return workers > self.fitted_to


def curve_groups(experiment: Experiment, tables: Sequence[Table]) -> list[CurveGroup]:
    """Return the curves with at least two numbers of workers, in the order of the experiment."""
    found = []
    by_key = {(table.workload.name, table.benchmark.name): table for table in tables}
    for name in experiment.settings.workloads:
        workload = experiment.workloads[name]
        for curve, group in workload.curves.items():
            benchmarks = [by_key[name, benchmark.name] for _, benchmark in group]
            one = _curve_group(workload, curve, benchmarks, experiment.host["cores"])
            if len(one.workers) > 1 and one.curves:
                found.append(one)
    return found


def _curve_group(workload: Workload, name: str, group: Sequence[Table], cores: int) -> CurveGroup:
    tables = {_workers(table.benchmark): table for table in group}
    waits = all(table.benchmark.scaling and table.benchmark.scaling.wait for table in group)
    fitted_to = max((one for one in tables if waits or one <= cores), default=min(tables))
    labels = dict.fromkeys(row.label for table in group for row in table.rows)
    rows = {label: _rows(tables, label) for label in labels}
    metric = group[0].benchmark.metric
    return CurveGroup(
        workload=workload,
        name=name,
        unit=metric.label if metric.inverse else f"{workload.unit}s/s",
        workers=tuple(tables),
        cores=cores,
        fitted_to=fitted_to,
        limit=_points({workers: table.best_limit for workers, table in tables.items() if table.best_limit}, group[0]),
        curves=tuple(_curve(label, some, group[0], fitted_to) for label, some in rows.items() if some),
    )


def _workers(benchmark: Benchmark) -> int:
    return benchmark.scaling.workers if benchmark.scaling else 1


def _rows(tables: dict[int, Table], label: str) -> dict[int, Row | None]:
    rows = {workers: next((row for row in table.rows if row.label == label), None) for workers, table in tables.items()}
    return {workers: row for workers, row in rows.items() if row and row.figures}


def _curve(label: str, rows: dict[int, Row | None], any_table: Table, fitted_to: int) -> Curve:
    throughputs = {workers: _throughputs(row, any_table) for workers, row in rows.items() if row}
    return Curve(
        label=label,
        points=_points(rows, any_table),
        fit=fit_law({workers: some for workers, some in throughputs.items() if workers <= fitted_to}),
    )


def _points(rows: dict[int, Row | None], any_table: Table) -> tuple[ThroughputPoint, ...]:
    measured = {workers: _throughputs(row, any_table) for workers, row in rows.items() if row and row.figures}
    return tuple(ThroughputPoint(workers, ratio_over(some)) for workers, some in measured.items())


def _throughputs(row: Row, any_table: Table) -> list[float]:
    """Return a throughput for each round, in the metric's unit if that is one of throughput, else in units of work."""
    metric = any_table.benchmark.metric
    return [metric.shown(seconds) if metric.inverse else 1 / seconds for seconds in row.figures]


def peak_text(found: Fit, of: CurveGroup) -> str:
    """Return the peak with its interval as text, marked if it is extrapolated."""
    peak = found.peak_workers
    if found.coherence is None and peak.estimate > 1:
        return "-"
    if math.isinf(peak.estimate):
        return "none"
    text = f"{peak.estimate:.1f} [{peak.low:.1f}, {'none' if math.isinf(peak.high) else f'{peak.high:.1f}'}]"
    return f"{text}, extrapolated" if of.extrapolated(peak.estimate) else text
