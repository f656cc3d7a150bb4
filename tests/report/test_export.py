"""Rows have every column of their table and no other; files are read by DuckDB, pandas and whatever reads CSV."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from interlock.analysis import comparison
from interlock.catalog.variants import Gil
from interlock.errors import StoreError
from interlock.report import export
from interlock.report.export import BENCHMARK_KEY, TABLES, Column, Record, experiment_rows, rows_of_experiments
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Outcome, State
from interlock.results.profiles import FutexCounts
from tests.builders import (
    OK,
    ROOT,
    make_built,
    make_cell,
    make_experiment,
    make_phase,
    make_profile,
    make_values,
)
from tests.reports import scaling

BASE, OTHER, GONE = "cpython-3.13", "cpython-3.14t", "nogil-3.9"
REFERENCE = ROOT / "results/reference/2026-11-21-b"


def exported() -> dict[str, list[Record]]:
    """Two variants, one of them in a mode as well, and one that cannot be had."""
    missing = Outcome(state=State.UNAVAILABLE, reason="no such host")
    wait = FutexCounts(calls=3, ns=6_000, max_ns=4_000, errors=1, woke_nobody=0)
    profile = make_profile(phases={"work": make_phase(futex=5, read=2).model_copy(update={"futex": {"wait": wait}})})
    cells = [
        make_cell(BASE),
        make_cell(OTHER, notes=["stopped early"], profile=OK),
        make_cell(OTHER, mode="gil-on"),
        make_cell(GONE, outcome=missing),
        make_cell(BASE, mode="twin"),
    ]
    experiment = make_experiment(
        [BASE, OTHER, GONE], cells=cells, images=[make_built(BASE), make_built(OTHER), make_built(GONE, missing)]
    )
    measured = {
        BASE: make_values([1.0, 1.0], [1.0, 1.2], [1.0, 1.0]),
        f"{BASE}+twin": make_values([1.01], [1.02], [1.03]),
        OTHER: make_values([2.0, 2.1], [2.2, 2.3], [2.1, 2.1], gil=Gil.OFF),
        f"{OTHER}+gil-on": make_values([3.0]),
    }
    values = {(label, "locks"): {"uncontended": one} for label, one in measured.items()}
    values[OTHER, "locks"]["uncontended"] = values[OTHER, "locks"]["uncontended"].model_copy(
        update={"user_s": [0.1, 0.2, 0.3], "sys_s": [0.4, 0.5, 0.6], "units": [10, 10, 10]}
    )
    profiles = {(OTHER, "locks"): {"uncontended": profile}}
    return experiment_rows(experiment, values, profiles, comparison.tables(experiment, values, profiles))


def one_of(table: str, **where: object) -> Record:
    (row,) = [row for row in exported()[table] if all(row.get(name) == value for name, value in where.items())]
    return row


@pytest.fixture(scope="module")
def reference() -> dict[str, list[Record]]:
    """What the latest reference experiment is exported as."""
    experiment = store.read_experiment(REFERENCE)
    values, profiles = store.read_cells(REFERENCE, experiment)
    return experiment_rows(experiment, values, profiles, comparison.tables(experiment, values, profiles))


@pytest.mark.parametrize("table", TABLES)
def test_no_row_has_a_column_that_is_not_documented_and_every_column_is_filled_somewhere(
    reference: dict[str, list[Record]], table: str
) -> None:
    """Both experiments have all that one can have but digests, notes and spoilt profiles."""
    experiment, values = scaling(cores=4)
    curved = experiment_rows(experiment, values, {}, comparison.tables(experiment, values, {}))
    found = [*reference[table], *curved[table]]
    columns = {column.name for column in TABLES[table]}
    assert {name for row in found for name in row} <= columns
    assert columns - {name for row in found for name, cell in row.items() if cell is not None} <= {
        "digest",
        "notes",
        "profile_reason",
    }


def test_a_limit_is_a_row_of_its_own_and_each_row_has_its_share_of_the_best_one() -> None:
    experiment, values = scaling()
    found = experiment_rows(experiment, values, {}, comparison.tables(experiment, values, {}))["ratios"]
    (limit,) = [one for one in found if (one["variant"], one["mode"], one.get("workers")) == ("limit", "worse", 1)]
    assert (limit["share_of_limit"], limit.get("ratio")) == (pytest.approx(0.75, rel=0.02), None)
    (mine,) = [one for one in found if (one["variant"], one["mode"], one["benchmark"]) == (BASE, None, "pure-1")]
    assert mine["share_of_limit"] == pytest.approx(0.25, rel=0.02)
    assert mine["share_low"] <= mine["share_of_limit"] <= mine["share_high"]
    assert (mine["curve"], mine["workers"]) == ("pure", 1)


def test_a_detail_has_a_row_for_each_process() -> None:
    experiment, values = scaling()
    found = experiment_rows(experiment, values, {}, comparison.tables(experiment, values, {}))["details"]
    mine = [one for one in found if (one["variant"], one["mode"], one["benchmark"]) == (BASE, None, "pure-2")]
    assert [(one["process"], one["figure"]) for one in mine] == [(number, 1.0 + number) for number in range(8)]
    assert (mine[0]["detail"], mine[0]["of"], mine[0]["per"]) == (
        "switches per task",
        "work_voluntary_switches",
        "unit",
    )


def test_each_value_has_its_process_and_what_that_cost() -> None:
    found = [row for row in exported()["values"] if (row["variant"], row["mode"]) == (OTHER, None)]
    assert [(row["process"], row["value"], row["seconds_per_unit"]) for row in found] == [
        (0, 0, 2.0),
        (0, 1, 2.1),
        (1, 0, 2.2),
        (1, 1, 2.3),
        (2, 0, 2.1),
        (2, 1, 2.1),
    ]
    assert (found[2]["process_user_s"], found[2]["process_sys_s"], found[2]["units"]) == (0.2, 0.5, 10)


def test_a_ratio_is_the_reports() -> None:
    row = one_of("ratios", variant=OTHER, mode=None)
    assert row["ratio"] == pytest.approx((2.05 * 2.25 / 1.1 * 2.1) ** (1 / 3))
    assert row["low"] < row["ratio"] < row["high"]
    assert (row["rounds"], row["verdict"], row["max_rss_bytes"]) == (3, "slower", 10_000_000)
    assert row["p"] < row["p_adjusted"]
    assert row["futex_per_unit"] == 5e-6
    assert (row["experiment"], row["host"], row["workload"], row["benchmark"]) == (
        "2026-11-21-a",
        "box",
        "locks",
        "uncontended",
    )


def test_one_round_has_a_ratio_without_ends_and_its_control() -> None:
    row = one_of("ratios", variant=OTHER, mode="gil-on")
    assert (row["low"], row["high"]) == (None, None)
    assert (row["control"], row["control_ratio"]) == (OTHER, pytest.approx(3 / 2.05, rel=0.01))


def test_the_baseline_has_a_time_and_no_ratio_the_twin_a_ratio_and_no_verdict() -> None:
    baseline, twin = one_of("ratios", variant=BASE, mode=None), one_of("ratios", variant=BASE, mode="twin")
    assert (baseline["seconds_per_unit"], baseline.get("ratio")) == (1.0, None)
    assert (twin["ratio"] > 0.9, twin.get("verdict")) == (True, None)


def test_a_cell_has_its_state_and_reason() -> None:
    row = one_of("cells", variant=GONE)
    assert (row["state"], row["reason"], row["profile_state"]) == ("unavailable", "no such host", None)
    assert one_of("cells", variant=OTHER, mode=None)["notes"] == "stopped early"


def test_calls_have_their_phase_and_futex_operations_a_table_of_their_own() -> None:
    row = one_of("profiles", syscall="futex")
    assert (row["calls"], row["phase"], row["counted"], row["units"]) == (5, "work", True, 1_000_000)
    assert (row["errors"], row["wall_ns"]) == (0, None)
    futex = one_of("futex", operation="wait")
    assert (futex["calls"], futex["errors"], futex["wall_ns"], futex["longest_ns"]) == (3, 1, 6_000, 4_000)


def test_an_image_has_what_its_interpreter_said_and_one_that_is_not_there_its_reason() -> None:
    row, missing = one_of("images", variant=OTHER), one_of("images", variant=GONE)
    assert (row["version"], row["size_bytes"], row["base_origin"]) == ("3.13.1", 150_000_000, "mmdebstrap")
    assert (missing["tag"], missing["size_bytes"], missing["reason"]) == (None, None, "no such host")


DOCUMENT = (ROOT / "docs/results.md").read_text(encoding="utf-8")
REFERENCES = sorted((ROOT / "results/reference").glob("2026-11-21-[ab]"))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both reference experiments in a folder export/."""
    folder = tmp_path_factory.mktemp("project") / "export"
    export.write_tables(
        {name: folder / f"{name}.parquet" for name in TABLES}, "parquet", rows_of_experiments(REFERENCES)
    )
    return folder


