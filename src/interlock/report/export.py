"""The tables of an export: columns, which docs/results.md shows, the rows of experiments, and files (CSV)."""

from __future__ import annotations

import csv
import hashlib
import math
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

from interlock.analysis import comparison
from interlock.analysis.cohorts import host_name
from interlock.analysis.comparison import Row, Table
from interlock.analysis.statistics import Interval, Ratio
from interlock.analysis.verdicts import Comparison
from interlock.catalog.types import TWIN, label_of, split_label
from interlock.errors import StoreError
from interlock.results import store
from interlock.results.experiments import BenchmarkValues, Experiment, Values
from interlock.results.profiles import LockCost

Type = Literal["text", "integer", "number", "yes or no"]


class Column(NamedTuple):
    """A column of a table: its name, type and meaning; a cell without a figure is empty."""

    name: str
    type: Type
    meaning: str


EXPERIMENT_KEY = (
    Column("experiment", "text", "the experiment's name; with `host` the key of `experiments`"),
    Column("host", "text", "the host's name; of a host of a fleet, the one in the inventory"),
)
CELL_KEY = (
    *EXPERIMENT_KEY,
    Column("variant", "text", "the variant; `limit` for a command that runs without an interpreter"),
    Column("mode", "text", "the mode, `twin`, or the name of a limit; empty if none"),
    Column("workload", "text", "the workload"),
)
BENCHMARK_KEY = (*CELL_KEY, Column("benchmark", "text", "the workload's benchmark"))
STATE = (
    Column("state", "text", "ok, failed, timed out, unsupported, unavailable or not measured"),
    Column("reason", "text", "the reason, if it is not ok"),
)
COMPARED = (
    ("ratio", "number", "time per unit of work divided by {}'s, geometric mean over the rounds; above 1 is slower"),
    ("low", "number", "lower end of the 95 % interval, of what is undecided the adjusted one; empty after one round"),
    ("high", "number", "upper end of that interval; empty after one round"),
    ("p", "number", "p-value for both being equal, of this ratio alone"),
    ("p_adjusted", "number", "the same, adjusted for the looks and for the number of ratios in the table"),
    ("p_same", "number", "p-value for a difference of the margin or more, adjusted for the looks"),
    ("verdict", "text", "slower, faster, same or undecided; empty for the twin"),
)


def _comparison_columns(prefix: str, other: str) -> tuple[Column, ...]:
    return tuple(Column(f"{prefix}{name}", type_, meaning.format(other)) for name, type_, meaning in COMPARED)  # type: ignore[arg-type]


TABLES: dict[str, tuple[Column, ...]] = {
    "experiments": (
        *EXPERIMENT_KEY,
        Column("started", "text", "date and time, ISO 8601 with the zone"),
        Column("duration_s", "number", "seconds"),
        Column("tool_version", "text", "Interlock's version"),
        Column("optimised_by", "text", "what optimised the baseline besides -O: PGO, LTO"),
        Column("baseline", "text", "the variant that ratios compare with"),
        Column("quick", "yes or no", "whether it was a quick run"),
        Column("seed", "integer", "seed of the order within rounds"),
        Column("cpu", "text", "the processor's model"),
        Column("cores", "integer", "number of cores"),
        Column("memory_bytes", "integer", "the host's memory, bytes"),
        Column("kernel", "text", "Linux's release"),
        Column("system", "text", "the operating system"),
        Column("engine", "text", "docker, podman or host"),
        Column("engine_version", "text", "the engine's version"),
        Column("storage_driver", "text", "the engine's storage driver"),
        Column("command", "text", "the command that repeats the experiment"),
        Column("warnings", "integer", "number of warnings; experiment.json has their text"),
    ),
    "values": (
        *BENCHMARK_KEY,
        Column("process", "integer", "from 0, in the order of the rounds"),
        Column("value", "integer", "from 0, within the process, without warm-ups"),
        Column("seconds_per_unit", "number", "seconds per unit of work"),
        Column("units", "integer", "units of work of this value"),
        Column("process_user_s", "number", "CPU seconds of the whole process in user mode, start and exit included"),
        Column("process_sys_s", "number", "CPU seconds of the whole process in the kernel"),
    ),
    "ratios": (
        *BENCHMARK_KEY,
        *STATE,
        Column("curve", "text", "the curve over numbers of workers that the benchmark is part of; empty if none"),
        Column("workers", "integer", "number of workers, in that curve"),
        Column("rounds", "integer", "number of rounds; beside many rows the baseline has several processes in each"),
        Column("seconds_per_unit", "number", "seconds per unit of work: median of the blocks' figures"),
        Column("standard_error", "number", "of that figure, as a share of it; empty after one round"),
        Column("max_rss_bytes", "integer", "peak memory of a process, bytes"),
        Column("futex_per_unit", "number", "futex calls per unit of work, from the profile"),
        Column("lock_calls_per_unit", "number", "futex, sched_yield and GNU pth's scheduler: calls per unit of work"),
        Column("lock_seconds_per_unit", "number", "seconds in them, waiting included; empty where it is not known"),
        Column("share_of_limit", "number", "throughput as a share of the best limit's; 1 is as much"),
        Column("share_low", "number", "lower end of the 95 % interval; empty after one round"),
        Column("share_high", "number", "upper end of the 95 % interval; empty after one round"),
        Column("margin", "number", "share by which two may differ and be called the same"),
        *_comparison_columns("", "the baseline"),
        Column("control", "text", "the variant that differs only in the thing under study"),
        *_comparison_columns("control_", "the control"),
    ),
}


