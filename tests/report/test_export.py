"""Rows have every column of their table and no other; files have them all."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

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
REFERENCE = ROOT / "results/reference/2026-11-29-a"


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
    return experiment_rows(experiment, values, comparison.tables(experiment, values, profiles))


def one_of(table: str, **where: object) -> Record:
    (row,) = [row for row in exported()[table] if all(row.get(name) == value for name, value in where.items())]
    return row


@pytest.fixture(scope="module")
def reference() -> dict[str, list[Record]]:
    """What the latest reference experiment is exported as."""
    experiment = store.read_experiment(REFERENCE)
    values, profiles = store.read_cells(REFERENCE, experiment)
    return experiment_rows(experiment, values, comparison.tables(experiment, values, profiles))


@pytest.mark.parametrize("table", TABLES)
def test_no_row_has_a_column_that_is_not_documented_and_every_column_is_filled_somewhere(
    reference: dict[str, list[Record]], table: str
) -> None:
    experiment, values = scaling(cores=4)
    curved = experiment_rows(experiment, values, comparison.tables(experiment, values, {}))
    found = [*reference[table], *curved[table]]
    columns = {column.name for column in TABLES[table]}
    assert {name for row in found for name in row} <= columns
    assert columns == {name for row in found for name, cell in row.items() if cell is not None}


def test_a_limit_is_a_row_of_its_own_and_each_row_has_its_share_of_the_best_one() -> None:
    experiment, values = scaling()
    found = experiment_rows(experiment, values, comparison.tables(experiment, values, {}))["ratios"]
    (limit,) = [one for one in found if (one["variant"], one["mode"], one.get("workers")) == ("limit", "worse", 1)]
    assert (limit["share_of_limit"], limit.get("ratio")) == (pytest.approx(0.75, rel=0.02), None)
    (mine,) = [one for one in found if (one["variant"], one["mode"], one["benchmark"]) == (BASE, None, "pure-1")]
    assert mine["share_of_limit"] == pytest.approx(0.25, rel=0.02)
    assert mine["share_low"] <= mine["share_of_limit"] <= mine["share_high"]
    assert (mine["curve"], mine["workers"]) == ("pure", 1)


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


def test_a_row_has_as_many_rounds_as_blocks_however_many_processes_are_in_one() -> None:
    """A baseline beside many rows had 28 rounds of 4."""
    parts = {"blocks": [0, 0, 1, 1], "groups": [0, 1, 0, 1]}
    several = make_values([1.0], [1.1], [1.0], [1.2]).model_copy(update=parts)
    experiment = make_experiment([BASE, OTHER], cells=[make_cell(BASE), make_cell(OTHER)])
    values = {(BASE, "locks"): {"uncontended": several}}
    found = experiment_rows(experiment, values, comparison.tables(experiment, values, {}))["ratios"]
    assert [row["rounds"] for row in found] == [2, None]


def test_every_state_is_named() -> None:
    (state,) = [column for column in TABLES["ratios"] if column.name == "state"]
    assert all(one in state.meaning for one in State)


def test_one_round_has_a_ratio_without_ends_and_its_control() -> None:
    row = one_of("ratios", variant=OTHER, mode="gil-on")
    assert (row["low"], row["high"]) == (None, None)
    assert (row["control"], row["control_ratio"]) == (OTHER, pytest.approx(3 / 2.05, rel=0.01))


def test_the_baseline_has_a_time_and_no_ratio_the_twin_a_ratio_and_no_verdict() -> None:
    baseline, twin = one_of("ratios", variant=BASE, mode=None), one_of("ratios", variant=BASE, mode="twin")
    assert (baseline["seconds_per_unit"], baseline.get("ratio")) == (1.0, None)
    assert (twin["ratio"] > 0.9, twin.get("verdict")) == (True, None)


CONTROL = "control_"
DOCUMENT = (ROOT / "docs/results.md").read_text(encoding="utf-8")
REFERENCES = [ROOT / "results/reference" / name for name in ("2026-11-29-a", "2026-11-30-i")]


def read(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_value_of_the_files_is_a_row_and_every_ratio_is_the_reports(tmp_path: Path) -> None:
    counts = export.write_tables(tmp_path / "export", rows_of_experiments(REFERENCES))
    number = sum(
        len(process)
        for folder in REFERENCES
        for cell in store.read_cell_values(folder, store.read_experiment(folder)).values()
        for one in cell.values()
        for process in one.processes
    )
    assert len(read(tmp_path / "export/values.csv")) == counts["values"] == number > 5000
    rows = [row for one in rows_of_experiments(REFERENCES) for row in one["ratios"]]
    found = read(tmp_path / "export/ratios.csv")
    assert list(found[0]) == [column.name for column in TABLES["ratios"]]
    for column in ("variant", "mode", "verdict"):
        assert [row[column] for row in found] == [row.get(column) or "" for row in rows]
    assert [row["ratio"] and float(row["ratio"]) for row in found] == [row.get("ratio") or "" for row in rows]


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
    own = [one for one in TABLES[table] if one not in BENCHMARK_KEY and not one.name.startswith(CONTROL)]
    assert documented(f"`{table}`") == ([", ".join(f"`{one.name}`" for one in keys)], shown(own))


def test_the_columns_of_the_control_are_named_and_are_those_of_the_baseline_otherwise() -> None:
    names = {one.name for one in TABLES["ratios"]}
    controls = {name for name in names if name.startswith(CONTROL)}
    assert controls == set(re.findall(f"`({CONTROL}[a-z_]+)`", DOCUMENT))
    assert {name.removeprefix(CONTROL) for name in controls} <= names


def test_an_experiment_that_was_named_twice_is_exported_once() -> None:
    assert len(list(rows_of_experiments([REFERENCES[0], REFERENCES[0], REFERENCES[1]]))) == 2


def test_two_experiments_of_one_name_and_host_are_refused(tmp_path: Path) -> None:
    described = store.read_experiment(REFERENCES[0])
    other = described.model_copy(update={"started": "2026-12-01T00:00:00+00:00"})
    store.write_json(tmp_path / "other" / EXPERIMENT_FILE, other)
    with pytest.raises(StoreError, match="'2026-11-29-a / vm'"):
        list(rows_of_experiments([REFERENCES[0], tmp_path / "other"]))


def test_cloned_hosts_of_a_fleet_are_told_apart_by_their_names_in_the_inventory(tmp_path: Path) -> None:
    described = make_experiment(cells=[])
    names = ["one.example", "other.example"]
    for name in names:
        host = {**described.host, "name": name}
        store.write_json(tmp_path / name / EXPERIMENT_FILE, described.model_copy(update={"host": host}))
    exported = list(rows_of_experiments([tmp_path / name for name in names]))
    assert [[row["host"] for row in tables["experiments"]] for tables in exported] == [[name] for name in names]


def test_a_failure_in_the_middle_leaves_the_old_files_and_nothing_else(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, list[Record]]]:
        yield from rows_of_experiments(REFERENCES[:1])
        raise StoreError(found="the second one is spoilt", todo="Restore it.")

    (tmp_path / "values.csv").write_text("old", encoding="utf-8")
    with pytest.raises(StoreError, match="the second one is spoilt"):
        export.write_tables(tmp_path, broken())
    assert [path.name for path in tmp_path.iterdir()] == ["values.csv"]
    assert (tmp_path / "values.csv").read_text(encoding="utf-8") == "old"


def test_a_folder_in_the_place_of_a_table_leaves_all_files_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "values.csv").mkdir()
    (tmp_path / "experiments.csv").write_text("old", encoding="utf-8")
    with pytest.raises(StoreError, match=r"values\.csv is a folder"):
        export.write_tables(tmp_path, rows_of_experiments(REFERENCES[:1]))
    assert {path.name for path in tmp_path.iterdir()} == {"experiments.csv", "values.csv"}
    assert (tmp_path / "experiments.csv").read_text(encoding="utf-8") == "old"


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        export.write_tables(tmp_path / "file/export", [])
    assert caught.value.file == str(tmp_path / "file/export")
