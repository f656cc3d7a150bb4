"""What `init` finds in a folder and writes; that commands take it, and say so where it is wrong."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from interlock.catalog.defaults import read_defaults
from interlock.cli.initial import next_commands
from interlock.cli.main import OF_DEFAULTS, app
from interlock.errors import CatalogError, InterlockError, UsageError
from interlock.trial.own_service import OwnService
from tests.builders import ROOT

PYPROJECT = '[project]\nname = "shop"\ndependencies = ["flask"]  # a comment\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def interlock(*words: str) -> str:
    """What a command prints; its error is raised."""
    result = CliRunner().invoke(app, words, catch_exceptions=True, env={"COLUMNS": "200"})
    if isinstance(result.exception, InterlockError):
        raise result.exception
    return result.output


def test_an_example_gets_a_file_that_is_read_back_and_three_commands(folder: Path) -> None:
    without = shutil.ignore_patterns("interlock.toml")
    shutil.copytree(ROOT / "examples/services/datasette", folder, dirs_exist_ok=True, ignore=without)
    printed = interlock("init").splitlines()
    assert [line.split(maxsplit=1)[0] for line in printed[-3:]] == ["next", "then", "then"]
    found = read_defaults(folder / "interlock.toml")
    assert found.variants == ["cpython-3.14", "cpython-3.14t"]
    assert (found.trial.file, found.trial.http) == ("Dockerfile", ":8001/-/versions.json")
    assert found.audit.requirement == ["requirements.txt"]


@pytest.mark.parametrize("before", [PYPROJECT, ""])
def test_a_pyproject_gets_a_table_and_keeps_every_other_character(folder: Path, before: str) -> None:
    """An empty one got the keys without the table, which no command reads."""
    (folder / "pyproject.toml").write_text(before)
    (folder / "Dockerfile").write_text("FROM python:3.13\nEXPOSE 5000/tcp\n")
    interlock("init")
    text = (folder / "pyproject.toml").read_text(encoding="utf-8")
    assert text.startswith(before)
    assert tomllib.loads(text)["tool"]["interlock"]["trial"]["http"] == ":5000/"
    assert not (folder / "interlock.toml").exists()


def test_where_no_file_names_a_port_the_trial_that_is_suggested_has_one_to_try(folder: Path) -> None:
    (folder / "Dockerfile").write_text("FROM python:3.13\n")
    assert "interlock trial ." in interlock("init")
    trial = read_defaults(folder / "interlock.toml").trial
    assert (trial.http, "{url}/" in str(trial.load)) == (":8000/", True)


@pytest.mark.parametrize("name", ["interlock.toml", "pyproject.toml"])
def test_a_table_that_is_there_stays(folder: Path, name: str) -> None:
    (folder / name).write_text("[tool.interlock]\n")
    with pytest.raises(UsageError) as caught:
        interlock("init")
    assert caught.value.file == name
    assert [path.read_text() for path in folder.iterdir()] == ["[tool.interlock]\n"]


def test_a_pyproject_that_is_no_toml_is_left_as_it_is(folder: Path) -> None:
    (folder / "pyproject.toml").write_text("[project\n")
    with pytest.raises(CatalogError, match=r"pyproject\.toml: not valid TOML"):
        interlock("init")
    assert [path.name for path in folder.iterdir()] == ["pyproject.toml"]


def test_the_next_commands_need_what_is_there_alone() -> None:
    named = [[line.split()[1] for line in next_commands(one)] for one in (
        OwnService(),
        OwnService(file="Dockerfile"),
        OwnService(file="Dockerfile", requirement="uv.lock"),
        OwnService(requirement="uv.lock"),
    )]  # fmt: skip
    assert named == [
        ["pick", "matrix", "report"],
        ["pick", "trial", "report"],
        ["pick", "trial", "audit"],
        ["pick", "matrix", "audit"],
    ]


def test_a_command_takes_the_defaults_and_a_word_of_the_command_line_wins(folder: Path) -> None:
    (folder / "interlock.toml").write_text(
        'workloads = { no-such = 1 }\n[trial]\nhttp = ":99999/"\nload = "wrk {url}"\n'
    )
    (folder / "Dockerfile").write_text("FROM python:3.13\n")
    with pytest.raises(UsageError) as caught:
        interlock("trial", ".")
    assert (caught.value.file, caught.value.key) == ("interlock.toml", "trial.http")
    with pytest.raises(UsageError) as caught:
        interlock("trial", ".", "--http", ":0/")
    assert (caught.value.file, caught.value.key) == ("", "--http")
    with pytest.raises(InterlockError, match="no-such"):
        interlock("pick")
    assert "cpython-3.14" in interlock("pick", "--workload", "startup=1")


@pytest.mark.parametrize(
    ("command", "text", "key"),
    [
        ("matrix", 'variants = ["no-such"]', "variants"),
        ("matrix", 'variants = ["cpython-3.13+no-such"]', "variants"),
        ("matrix", "workloads = { no-such = 1 }", "workloads"),
        ("matrix", 'workloads = { "startup/no-such" = 1 }', "workloads"),
        ("audit", 'variants = ["no-such"]\n[audit]\nrequirement = ["r.txt"]', "variants"),
    ],
)
def test_a_name_that_does_not_exist_is_traced_to_the_file_that_has_it(
    folder: Path, command: str, text: str, key: str
) -> None:
    (folder / "interlock.toml").write_text(text)
    (folder / "r.txt").write_text("six\n")
    with pytest.raises(UsageError, match="no-such") as caught:
        interlock(command)
    assert (caught.value.file, caught.value.key) == ("interlock.toml", key)


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("command", OF_DEFAULTS)
def test_help_is_there_beside_a_file_that_is_wrong(folder: Path, command: str, option: str) -> None:
    (folder / "interlock.toml").write_text("[trial]\nhealthy_within = 77\n")
    assert ("77" in interlock(command, option)) is (command == "trial")
    (folder / "interlock.toml").write_text("[trial\n")
    assert "Usage:" in interlock(command, option)


def test_what_an_experiment_was_begun_with_it_goes_on_with(folder: Path) -> None:
    (folder / "interlock.toml").write_text('variants = ["no-such"]\n')
    with pytest.raises(UsageError, match="there is no experiment 'x'"):
        interlock("matrix", "--resume", "x")


def test_of_swaps_only_one_that_builds_reads_the_defaults(folder: Path) -> None:
    (folder / "interlock.toml").write_text("[trial]\nbuild_arg = 7\n")
    (folder / "Dockerfile").write_text("FROM python:3.13-slim\n")
    assert "3.14" in interlock("swap", "--to", "cpython-3.14", "--local")
    with pytest.raises(CatalogError) as caught:
        interlock("swap", "--to", "cpython-3.14", "--local", "--try")
    assert caught.value.key == "trial.build_arg"


def test_a_trial_that_is_resumed_by_the_same_command_has_the_same_defaults(folder: Path) -> None:
    """It was refused for lack of --http, --cmd and --load, or had another address than the file's."""
    (folder / "interlock.toml").write_text('[trial]\nhttp = ":99999/"\n')
    (folder / "Dockerfile").write_text("FROM python:3.13\n")
    with pytest.raises(UsageError) as caught:
        interlock("trial", ".", "--resume", "x")
    assert (caught.value.file, caught.value.key) == ("interlock.toml", "trial.http")


