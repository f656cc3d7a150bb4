"""An experiment -> the rows of each table of an export. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interlock.compare import Comparison, Row, Table
from interlock.curves import Curves, curves
from interlock.model import (
    TWIN,
    BenchmarkProfile,
    BenchmarkValues,
    Built,
    CellResult,
    Experiment,
    Facts,
    Profiles,
    Values,
    split_label,
)
from interlock.statistics import Interval, Ratio

# By column; what is not there is empty.
Record = dict[str, Any]


def rows(
    experiment: Experiment, values: Values, profiles: Profiles, tables: Sequence[Table]
) -> dict[str, list[Record]]:
    """By table; `tables` are those that were made of the values."""
    key = {"experiment": experiment.name, "host": experiment.host["folder"]}
    found = {
        "experiments": [_experiment(experiment)],
        "cells": [_cell(cell) for cell in experiment.cells],
        "values": [row for where, one in _benchmarks(values) for row in _values(where, one)],
        "ratios": [row for table in tables for row in _ratios(table, values)],
        "details": [row for table in tables for row in _details(table)],
        "curves": [row for of in curves(experiment, tables) for row in _curves(of)],
        "profiles": [row for where, one in _benchmarks(profiles) for row in _calls(where, one)],
        "futex": [row for where, one in _benchmarks(profiles) for row in _futex(where, one)],
        "images": [_image(image, experiment.facts.get(image.variant)) for image in experiment.images],
    }
    return {name: [{**key, **record} for record in records] for name, records in found.items()}


def _experiment(experiment: Experiment) -> Record:
    host, settings = experiment.host, experiment.settings
    return {
        "started": experiment.started,
        "duration_s": experiment.duration_s,
        "tool_version": experiment.tool_version,
        "profile": settings.profile,
        "baseline": settings.baseline,
        "quick": settings.quick,
        "seed": settings.seed,
        **{name: host.get(name) for name in ("cpu", "cores", "memory_bytes", "kernel", "system")},
        "engine": host["engine"].get("name"),
        "engine_version": host["engine"].get("version"),
        "storage_driver": host["engine"].get("storage_driver"),
        "command": experiment.command,
        "warnings": len(experiment.warnings),
    }


def _where(label: str, workload: str) -> Record:
    variant, mode = split_label(label)
    return {"variant": variant, "mode": mode, "workload": workload}


def _benchmarks(cells: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[tuple[Record, Any]]:
    for (label, workload), benchmarks in cells.items():
        for name, one in benchmarks.items():
            yield {**_where(label, workload), "benchmark": name}, one


def _cell(cell: CellResult) -> Record:
    return {
        **_where(cell.label, cell.workload),
        "state": cell.outcome.state.value,
        "reason": cell.outcome.reason or None,
        "profile_state": cell.profile.state.value if cell.profile else None,
        "profile_reason": cell.profile.reason or None if cell.profile else None,
        "notes": "; ".join(cell.notes) or None,
    }


def _values(where: Record, one: BenchmarkValues) -> Iterator[Record]:
    for process, values in enumerate(one.processes):
        shared = {
            **where,
            "process": process,
            "units": one.units[process] if one.units else None,
            "process_user_s": one.user_s[process] if one.user_s else None,
            "process_sys_s": one.sys_s[process] if one.sys_s else None,
        }
        for number, value in enumerate(values):
            yield {**shared, "value": number, "seconds_per_unit": value}


def _ratios(table: Table, values: Values) -> Iterator[Record]:
    for row in (*table.rows, *table.limits):
        measured = values.get((row.label, table.workload.name), {}).get(table.benchmark.name)
        yield {**_ratio(table, row), **_place(table), "rounds": len(measured.processes) if measured else None}
    if table.twin:
        where = {**_where(f"{table.baseline}+{TWIN}", table.workload.name), "benchmark": table.benchmark.name}
        yield {**where, "state": "ok", "rounds": table.twin.rounds, **_interval("", table.twin), "p": table.twin.p}


def _place(table: Table) -> Record:
    scaling = table.benchmark.scaling
    return {"curve": scaling.name, "workers": scaling.workers} if scaling else {}


def _details(table: Table) -> Iterator[Record]:
    for row in (*table.rows, *table.limits):
        where = {**_where(row.label, table.workload.name), "benchmark": table.benchmark.name}
        for one in filter(None, row.details):
            named = {"detail": one.detail.label, "of": one.detail.of, "per": one.detail.per}
            for process, figure in enumerate(one.processes):
                yield {**where, **named, "process": process, "figure": figure}


def _curves(of: Curves) -> Iterator[Record]:
    for curve in of.curves:
        if curve.fit:
            peak = curve.fit.peak_workers.estimate
            yield {
                **_where(curve.label, of.workload.name),
                "curve": of.name,
                "unit": of.unit,
                "known_to": of.known_to,
                "rate": curve.fit.rate.estimate,
                **_term("contention", curve.fit.contention),
                **(_term("coherence", curve.fit.coherence) if curve.fit.coherence else {}),
                "peak_workers": peak if math.isfinite(peak) else None,
                "says": "; ".join(curve.fit.says) or None,
            }


def _term(name: str, one: Interval) -> Record:
    return {name: one.estimate, **_ends(f"{name}_", one)}


def _ratio(table: Table, row: Row) -> Record:
    compared = row.to_baseline or row.to_control
    return {
        **_where(row.label, table.workload.name),
        "benchmark": table.benchmark.name,
        "state": row.outcome.state.value,
        "reason": row.outcome.reason or None,
        "seconds_per_unit": row.seconds,
        "spread": row.spread,
        "max_rss_bytes": row.max_rss_bytes,
        "futex_per_unit": row.profile.futex_per_unit if row.profile else None,
        "share_of_limit": row.share.estimate if row.share else None,
        **(_ends("share_", row.share) if row.share else {}),
        "band": compared.band if compared else None,
        **_compared("", row.to_baseline),
        "control": row.to_control.other if row.to_control else None,
        **_compared("control_", row.to_control),
    }


def _compared(prefix: str, one: Comparison | None) -> Record:
    if one is None:
        return {}
    ratio: Ratio = one.ratio
    verdict = {"p": ratio.p, "p_adjusted": one.p, "verdict": one.verdict}
    return {**_interval(prefix, ratio), **{f"{prefix}{name}": figure for name, figure in verdict.items()}}


def _interval(prefix: str, one: Interval) -> Record:
    return {f"{prefix}ratio": one.estimate, **_ends(prefix, one)}


def _ends(prefix: str, one: Interval) -> Record:
    """An interval that one round leaves open has none."""
    known = math.isfinite(one.high)
    return {f"{prefix}low": one.low if known else None, f"{prefix}high": one.high if known else None}


def _calls(where: Record, profile: BenchmarkProfile) -> Iterator[Record]:
    for phase, counts in profile.phases.items():
        shared = {**where, "method": profile.method.value, "phase": phase, "counted": phase == profile.counted}
        for syscall, one in counts.syscalls.items():
            yield {
                **shared,
                "units": profile.units,
                "syscall": syscall,
                "calls": one.calls,
                "errors": sum(one.errors.values()),
                "wall_ns": one.ns,
                "longest_ns": one.max_ns,
            }


def _futex(where: Record, profile: BenchmarkProfile) -> Iterator[Record]:
    for phase, counts in profile.phases.items():
        for operation, one in counts.futex.items():
            yield {
                **where,
                "phase": phase,
                "operation": operation,
                "calls": one.calls,
                "errors": one.errors,
                "woke_nobody": one.woke_nobody,
                "wall_ns": one.ns,
                "longest_ns": one.max_ns,
            }


def _image(image: Built, facts: Facts | None) -> Record:
    of_facts = facts.model_dump(mode="json") if facts else {}
    return {
        "variant": image.variant,
        "profile": image.profile,
        "state": image.outcome.state.value,
        "reason": image.outcome.reason or None,
        "tag": image.tag or None,
        "image_id": image.image_id or None,
        "digest": image.digest,
        "content_hash": image.content_hash or None,
        "size_bytes": image.size_bytes or None,
        "base": image.base.reference if image.base else None,
        "base_origin": image.base.origin if image.base else None,
        "build_s": image.duration_s,
        "reused": image.reused,
        **{name: of_facts.get(name) for name in ("version", "implementation", "thread_flavour", "gil", "optimisation")},
    }
