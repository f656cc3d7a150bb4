"""compare, export and a report over hosts, as they are typed."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner, Result

from interlock.analysis.verdicts import Verdict
from interlock.cli import main, report
from interlock.cli.options import PlainConsole
from interlock.errors import CatalogError, InterlockError, KindError, StoreError, UsageError
from interlock.report import overview
from interlock.report.export import TABLES
from interlock.results import store
from interlock.results.json_documents import Reported
from interlock.results.settings import Where
from tests.analysis.extracts import BASE, OTHER, THIRD, write_experiment
from tests.builders import ROOT, Entry, make_cell, make_experiment


def call(*words: str) -> Result:
    return CliRunner().invoke(main.app, list(words), env={"COLUMNS": "200"})


def refused(kind: type[InterlockError], *words: str) -> InterlockError:
    result = call(*words)
    assert isinstance(result.exception, kind)
    return result.exception


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


def test_a_comparison_is_json_for_programs(results: Path) -> None:
    plain = json.loads(call("compare", str(results / "e0"), str(results / "e1"), "--json").output)
    assert [row["change"]["verdict"] for row in plain["tables"][0]["rows"]] == ["same"] * 2


def test_a_folder_of_several_is_no_experiment_to_compare(results: Path) -> None:
    error = refused(UsageError, "compare", str(results), str(results / "e1"))
    assert (error.key, "11" in error.found) == (str(results), True)
    results = results.rename(results.with_name("my results"))
    assert f"`interlock report '{results}'`" in refused(UsageError, "compare", str(results), str(results / "e1")).todo


def test_another_kind_of_host_is_refused_by_the_facts(results: Path) -> None:
    error = refused(KindError, "compare", str(results / "e0"), str(results / "big"))
    assert {"cores", "2", "96"} <= set(re.findall(r"\w+", error.found))


def test_a_name_that_is_none_says_where_was_looked(results: Path) -> None:
    error = refused(UsageError, "compare", str(results / "e0"), "e99", "--results", str(results))
    assert error.key == "e99"
    assert str(results) in error.found
    assert set(re.findall(r"\w+", error.todo)) >= {"e9", "big"}


def test_a_folder_without_experiments_is_named(results: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert str(tmp_path / "empty") in refused(StoreError, "compare", str(results / "e0"), str(tmp_path / "empty")).file


def test_a_report_of_a_folder_of_experiments_is_a_summary_of_each_kind(results: Path) -> None:
    shown = call("report", str(results), "--markdown").output
    assert "kind     96 cores Example CPU 9000" in shown
    assert "older    9 earlier experiments" in shown


def test_the_projects_own_experiments_are_compared_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    result = call("compare", "2026-11-29-a", "2026-11-29-a", "--markdown")
    assert result.exit_code == 0
    (changed,) = [line for line in result.output.splitlines() if line.startswith("changed")]
    assert re.findall(r"\d+", changed)[:2] == ["0", "175"]


def test_an_export_writes_every_table_into_a_folder(results: Path, tmp_path: Path) -> None:
    result = call("export", str(results))
    assert result.exit_code == 0
    names = sorted(path.name for path in (tmp_path / "export").glob("*.csv"))
    assert names == sorted(f"{name}.csv" for name in TABLES)
    assert len((tmp_path / "export/experiments.csv").read_text(encoding="utf-8").splitlines()) == 1 + 11
    assert "experiments        11 rows  export/experiments.csv" in result.output


def test_the_folder_that_nobody_named_is_ignored_by_git(results: Path, tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    assert call("export", str(results / "e0")).exit_code == 0
    status = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain", "--", "export"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert status.stdout == ""


def test_a_folder_that_was_named_has_the_tables_alone(results: Path, tmp_path: Path) -> None:
    assert call("export", str(results / "e0"), "--output", "mine").exit_code == 0
    assert {path.suffix for path in (tmp_path / "mine").iterdir()} == {".csv"}


REFERENCE = ROOT / "results/reference/2026-11-29-a"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of a committed experiment with one of its workloads, outside of any project."""
    copy = tmp_path / "copied"
    shutil.copytree(
        REFERENCE, copy, ignore=shutil.ignore_patterns("download*", "import-loop*", "startup*", "*.md", "*.html")
    )
    experiment = store.read_experiment(copy)
    settings = experiment.settings.model_copy(update={"workloads": ["locks"]})
    cells = [cell for cell in experiment.cells if cell.workload == "locks"]
    store.write_json(copy / "experiment.json", experiment.model_copy(update={"settings": settings, "cells": cells}))
    return copy


