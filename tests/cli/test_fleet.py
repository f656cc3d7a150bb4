"""`interlock fleet` with simulated hosts: Ansible and the playbooks are real, what the hosts measure is made up."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from interlock.fleet.record import FLEET_FILE, FleetRecord
from interlock.results import store
from interlock.results.engines import EngineName
from interlock.results.settings import Where
from tests import simulated
from tests.apart import command
from tests.builders import Entry, make_settings

NAMES = ("ash", "broken", "cut", "gone", "liar", "slow")
GONE = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}
DEADLINE_S = 10
LIMIT_S = 240


@dataclass(frozen=True)
class Ran:
    """A fleet that was measured: how the command ended, what it said, and what it wrote."""

    code: int
    said: str
    folder: Path

    @property
    def record(self) -> FleetRecord:
        return store.read_json(self.folder / FLEET_FILE, FleetRecord)

    def told(self, host: str) -> list[str]:
        """What was asked of a host's Interlock, a line for each time that it measured."""
        path = self.folder.parents[1] / "homes" / host / "said"
        return path.read_text().splitlines() if path.is_file() else []


def run(project: Path, *words: str) -> Ran:
    line = command("fleet", "-i", str(project / "inventory.json"), "--deadline", str(DEADLINE_S), *words)
    done = subprocess.run(line, cwd=project, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    folders = [path.parent for path in (project / "results").glob(f"*/{FLEET_FILE}")]
    return Ran(done.returncode, done.stdout + done.stderr, folders[0] if folders else project)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = simulated.make_project(tmp_path_factory.mktemp("fleet") / "project")
    simulated.write_inventory(made, *NAMES, gone=GONE)
    return made


@pytest.fixture(scope="module")
def first(project: Path) -> Ran:
    return run(project, *simulated.ASKED, *simulated.ENGINE)


@pytest.fixture(scope="module")
def again(project: Path, first: Ran) -> tuple[Ran, FleetRecord]:
    """The same fleet with --resume, and its record of before."""
    before = first.record
    simulated.write_inventory(project, *(name for name in NAMES if name not in {"gone", "liar", "slow", "broken"}))
    return run(project, "--resume", before.name), before


@pytest.mark.slow
@pytest.mark.needs("ssh")
class TestHostsThatFail:
    def test_it_is_an_error_of_which_the_others_results_are_no_part(self, first: Ran) -> None:
        assert first.code == 1
        assert {name for name, host in first.record.hosts.items() if host.complete} == {"ash"}
        described = store.read_experiment(first.folder / "ash")
        assert (described.name, described.host["name"]) == (first.folder.name, "ash")
        values, _ = store.read_cells(first.folder / "ash", described)
        assert {cell for cell, _ in values} == set(simulated.VARIANTS)

    @pytest.mark.parametrize(
        ("host", "reason"),
        [
            ("broken", "error: the disk is full"),
            ("cut", "error: the power went"),
            ("gone", "it does not answer"),
            ("liar", "holds another experiment (seed)"),
            ("slow", f"did not end within {DEADLINE_S} s"),
        ],
    )
    def test_each_is_told_with_its_reason(self, first: Ran, host: str, reason: str) -> None:
        assert reason in first.record.hosts[host].reason
        assert reason in first.said

    def test_all_that_answer_are_restored_and_have_nothing_left(self, first: Ran) -> None:
        assert {name for name, host in first.record.hosts.items() if host.not_restored} == {"gone"}
        homes = first.folder.parents[1] / "homes"
        left = {str(path.relative_to(homes)) for path in homes.rglob("*") if path.is_file() and path.name != "said"}
        assert left == set()

    def test_a_host_that_lies_has_no_folder_and_what_it_sent_is_kept_as_it_was(self, first: Ran) -> None:
        assert not (first.folder / "liar").exists()
        kept = first.folder / "liar.refused"
        assert kept.is_file()
        assert str(kept) in first.record.hosts["liar"].reason

    def test_what_one_measured_in_part_is_an_experiment_too(self, first: Ran) -> None:
        assert store.read_experiment(first.folder / "cut").unfinished == [simulated.WORKLOAD]


@pytest.mark.slow
@pytest.mark.needs("ssh")
class TestResume:
    def test_a_host_goes_on_with_what_it_had(self, again: tuple[Ran, FleetRecord]) -> None:
        ran, _ = again
        assert (ran.code, ran.record.hosts["cut"].complete) == (0, True)
        *_, resumed = ran.told("cut")
        assert "--resume" in resumed
        described = store.read_experiment(ran.folder / "cut")
        values, _ = store.read_cells(ran.folder / "cut", described)
        assert {len(one["uncontended"].processes[0]) for one in values.values()} == {2}

    def test_what_is_complete_is_not_measured_again(self, again: tuple[Ran, FleetRecord]) -> None:
        ran, before = again
        assert len(ran.told("ash")) == 1
        assert ran.record.token == before.token

    def test_it_leaves_no_archive_behind(self, again: tuple[Ran, FleetRecord]) -> None:
        assert list(again[0].folder.glob("*.tar.gz")) == []

    @pytest.mark.parametrize("words", [("--engine", "docker"), ("--resume", "../x")])
    def test_another_fleet_than_that_which_began_is_refused(
        self, again: tuple[Ran, FleetRecord], project: Path, words: tuple[str, ...]
    ) -> None:
        resume = () if "--resume" in words else ("--resume", again[1].name)
        before = (again[0].folder / FLEET_FILE).read_bytes()
        assert run(project, *resume, *words).code in {2, 3}
        assert (again[0].folder / FLEET_FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("option", "value"), [("--rounds", "9"), ("--workloads", "startup"), ("--engine", "docker"), ("--resume", "g")]
)
def test_a_fleet_goes_on_as_it_began_and_an_option_that_contradicts_is_named(
    entry: Entry, monkeypatch: pytest.MonkeyPatch, project: Path, tmp_path: Path, option: str, value: str
) -> None:
    """Of these only the engine was looked at; of one that never began the file was to be restored."""
    monkeypatch.chdir(project)
    inventory = tmp_path / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"ash": {}}}}))
    settings = make_settings(simulated.VARIANTS).model_copy(update={"where": Where(engine=EngineName.HOST)})
    record = FleetRecord(name="f", command="interlock fleet", settings=settings, builds={})
    store.write_json(tmp_path / "results/f" / FLEET_FILE, record)
    words = ("fleet", "-i", inventory, "--results", tmp_path / "results", "--resume", "f")
    code, _, errors = entry(*words, option, value)
    assert (code, errors.startswith(f"error: {option}: ")) == (2, True), errors