# A row of a table, by column; a missing column is empty.
Record = dict[str, Any]


def experiment_rows(experiment: Experiment, values: Values, tables: Sequence[Table]) -> dict[str, list[Record]]:
    """Return the rows of each table; `tables` are the comparisons that were made from the values."""
    key = {"experiment": experiment.name, "host": host_name(experiment)}
    rows_of = {
        "experiments": [_experiment_row(experiment)],
        "values": [
            row
            for (label, workload), benchmarks in values.items()
            for name, measured in benchmarks.items()
            for row in _value_rows(_benchmark_key(label, workload, name), measured)
        ],
        "ratios": [row for table in tables for row in _ratio_rows(table)],
    }
    return {name: [{**key, **record} for record in records] for name, records in rows_of.items()}


def _experiment_row(experiment: Experiment) -> Record:
    host, settings = experiment.host, experiment.settings
    return {
        "started": experiment.started,
        "duration_s": experiment.duration_s,
        "tool_version": experiment.tool_version,
        "optimised_by": comparison.baseline_optimisation(experiment),
        "baseline": settings.baseline,
        "quick": "yes" if settings.quick else "no",
        "seed": settings.seed,
        **{name: host.get(name) for name in ("cpu", "cores", "memory_bytes", "kernel", "system")},
        "engine": host["engine"].get("name"),
        "engine_version": host["engine"].get("version"),
        "storage_driver": host["engine"].get("storage_driver"),
        "command": experiment.command,
        "warnings": len(experiment.warnings),
    }


def _benchmark_key(label: str, workload: str, benchmark: str) -> Record:
    variant, mode = split_label(label)
    return {"variant": variant, "mode": mode, "workload": workload, "benchmark": benchmark}


def _value_rows(where: Record, measured: BenchmarkValues) -> Iterator[Record]:
    for process, values in enumerate(measured.processes):
        shared = {
            **where,
            "process": process,
            "units": measured.units[process] if measured.units else None,
            "process_user_s": measured.user_s[process] if measured.user_s else None,
            "process_sys_s": measured.sys_s[process] if measured.sys_s else None,
        }
        for number, value in enumerate(values):
            yield {**shared, "value": number, "seconds_per_unit": value}


def _ratio_rows(table: Table) -> Iterator[Record]:
    for row in (*table.rows, *table.limits):
        yield {**_ratio_row(table, row), **_curve_key(table), "rounds": len(row.figures) or None}
    if table.twin:
        where = _benchmark_key(label_of(table.baseline, TWIN), table.workload.name, table.benchmark.name)
        yield {**where, "state": "ok", "rounds": table.twin.rounds, **_interval("", table.twin), "p": table.twin.p}


def _curve_key(table: Table) -> Record:
    scaling = table.benchmark.scaling
    return {"curve": scaling.name, "workers": scaling.workers} if scaling else {}


def _lock_cells(cost: LockCost) -> Record:
    seconds = None if cost.ns is None else cost.ns / 1e9
    return {"lock_calls_per_unit": sum(cost.calls.values()), "lock_seconds_per_unit": seconds}


