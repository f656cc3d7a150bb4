"""The tables of an export: columns, which docs/results.md shows, the rows of experiments, and files (Parquet, CSV)."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from interlock.analysis import comparison
from interlock.analysis.comparison import Row, Table
from interlock.analysis.statistics import Interval, Ratio
from interlock.analysis.verdicts import Comparison
from interlock.catalog.types import TWIN, split_label
from interlock.errors import StoreError
from interlock.results import store
from interlock.results.experiments import BenchmarkValues, Built, CellResult, Experiment, Facts, Profiles, Values
from interlock.results.profiles import BenchmarkProfile, LockCost

if TYPE_CHECKING:  # pyarrow takes a second to load, and a fleet's hosts do not have it
    import pyarrow as pa

FORMATS = ("parquet", "csv")
Type = Literal["text", "integer", "number", "yes or no"]


class Column(NamedTuple):
    """A column of a table: its name, type and meaning; a cell without a figure is empty."""

    name: str
    type: Type
    meaning: str


EXPERIMENT_KEY = (
    Column("experiment", "text", "the experiment's name; with `host` the key of `experiments`"),
    Column("host", "text", "the name of the host's folder in the experiment"),
)
CELL_KEY = (
    *EXPERIMENT_KEY,
    Column("variant", "text", "the variant; `limit` for a command that runs without an interpreter"),
    Column("mode", "text", "the mode, `twin`, or the name of a condition or limit; empty if none"),
    Column("workload", "text", "the workload"),
)
BENCHMARK_KEY = (*CELL_KEY, Column("benchmark", "text", "the workload's benchmark"))
STATE = (
    Column("state", "text", "ok, failed, timed out, unsupported or unavailable"),
    Column("reason", "text", "the reason, if it is not ok"),
)
COMPARED = (
    ("ratio", "number", "time per unit of work divided by {}'s, geometric mean over the rounds; above 1 is slower"),
    ("low", "number", "lower end of the 95 % interval; empty after one round"),
    ("high", "number", "upper end of the 95 % interval; empty after one round"),
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
        Column("profile", "text", "optimisation profile: standard or release"),
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
    "cells": (
        *CELL_KEY,
        *STATE,
        Column("profile_state", "text", "how the profile ended, in the words of `state`; empty if none was taken"),
        Column("profile_reason", "text", "the reason, if it is not ok"),
        Column("notes", "text", "notes that a reader of the figures must know"),
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
        Column("rounds", "integer", "number of rounds, one process each"),
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
    "details": (
        *BENCHMARK_KEY,
        Column("detail", "text", "the label of the detail, with its unit"),
        Column("of", "text", "the key in the process's report"),
        Column("per", "text", "what it is divided by: unit, value or process"),
        Column("process", "integer", "from 0, in the order of the rounds"),
        Column("figure", "number", "in the label's unit"),
    ),
    "profiles": (
        *BENCHMARK_KEY,
        Column("method", "text", "the probe: bpf, tracepoints, strace-futex or strace"),
        Column("phase", "text", "the part of the process's life"),
        Column("counted", "yes or no", "whether counts per unit of work are from this phase"),
        Column("units", "integer", "units of work in the profiled process"),
        Column("syscall", "text", "the system call"),
        Column("calls", "integer", "number of calls"),
        Column("errors", "integer", "number of calls that failed"),
        Column("wall_ns", "integer", "nanoseconds in the call, including waits; empty where the probe has no times"),
        Column("longest_ns", "integer", "nanoseconds in the longest call"),
    ),
    "futex": (
        *BENCHMARK_KEY,
        Column("phase", "text", "the part of the process's life"),
        Column("operation", "text", "operation of the futex call; `profiles` has the sum over them"),
        Column("calls", "integer", "number of calls"),
        Column("errors", "integer", "number of calls that failed"),
        Column("woke_nobody", "integer", "wakes for which no thread was waiting"),
        Column("wall_ns", "integer", "nanoseconds in the call, including waits"),
        Column("longest_ns", "integer", "nanoseconds in the longest call"),
    ),
    "images": (
        *EXPERIMENT_KEY,
        Column("variant", "text", "the variant"),
        Column("profile", "text", "optimisation profile"),
        *STATE,
        Column("tag", "text", "the image's name in the engine"),
        Column("image_id", "text", "the engine's id of the image"),
        Column("digest", "text", "the digest in a registry; empty if none has the image"),
        Column("content_hash", "text", "SHA-256 of all that went into the build"),
        Column("size_bytes", "integer", "bytes"),
        Column("base", "text", "the parent image"),
        Column("base_origin", "text", "registry, mmdebstrap, or debootstrap before that"),
        Column("build_s", "number", "seconds of the build"),
        Column("reused", "yes or no", "whether the image was there already and not built"),
        Column("version", "text", "the interpreter's version"),
        Column("implementation", "text", "cpython or pypy"),
        Column("thread_flavour", "text", "pthread, gnu-pth, none or free-threaded"),
        Column("gil", "text", "on or off"),
        Column("optimisation", "text", "the compiler's -O option"),
    ),
}


# A row of a table by column; a column that is not there is empty.
Record = dict[str, Any]


def experiment_rows(
    experiment: Experiment, values: Values, profiles: Profiles, tables: Sequence[Table]
) -> dict[str, list[Record]]:
    """Return the rows of each table; `tables` are the comparisons that were made of the values."""
    key = {"experiment": experiment.name, "host": experiment.host["folder"]}
    found = {
        "experiments": [_experiment_row(experiment)],
        "cells": [_cell_row(cell) for cell in experiment.cells],
        "values": [row for where, one in _each_benchmark(values) for row in _value_rows(where, one)],
        "ratios": [row for table in tables for row in _ratio_rows(table, values)],
        "details": [row for table in tables for row in _detail_rows(table)],
        "profiles": [row for where, one in _each_benchmark(profiles) for row in _call_rows(where, one)],
        "futex": [row for where, one in _each_benchmark(profiles) for row in _futex_rows(where, one)],
        "images": [_image_row(image, experiment.facts.get(image.variant)) for image in experiment.images],
    }
    return {name: [{**key, **record} for record in records] for name, records in found.items()}


def _experiment_row(experiment: Experiment) -> Record:
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


def _cell_key(label: str, workload: str) -> Record:
    variant, mode = split_label(label)
    return {"variant": variant, "mode": mode, "workload": workload}


def _each_benchmark(cells: Mapping[tuple[str, str], Mapping[str, Any]]) -> Iterator[tuple[Record, Any]]:
    for (label, workload), benchmarks in cells.items():
        for name, one in benchmarks.items():
            yield {**_cell_key(label, workload), "benchmark": name}, one


def _cell_row(cell: CellResult) -> Record:
    return {
        **_cell_key(cell.label, cell.workload),
        "state": cell.outcome.state.value,
        "reason": cell.outcome.reason or None,
        "profile_state": cell.profile.state.value if cell.profile else None,
        "profile_reason": cell.profile.reason or None if cell.profile else None,
        "notes": "; ".join(cell.notes) or None,
    }


def _value_rows(where: Record, one: BenchmarkValues) -> Iterator[Record]:
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


def _ratio_rows(table: Table, values: Values) -> Iterator[Record]:
    for row in (*table.rows, *table.limits):
        measured = values.get((row.label, table.workload.name), {}).get(table.benchmark.name)
        yield {**_ratio_row(table, row), **_curve_key(table), "rounds": len(measured.processes) if measured else None}
    if table.twin:
        where = {**_cell_key(f"{table.baseline}+{TWIN}", table.workload.name), "benchmark": table.benchmark.name}
        yield {**where, "state": "ok", "rounds": table.twin.rounds, **_interval("", table.twin), "p": table.twin.p}


def _curve_key(table: Table) -> Record:
    scaling = table.benchmark.scaling
    return {"curve": scaling.name, "workers": scaling.workers} if scaling else {}


def _detail_rows(table: Table) -> Iterator[Record]:
    for row in (*table.rows, *table.limits):
        where = {**_cell_key(row.label, table.workload.name), "benchmark": table.benchmark.name}
        for one in filter(None, row.details):
            named = {"detail": one.detail.label, "of": one.detail.of, "per": one.detail.per}
            for process, figure in enumerate(one.processes):
                yield {**where, **named, "process": process, "figure": figure}


def _lock_cells(cost: LockCost) -> Record:
    seconds = None if cost.ns is None else cost.ns / 1e9
    return {"lock_calls_per_unit": sum(cost.calls.values()), "lock_seconds_per_unit": seconds}


def _ratio_row(table: Table, row: Row) -> Record:
    compared = row.to_baseline or row.to_control
    return {
        **_cell_key(row.label, table.workload.name),
        "benchmark": table.benchmark.name,
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


def _comparison_cells(prefix: str, one: Comparison | None) -> Record:
    if one is None:
        return {}
    ratio: Ratio = one.ratio
    verdict = {"p": ratio.p, "p_adjusted": one.p, "p_same": one.p_same, "verdict": one.verdict}
    return {**_interval(prefix, ratio), **{f"{prefix}{name}": figure for name, figure in verdict.items()}}


def _interval(prefix: str, one: Interval) -> Record:
    return {f"{prefix}ratio": one.estimate, **_ends(prefix, one)}


def _ends(prefix: str, one: Interval) -> Record:
    """Return the ends of an interval; after one round it has none."""
    known = math.isfinite(one.high)
    return {f"{prefix}low": one.low if known else None, f"{prefix}high": one.high if known else None}


def _call_rows(where: Record, profile: BenchmarkProfile) -> Iterator[Record]:
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


def _futex_rows(where: Record, profile: BenchmarkProfile) -> Iterator[Record]:
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


def _image_row(image: Built, facts: Facts | None) -> Record:
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


def write_tables(
    paths: Mapping[str, Path], kind: str, experiments: Iterable[Mapping[str, Sequence[Record]]]
) -> dict[str, int]:
    """Write the named tables to these paths from the rows of each experiment; return the number of rows of each table.

    StoreError if a folder cannot be written; the files are then as they were.
    """
    schemas = {name: table_schema(name) for name in paths}
    folder = next(iter(paths.values())).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".export.", dir=folder))
    except OSError as error:
        raise _cannot_write(folder, error) from None
    try:
        counts = _write_all({name: temporary / path.name for name, path in paths.items()}, schemas, kind, experiments)
        for path in paths.values():
            (temporary / path.name).replace(path)
        return counts
    except OSError as error:
        raise _cannot_write(folder, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _cannot_write(folder: Path, error: OSError) -> StoreError:
    return StoreError(
        file=str(folder),
        found=f"cannot be written: {error.strerror or error}",
        todo=f"Check permissions and free space of {folder}, or give another --output; no file was changed.",
    )


def _write_all(
    paths: Mapping[str, Path],
    schemas: Mapping[str, pa.Schema],
    kind: str,
    experiments: Iterable[Mapping[str, Sequence[Record]]],
) -> dict[str, int]:
    import pyarrow as pa  # noqa: PLC0415

    counts = dict.fromkeys(paths, 0)
    with ExitStack() as stack:
        writers = {name: stack.enter_context(_writer(path, kind, schemas[name])) for name, path in paths.items()}
        for rows in experiments:
            for name, writer in writers.items():
                counts[name] += len(rows[name])
                writer.write_table(pa.Table.from_pylist(list(rows[name]), schema=schemas[name]))
    return counts


def table_schema(table: str) -> pa.Schema:
    """Return the columns of a table with their types."""
    import pyarrow as pa  # noqa: PLC0415

    types = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "yes or no": pa.bool_()}
    return pa.schema([(column.name, types[column.type]) for column in TABLES[table]])


def _writer(path: Path, kind: str, columns: pa.Schema) -> Any:
    import pyarrow.csv  # noqa: PLC0415
    import pyarrow.parquet  # noqa: PLC0415

    return (pyarrow.parquet.ParquetWriter if kind == "parquet" else pyarrow.csv.CSVWriter)(path, columns)


def rows_of_experiments(folders: Sequence[Path]) -> Iterator[dict[str, list[Record]]]:
    """Yield the rows of each experiment, once if it was named twice.

    StoreError if two different experiments have the same name and host: their rows could not be told apart.
    """
    known: dict[tuple[str, str], tuple[Experiment, Path]] = {}
    for folder in folders:
        described = store.read_experiment(folder)
        key = (described.name, described.host["folder"])
        if key not in known:
            known[key] = (described, folder)
            values, profiles = store.read_cells(folder, described)
            yield experiment_rows(described, values, profiles, comparison.tables(described, values, profiles))
        elif known[key][0] != described:
            raise StoreError(
                file=str(folder),
                found=f"another experiment has the same name and host, '{' / '.join(key)}': {known[key][1]}",
                todo="Export each with an --output of its own.",
            )
