"""An experiment's tables as frames: flat records that the page's charts read. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from interlock.analysis.comparison import Row, Table
from interlock.analysis.statistics import Interval
from interlock.catalog.types import TWIN
from interlock.report.experiment import comparison_text, state_text
from interlock.report.tables import ratio_text, value_text
from interlock.results.experiments import Experiment

Record = dict[str, Any]
Frame = list[Record]

BASELINE = "baseline"
OTHER = "other calls"
NAMED_CALLS = 9  # each has a colour of its own; all other calls share one


def frames(tables: Sequence[Table]) -> dict[str, Frame]:
    """Return all records by frame; times are in the unit of their benchmark's metric, memory in 10^6 bytes."""
    return {
        "ratios": [_ratio(table, row) for table in tables for row in table.rows],
        "calls": _calls(tables),
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