def _ratio_row(table: Table, row: Row) -> Record:
    compared = row.to_baseline or row.to_control
    return {
        **_benchmark_key(row.label, table.workload.name, table.benchmark.name),
        "state": row.outcome.state.value,
        "reason": row.outcome.reason or None,
        "seconds_per_unit": row.seconds,
        "standard_error": row.error,
        "max_rss_bytes": row.max_rss_bytes,
        "futex_per_unit": row.profile.futex_per_unit if row.profile else None,
        **(_lock_cells(row.profile.lock_cost) if row.profile else {}),
        "share_of_limit": row.share.estimate if row.share else None,
        **(_ends("share_", row.share) if row.share else {}),
        "margin": compared.margin if compared else None,
        **_comparison_cells("", row.to_baseline),
        "control": row.to_control.other if row.to_control else None,
        **_comparison_cells("control_", row.to_control),
    }


def _comparison_cells(prefix: str, compared: Comparison | None) -> Record:
    if compared is None:
        return {}
    ratio: Ratio = compared.ratio
    verdict = {"p": ratio.p, "p_adjusted": compared.p, "p_same": compared.p_same, "verdict": compared.verdict}
    return {**_interval(prefix, ratio), **{f"{prefix}{name}": figure for name, figure in verdict.items()}}


def _interval(prefix: str, interval: Interval) -> Record:
    return {f"{prefix}ratio": interval.estimate, **_ends(prefix, interval)}


def _ends(prefix: str, interval: Interval) -> Record:
    """Return the ends of an interval; after one round it has none."""
    known = math.isfinite(interval.high)
    return {f"{prefix}low": interval.low if known else None, f"{prefix}high": interval.high if known else None}


def write_tables(folder: Path, experiments: Iterable[Mapping[str, Sequence[Record]]]) -> dict[str, int]:
    """Write each table into a folder from the rows of each experiment; return the number of rows of each table.

    StoreError if the folder cannot be written; the files are then as they were.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".export.", dir=folder) as temporary:
            counts = _write_all(Path(temporary), experiments)
            places = {name: folder / file_name(name) for name in TABLES}
            if folders := [place.name for place in places.values() if place.is_dir()]:
                raise IsADirectoryError(f"{folders[0]} is a folder")  # before any file is replaced
            for name, place in places.items():
                (Path(temporary) / file_name(name)).replace(place)
    except OSError as error:
        raise StoreError(
            file=str(folder),
            found=f"cannot be written: {error.strerror or error}",
            todo=f"Check permissions and free space of {folder}, or give another --output; no file was changed.",
        ) from None
    return counts


def file_name(table: str) -> str:
    return f"{table}.csv"


def _write_all(folder: Path, experiments: Iterable[Mapping[str, Sequence[Record]]]) -> dict[str, int]:
    counts = dict.fromkeys(TABLES, 0)
    with ExitStack() as stack:
        writers = {}
        for name, columns in TABLES.items():
            stream = stack.enter_context((folder / file_name(name)).open("w", encoding="utf-8", newline=""))
            writers[name] = csv.DictWriter(stream, [column.name for column in columns])
            writers[name].writeheader()
        for rows in experiments:
            for name, writer in writers.items():
                counts[name] += len(rows[name])
                writer.writerows(rows[name])
    return counts


def rows_of_experiments(folders: Sequence[Path]) -> Iterator[dict[str, list[Record]]]:
    """Yield the rows of each experiment, once if it was named twice.

    StoreError if two different experiments have the same name and host: their rows could not be told apart.
    """
    known: dict[tuple[str, str], tuple[str, Path]] = {}  # sums of records: a fleet's records are too many to keep
    for folder in folders:
        described = store.read_experiment(folder)
        key = (described.name, host_name(described))
        whole = hashlib.sha256(described.model_dump_json().encode()).hexdigest()
        if key not in known:
            known[key] = (whole, folder)
            values, profiles = store.read_cells(folder, described)
            yield experiment_rows(described, values, comparison.tables(described, values, profiles))
        elif known[key][0] != whole:
            raise StoreError(
                file=str(folder),
                found=f"another experiment has the same name and host, '{' / '.join(key)}': {known[key][1]}",
                todo="Export each with an --output of its own.",
            )
