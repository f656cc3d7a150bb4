"""`matrix` makes a machine ready only if something is missing that the playbook mends, and only if the user agrees."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text
from typer.testing import CliRunner

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.cli import machine, main
from interlock.cli.options import PlainConsole
from interlock.engine.host.engine import HostEngine
from interlock.engine.ownership import Life
from interlock.errors import EngineError, FleetError, UsageError
from interlock.fleet import ansible
from interlock.measure import doctor
from interlock.measure.doctor import Check, CheckState
from interlock.results.experiments import EngineName
from interlock.results.json_documents import Examined
from tests.builders import ROOT

ENGINE = Check("engine", CheckState.PROBLEM, "no container engine answers", "Start it.", by_playbook=True)
TUNING = Check("tuning", CheckState.WARNING, "governor powersave", "sudo tune", by_playbook=True)
# What stands for the client of an engine that answers.
CONNECTED = "a client"
DISK = Check("disk for results", CheckState.PROBLEM, "full", "Free some.")


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The playbooks that were run, which mend all that they can."""
    found: list[str] = []
    monkeypatch.setattr(ansible, "play_here", lambda _root, playbook: found.append(playbook))
    monkeypatch.setattr(machine, "_restart_in_new_group", lambda: None)
    return found


def ready(
    monkeypatch: pytest.MonkeyPatch,
    found: list[Check],
    played: list[str],
    *,
    agreed: bool,
    engine: EngineName | None = EngineName.DOCKER,
    here: Sequence[Check] = (),
    as_root: bool = True,
) -> Any:
    """What the block was given."""

    def examine(*_args: object, **_options: object) -> list[Check]:
        return [check for check in found if not (played and check.by_playbook)]

    monkeypatch.setattr(doctor, "examine", examine)
    monkeypatch.setattr(doctor, "examine_host", lambda _results, **_options: list(here))
    monkeypatch.setattr(machine, "connect", lambda _engine: CONNECTED)
    places = ProjectPaths(ROOT, Path("cache"))
    known = catalogs.load(ROOT)
    with machine.ready_machine(places, known, True, agreed=agreed, engine=engine, as_root=as_root) as client:
        return client


def test_on_a_ready_machine_nothing_is_run_whatever_was_agreed(
    monkeypatch: pytest.MonkeyPatch, played: list[str]
) -> None:
    assert ready(monkeypatch, [], played, agreed=True)
    assert played == []


def test_what_is_missing_is_brought_if_the_user_agreed_and_taken_back_after_measuring(
    monkeypatch: pytest.MonkeyPatch, played: list[str]
) -> None:
    assert ready(monkeypatch, [ENGINE], played, agreed=True)
    assert played == ["host.yml", "restore.yml"]


def test_where_nobody_can_be_asked_the_error_says_how_to_agree(
    monkeypatch: pytest.MonkeyPatch, played: list[str]
) -> None:
    with pytest.raises(EngineError, match=r"`interlock matrix --yes`.*playbooks/host\.yml"):
        ready(monkeypatch, [ENGINE], played, agreed=False)
    assert played == []


