"""Tables of what stands beside a metric: details of its processes, and curves over workers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from interlock.compare import Table
from interlock.curves import Curve, Curves, curves, peak_text
from interlock.details import DetailFigure
from interlock.model import Experiment
from interlock.sections import Section, figure, label_text
from interlock.statistics import Interval


def detail_sections(tables: Sequence[Table]) -> list[Section]:
    """For each benchmark that has details the figures of those that reported any."""
    return [section for table in tables if (section := detail_section(table))]


def detail_section(table: Table) -> Section | None:
    details = table.workload.details_of(table.benchmark)
    rows = [row for row in (*table.rows, *table.limits) if any(row.details)]
    if not rows:
        return None
    return Section(
        f"{table.workload.name}: {table.benchmark.name}, details",
        ("variant", *(detail.label for detail in details)),
        tuple((label_text(row.label), *map(detail_text, row.details)) for row in rows),
    )


def detail_text(one: DetailFigure | None) -> str:
    """The median over the processes, with half their range as a share of it; of a median of 0 the most."""
    if one is None:
        return "-"
    if one.value == 0:
        return "0" if one.high == 0 else f"0 (to {figure(one.high)})"
    return f"{figure(one.value)} ±{(one.high - one.low) / 2 / abs(one.value):.0%}"


def scaling_sections(experiment: Experiment, tables: Sequence[Table]) -> list[Section]:
    """For each curve the throughput by workers and the terms of the law."""
    return [curves_section(one) for one in curves(experiment, tables)]


def curves_section(of: Curves) -> Section:
    beyond = [f"{workers} (> {of.cores} cores)" for workers in of.workers if workers > of.cores]
    within = [str(workers) for workers in of.workers if workers <= of.cores]
    columns = ("variant", *within, *beyond, "contention", "coherence", "peak at workers", "what it says")
    rows = [_row(of, curve) for curve in of.curves]
    if of.limit:
        known = {point.workers: point.throughput for point in of.limit}
        rows.append(("best limit", *(_throughput(known.get(workers)) for workers in of.workers), "-", "-", "-", ""))
    return Section(f"{of.workload.name}: {of.name}, {of.unit} by workers, higher is better", columns, tuple(rows))


def _row(of: Curves, curve: Curve) -> tuple[str, ...]:
    known = {point.workers: point.throughput for point in curve.points}
    throughputs = (_throughput(known.get(workers)) for workers in of.workers)
    found = curve.fit
    if found is None:
        return (curve.label, *throughputs, "-", "-", "-", f"too few numbers of workers up to {of.known_to} for a fit")
    coherence = _term(found.coherence) if found.coherence else "-"
    return (curve.label, *throughputs, _term(found.contention), coherence, peak_text(found, of), "; ".join(found.says))


def _throughput(one: Interval | None) -> str:
    if one is None:
        return "-"
    return figure(one.estimate) if math.isinf(one.high) else f"{figure(one.estimate)} {_ends(one)}"


def _term(one: Interval) -> str:
    return f"{one.estimate:.3f} [{one.low:.3f}, {'none' if math.isinf(one.high) else f'{one.high:.3f}'}]"


def _ends(one: Interval) -> str:
    return f"[{figure(one.low)}, {figure(one.high)}]"