def invoke(*words: str | Path) -> str:
    result = CliRunner().invoke(main.app, ["report", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_is_written_where_it_is_wanted(folder: Path, tmp_path: Path) -> None:
    invoke(folder, "--html", "--output", tmp_path / "new" / "page.html")
    assert "cpython-2.7-pth" in (tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert not (folder / "report.html").exists()


def test_a_page_stands_in_the_experiments_folder_within_a_project_and_outside(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke(folder, "--html") == f"{folder / 'report.html'}\n"
    within = (folder / "report.html").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert invoke(folder, "--html") == f"{folder / 'report.html'}\n"
    assert within.count("<section") == (folder / "report.html").read_text(encoding="utf-8").count("<section") > 3


def test_markdown_is_printed_alone_where_a_page_is_written_too(folder: Path) -> None:
    assert invoke(folder, "--html", "--markdown") == invoke(folder, "--markdown")
    assert (folder / "report.html").is_file()


def test_output_without_a_page_is_refused(folder: Path, tmp_path: Path, entry: Entry) -> None:
    code, _, said = entry("report", folder, "--output", tmp_path / "page.html")
    assert code == 2
    assert said.startswith("error: --output: ")
    assert not (tmp_path / "page.html").exists()


def test_a_page_that_cannot_be_written_is_one_line(folder: Path, tmp_path: Path, entry: Entry) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, _, said = entry("report", folder, "--html", "--output", tmp_path / "file" / "page.html")
    assert code == 7
    assert said.count("\n") == 1
    assert str(tmp_path / "file" / "page.html") in said


@pytest.mark.parametrize(("keeps_page", "name"), [(True, "report.html"), (False, "report.md")])
def test_a_matrix_ends_with_the_path_of_its_page_or_of_a_reference_which_has_none_of_its_text(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], keeps_page: bool, name: str
) -> None:
    experiment = make_experiment(["cpython-3.13"], cells=[make_cell("cpython-3.13")])
    store.write_json(tmp_path / "experiment.json", experiment)
    (tmp_path / "report.html").touch()  # it was there while the experiment ran
    report.write_report(tmp_path, keeps_page=keeps_page)
    said = capfd.readouterr().out
    assert said.splitlines()[-1] == f"Full report: {tmp_path / name}"
    assert (tmp_path / "report.html").is_file() is keeps_page
    assert (tmp_path / "report.md").is_file()


@pytest.mark.parametrize("error", [CatalogError(found="no such key", todo="Correct it."), FileNotFoundError(2, "gone")])
def test_a_report_that_cannot_be_written_meanwhile_ends_no_measuring(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever edited a variant's file while a matrix was measured ended it."""

    def fail(_: object) -> NoReturn:
        raise error

    write_experiment(tmp_path, {OTHER: 2.0}, 0)
    with monkeypatch.context() as edited:
        edited.setattr("interlock.cli.report.project.load", fail)
        report.refresh_report(tmp_path)
    assert not (tmp_path / "report.md").exists()
    report.refresh_report(tmp_path)
    assert (tmp_path / "report.md").is_file()


def test_a_project_without_claims_has_a_page_without_them(
    folder: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "workloads/claims.toml").unlink()
    assert invoke(folder, "--html") == f"{folder / 'report.html'}\n"


@pytest.mark.promise
def test_where_the_page_cannot_be_written_what_was_measured_is_printed_before_that_is_said(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write_experiment(tmp_path, {OTHER: 2.0}, 0)
    report.write_report(tmp_path)
    printed = capfd.readouterr().out
    (tmp_path / "report.html").unlink()
    (tmp_path / "report.html").mkdir()
    with pytest.raises(StoreError) as caught:
        report.write_report(tmp_path)
    assert caught.value.file.endswith("report.html")
    assert capfd.readouterr().out.strip() == printed.partition("\nFull report")[0].strip()


def test_without_results_of_ones_own_a_report_is_of_a_shipped_experiment_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    result = call("report")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"shipped  {overview.EXPERIMENT}:")
    assert {line.split(" ")[0] for line in result.stdout.splitlines()[-8:]} & {"SWITCH", "STAY", "MEASURE"}
    assert len(result.stdout.splitlines()) <= 40


@pytest.mark.parametrize(("begun_in", "says_how"), [("mine", True), ("elsewhere", False), ("", False)])
def test_an_experiment_that_was_killed_goes_on_from_whatever_folder_its_report_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begun_in: str, says_how: bool
) -> None:
    """Only --results on the command line of the report itself made it say so."""
    where = Where(results=str(tmp_path / begun_in) if begun_in else "")
    settings = make_experiment((BASE, OTHER)).settings.model_copy(update={"where": where})
    folder = write_experiment(
        tmp_path / "mine/killed", {OTHER: 2.0}, settings=settings, ended_by="the end of its process"
    )
    monkeypatch.chdir(tmp_path)
    assert ("--resume" in invoke(folder)) is says_how


def test_a_report_is_json_for_programs(folder: Path) -> None:
    shown = Reported.model_validate_json(call("report", str(folder), "--json").output)
    described = store.read_experiment(folder)
    assert (shown.experiment, shown.baseline) == (described.name, described.settings.baseline)
    measured = {one.label for one in described.cells if not one.label.endswith("+twin")}
    assert {one.label for one in shown.rows} == measured
    compared = [one for one in shown.rows if one.label != shown.baseline and one.to_baseline]
    assert {one.to_baseline.verdict for one in compared if one.to_baseline} <= set(Verdict)


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_of_a_folder_of_experiments_there_is_no_json_and_no_page(results: Path, option: str) -> None:
    assert refused(UsageError, "report", str(results), option).file == str(results)


def test_the_next_command_of_a_report_is_printed_whole_and_works_where_it_is_printed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    """In a service's folder it is a trial, which ended with 2 elsewhere."""
    monkeypatch.setattr(report, "console", PlainConsole(width=80))
    monkeypatch.chdir(tmp_path)

    def following() -> str:
        (line,) = (one for one in call("report", str(folder)).output.splitlines() if one.startswith("next: "))
        return line

    assert following() == "next: interlock pick"
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\n")
    trial = following()
    assert len(trial) > 80
    assert trial.endswith("'")