@pytest.mark.parametrize(
    ("inventory", "code"),
    [(None, 3), ({"all": {}}, 3), ({"all": {"hosts": {"a/b": {}}}}, 2), ({"all": {"hosts": 1}}, 3)],
)
def test_an_inventory_that_is_none_is_refused_before_anything_is_written(
    entry: Entry,
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    tmp_path: Path,
    inventory: dict[str, object] | None,
    code: int,
) -> None:
    monkeypatch.chdir(project)
    path = tmp_path / "inventory.json"
    if inventory is not None:
        path.write_text(json.dumps(inventory))
    ended, _, errors = entry("fleet", "-i", path, "--results", tmp_path / "results", *simulated.ENGINE)
    assert (ended, str(path) in errors) == (code, True), errors
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_a_fleet_that_is_ended_says_how_its_hosts_are_and_the_line_that_goes_on(tmp_path: Path) -> None:
    project = simulated.make_project(tmp_path / "project")
    simulated.write_inventory(project, "slow")
    said = project / "homes/slow/said"
    line = command("fleet", "-i", "inventory.json", *simulated.ASKED, *simulated.ENGINE)
    begun = subprocess.Popen(line, cwd=project, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until_s = time.monotonic() + LIMIT_S
    while not said.is_file() and time.monotonic() < until_s:
        time.sleep(0.1)
    begun.send_signal(signal.SIGINT)
    out, _ = begun.communicate(timeout=LIMIT_S)
    (folder,) = (path.parent for path in (project / "results").glob(f"*/{FLEET_FILE}"))
    assert begun.returncode == 128 + signal.SIGINT
    assert "\nhost    slow not complete: " in out
    assert re.search(rf"\nnext    .*fleet -i inventory\.json --resume {folder.name}\b", out)
