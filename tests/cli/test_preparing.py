"""What `matrix` does to a machine before it builds: found out and said first, and only what the user agrees to."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import typer

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.cli import choosing, preparing
from interlock.cli.options import PlainConsole
from interlock.engine import finding, system_packages
from interlock.engine.checks import CheckState, MachineCheck
from interlock.engine.client import Address
from interlock.engine.docker import DockerEngine
from interlock.engine.finding import Found, find_containers
from interlock.engine.host import profiler
from interlock.engine.host.engine import HostEngine
from interlock.engine.system_packages import Installation
from interlock.errors import EngineError, FleetError, NoEngineError
from interlock.fleet import ansible
from interlock.measure import doctor
from interlock.results.experiments import EngineName
from tests.builders import ROOT

TUNING = MachineCheck("tuning", CheckState.WARNING, "governor powersave", "sudo tune", by_playbook=True)
BASE = MachineCheck("base image", CheckState.PROBLEM, "no mmdebstrap", "Install it.", by_playbook=True)
DISK = MachineCheck("disk for results", CheckState.PROBLEM, "full", "Free some.")
SILENT = NoEngineError(file="unix:///x.sock", found="no container engine answers", todo="Start one.")
DENIED = NoEngineError(file="unix:///x.sock", found="permission denied", todo="Log in again.")
FAILS, REST = "fails", "building about 20 min"


class Containers:
    """An engine in the place of one that answers."""

    name, address = EngineName.DOCKER, Address("unix:///x.sock")


ANSWERS = Found(cast(DockerEngine, Containers()))


@dataclass
class Machine:
    """A machine that is played: what is found on it, what is run on it, and what is said."""

    found: list[Found]  # each time that it is asked for an engine, the last one from then on
    checks: list[MachineCheck] = field(default_factory=list)  # of an engine that answers, until the playbook was run
    lacks: tuple[str, ...] = ()  # packages
    ends: str = ""  # how the playbook does
    played: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    said: io.StringIO = field(default_factory=io.StringIO)
    said_before_play: str = ""

    def find(self, named: EngineName | None = None) -> Found:
        if named is EngineName.HOST:  # of which the real one needs no engine either
            return find_containers(named)
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def play(self, _root: Path, playbook: str, variables: Mapping[str, Any]) -> None:
        self.said_before_play = self.said_before_play or self.said.getvalue()
        self.played.append((playbook, variables))
        if self.ends == FAILS and playbook == "host.yml":
            raise FleetError(found="ansible-playbook ended with exit code 2", todo="Fix that.")

    def examine(self, *_args: object, **_options: object) -> list[MachineCheck]:
        return [one for one in self.checks if not (self.played and one.by_playbook)]

    def installed(self) -> set[str]:
        return {"bash", *(["containerd"] if self.played else [])}

    def installation(self, names: Sequence[str], **_options: object) -> Installation:
        return Installation(tuple(one for one in names if one in self.lacks))

    @property
    def playbooks(self) -> list[tuple[str, str]]:
        return [(name, variables.get("interlock_engine", "")) for name, variables in self.played]


Ready = Callable[..., Any]


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch) -> Ready:
    """Plays a machine: what the block was given."""

    def call(
        here: Machine, *, agreed: bool = True, engine: EngineName | None = None, no_packages: str = "",
        host: Sequence[MachineCheck] = (), dry_run: bool = False, is_quiet: bool = False,
    ) -> Any:  # fmt: skip
        console = PlainConsole(file=here.said, width=400, quiet=is_quiet)
        for module in (preparing, choosing):
            monkeypatch.setattr(module, "console", console)
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        monkeypatch.setattr(finding, "find_containers", here.find)
        monkeypatch.setattr(finding, "podman_is_installed", lambda: False)
        monkeypatch.setattr(finding, "why_no_packages", lambda: no_packages)
        monkeypatch.setattr(profiler, "could_trace", lambda: False)
        monkeypatch.setattr(system_packages, "installed", here.installed)
        monkeypatch.setattr(system_packages, "installation", here.installation)
        monkeypatch.setattr(system_packages, "known", list)
        monkeypatch.setattr(doctor, "examine", here.examine)
        monkeypatch.setattr(doctor, "examine_machine", lambda _results: [one for one in here.checks if one is TUNING])
        monkeypatch.setattr(doctor, "examine_host", lambda _results, **_options: list(host))
        monkeypatch.setattr(ansible, "play_here", here.play)
        places, known = ProjectPaths(ROOT, Path("cache")), catalogs.load(ROOT)
        with preparing.ready_machine(
            places, known, True, agreed=agreed, engine=engine, as_root=True, rest=REST, dry_run=dry_run
        ) as found:
            return found

    return call


@pytest.mark.parametrize(("checks", "agreed"), [([], True), ([TUNING], False)])
def test_on_a_ready_machine_or_one_with_a_warning_that_nobody_agreed_to_mend_nothing_is_run(
    ready: Ready, checks: list[MachineCheck], agreed: bool
) -> None:
    here = Machine([ANSWERS], checks=checks)
    assert ready(here, agreed=agreed) is ANSWERS.containers
    assert here.playbooks == []


def test_docker_is_installed_where_it_can_run_after_it_was_said(ready: Ready) -> None:
    here = Machine([Found(None, SILENT), ANSWERS], lacks=("docker.io", "mmdebstrap", "gcc"))
    assert ready(here) is ANSWERS.containers
    assert here.playbooks == [("host.yml", "docker")]
    assert "docker.io" in here.said_before_play
    assert "boot" in here.said_before_play
    assert REST in here.said_before_play
    assert "gcc" not in here.said_before_play  # nothing is compiled outside of containers


def test_where_no_engine_can_run_none_is_installed_and_the_machine_gets_what_it_compiles_with(ready: Ready) -> None:
    here = Machine([Found(None, SILENT, no_start="read-only cgroups")], lacks=("docker.io", "gcc"))
    assert isinstance(ready(here), HostEngine)
    assert here.playbooks == [("host.yml", "host")]
    assert "read-only cgroups" in here.said_before_play
    assert "gcc" in here.said_before_play
    assert "docker.io" not in here.said.getvalue()


@pytest.mark.parametrize("engine", [None, EngineName.HOST])
def test_who_may_not_install_measures_with_what_is_here(engine: EngineName | None, ready: Ready) -> None:
    here = Machine([Found(None, SILENT, no_packages="no sudo")], lacks=("gcc",))
    assert isinstance(ready(here, engine=engine, no_packages="no sudo"), HostEngine)
    assert here.playbooks == []


def test_this_machine_is_prepared_where_it_is_named_as_the_engine(ready: Ready) -> None:
    here = Machine([ANSWERS], lacks=("gcc",))
    assert isinstance(ready(here, engine=EngineName.HOST), HostEngine)
    assert here.playbooks == [("host.yml", "host")]


def test_without_agreement_nothing_is_run_and_the_machine_itself_is_the_engine(ready: Ready) -> None:
    here = Machine([Found(None, SILENT)], lacks=("docker.io", "gcc"))
    assert isinstance(ready(here, agreed=False), HostEngine)
    assert here.playbooks == []
    assert all(part in here.said.getvalue() for part in ("unix:///x.sock", "--yes"))


def test_an_engine_that_was_named_is_not_replaced_and_the_error_says_how_to_agree(ready: Ready) -> None:
    here = Machine([Found(None, SILENT)])
    with pytest.raises(EngineError, match=r"`interlock matrix --yes`.*playbooks/host\.yml"):
        ready(here, agreed=False, engine=EngineName.DOCKER)
    assert here.playbooks == []


def test_a_dry_run_with_yes_ends_with_the_engine_that_would_be_installed(ready: Ready) -> None:
    """It went on with this machine as the engine, which --yes would not take, and of root was an error."""
    for here, said in (
        (Machine([Found(None, SILENT)], lacks=("docker.io", "gcc")), "docker.io"),
        (Machine([ANSWERS], checks=[BASE], lacks=("mmdebstrap",)), "mmdebstrap"),
    ):
        with pytest.raises(typer.Exit):
            ready(here, dry_run=True)
        assert here.playbooks == []
        assert all(part in here.said.getvalue() for part in (said, REST))
        assert "gcc" not in here.said.getvalue()


def test_after_a_playbook_that_failed_its_changes_are_named_and_the_run_goes_on(ready: Ready) -> None:
    here = Machine([Found(None, SILENT)], lacks=("docker.io",), ends=FAILS)
    assert isinstance(ready(here), HostEngine)
    assert here.playbooks[0] == ("host.yml", "docker")
    assert "purge containerd" in here.said.getvalue()
    assert "bash" not in here.said.getvalue()


def test_a_user_who_is_new_in_the_engines_group_begins_again_with_it(
    monkeypatch: pytest.MonkeyPatch, ready: Ready
) -> None:
    here = Machine([Found(None, SILENT), Found(None, DENIED)], checks=[TUNING], lacks=("docker.io",))
    played: list[str] = []

    def restart() -> None:
        played.extend(name for name, _ in here.playbooks)
        raise SystemExit(99)

    monkeypatch.setattr(preparing, "_restart", restart)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.delenv("INTERLOCK_IN_GROUP", raising=False)
    with pytest.raises(SystemExit, match="99"):
        ready(here)
    # The tuning is taken back by who did it: the one that begins again finds a tuned machine.
    assert played == ["host.yml", "restore.yml"]
    monkeypatch.setenv("INTERLOCK_IN_GROUP", "1")
    assert isinstance(ready(Machine([Found(None, SILENT), Found(None, DENIED)])), HostEngine)


def test_what_an_engine_lacks_is_brought_and_the_tuning_is_taken_back_after_measuring(ready: Ready) -> None:
    here = Machine([ANSWERS], checks=[BASE, TUNING], lacks=("mmdebstrap",))
    assert ready(here) is ANSWERS.containers
    assert [name for name, _ in here.playbooks] == ["host.yml", "restore.yml"]
    assert here.played[0][1]["interlock_tunes"] is True


def test_a_user_without_rights_has_the_engine_that_answers_as_it_is(ready: Ready) -> None:
    """It was an unexpected FileNotFoundError: 'sudo', after a plan that nobody could carry out."""
    here = Machine([ANSWERS], checks=[TUNING])
    assert ready(here, no_packages="no sudo") is ANSWERS.containers
    assert (here.playbooks, "plan" in here.said.getvalue()) == ([], False)
    with pytest.raises(EngineError) as caught:
        ready(Machine([ANSWERS], checks=[BASE]), no_packages="no sudo")
    assert "--yes" not in str(caught.value)


@pytest.mark.parametrize(("answer", "count"), [(True, 2), (False, 0)])
def test_at_a_terminal_the_user_is_shown_the_plan_and_asked(
    monkeypatch: pytest.MonkeyPatch, answer: bool, count: int, ready: Ready
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", lambda _question, default: answer)
    here = Machine([ANSWERS], checks=[TUNING])
    assert ready(here, agreed=False)
    assert len(here.playbooks) == count
    assert "tunes" in here.said.getvalue()


def test_where_nothing_is_printed_for_people_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, ready: Ready) -> None:
    """With --json the question was invisible, and stood in the document."""

    def ask(*_args: object, **_options: object) -> bool:
        raise AssertionError("it asked")

    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(typer, "confirm", ask)
    here = Machine([ANSWERS], checks=[TUNING])
    assert ready(here, agreed=False, is_quiet=True) is ANSWERS.containers
    assert (here.playbooks, here.said.getvalue()) == ([], "")


def test_what_the_playbook_does_not_mend_still_stands_in_the_way(ready: Ready) -> None:
    here = Machine([ANSWERS], checks=[BASE, TUNING, DISK])
    with pytest.raises(EngineError, match=r"full\. Free some\.$"):
        ready(here)
    assert [name for name, _ in here.playbooks] == ["host.yml", "restore.yml"]


def test_a_machine_that_can_measure_nothing_is_no_engine(ready: Ready) -> None:
    nothing = MachineCheck("interpreters", CheckState.PROBLEM, "no gcc, no python3", "apt-get install gcc")
    with pytest.raises(EngineError, match="no gcc"):
        ready(Machine([ANSWERS]), engine=EngineName.HOST, agreed=False, host=[nothing])


def test_what_the_playbook_could_not_mend_is_not_said_to_be_mended_by_it(
    monkeypatch: pytest.MonkeyPatch, ready: Ready
) -> None:
    """The advice after `matrix --yes` was `matrix --yes`."""
    stays = MachineCheck("base image", CheckState.PROBLEM, "no mmdebstrap", "Install it.", by_playbook=True)
    here = Machine([ANSWERS], checks=[BASE], lacks=("mmdebstrap",), ends=FAILS)
    monkeypatch.setattr(here, "examine", lambda *_args, **_options: [stays])
    silent = Machine([Found(None, SILENT)], lacks=("docker.io",), ends=FAILS)
    for machine, engine in ((here, None), (silent, EngineName.DOCKER)):
        with pytest.raises(EngineError) as caught:
            ready(machine, engine=engine)
        assert machine.playbooks
        assert "--yes" not in caught.value.todo


def test_a_playbook_that_fails_says_so(tmp_path: Path) -> None:
    (tmp_path / "playbooks").mkdir()
    (tmp_path / "playbooks/ansible.cfg").write_text("[defaults]\n")
    (tmp_path / "playbooks/host.yml").write_text(
        "- hosts: all\n  gather_facts: false\n  tasks:\n    - ansible.builtin.fail: {msg: no}\n"
    )
    with pytest.raises(FleetError) as caught:
        ansible.play_here(tmp_path, "host.yml", {})
    assert caught.value.file == "playbooks/host.yml"
    assert "2" in caught.value.found