def test_the_table_of_both_files_is_an_error_of_each_command_that_reads_it(folder: Path) -> None:
    (folder / "interlock.toml").write_text("")
    (folder / "pyproject.toml").write_text("[tool.interlock]\n")
    for command in ("pick", "audit", "trial", "matrix", "init"):
        with pytest.raises(CatalogError, match="Keep one of them"):
            interlock(command)


def test_quiet_prints_the_answer_alone_and_the_next_command_is_not_quiet(folder: Path) -> None:
    loud = CliRunner().invoke(app, ["report"])
    quiet = CliRunner().invoke(app, ["report", "--quiet"])
    assert (loud.stdout, quiet.stderr) == (quiet.stdout, "")
    assert "shipped" in loud.stderr
    assert CliRunner().invoke(app, ["report"]).stderr == loud.stderr


@pytest.mark.parametrize("command", ["report", "claims"])
def test_with_json_standard_error_has_only_errors(folder: Path, command: str) -> None:
    result = CliRunner().invoke(app, [command, "--json"])
    assert (bool(json.loads(result.stdout)), result.stderr) == (True, "")


@pytest.mark.parametrize("command", ["pick", "audit", "trial", "swap", "report", "claims", "compare", "why"])
def test_every_command_that_answers_has_both(command: str) -> None:
    helped = interlock(command, "--help")
    assert "--json" in helped
    assert "--quiet" in helped
