"""What doctor and clean say of this machine."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path

import pytest
from rich.text import Text
from typer.testing import CliRunner, Result

from interlock.cli import machine, main
from interlock.cli.options import PlainConsole
from interlock.engine import left_behind
from interlock.engine.checks import CheckState, MachineCheck
from interlock.engine.host import memory
from interlock.engine.host.account import Account
from interlock.engine.ownership import MARK, STARTED, Life
from interlock.errors import UsageError
from interlock.measure import doctor
from interlock.results.json_documents import Examined

DISK = MachineCheck("disk for results", CheckState.PROBLEM, "full", "Free some.")


@pytest.mark.parametrize("at_a_terminal", [False, True])
def test_checks_fit_a_terminal_and_are_a_line_each_elsewhere(
    monkeypatch: pytest.MonkeyPatch, at_a_terminal: bool
) -> None:
    said = io.StringIO()
    console = PlainConsole(file=said, width=60, force_terminal=at_a_terminal, no_color=True)
    monkeypatch.setattr(machine, "console", console)
    long = MachineCheck("tuning", CheckState.WARNING, "word " * 30, "mend " * 30)
    machine.print_checks([long, DISK])
    lines = Text.from_ansi(said.getvalue()).plain.splitlines()
    if at_a_terminal:
        assert max(map(len, lines)) <= 60
        assert sum(line.strip().startswith("->") for line in lines) == 2
    else:
        assert [line.split()[0] for line in lines] == ["warning", "problem"]


@pytest.mark.parametrize("state", CheckState)
def test_the_doctors_checks_are_json_for_programs(state: CheckState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        doctor, "examine_host", lambda *_args, **_options: [MachineCheck("engine", state, "found", "fix")]
    )
    result = CliRunner().invoke(main.app, ["doctor", "--json", "--engine", "host"])
    found = Examined.model_validate_json(result.output)
    assert (found.can_measure, result.exit_code) == (state is not CheckState.PROBLEM, state is CheckState.PROBLEM)
    first, used, engine = [(one.subject, one.state) for one in found.checks]
    assert (first, engine) == (("project", CheckState.OK), ("engine", state))
    assert used == ("used by matrix", CheckState.OK)


@pytest.mark.parametrize("named", [False, True])
def test_the_doctor_says_what_matrix_would_use_where_no_engine_answers(
    named: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = f"unix://{tmp_path}/none.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    monkeypatch.setattr(doctor, "examine_host", lambda *_args, **_options: [])
    result = CliRunner().invoke(main.app, ["doctor", "--json", *(["--engine", "docker"] if named else [])])
    found = {one.subject: one for one in Examined.model_validate_json(result.output).checks}
    assert result.exit_code == named
    assert address in found["engine" if named else "used by matrix"].found


class LeftToAnEngine:
    """An engine in the place of one, which still makes something for a process that was killed while it is cleaned."""

    def __init__(self, *looks: dict[str, Life]) -> None:
        self.looks, self.cleaned = list(looks), list[str]()

    def owners(self) -> dict[str, Life]:
        return self.looks.pop(0) if self.looks else {}

    def clean_up(self, owner: str) -> None:
        self.cleaned.append(owner)


def cleaned(monkeypatch: pytest.MonkeyPatch, engine: LeftToAnEngine, *words: str) -> Result:
    monkeypatch.setattr(left_behind, "engines", lambda _: ([engine], ""))
    return CliRunner().invoke(main.app, ["clean", *words])


def test_clean_looks_again_for_what_the_engine_was_still_making(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "IN_FLIGHT_S", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    busy = LeftToAnEngine({"a-1": Life.DEAD, "b-1": Life.LIVING}, {"a-1": Life.DEAD, "b-1": Life.LIVING})
    done = cleaned(monkeypatch, busy)
    assert done.exit_code == 0, done.output
    assert busy.cleaned == ["a-1", "a-1"]
    assert done.output.count("removed a-1") == 1
    idle = LeftToAnEngine({"b-1": Life.LIVING})
    assert cleaned(monkeypatch, idle).exit_code == 0
    assert idle.cleaned == []


def test_clean_removes_what_a_killed_run_left_in_memory_although_its_cache_is_gone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(memory, "WANTED_BYTES", 0)
    monkeypatch.setattr(left_behind, "engines", lambda _: ([], ""))
    living, dead = (memory.make(owner, Account()) for owner in ("living", "dead"))
    mark = json.loads((dead / MARK).read_text())
    (dead / MARK).write_text(json.dumps({**mark, STARTED: "another boot"}))
    done = CliRunner().invoke(main.app, ["clean"])
    assert done.exit_code == 0, done.output
    assert (living.is_dir(), dead.is_dir()) == (True, False)


def test_clean_refuses_a_name_that_nothing_has(monkeypatch: pytest.MonkeyPatch) -> None:
    done = cleaned(monkeypatch, LeftToAnEngine({"b-1": Life.DEAD}), "nosuch")
    assert isinstance(done.exception, UsageError)
    assert "nosuch" in done.exception.found


@pytest.mark.parametrize(("words", "shows_end"), [(["b"], True), (["--end", "b"], False)])
def test_what_clean_could_not_end_is_not_to_be_ended_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch, words: list[str], shows_end: bool
) -> None:
    monkeypatch.setattr(left_behind, "end_processes", lambda *_: [])
    done = cleaned(monkeypatch, LeftToAnEngine({"b-1": Life.LIVING}), *words)
    assert isinstance(done.exception, UsageError)
    assert ("interlock clean --end b" in done.exception.todo) == shows_end
