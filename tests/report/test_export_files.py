"""Exported files are read by DuckDB, pandas and whatever reads CSV; a failure leaves the files as they were."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

from interlock.analysis import comparison
from interlock.errors import StoreError
from interlock.report import export_files
from interlock.report.export_files import rows_of_experiments
from interlock.report.export_tables import TABLES, Record
from interlock.results import store
from tests.builders import ROOT

DOCUMENT = (ROOT / "docs/results.md").read_text(encoding="utf-8")
REFERENCES = sorted((ROOT / "results/reference").glob("2026-11-21-[ab]"))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both reference experiments in a folder export/."""
    folder = tmp_path_factory.mktemp("project") / "export"
    export_files.write_tables(
        {name: folder / f"{name}.parquet" for name in TABLES}, "parquet", rows_of_experiments(REFERENCES)
    )
    return folder


def test_every_value_of_the_files_is_a_row(exported: Path) -> None:
    number = sum(
        len(process)
        for folder in REFERENCES
        for cell in store.read_cell_values(folder, store.read_experiment(folder)).values()
        for one in cell.values()
        for process in one.processes
    )
    assert pq.read_metadata(exported / "values.parquet").num_rows == number > 5000


def test_the_documents_sql_runs_in_duckdb_and_says_what_the_report_says(
    exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(exported.parent)
    (query,) = re.findall(r"```sql\n(.+?)```", DOCUMENT, re.DOTALL)
    found = duckdb.connect().execute(query).fetchall()
    described = store.read_experiment(REFERENCES[1])
    tables = comparison.tables(described, *store.read_cells(REFERENCES[1], described))
    (queue,) = [table for table in tables if (table.workload.name, table.benchmark.name) == ("locks", "queue")]
    rows = sorted(
        ((row.label, row) for row in queue.rows if row.to_baseline),
        key=lambda pair: pair[1].to_baseline.ratio.estimate if pair[1].to_baseline else 0,
    )
    assert [f"{variant}+{mode}" if mode else variant for variant, mode, *_ in found] == [label for label, _ in rows]
    for (_, _, ratio, verdict, futex, image_mb), (_, row) in zip(found, rows, strict=True):
        assert row.to_baseline is not None
        assert ratio == pytest.approx(row.to_baseline.ratio.estimate, abs=5e-4)
        assert verdict == row.to_baseline.verdict
        assert futex is None or futex == pytest.approx(row.profile.futex_per_unit if row.profile else None, abs=5e-3)
        assert image_mb > 50


def test_the_documents_line_of_pandas_runs(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(exported.parent)
    (line,) = re.findall(r"```python\n(.+?)\n```", DOCUMENT)
    found = eval(line, {"pandas": pd})  # noqa: S307  what the document tells people to run
    assert 3e-8 < found["locks", "uncontended", "cpython-3.13"] < 6e-8


def test_csv_holds_the_same(exported: Path, tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.csv" for name in TABLES}
    counts = export_files.write_tables(paths, "csv", rows_of_experiments(REFERENCES[:1]))
    with paths["ratios"].open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    assert len(read) == counts["ratios"]
    parquet = pq.read_table(exported / "ratios.parquet").to_pylist()
    expected = [row for row in parquet if row["experiment"] == REFERENCES[0].name]
    assert [row["variant"] for row in read] == [row["variant"] for row in expected]
    assert [row["ratio"] and float(row["ratio"]) for row in read] == [row["ratio"] or "" for row in expected]


@pytest.mark.parametrize("table", TABLES)
def test_the_document_shows_every_column_with_its_type_and_meaning(table: str) -> None:
    section = DOCUMENT.split(f"### `{table}`\n")[1].split("\n### ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert rows == [f"| `{one.name}` | {one.type} | {one.meaning} |" for one in TABLES[table]]


def test_an_experiment_that_was_named_twice_is_exported_once() -> None:
    assert len(list(rows_of_experiments([REFERENCES[0], REFERENCES[0], REFERENCES[1]]))) == 2


def test_two_experiments_of_one_name_and_host_are_refused(tmp_path: Path) -> None:
    described = store.read_experiment(REFERENCES[0])
    other = described.model_copy(update={"started": "2026-12-01T00:00:00+00:00"})
    store.write_json(tmp_path / "other" / store.EXPERIMENT_FILE, other)
    with pytest.raises(StoreError, match="'2026-11-21-a / vm'"):
        list(rows_of_experiments([REFERENCES[0], tmp_path / "other"]))


def test_a_failure_in_the_middle_leaves_the_old_files_and_nothing_else(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, list[Record]]]:
        yield from rows_of_experiments(REFERENCES[:1])
        raise StoreError(found="the second one is spoilt", todo="Restore it.")

    paths = {name: tmp_path / f"{name}.parquet" for name in ("cells", "images")}
    paths["cells"].write_text("old", encoding="utf-8")
    with pytest.raises(StoreError, match="the second one is spoilt"):
        export_files.write_tables(paths, "parquet", broken())
    assert [path.name for path in tmp_path.iterdir()] == ["cells.parquet"]
    assert paths["cells"].read_text(encoding="utf-8") == "old"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        export_files.write_tables({"cells": tmp_path / "file" / "cells.csv"}, "csv", [])
