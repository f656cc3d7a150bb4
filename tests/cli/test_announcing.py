"""What a command would do is said before it does it, and --dry-run stops there."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from interlock.catalog import project as catalogs
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli import options
from interlock.cli.announcing import announce, building, left_out_of, missing_of, require_writable
from interlock.cli.main import load_command
from interlock.cli.options import PlainConsole
from interlock.engine.build.builds import NOT_BUILT
from interlock.engine.host.engine import HostEngine
from interlock.engine.protocol import BuildOptions
from interlock.errors import StoreError, UsageError
from interlock.measure import lock
from interlock.results import store
from interlock.results.experiments import Outcome, State
from interlock.results.journal import JOURNAL_FILE
from tests.builders import ROOT, Entry, make_build_record, make_built
from tests.cli.conftest import Run
from tests.picks import catalog_of

WORKING = ("build", "matrix", "trial", "why", "check", "swap", "audit", "train", "pull")


@pytest.mark.parametrize("name", WORKING)
def test_every_command_that_builds_or_measures_has_a_dry_run(name: str) -> None:
    assert "--dry-run" in [word for parameter in load_command(name).params for word in parameter.opts]


def test_a_dry_run_ends_after_what_is_said_and_json_keeps_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    announce("builds a", dry_run=False)
    assert "builds a" in capsys.readouterr().out
    announce("builds a", dry_run=False, as_json=True)
    assert capsys.readouterr() == ("", "")
    with pytest.raises(typer.Exit):
        announce("builds a", dry_run=True, as_json=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "builds a" in printed.err


def test_with_quiet_nothing_is_said_but_the_plan_of_a_dry_run_which_is_its_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for place in (options.notes, options.console):
        monkeypatch.setattr(place, "quiet", False)
    for as_json, where in product((False, True), (options.console, PlainConsole(stderr=True, quiet=True))):
        options.notes.quiet = True
        announce("builds a", dry_run=False, as_json=as_json, where=where)
        assert capsys.readouterr() == ("", "")
        with pytest.raises(typer.Exit):
            announce("builds a", dry_run=True, as_json=as_json, where=where)
        printed = capsys.readouterr()
        in_out = where is options.console and not as_json
        assert ("builds a" in printed.out, "builds a" in printed.err) == (in_out, not in_out)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [("--try --json", 0, "Dockerfile"), ("--try --quiet", 0, "Dockerfile"), ("", 2, "--dry-run")],
)
def test_a_dry_run_of_a_swap_is_of_its_try_and_said_with_json_too(
    entry: Entry, project: Path, monkeypatch: pytest.MonkeyPatch, words: str, code: int, said: str
) -> None:
    monkeypatch.chdir(project)
    (project / "Dockerfile").write_text("FROM python:3.13-slim\n", encoding="utf-8")
    ended, _, err = entry("swap", "--to", "cpython-3.14", "--dry-run", *words.split())
    assert (ended, said in err) == (code, True)


def test_what_cannot_be_built_here_is_in_no_plan(tmp_path: Path) -> None:
    official, catalog = "official-3.13", catalogs.load(ROOT)
    there = [make_built(name) for name in ("a", "b", "c")]
    states = [Outcome(state=State.UNAVAILABLE, reason=reason) for reason in (NOT_BUILT, "needs a container engine")]
    there[1:] = [make_built(name, state) for name, state in zip("bc", states, strict=True)]
    engine: Any = SimpleNamespace(look_up=lambda *_: there)
    assert missing_of(engine, known("abc"), list("abc"), BuildOptions(ROOT, tmp_path)) == ["b"]
    here = HostEngine(ROOT, tmp_path)
    assert missing_of(here, catalog, [official], BuildOptions(ROOT, tmp_path)) == []
    (line,) = left_out_of(here.look_up(catalog, [official], BuildOptions(ROOT, tmp_path)))
    assert line == f"without {official}: a variant of kind 'image' needs a container engine"
    assert left_out_of([make_built("a"), make_built("b", Outcome(state=State.UNAVAILABLE, reason=NOT_BUILT))]) == []


def known(names: str) -> Catalog:
    return catalog_of({name: {} for name in names}, {}, {})


def test_builds_have_minutes_by_what_was_learned_here_and_disk_by_the_projects_record(tmp_path: Path) -> None:
    paths = ProjectPaths(tmp_path, tmp_path / "cache")
    sizes = {"a": 100_000_000, "b": 200_000_000}
    builds = [make_built(name).model_copy(update={"size_bytes": size}) for name, size in sizes.items()]
    store.write_json(paths.reference / "r" / store.BUILDS_FILE, make_build_record(*builds, duration_s=60))
    store.write_durations(paths.cache, {"a": 600.0})
    assert building(paths, known("ab"), []).startswith("builds nothing")
    assert "10 min" in building(paths, known("ab"), ["a"])
    assert "100 MB" in building(paths, known("ab"), ["a"])
    assert "300 MB" in building(paths, known("abc"), ["a", "b"])
    assert "450 MB" in building(paths, known("abc"), ["a", "b", "c"])


def test_a_folder_that_takes_no_results_is_found_before_anything_is_built(tmp_path: Path) -> None:
    require_writable(tmp_path / "results")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as caught:
        require_writable(tmp_path / "file/results")
    assert caught.value.file == str(tmp_path / "file/results")
    assert "XDG_DATA_HOME" in caught.value.todo


def test_a_name_that_is_taken_is_found_before_anything_is_built(run: Run, tmp_path: Path) -> None:
    (tmp_path / "r/mine").mkdir(parents=True)
    (tmp_path / "r/mine" / JOURNAL_FILE).touch()  # it was killed before it had anything: nothing can resume it
    require_writable(tmp_path / "r", "mine")
    (tmp_path / "r/mine/experiment.json").touch()
    code, said = run("matrix", "--name", "mine", "--results", str(tmp_path / "r"), "--engine", "docker")
    assert (code, str(tmp_path / "r/mine") in said) == (StoreError.exit_code, True)


def test_whose_measurement_the_work_would_disturb_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    with lock.hold("matrix into here", lambda _: None):
        announce("builds a", dry_run=False)
    assert "disturbs matrix into here" in capsys.readouterr().out
    announce("builds a", dry_run=False)
    assert "disturbs" not in capsys.readouterr().out
