"""compare, history, export and a report over hosts, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from interlock import cli
from interlock.errors import InterlockError, KindError, StoreError, UsageError
from interlock.export.columns import TABLES
from tests.across.extracts import OTHER, THIRD, write_experiment
from tests.builders import ROOT


def call(*words: str) -> Result:
    return CliRunner().invoke(cli.app, list(words), env={"COLUMNS": "200"})


def refused(kind: type[InterlockError], *words: str) -> str:
    result = call(*words)
    assert isinstance(result.exception, kind)
    return str(result.exception)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Ten experiments on one host, of which the sixth was the first with another image, and one on another kind."""
    for day in range(10):
        ratios = {OTHER: 2.0 if day < 5 else 2.6, THIRD: 3.0}
        images = {OTHER: "oldoldold" if day < 5 else "newnewnew"}
        write_experiment(tmp_path / f"results/e{day}", ratios, day, content_hashes=images)
    write_experiment(tmp_path / "results/big", {OTHER: 9.0}, 11, host="big", facts_of_host={"cores": 96})
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


def test_two_experiments_are_compared_by_folder_or_by_name(results: Path) -> None:
    by_folder = call("compare", str(results / "e4"), str(results / "e5"), "--markdown")
    by_name = call("compare", "e4", "e5", "--results", str(results), "--markdown")
    assert by_folder.exit_code == by_name.exit_code == 0
    assert by_folder.output.splitlines()[4:] == by_name.output.splitlines()[4:]
    assert "| 1.300x [" in by_name.output
    assert " | slower | changed |" in by_name.output


def test_a_comparison_is_json_for_programs_and_has_times_only_when_asked(results: Path) -> None:
    plain = json.loads(call("compare", str(results / "e0"), str(results / "e1"), "--json").output)
    assert [row["change"]["verdict"] for row in plain[0]["tables"][0]["rows"]] == ["no difference"] * 2
    assert "not_comparable" not in json.dumps(plain)
    timed = call("compare", str(results / "e0"), str(results / "e1"), "--json", "--times").output
    assert "seconds_per_unit_not_comparable" in timed


def test_another_kind_of_host_is_refused_by_the_facts(results: Path) -> None:
    said = refused(KindError, "compare", str(results / "e0"), str(results / "big"))
    assert "cannot be compared: cores 2 and 96" in said


def test_a_name_that_is_none_says_where_was_looked(results: Path) -> None:
    said = refused(UsageError, "compare", str(results / "e0"), "e99", "--results", str(results))
    assert said.startswith(f"there is no folder 'e99', nor one of that name in {results} or below its reference/.")


def test_a_folder_without_experiments_is_named(results: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "no experiment is recorded here" in refused(StoreError, "history", str(tmp_path / "empty"))


def test_a_history_shows_the_change_its_image_and_both_kinds(results: Path) -> None:
    shown = call("history", str(results)).output
    assert "History of 10 experiments" in shown
    assert "History of 1 experiment\n" in shown
    assert "image of cpython-3.14t oldoldol -> newnewne" in shown
    assert "▁▁▁▁▁█████" in shown


def test_a_history_of_some_variants_and_workloads(results: Path) -> None:
    found = json.loads(call("history", str(results), "--variants", THIRD, "--workloads", "locks", "--json").output)
    assert [series["variant"] for series in found[0]["tables"][0]["series"]] == [THIRD]
    assert "variant 'cpython-9'" in refused(UsageError, "history", str(results), "--variants", "cpython-9")
    assert "workload 'nothing'" in refused(UsageError, "history", str(results), "--workloads", "nothing")


def test_a_report_of_a_folder_of_experiments_is_a_summary_of_each_kind(results: Path) -> None:
    shown = call("report", str(results), "--markdown").output
    assert "kind     96 cores Example CPU 9000" in shown
    assert "older    9 experiments of these hosts, not counted" in shown


def test_the_projects_own_experiments_are_compared_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = call("compare", "2026-11-21-a", "2026-11-21-b", "--markdown")
    assert result.exit_code == 0
    assert "changed  0 of 56 ratios" in result.output


def test_an_export_writes_every_table_into_a_folder(results: Path, tmp_path: Path) -> None:
    result = call("export", str(results))
    assert result.exit_code == 0
    names = sorted(path.name for path in (tmp_path / "export").iterdir())
    assert names == sorted(f"{name}.parquet" for name in TABLES)
    assert pq.read_metadata(tmp_path / "export/experiments.parquet").num_rows == 11
    assert "experiments        11 rows  export/experiments.parquet" in result.output


def test_one_table_goes_into_one_file_whose_name_tells_the_format(results: Path, tmp_path: Path) -> None:
    assert call("export", str(results / "e0"), "--table", "values", "--output", "mine.csv").exit_code == 0
    lines = (tmp_path / "mine.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"experiment","host","variant"')
    assert len(lines) == 1 + 4 * 8


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--table", "nothing"], "there is no table 'nothing'. There are: experiments, cells"),
        (["--format", "xlsx"], "there is no format 'xlsx'. It can be parquet or csv."),
        (["--output", "all.parquet"], "'all.parquet' is one file for 9 tables. Choose one with --table."),
        (["--table", "cells", "--format", "csv", "--output", "a.parquet"], "'a.parquet' would hold csv."),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_is_written(
    results: Path, tmp_path: Path, words: list[str], said: str
) -> None:
    assert said in refused(UsageError, "export", str(results), *words)
    assert [path.name for path in tmp_path.iterdir()] == ["results"]
