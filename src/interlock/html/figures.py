"""An experiment's tables and findings -> frames: flat records that charts and tables of the report read. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from interlock.claims import Finding, allowed
from interlock.compare import FASTER, SLOWER, Comparison, Row, Summary, Table, summaries
from interlock.curves import curves
from interlock.html.colours import CALLS
from interlock.html.curve_frames import curve_frames
from interlock.model import TWIN, BenchmarkProfile, Experiment, State
from interlock.sections import figure, interval
from interlock.statistics import Interval

Record = dict[str, Any]
Frame = list[Record]

BASELINE = "baseline"
# How a benchmark without a figure is written where there is no room for the word.
CODES = {State.UNAVAILABLE: "-", State.UNSUPPORTED: "x", State.TIMED_OUT: "t/o", State.FAILED: "err", State.OK: "?"}
SHADES = {
    "faster-3": "faster, under 0.5x",
    "faster-2": "faster, 0.5x to 0.8x",
    "faster-1": "faster, 0.8x or more",
    "same": "no difference",
    "slower-1": "slower, up to 1.25x",
    "slower-2": "slower, 1.25x to 2x",
    "slower-3": "slower, 2x to 5x",
    "slower-4": "slower, over 5x",
    "baseline": "baseline",
    "none": "no figure",
}
STEPS = (1.25, 2, 5)
OTHER = "other calls"


def frames(experiment: Experiment, tables: Sequence[Table], findings: Sequence[Finding]) -> dict[str, Frame]:
    """All records by frame; times are in the unit that their benchmark's metric shows, memory in 10^6 bytes."""
    return {
        "summary": [_summary(one) for one in summaries(experiment, tables)],
        "ratios": [_ratio(table, row) for table in tables for row in table.rows],
        "calls": _calls(tables),
        "waits": [wait for table in tables for row in table.rows for wait in _waits(table, row)],
        "memory": [_memory(table, row) for table in tables for row in table.rows if row.max_rss_bytes],
        "images": _images(experiment),
        "claims": [_claim(finding) for finding in findings if finding.ratio],
        **curve_frames(curves(experiment, tables)),
    }


def variant_names(experiment: Experiment) -> list[str]:
    """Every variant and mode that was measured or should have been, in the order of the experiment."""
    return list(dict.fromkeys(cell.label for cell in experiment.cells if cell.mode != TWIN))


def key_of(table: Table) -> str:
    """How a benchmark is named throughout the page."""
    return f"{table.workload.name} {table.benchmark.name}"


def per_unit(table: Table) -> str:
    """What counts are divided by: 'per 1M imports'."""
    metric = table.benchmark.profile_metric
    return metric.per if metric else "per unit of work"


def ratio_text(ratio: Interval | None) -> str:
    """An estimate with its interval, or a dash."""
    return interval(ratio) if ratio else "-"


def _ends(ratio: Interval | None) -> Record:
    """An interval for a chart; ends that one round leaves open are none."""
    if ratio is None:
        return {"ratio": None, "low": None, "high": None}
    closed = math.isfinite(ratio.high)
    return {"ratio": ratio.estimate, "low": ratio.low if closed else None, "high": ratio.high if closed else None}


def _summary(one: Summary) -> Record:
    counted = one.slower + one.faster + one.same
    return {
        "variant": one.label,
        **_ends(one.ratio),
        "text": ratio_text(one.ratio),
        "side": side_of(one.ratio),
        "slower": one.slower,
        "faster": one.faster,
        "same": one.same,
        "counted": counted,
        "of": counted + one.missing,
    }


