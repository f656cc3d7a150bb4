"""An experiment's tables as frames: flat records that the page's charts read. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from interlock.analysis.comparison import Row, Table
from interlock.analysis.scaling import Curve, CurveGroup, ThroughputPoint, curve_groups
from interlock.analysis.statistics import Interval
from interlock.catalog.types import TWIN
from interlock.report.experiment import comparison_text, state_text
from interlock.report.tables import figure_text, ratio_text, value_text
from interlock.results.experiments import Experiment

Record = dict[str, Any]
Frame = list[Record]

BASELINE = "baseline"
OTHER = "other calls"
NAMED_CALLS = 9  # each has a colour of its own; all other calls share one


def frames(experiment: Experiment, tables: Sequence[Table]) -> dict[str, Frame]:
    """Return all records by frame; times are in the unit of their benchmark's metric, memory in 10^6 bytes."""
    return {
        "ratios": [_ratio(table, row) for table in tables for row in table.rows],
        "calls": _calls(tables),
        **curve_frames(curve_groups(experiment, tables)),
    }


def variant_names(experiment: Experiment) -> list[str]:
    """Return the variants and modes of the experiment, measured or not, in its order."""
    return list(dict.fromkeys(cell.label for cell in experiment.cells if cell.mode != TWIN))


def key_of(table: Table) -> str:
    """Return the name of a benchmark in the page: 'WORKLOAD BENCHMARK'."""
    return f"{table.workload.name} {table.benchmark.name}"


def _ends(ratio: Interval | None) -> Record:
    """Return a ratio with its interval for a chart; after one round it has no ends."""
    if ratio is None:
        return {"ratio": None, "low": None, "high": None}
    closed = math.isfinite(ratio.high)
    return {"ratio": ratio.estimate, "low": ratio.low if closed else None, "high": ratio.high if closed else None}


def _ratio(table: Table, row: Row) -> Record:
    comparison = row.to_baseline
    is_baseline = row.label == table.baseline and row.seconds is not None
    return {
        "variant": row.label,
        "benchmark": key_of(table),
        "value_text": value_text(table, row),
        **(_ends(comparison.ratio if comparison else None)),
        **({"ratio": 1.0} if is_baseline else {}),
        "text": BASELINE if is_baseline else ratio_text(comparison.ratio if comparison else None),
        "verdict": BASELINE if is_baseline else comparison.verdict if comparison else None,
        "said": BASELINE if is_baseline else comparison.words if comparison else None,
        "control_text": comparison_text(row.to_control, named=True),
        "state": state_text(row),
    }


def _calls(tables: Sequence[Table]) -> Frame:
    """Return the calls per unit of work; those without a colour of their own are 'other calls' in a chart."""
    records = [record for table in tables for row in table.rows for record in _calls_of(table, row)]
    named = top_calls(records)
    for record in records:
        record["kind"] = record["call"] if record["call"] in named else OTHER
        record["rank"] = named.index(record["call"]) if record["call"] in named else len(named)
    return records


def _calls_of(table: Table, row: Row) -> Frame:
    metric, profile = table.benchmark.profile_metric, row.profile
    if profile is None or metric is None:
        return []
    counts = {name: profile.calls_per_unit([name]) for name in profile.phases[profile.counted].syscalls}
    return [
        {
            "variant": row.label,
            "benchmark": key_of(table),
            "call": name,
            "calls": metric.shown(count),
        }
        for name, count in counts.items()
        if count
    ]


def top_calls(records: Sequence[Record]) -> list[str]:
    """Return the calls that take most room in the charts; futex, if it is there, first.

    The weight of a call is its largest number in any variant as a share of all calls of the variant with the most
    calls, summed over the benchmarks.
    """
    totals: defaultdict[tuple[str, str], float] = defaultdict(float)
    for record in records:
        totals[record["benchmark"], record["variant"]] += record["calls"]
    most: defaultdict[str, float] = defaultdict(float)
    for (benchmark, _), total in totals.items():
        most[benchmark] = max(most[benchmark], total)
    weights: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for record in records:
        of_benchmark, benchmark = weights[record["call"]], record["benchmark"]
        of_benchmark[benchmark] = max(of_benchmark.get(benchmark, 0.0), record["calls"] / most[benchmark])
    weight = {call: sum(shares.values()) for call, shares in weights.items()}
    return sorted(weight, key=lambda call: (call != "futex", -weight[call], call))[:NAMED_CALLS]


MEASURED, LIMITED = "measured", "limit"
# A limit that is more times higher than the highest throughput would leave the curves no room.
FAR_LIMIT = 4


def curve_frames(groups: Sequence[CurveGroup]) -> dict[str, list[Record]]:
    """Return the facts of each group of curves, all their points, and a table for each group."""
    return {
        "curves": [_curve_about(group) for group in groups],
        "points": [record for group in groups for record in _curve_records(group)],
    }


def _curve_about(of: CurveGroup) -> Record:
    return {
        "curve": of.title,
        "unit": of.unit,
        "workers": list(of.workers),
        "cores": of.cores,
        "most": _highest(of),
        "limit": max((point.throughput.estimate for point in of.limit), default=None),
    }


def _highest(of: CurveGroup) -> float:
    """Return the throughput at the full height of a row: the highest that was measured, or the limit if it is near."""
    measured = max(_closed(point.throughput)[1] for curve in of.curves for point in curve.points)
    limit = max((_closed(point.throughput)[1] for point in of.limit), default=0.0)
    return limit if measured < limit <= FAR_LIMIT * measured else measured


def _closed(interval: Interval) -> tuple[float, float]:
    """Return the ends of an interval; after one round both are the estimate."""
    return (interval.estimate, interval.estimate) if math.isinf(interval.high) else (interval.low, interval.high)


def _curve_records(of: CurveGroup) -> Iterator[Record]:
    most = _highest(of)
    for curve in of.curves:
        for kind, workers, throughput, low, high, text in _curve_marks(of, curve):
            if throughput <= most:
                yield {
                    "curve": of.title,
                    "variant": curve.label,
                    "kind": kind,
                    "workers": workers,
                    "part": throughput / most,
                    "low": low / most,
                    "high": high / most,
                    "text": text,
                    "shown": _gain(curve),
                    "over": workers > of.cores,
                }


def _curve_marks(of: CurveGroup, curve: Curve) -> Iterator[tuple[str, float, float, float, float, str]]:
    """Yield the kind, workers, throughput, its ends and the tooltip of each mark of a curve."""
    limits = {point.workers: point.throughput.estimate for point in of.limit}
    for point in curve.points:
        low, high = _closed(point.throughput)
        yield MEASURED, point.workers, point.throughput.estimate, low, high, _point_text(of, curve, point, limits)
    for workers, limit in limits.items():
        yield LIMITED, workers, limit, limit, limit, f"limit: {figure_text(limit)} {of.unit}"


def _point_text(of: CurveGroup, curve: Curve, point: ThroughputPoint, limits: dict[int, float]) -> str:
    low, high = _closed(point.throughput)
    parts = [f"{figure_text(point.throughput.estimate)} {of.unit} [{figure_text(low)}, {figure_text(high)}]"]
    gain = curve.gain(point)
    parts += [f"{gain:.2f} times one worker"] if gain else []
    limit = limits.get(point.workers)
    parts += [f"{point.throughput.estimate / limit:.0%} of the limit"] if limit else []
    return ", ".join(parts)


def _gain(curve: Curve) -> str:
    best = curve.best
    gain = curve.gain(best)
    return f"{gain:.2f}x at {best.workers}" if gain else f"best at {best.workers}"
