"""Changes, histories and the hosts of a kind as plain figures: for `--json`, and for whoever draws them. Pure."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from interlock.across.changes import Change, Changes, ChangeTable, Side
from interlock.across.extract import Cohort
from interlock.across.history import History, HistoryTable, Series
from interlock.across.hosts import HostRow, HostTable, KindSummary
from interlock.compare import Comparison
from interlock.statistics import Interval

Figures = dict[str, Any]


def of_changes(found: Changes, *, times: bool) -> Figures:
    """Ratios are time per unit of work; an interval's end that lies in infinity is null."""
    return {
        **_cohort(found.before.cohort),
        "before": _side(found.before),
        "after": _side(found.after),
        "baseline_image": found.baseline_image,
        "left_out": list(found.left_out),
        "tables": [_changes(table, times=times) for table in found.tables],
    }


def _side(side: Side) -> Figures:
    return {
        "name": side.name,
        "experiments": [
            {"name": one.name, "host": one.host, "started": one.started, "tool_version": one.tool_version}
            for one in side.extracts
        ],
    }


def _changes(table: ChangeTable, *, times: bool) -> Figures:
    return {
        "workload": table.workload,
        "benchmark": table.benchmark.name,
        "band": table.band,
        "rows": [_change(row, times=times) for row in table.rows],
    }


def _change(row: Change, *, times: bool) -> Figures:
    seconds = {"seconds_per_unit_not_comparable": row.seconds} if times and row.seconds else {}
    return {
        "variant": row.label,
        "before": _interval(row.before),
        "after": _interval(row.after),
        "change": _comparison(row.change),
        "image": row.image,
        **seconds,
    }


def of_history(found: History) -> Figures:
    """Each series with its ratios in the order of time, and the changes of its level."""
    return {**_cohort(found.cohort), "tables": [_history(table) for table in found.tables]}


def _history(table: HistoryTable) -> Figures:
    return {
        "workload": table.workload,
        "benchmark": table.benchmark.name,
        "series": [_series(series) for series in table.series],
    }


def _series(series: Series) -> Figures:
    points = [
        {
            "experiment": one.name,
            "host": one.host,
            "started": one.started,
            "image": one.image(series.label),
            **_interval(point.ratio),
        }
        for one, point in zip(series.experiments, series.points, strict=True)
    ]
    changes = [
        {"since": series.experiments[one.at].name, "ratio": one.ratio, **asdict(one), "what": list(one.what)}
        for one in series.changes
    ]
    return {"variant": series.label, "points": points, "changes": changes}


def of_hosts(found: KindSummary) -> Figures:
    """Each ratio over the hosts of a kind, and how many hosts say what of it."""
    return {
        **_cohort(found.cohort),
        "hosts": list(found.hosts),
        "means": {label: _interval(mean) for label, mean in found.means.items()},
        "tables": [_hosts(table) for table in found.tables],
    }


def _hosts(table: HostTable) -> Figures:
    return {
        "workload": table.workload,
        "benchmark": table.benchmark.name,
        "twins": _interval(table.twin) if table.twin else None,
        "rows": [_host_row(row) for row in table.rows],
    }


def _host_row(row: HostRow) -> Figures:
    ends = {
        name: {"ratio": ratio, "host": host}
        for name, (ratio, host) in (("lowest", row.lowest), ("highest", row.highest))
    }
    counts = {"slower": row.slower, "faster": row.faster, "no_difference": row.same}
    return {"variant": row.label, **_comparison(row.over), **ends, "hosts": counts}


def _cohort(cohort: Cohort) -> Figures:
    return {"kind": cohort.kind._asdict(), "baseline": cohort.baseline, "profile": cohort.profile}


def _comparison(one: Comparison) -> Figures:
    return {**_interval(one.ratio), "p": one.p, "band": one.band, "verdict": one.verdict}


def _interval(one: Interval) -> Figures:
    ends = {"ratio": one.estimate, "low": one.low, "high": one.high}
    return {name: end if math.isfinite(end) else None for name, end in ends.items()}