def test_every_value_of_the_files_is_a_row(written: Path) -> None:
    number = sum(
        len(process)
        for folder in REFERENCES
        for cell in store.read_cell_values(folder, store.read_experiment(folder)).values()
        for one in cell.values()
        for process in one.processes
    )
    assert pq.read_metadata(written / "values.parquet").num_rows == number > 5000


def test_the_documents_sql_runs_in_duckdb_and_says_what_the_report_says(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(written.parent)
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


def test_the_documents_line_of_pandas_runs(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(written.parent)
    (line,) = re.findall(r"```python\n(.+?)\n```", DOCUMENT)
    import pandas as pd  # noqa: PLC0415  half a second to load, for each worker that collects this file

    found = eval(line, {"pandas": pd})  # noqa: S307  what the document tells people to run
    assert 3e-8 < found["locks", "uncontended", "cpython-3.13"] < 6e-8


def test_csv_holds_the_same(written: Path, tmp_path: Path) -> None:
    paths = {name: tmp_path / f"{name}.csv" for name in TABLES}
    counts = export.write_tables(paths, "csv", rows_of_experiments(REFERENCES[:1]))
    with paths["ratios"].open(encoding="utf-8", newline="") as stream:
        read = list(csv.DictReader(stream))
    assert len(read) == counts["ratios"]
    parquet = pq.read_table(written / "ratios.parquet").to_pylist()
    expected = [row for row in parquet if row["experiment"] == REFERENCES[0].name]
    assert [row["variant"] for row in read] == [row["variant"] for row in expected]
    assert [row["ratio"] and float(row["ratio"]) for row in read] == [row["ratio"] or "" for row in expected]


def documented(section: str) -> tuple[list[str], list[str]]:
    """The keys that a section of the document names, and the rows of its table."""
    text = DOCUMENT.split(f"### {section}\n")[1].split("\n### ")[0]
    keys = re.findall(r" Keys: (.+)\.$", text, re.M)
    return keys, [line for line in text.splitlines() if line.startswith("| `")]


def shown(columns: Sequence[Column]) -> list[str]:
    return [f"| `{one.name}` | {one.type} | {one.meaning} |" for one in columns]


def test_the_document_shows_the_keys_of_tables_once() -> None:
    assert documented("Keys") == ([], shown(BENCHMARK_KEY))


@pytest.mark.parametrize("table", TABLES)
def test_the_document_shows_every_column_with_its_type_and_meaning(table: str) -> None:
    keys = [one for one in TABLES[table] if one in BENCHMARK_KEY]
    own = [one for one in TABLES[table] if one not in BENCHMARK_KEY]
    assert documented(f"`{table}`") == ([", ".join(f"`{one.name}`" for one in keys)], shown(own))


def test_an_experiment_that_was_named_twice_is_exported_once() -> None:
    assert len(list(rows_of_experiments([REFERENCES[0], REFERENCES[0], REFERENCES[1]]))) == 2


def test_two_experiments_of_one_name_and_host_are_refused(tmp_path: Path) -> None:
    described = store.read_experiment(REFERENCES[0])
    other = described.model_copy(update={"started": "2026-12-01T00:00:00+00:00"})
    store.write_json(tmp_path / "other" / EXPERIMENT_FILE, other)
    with pytest.raises(StoreError, match="'2026-11-21-a / vm'"):
        list(rows_of_experiments([REFERENCES[0], tmp_path / "other"]))


def test_a_failure_in_the_middle_leaves_the_old_files_and_nothing_else(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, list[Record]]]:
        yield from rows_of_experiments(REFERENCES[:1])
        raise StoreError(found="the second one is spoilt", todo="Restore it.")

    paths = {name: tmp_path / f"{name}.parquet" for name in ("cells", "images")}
    paths["cells"].write_text("old", encoding="utf-8")
    with pytest.raises(StoreError, match="the second one is spoilt"):
        export.write_tables(paths, "parquet", broken())
    assert [path.name for path in tmp_path.iterdir()] == ["cells.parquet"]
    assert paths["cells"].read_text(encoding="utf-8") == "old"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        export.write_tables({"cells": tmp_path / "file" / "cells.csv"}, "csv", [])
    assert caught.value.file == str(tmp_path / "file")
