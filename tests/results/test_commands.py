"""A command that is printed is one that runs: it is parsed, and finds the same experiment and the same engine."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.cli.choosing import lead_to
from interlock.cli.main import load_command
from interlock.cli.options import MatrixOptions
from interlock.cli.settings import require_no_contradiction, resumed_place, settings_from
from interlock.results import store
from interlock.results.commands import command_line, option_words, resuming, runnable
from interlock.results.experiments import EXPERIMENT_FILE, EngineName, Experiment
from interlock.results.settings import Where
from tests.builders import ROOT, make_experiment, make_settings

SESSION = "NOX_CURRENT_SESSION"
BY_NOX = "sh bootstrap.sh -s matrix --"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The program that was started, in a folder below the current one, where nox would have put it."""
    program = tmp_path / ".nox/matrix/bin/interlock"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(SESSION, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return program


@pytest.mark.parametrize(
    ("session", "in_path", "program"),
    [("", True, "interlock"), ("", False, ".nox/matrix/bin/interlock"), ("tests", True, "interlock")],
)
def test_a_command_begins_with_the_program_as_it_was_found(
    monkeypatch: pytest.MonkeyPatch, started: Path, session: str, in_path: bool, program: str
) -> None:
    monkeypatch.setenv(SESSION, session)
    if in_path:
        monkeypatch.setenv("PATH", str(started.parent))
    assert command_line("matrix", "--name", "a b") == f"{program} matrix --name 'a b'"
    assert runnable("Run `interlock build X`, /x/interlock pick.") == f"Run `{program} build X`, /x/interlock pick."


def test_in_another_folder_the_program_is_named_by_its_whole_path(
    monkeypatch: pytest.MonkeyPatch, started: Path
) -> None:
    monkeypatch.chdir("/usr")
    assert command_line("pick") == f"{started} pick"


def test_what_nox_started_is_started_by_bootstrap_again_and_other_commands_by_their_path(
    monkeypatch: pytest.MonkeyPatch, started: Path
) -> None:
    monkeypatch.setenv(SESSION, "matrix")
    monkeypatch.setenv("PATH", str(started.parent))  # which the user's shell has not
    assert command_line("matrix", "--quick") == f"{BY_NOX} --quick"
    assert runnable("error: `interlock matrix --yes` or interlock doctor") == (
        f"error: `{BY_NOX} --yes` or .nox/matrix/bin/interlock doctor"
    )


def test_what_uvx_runs_is_not_in_the_path_of_the_users_shell(
    monkeypatch: pytest.MonkeyPatch, started: Path, tmp_path: Path
) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()
    made = tmp_path / "cache/archive-v0/xyz/lib/python3.13/site-packages/interlock-0.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: interlock\nVersion: 0\n")
    (made / "direct_url.json").write_text(json.dumps({"url": clone.as_uri(), "dir_info": {}}))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "cache/archive-v0/xyz"))
    monkeypatch.setattr(sys, "path", [str(made.parent), *sys.path])
    monkeypatch.setenv("PATH", str(started.parent))  # to which uvx has added its own
    words = ["uvx", "--from", f"{clone}[measure]", "interlock"]
    assert shlex.split(command_line("matrix", "--quick")) == [*words, "matrix", "--quick"]
    monkeypatch.chdir(clone)
    assert command_line("matrix", "--quick") == f"{BY_NOX} --quick"
    assert shlex.split(command_line("pick")) == [*words, "pick"]


def parsed(line: str) -> dict[str, Any]:
    """The parameters of a printed command of `matrix`, as its options are read."""
    words = shlex.split(line)
    rest = words[words.index("--") + 1 :] if "--" in words else words[2:]
    return load_command("matrix").make_context("matrix", rest).params


@pytest.mark.parametrize("session", ["", "matrix"])
@pytest.mark.parametrize("results", [None, "elsewhere"])
@pytest.mark.parametrize("docker_host", [None, "unix:///run/podman.sock"])
@pytest.mark.parametrize(
    ("used", "asked", "as_root"),
    [
        (EngineName.HOST, None, False),
        (EngineName.HOST, EngineName.HOST, True),
        (EngineName.DOCKER, None, True),
        (EngineName.PODMAN, EngineName.PODMAN, False),
    ],
)
@pytest.mark.usefixtures("started")
def test_what_repeats_or_continues_an_experiment_finds_its_folder_and_its_engine(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    used: EngineName,
    asked: EngineName | None,
    as_root: bool,
    docker_host: str | None,
    results: str | None,
    session: str,
) -> None:
    monkeypatch.setenv(SESSION, session)
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    if docker_host:
        monkeypatch.setenv("DOCKER_HOST", docker_host)
    began = begun(used, asked, as_root, Path(results) if results else None)
    folder = (tmp_path / results if results else tmp_path / "results") / began.name
    store.write_json(folder / EXPERIMENT_FILE, began)
    # Whatever the environment says by then, unless DOCKER_HOST leads to the engine.
    monkeypatch.setenv("INTERLOCK_ENGINE", "" if docker_host and not asked else "podman")
    again, on = parsed(began.command), parsed(began.resume_command)
    for found in (again, on):
        assert found["engine"] is (asked if docker_host and used is not EngineName.HOST else used)
        assert found["as_root"] == (as_root and used is EngineName.HOST)
        assert (found["results"] or tmp_path / "results") == folder.parent
    assert (again["resume"], on["resume"]) == (None, began.name)
    monkeypatch.chdir("/")
    assert resumed_place(on["resume"], on["results"]) == (began.name, folder.parent if results else None)
    options = MatrixOptions(**{name: again[name] for name in MatrixOptions.__dataclass_fields__})
    known = catalogs.load(ROOT)
    require_no_contradiction(options, settings_from(known, options), began)
    assert began.engine is used


def begun(used: EngineName, asked: EngineName | None, as_root: bool, results: Path | None) -> Experiment:
    """An experiment of this engine, with the command that `matrix` records."""
    where = lead_to(used, asked, as_root=as_root, results=str(results.absolute()) if results else "")
    settings = make_settings(["cpython-3.13", "cpython-3.14"]).model_copy(update={"where": where})
    engine = {"name": used.value, "version": "1", "storage_driver": "x"}
    found = make_experiment(["cpython-3.13", "cpython-3.14"], settings=settings)
    return found.model_copy(update={"host": {**found.host, "engine": engine}, "command": settings.command})


@pytest.mark.parametrize(
    ("began", "where", "on"),
    [
        ("nox -s matrix -- --quick --seed 7", Where(), "nox -s matrix -- --resume x"),
        (
            "interlock matrix --seed 7 --engine host --as-root",
            Where(engine=EngineName.HOST, as_root=True),
            "interlock matrix --resume x --engine host --as-root",
        ),
        (
            "interlock fleet -i a.yml --variants a --engine podman",
            Where(engine=EngineName.PODMAN, results="/r"),
            "interlock fleet -i a.yml --resume x --engine podman --results /r",
        ),
        (
            "interlock trial . --load 'wrk {url}' --results /r",
            Where(results="/r"),
            "interlock trial . --load 'wrk {url}' --results /r --resume x",
        ),
    ],
)
def test_an_experiment_goes_on_by_the_words_that_began_it(began: str, where: Where, on: str) -> None:
    assert resuming(began, "x", where.words) == on


def test_options_are_typed_by_their_values() -> None:
    given = {"a": None, "b": "", "c_d": True, "e": False, "f": ["x", "y"], "g": 0, "h": 1.5, "i": Path("z")}
    assert option_words(given) == ["--c-d", "--f", "x", "--f", "y", "--g", "0", "--h", "1.5", "--i", "z"]