def test_where_no_engine_answers_and_none_was_named_the_machine_itself_is_one(
    monkeypatch: pytest.MonkeyPatch, played: list[str]
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert ready(monkeypatch, [ENGINE], played, agreed=False, engine=None) == HostEngine(ROOT, Path("cache"))
    assert played == []


def test_an_engine_that_was_named_by_its_address_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, played: list[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(EngineError, match="Start it"):
        ready(monkeypatch, [ENGINE], played, agreed=False, engine=None)


def test_without_containers_nothing_is_asked_of_an_engine(monkeypatch: pytest.MonkeyPatch, played: list[str]) -> None:
    found = ready(monkeypatch, [ENGINE], played, agreed=True, engine=EngineName.HOST)
    assert found == HostEngine(ROOT, Path("cache"))
    assert played == []


@pytest.mark.parametrize("named", [EngineName.HOST, None])
def test_root_has_to_say_that_programs_may_run_as_root_without_a_container(
    named: EngineName | None, monkeypatch: pytest.MonkeyPatch, played: list[str]
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(EngineError) as raised:
        ready(monkeypatch, [ENGINE], played, agreed=False, engine=named, as_root=False)
    assert "--as-root" in raised.value.todo
    assert ready(monkeypatch, [ENGINE], played, agreed=False, engine=named)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert ready(monkeypatch, [ENGINE], played, agreed=False, engine=named, as_root=False)


def test_a_machine_that_cannot_compile_is_no_engine(monkeypatch: pytest.MonkeyPatch, played: list[str]) -> None:
    compiler = Check("compiler", CheckState.PROBLEM, "no gcc", "apt-get install gcc")
    with pytest.raises(EngineError, match="no gcc"):
        ready(monkeypatch, [], played, agreed=False, engine=EngineName.HOST, here=[compiler])


def test_a_warning_that_nobody_agreed_to_mend_stays_one(monkeypatch: pytest.MonkeyPatch, played: list[str]) -> None:
    assert ready(monkeypatch, [TUNING], played, agreed=False)
    assert played == []


@pytest.mark.parametrize(("answer", "runs"), [(True, ["host.yml", "restore.yml"]), (False, [])])
def test_at_a_terminal_the_user_is_asked(
    monkeypatch: pytest.MonkeyPatch, played: list[str], answer: bool, runs: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", lambda _question, default: answer)
    assert ready(monkeypatch, [TUNING], played, agreed=False)
    assert played == runs


def test_what_the_playbook_does_not_mend_still_stands_in_the_way(
    monkeypatch: pytest.MonkeyPatch, played: list[str]
) -> None:
    with pytest.raises(EngineError, match=r"full\. Free some\.$"):
        ready(monkeypatch, [ENGINE, DISK], played, agreed=True)
    assert played == ["host.yml", "restore.yml"]


@pytest.mark.parametrize("at_a_terminal", [False, True])
def test_checks_fit_a_terminal_and_are_a_line_each_elsewhere(
    monkeypatch: pytest.MonkeyPatch, at_a_terminal: bool
) -> None:
    said = io.StringIO()
    console = PlainConsole(file=said, width=60, force_terminal=at_a_terminal, no_color=True)
    monkeypatch.setattr(machine, "console", console)
    long = Check("tuning", CheckState.WARNING, "word " * 30, "mend " * 30)
    machine.print_checks([long, DISK])
    lines = Text.from_ansi(said.getvalue()).plain.splitlines()
    if at_a_terminal:
        assert max(map(len, lines)) <= 60
        assert sum(line.strip().startswith("->") for line in lines) == 2
    else:
        assert [line.split()[0] for line in lines] == ["warning", "problem"]


def test_a_playbook_that_fails_says_so(tmp_path: Path) -> None:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/ansible.cfg").write_text("[defaults]\n")
    (tmp_path / "playbooks/host.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - ansible.builtin.fail: {msg: no}\n"
    )
    with pytest.raises(FleetError) as caught:
        ansible.play_here(tmp_path, "host.yml")
    assert caught.value.file == "playbooks/host.yml"
    assert "2" in caught.value.found


@pytest.mark.parametrize("state", CheckState)
def test_the_doctors_checks_are_json_for_programs(state: CheckState, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "examine", lambda *_args, **_options: [Check("engine", state, "found", "fix")])
    result = CliRunner().invoke(main.app, ["doctor", "--json"])
    found = Examined.model_validate_json(result.output)
    assert (found.can_measure, result.exit_code) == (state is not CheckState.PROBLEM, state is CheckState.PROBLEM)
    assert [(one.subject, one.state) for one in found.checks] == [("project", CheckState.OK), ("engine", state)]


class LeftToAnEngine:
    """An engine in the place of one, which still makes something for a process that was killed while it is cleaned."""

    def __init__(self, *looks: dict[str, Life]) -> None:
        self.looks, self.cleaned = list(looks), list[str]()

    def owners(self) -> dict[str, Life]:
        return self.looks.pop(0) if self.looks else {}

    def clean_up(self, owner: str) -> None:
        self.cleaned.append(owner)


def test_clean_looks_again_for_what_the_engine_was_still_making(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "IN_FLIGHT_S", 0)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    busy = LeftToAnEngine({"a-1": Life.DEAD, "b-1": Life.LIVING}, {"a-1": Life.DEAD, "b-1": Life.LIVING})
    monkeypatch.setattr(machine, "_engines", lambda _: [busy])
    done = CliRunner().invoke(main.app, ["clean"])
    assert done.exit_code == 0, done.output
    assert busy.cleaned == ["a-1", "a-1"]
    assert done.output.count("removed a-1") == 1
    idle = LeftToAnEngine({"b-1": Life.LIVING})
    monkeypatch.setattr(machine, "_engines", lambda _: [idle])
    assert CliRunner().invoke(main.app, ["clean"]).exit_code == 0
    assert idle.cleaned == []


def test_clean_refuses_a_name_that_nothing_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_engines", lambda _: [LeftToAnEngine({"b-1": Life.DEAD})])
    done = CliRunner().invoke(main.app, ["clean", "nosuch"])
    assert isinstance(done.exception, UsageError)
    assert "nosuch" in done.exception.found
