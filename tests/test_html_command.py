"""`interlock report --html` and `--charts` on the command line, and the page that ends a matrix."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock import cli, routines, store
from tests.builders import ROOT, make_cell, make_experiment

REFERENCE = ROOT / "results/reference/2026-11-21-a"


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
    result = CliRunner().invoke(cli.app, ["report", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.output


def test_the_page_is_written_into_the_experiments_folder_and_its_path_is_said(folder: Path) -> None:
    said = invoke(folder, "--html")
    assert said == f"{folder / 'report.html'}\n"
    assert "cpython-2.7-pth" in (folder / "report.html").read_text(encoding="utf-8")


def test_the_page_is_written_where_it_is_wanted(folder: Path, tmp_path: Path) -> None:
    invoke(folder, "--html", "--output", tmp_path / "new" / "page.html")
    assert (tmp_path / "new" / "page.html").is_file()
    assert not (folder / "report.html").exists()


def test_each_chart_is_written_by_its_name(folder: Path, tmp_path: Path) -> None:
    said = invoke(folder, "--charts", tmp_path / "charts")
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    assert {"heat-map.svg", "heat-map.png", "ratio-locks-queue.svg", "memory.png"} <= names
    assert {Path(line).name for line in said.splitlines()} == names


def test_a_copied_experiment_has_the_claims_of_the_project_around_it_or_none(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    invoke(folder, "--html")
    assert "Published claims" in (folder / "report.html").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    invoke(folder, "--html")
    assert "Published claims" not in (folder / "report.html").read_text(encoding="utf-8")


def failed(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["interlock", "report", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0), capfd.readouterr().err


def test_output_without_a_page_is_refused(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = failed(monkeypatch, capfd, folder, "--output", tmp_path / "page.html")
    assert code == 2
    assert said == "error: key '--output': names the file of a page that was not asked for. Add --html.\n"
    assert not (tmp_path / "page.html").exists()


def test_a_folder_of_several_experiments_has_no_page(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, said = failed(monkeypatch, capfd, folder.parent, "--html")
    assert (code, said) == (2, f"error: {folder.parent}: holds several experiments. Name the folder of one of them.\n")


def test_a_page_that_cannot_be_written_is_one_line(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    code, said = failed(monkeypatch, capfd, folder, "--html", "--output", tmp_path / "file" / "page.html")
    assert code == 7
    assert said.count("\n") == 1
    assert "page.html: cannot be written" in said


def test_a_matrix_ends_with_the_path_of_its_page(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    experiment = make_experiment(["cpython-3.13"], cells=[make_cell("cpython-3.13")])
    store.write_json(tmp_path / "experiment.json", experiment)
    routines.write_report(tmp_path)
    said = capfd.readouterr().out
    assert said.splitlines()[-1] == f"Full report: {tmp_path / 'report.html'}"
    assert (tmp_path / "report.html").is_file()
    assert (tmp_path / "report.md").is_file()


def test_a_project_without_claims_has_a_page_without_them(
    folder: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "workloads/claims.toml").unlink()
    assert invoke(folder, "--html") == f"{folder / 'report.html'}\n"
