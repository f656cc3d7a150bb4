"""Writes the tables of an export, Parquet or CSV: all of them whole, or none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from interlock.errors import StoreError
from interlock.export.columns import TABLES
from interlock.export.rows import Record

TYPES = {"text": pa.string(), "integer": pa.int64(), "number": pa.float64(), "yes or no": pa.bool_()}


def write(
    paths: Mapping[str, Path], kind: str, experiments: Iterable[Mapping[str, Sequence[Record]]]
) -> dict[str, int]:
    """The named tables at these paths, from the rows of one experiment after the other; how many rows each has."""
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
        todo="Free some space or choose another --output; what was there before is as it was.",
    )


def _write_all(
    paths: Mapping[str, Path], kind: str, experiments: Iterable[Mapping[str, Sequence[Record]]]
) -> dict[str, int]:
    counts = dict.fromkeys(paths, 0)
    with ExitStack() as stack:
        writers = {name: stack.enter_context(_writer(path, kind, schema(name))) for name, path in paths.items()}
        for rows in experiments:
            for name, writer in writers.items():
                counts[name] += len(rows[name])
                writer.write_table(pa.Table.from_pylist(list(rows[name]), schema=schema(name)))
    return counts


def schema(table: str) -> pa.Schema:
    return pa.schema([(column.name, TYPES[column.type]) for column in TABLES[table]])


def _writer(path: Path, kind: str, columns: pa.Schema) -> Any:
    return pa.parquet.ParquetWriter(path, columns) if kind == "parquet" else pa.csv.CSVWriter(path, columns)
