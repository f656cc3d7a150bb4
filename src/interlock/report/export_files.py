"""Writes the tables of an export, Parquet or CSV: all of them whole, or none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from interlock.analysis import comparison
from interlock.errors import StoreError
from interlock.report.export_tables import TABLES, Record, experiment_rows
from interlock.results import store
from interlock.results.experiments import Experiment

TYPES = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "yes or no": pa.bool_()}


def write_tables(
    paths: Mapping[str, Path], kind: str, experiments: Iterable[Mapping[str, Sequence[Record]]]
) -> dict[str, int]:
    """Write the named tables to these paths from the rows of each experiment; return the number of rows of each table.

    StoreError if a folder cannot be written; the files are then as they were.
    """
    folder = next(iter(paths.values())).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".export.", dir=folder))
    except OSError as error:
        raise _cannot_write(folder, error) from None
    try:
        counts = _write_all({name: temporary / path.name for name, path in paths.items()}, kind, experiments)
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
    paths: Mapping[str, Path], kind: str, experiments: Iterable[Mapping[str, Sequence[Record]]]
) -> dict[str, int]:
    counts = dict.fromkeys(paths, 0)
    with ExitStack() as stack:
        writers = {name: stack.enter_context(_writer(path, kind, table_schema(name))) for name, path in paths.items()}
        for rows in experiments:
            for name, writer in writers.items():
                counts[name] += len(rows[name])
                writer.write_table(pa.Table.from_pylist(list(rows[name]), schema=table_schema(name)))
    return counts


def table_schema(table: str) -> pa.Schema:
    """Return the columns of a table with their types."""
    return pa.schema([(column.name, TYPES[column.type]) for column in TABLES[table]])


def _writer(path: Path, kind: str, columns: pa.Schema) -> Any:
    return pa.parquet.ParquetWriter(path, columns) if kind == "parquet" else pa.csv.CSVWriter(path, columns)


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