def side_of(mean: Interval | None) -> str | None:
    """On which side of 1 all of an interval lies: it is of a mean, which is not tested as a benchmark's ratio is."""
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
        "value_text": "-" if value is None or row.spread is None else f"{figure(value)} ±{row.spread:.0%}",
        **(_ends(comparison.ratio if comparison else None)),
        **({"ratio": 1.0} if is_baseline else {}),
        "text": BASELINE if is_baseline else ratio_text(comparison.ratio if comparison else None),
        "verdict": BASELINE if is_baseline else comparison.verdict if comparison else None,
        "control": row.to_control.ratio.estimate if row.to_control else None,
        "control_text": _control(row.to_control),
        "calls": table.benchmark.calls_shown(row.profile),
        "rss_mb": row.max_rss_bytes / 1e6 if row.max_rss_bytes else None,
        "state": ", ".join((row.outcome.state.value, *row.notes)),
        **_shade(row, is_baseline),
    }


def _control(comparison: Comparison | None) -> str:
    if comparison is None:
        return "-"
    return f"{ratio_text(comparison.ratio)} {comparison.verdict} beside {comparison.other}"


def _shade(row: Row, is_baseline: bool) -> Record:
    """The class of a heat map's field, and what stands in it where there is room and where there is not."""
    if is_baseline:
        return {"shade": SHADES["baseline"], "word": "1", "code": "1"}
    if row.to_baseline is None:
        state = row.outcome.state
        return {"shade": SHADES["none"], "word": "no ratio" if state is State.OK else state.value, "code": CODES[state]}
    estimate, verdict = row.to_baseline.ratio.estimate, row.to_baseline.verdict
    size = max(estimate, 1 / estimate)
    step = 1 + sum(size > limit for limit in (STEPS if verdict == SLOWER else STEPS[:2]))
    shade = f"{verdict}-{step}" if verdict in {SLOWER, FASTER} else "same"
    text = f"{estimate:.2f}" if estimate < 10 else f"{estimate:.1f}" if estimate < 100 else f"{estimate:.0f}"
    return {"shade": SHADES[shade], "word": text, "code": text}


def _calls(tables: Sequence[Table]) -> Frame:
    """Each call of the units of work; one that has no colour of its own is among the others in a chart."""
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
    """Failed calls, and wall time in them, per unit of work; a probe other than BPF takes neither."""
    counts = profile.phases[profile.counted].syscalls[name]
    failed = None if profile.deducted else sum(counts.errors.values()) * scale / profile.units
    return {"failed": failed, "ms": None if counts.ns is None else counts.ns * scale / profile.units / 1e6}


def top_calls(records: Sequence[Record]) -> list[str]:
    """The calls that take most room in the charts; futex, if it is there, first.

    A call's weight is the share of the busiest variant's calls that some variant makes of it, added up over benchmarks.
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
    return sorted(weight, key=lambda call: (call != "futex", -weight[call], call))[: len(CALLS)]


def _waits(table: Table, row: Row) -> Frame:
    """The histogram of one cell's futex waits in its units of work: bins of powers of two, in nanoseconds."""
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
    """A duration in the unit that leaves it at least 1: '4.1 us'."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if nanoseconds >= size:
            return (
                f"{nanoseconds / size:.2g} {unit}" if nanoseconds < 100 * size else f"{nanoseconds / size:.0f} {unit}"
            )
    return f"{nanoseconds:.0f} ns"


def _memory(table: Table, row: Row) -> Record:
    mb = (row.max_rss_bytes or 0) / 1e6
    return {"variant": row.label, "benchmark": key_of(table), "mb": mb, "text": f"{figure(mb)} MB"}


def _images(experiment: Experiment) -> Frame:
    records = []
    for image in experiment.images:
        facts = experiment.facts.get(image.variant)
        base = image.base.size_bytes if image.base and image.base.size_bytes else 0
        # The base of an image that others publish is not below it: then all of it is the image's own.
        below = base if base < image.size_bytes else 0
        says = f"{facts.version}, {facts.thread_flavour.value}, GIL {facts.gil.value}" if facts else "-"
        records.append(
            {
                "variant": image.variant,
                "says": says,
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
    low, high = allowed(finding.claim)
    return {
        "claim": finding.claim.name,
        "published": finding.claim.published,
        "from": low or None,
        "to": high if math.isfinite(high) else None,
        **_ends(finding.ratio),
        "text": ratio_text(finding.ratio),
        "verdict": finding.verdict.value,
    }
