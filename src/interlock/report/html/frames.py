"""An experiment's tables and findings as frames: flat records that the page's charts and tables read. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from interlock.analysis.claims import Finding, allowed_range
from interlock.analysis.comparison import Row, Summary, Table, summaries
from interlock.analysis.scaling import Curve, CurveGroup, ThroughputPoint, curve_groups
from interlock.analysis.statistics import Interval
from interlock.analysis.verdicts import Verdict
from interlock.catalog.types import TWIN
from interlock.report.experiment import calls_text, comparison_text, curves_section, facts_text, state_text
from interlock.report.tables import figure_text, ratio_text, value_text
from interlock.results.experiments import Experiment, State
from interlock.results.profiles import BenchmarkProfile

Record = dict[str, Any]
Frame = list[Record]

BASELINE = "baseline"
# How a benchmark without a figure is written where there is no room for the word.
CODES = {
    State.UNAVAILABLE: "-",
    State.UNSUPPORTED: "x",
    State.TIMED_OUT: "t/o",
    State.NOT_MEASURED: "...",
    State.FAILED: "err",
    State.OK: "?",
}
SHADES = {
    "faster-3": "faster, under 0.5x",
    "faster-2": "faster, 0.5x to 0.8x",
    "faster-1": "faster, 0.8x or more",
    "same": "same within the margin",
    "undecided": "undecided",
    "slower-1": "slower, up to 1.25x",
    "slower-2": "slower, 1.25x to 2x",
    "slower-3": "slower, 2x to 5x",
    "slower-4": "slower, over 5x",
    "baseline": "baseline",
    "none": "no figure",
}
STEPS = (1.25, 2, 5)
OTHER = "other calls"
NAMED_CALLS = 9  # each has a colour of its own; all other calls share one


def frames(experiment: Experiment, tables: Sequence[Table], findings: Sequence[Finding]) -> dict[str, Frame]:
    """Return all records by frame; times are in the unit of their benchmark's metric, memory in 10^6 bytes."""
    return {
        "summary": [_summary(one) for one in summaries(experiment, tables)],
        "ratios": [_ratio(table, row) for table in tables for row in table.rows],
        "calls": _calls(tables),
        "waits": [wait for table in tables for row in table.rows for wait in _waits(table, row)],
        "memory": [_memory(table, row) for table in tables for row in table.rows if row.max_rss_bytes],
        "images": _images(experiment),
        "claims": [_claim(finding) for finding in findings if finding.ratio],
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


def _summary(one: Summary) -> Record:
    counted = one.slower + one.faster + one.same + one.undecided
    return {
        "variant": one.label,
        **_ends(one.ratio),
        "text": ratio_text(one.ratio),
        "side": side_of(one.ratio),
        "slower": one.slower,
        "faster": one.faster,
        "same": one.same,
        "undecided": one.undecided,
        "counted": counted,
        "of": counted + one.missing,
    }


def side_of(mean: Interval | None) -> str | None:
    """Return on which side of 1 the interval of a mean lies; means are not tested, ratios of a benchmark are."""
    if mean is None:
        return None
    return "more time" if mean.low > 1 else "less time" if mean.high < 1 else "not clear"


def _ratio(table: Table, row: Row) -> Record:
    metric = table.benchmark.metric
    comparison = row.to_baseline
    is_baseline = row.label == table.baseline and row.seconds is not None
    value = None if row.seconds is None else metric.shown(row.seconds)
    return {
        "variant": row.label,
        "benchmark": key_of(table),
        "value": value,
        "value_text": value_text(table, row),
        **(_ends(comparison.ratio if comparison else None)),
        **({"ratio": 1.0} if is_baseline else {}),
        "text": BASELINE if is_baseline else ratio_text(comparison.ratio if comparison else None),
        "verdict": BASELINE if is_baseline else comparison.verdict if comparison else None,
        "said": BASELINE if is_baseline else comparison.words if comparison else None,
        "control": row.to_control.ratio.estimate if row.to_control else None,
        "control_text": comparison_text(row.to_control, named=True),
        "calls_text": calls_text(table.benchmark, row.profile),
        "rss_mb": row.max_rss_bytes / 1e6 if row.max_rss_bytes else None,
        "state": state_text(row),
        **_shade(row, is_baseline),
    }


def _shade(row: Row, is_baseline: bool) -> Record:
    """Return the shade of a heat map's field, its text, and a short text for narrow fields."""
    if is_baseline:
        return {"shade": SHADES["baseline"], "word": "1", "code": "1"}
    if row.to_baseline is None:
        state = row.outcome.state
        return {"shade": SHADES["none"], "word": "no ratio" if state is State.OK else state.value, "code": CODES[state]}
    estimate, verdict = row.to_baseline.ratio.estimate, row.to_baseline.verdict
    size = max(estimate, 1 / estimate)
    step = 1 + sum(size > limit for limit in (STEPS if verdict is Verdict.SLOWER else STEPS[:2]))
    shade = f"{verdict}-{step}" if verdict.differs else verdict
    text = f"{estimate:.2f}" if estimate < 10 else f"{estimate:.1f}" if estimate < 100 else f"{estimate:.0f}"
    return {"shade": SHADES[shade], "word": text, "code": text}


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
    total = sum(counts.values())
    return [
        {
            "variant": row.label,
            "benchmark": key_of(table),
            "call": name,
            "calls": metric.shown(count),
            "share": count / total,
            **_cost_of(profile, name, metric.scale),
        }
        for name, count in counts.items()
        if count
    ]


def _cost_of(profile: BenchmarkProfile, name: str, scale: float) -> Record:
    """Return failed calls and milliseconds in the call, per unit of work; only the BPF probe has both."""
    counts = profile.phases[profile.counted].syscalls[name]
    failed = None if profile.deducted else sum(counts.errors.values()) * scale / profile.units
    return {"failed": failed, "ms": None if counts.ns is None else counts.ns * scale / profile.units / 1e6}


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


def _waits(table: Table, row: Row) -> Frame:
    """Return the histogram of one cell's futex waits while it works: bins of powers of two, in nanoseconds."""
    profile = row.profile
    waits = profile.phases[profile.counted].futex_wait_log2_ns if profile else {}
    total, most = sum(waits.values()), max(waits.values(), default=0)
    return [
        {
            "variant": row.label,
            "benchmark": key_of(table),
            "log2": log2,
            "bin": f"{duration(2**log2)} to {duration(2 ** (log2 + 1))}",
            "waits": count,
            "share": count / total,
            "height": count / most,
        }
        for log2, count in sorted(waits.items())
    ]


def duration(nanoseconds: float) -> str:
    """Return a duration in the largest unit in which it is at least 1: '4.1 us'."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return (
                f"{nanoseconds / size:.2g} {unit}" if nanoseconds < 100 * size else f"{nanoseconds / size:.0f} {unit}"
            )
    return f"{nanoseconds:.0f} ns"


def _memory(table: Table, row: Row) -> Record:
    mb = (row.max_rss_bytes or 0) / 1e6
    return {"variant": row.label, "benchmark": key_of(table), "mb": mb, "text": f"{figure_text(mb)} MB"}


def _images(experiment: Experiment) -> Frame:
    records = []
    for image in experiment.images:
        facts = experiment.facts.get(image.variant)
        base = image.base.size_bytes if image.base and image.base.size_bytes else 0
        # An image from another project is not built on our base: its own size is then all of it.
        below = base if base < image.size_bytes else 0
        records.append(
            {
                "variant": image.variant,
                "says": facts_text(facts),
                "tag": image.tag or "-",
                "size_mb": image.size_bytes / 1e6 or None,
                "base_mb": below / 1e6,
                "own_mb": (image.size_bytes - below) / 1e6,
                "build_s": None if image.reused or not image.size_bytes else image.duration_s,
                "state": image.outcome.state.value,
            }
        )
    return records


def _claim(finding: Finding) -> Record:
    low, high = allowed_range(finding.claim)
    return {
        "claim": finding.claim.name,
        "published": finding.claim.published,
        "from": low or None,
        "to": high if math.isfinite(high) else None,
        **_ends(finding.ratio),
        "text": ratio_text(finding.ratio),
        "verdict": finding.verdict.value,
    }


MEASURED, LIMITED = "measured", "limit"
# A limit that is more times higher than the highest throughput would leave the curves no room.
FAR_LIMIT = 4


def curve_frames(found: Sequence[CurveGroup]) -> dict[str, list[Record]]:
    """Return the facts of each group of curves, all their points, and a table for each group."""
    return {
        "curves": [_curve_about(one) for one in found],
        "points": [record for one in found for record in _curve_records(one)],
        **{curve_table_name(one.title): _curve_table(one) for one in found},
    }


def curve_table_name(title: str) -> str:
    return f"curve {title}"


def _curve_about(of: CurveGroup) -> Record:
    return {
        "curve": of.title,
        "unit": of.unit,
        "workers": list(of.workers),
        "cores": of.cores,
        "most": _highest(of),
        "limit": max((point.throughput.estimate for point in of.limit), default=None),
    }


def _curve_table(of: CurveGroup) -> list[Record]:
    section = curves_section(of)
    rows = [dict(zip(section.columns, row, strict=True)) for row in section.rows]
    return [row for row in rows if row["variant"] in {curve.label for curve in of.curves}]


def _highest(of: CurveGroup) -> float:
    """Return the throughput at the full height of a row: the highest that was measured, or the limit if it is near."""
    measured = max(_closed(point.throughput)[1] for curve in of.curves for point in curve.points)
    limit = max((_closed(point.throughput)[1] for point in of.limit), default=0.0)
    return limit if measured < limit <= FAR_LIMIT * measured else measured


def _closed(one: Interval) -> tuple[float, float]:
    """Return the ends of an interval; after one round both are the estimate."""
    return (one.estimate, one.estimate) if math.isinf(one.high) else (one.low, one.high)


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
