"""A fleet over real SSH: three hosts, one of which is killed while it measures, and what is left on them."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from interlock.catalog.project import Catalog
from interlock.engine import machine
from interlock.engine.build.base import ensure_base
from interlock.engine.build.sources import tar_of
from interlock.engine.ownership import OWNER_LABEL
from interlock.fleet import ansible
from interlock.fleet.record import Ending, FleetRecord, read_record
from interlock.results import store
from interlock.results.experiments import EngineName, State
from tests.apart import command
from tests.builders import ROOT
from tests.integration.resources import clean
from tests.integration.toys import BARE, copy_project, toy_tarball, toy_variant
from tests.proofs import hosts as machines
from tests.proofs.hosts import Host, Key

VARIANTS = ["cpython-2.7", "cpython-2.7-nothreads"]
NAMES = ["ash", "birch", "cedar"]
WORKLOADS = ["one", "two", "three", "four"]
WORKLOAD = """\
summary = "a test's own"
program = "{name}.py"
unit = "unit"
deadline_s = 60
quick = {{ warmups = 0, values = 1 }}
full = {{ warmups = 0, values = 1 }}
[[benchmarks]]
name = "only"
metric = {{ label = "ms", scale = 1e3 }}
profile_metric = {{ label = "futex", scale = 1 }}
"""
# Long enough to be killed in the middle of it.
PROGRAM = """\
import time
time.sleep(3)
print('{"interlock": 1, "loops": 1, "inner_loops": 1, "calibration": [[1, 0.1]], "values": [0.1]}')
"""
LIMIT_S = 3000
# A toy that runs the workload's program with the host's own Python: its build takes a second.
TOY = "toy-here"
RUNS_PROGRAMS = """case "$*" in *one.py*) exec /usr/bin/python3 "$@";; esac"""


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Key:
    return machines.make_key(tmp_path_factory.mktemp("ssh"))


@pytest.fixture(scope="module")
def image_id(client: Any, catalog: Catalog, tmp_path_factory: pytest.TempPathFactory) -> str:
    names = YAML(typ="safe").load(ROOT / "playbooks/roles/tools/vars/Debian.yml")
    base = ensure_base(client, catalog.bases["trixie"], tmp_path_factory.mktemp("cache"), print)
    return machines.ready_image(client, base, [name for group in names.values() for name in group])


@pytest.fixture(scope="module")
def fleet(client: Any, image_id: str, key: Key) -> Iterator[dict[str, Host]]:
    with machines.running(client, image_id, NAMES, key) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def small(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with two variants and four workloads of half a minute each."""
    project = copy_project(root, tmp_path_factory.mktemp("fleet") / "project", VARIANTS, [])
    machines.copy_code(root, project)
    for name in WORKLOADS:
        (project / "workloads" / f"{name}.toml").write_text(WORKLOAD.format(name=name))
        (project / "workloads" / f"{name}.py").write_text(PROGRAM)
    return project


def kind() -> dict[str, Any]:
    facts = machine.facts()
    return {"name": "here", "cpu": facts["cpu"], "cores": facts["cores"], "kernel": facts["kernel"]}


def run(project: Path, inventory: dict[str, Any], *options: str) -> tuple[int, str]:
    """`interlock fleet` in the project: its exit code, and what it said."""
    path = project / "inventory.json"
    path.write_text(json.dumps(inventory))
    done = subprocess.run(
        command("fleet", "-i", str(path), *options),
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    return done.returncode, done.stdout


OPTIONS = ("--variants", ",".join(VARIANTS), "--baseline", VARIANTS[0], "--quick", "--rounds", "2", "--no-profile")


def owners(client: Any) -> set[str]:
    """The experiments that have something in the engine."""
    owned = {"label": OWNER_LABEL}
    containers = client.containers.list(all=True, ignore_removed=True, filters=owned)
    return {
        *(container.labels[OWNER_LABEL] for container in containers),
        *(volume.attrs["Labels"][OWNER_LABEL] for volume in client.volumes.list(filters=owned)),
    }


def kill_once_it_measures(client: Any, doomed: Host) -> None:
    """As the power would: in the middle of an experiment of its own, of which cells are up."""
    before = owners(client)
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        if any(f".{doomed.name}." in owner for owner in owners(client) - before):
            doomed.container.kill()
            return
        time.sleep(0.5)


@pytest.fixture(scope="module")
def killed(client: Any, small: Path, fleet: dict[str, Host], key: Key) -> Iterator[tuple[Path, str]]:
    """The folder of a fleet of which `birch` was killed while it measured, and what was said."""
    killer = threading.Thread(target=kill_once_it_measures, args=(client, fleet["birch"]), daemon=True)
    killer.start()
    code, said = run(small, machines.inventory(fleet, key, kind()), *OPTIONS)
    assert code == 0, said
    assert not killer.is_alive()
    (folder,) = (path.parent for path in (small / "results").glob("*/fleet.json"))
    yield folder, said
    record = read_record(folder)
    clean(client, f"{record.name}-{record.token}.")


@pytest.fixture(scope="module")
def record(killed: tuple[Path, str]) -> FleetRecord:
    return read_record(killed[0])


def test_the_plan_is_printed_before_anything_runs(killed: tuple[Path, str]) -> None:
    lines = killed[1].splitlines()
    plan = [number for number, line in enumerate(lines) if line.startswith("plan ")]
    assert len(plan) == 1 + len(NAMES)
    assert plan[-1] < next(number for number, line in enumerate(lines) if line.startswith("fleet "))
    assert all(any(f" {name}: " in lines[number] for number in plan) for name in NAMES)


def test_every_workload_is_measured_and_that_of_the_killed_host_by_another(record: FleetRecord) -> None:
    assert {shard.workload for shard in record.shards} == set(WORKLOADS)
    assert all(shard.done_by in {"ash", "cedar"} for shard in record.shards if len(shard.attempts) > 1)
    (lost,) = (attempt for shard in record.shards for attempt in shard.attempts if attempt.ending is Ending.LOST)
    assert lost.host == "birch"
    assert all(shard.done_by for shard in record.shards)
    assert "does not answer" in record.hosts["birch"].given_up
    assert record.hosts["birch"].not_restored


def test_each_hosts_folder_is_an_experiment_with_what_it_measured(
    killed: tuple[Path, str], record: FleetRecord
) -> None:
    for name in ("ash", "cedar"):
        described = store.read_experiment(killed[0] / name)
        mine = sorted(shard.workload for shard in record.shards if shard.done_by == name)
        assert sorted(described.settings.workloads) == mine
        assert described.host["name"] == name
        assert all(cell.outcome.state is State.OK for cell in described.cells)
        values, _ = store.read_cells(killed[0] / name, described)
        assert all(values[cell.label, cell.workload] for cell in described.cells)
        assert (killed[0] / name / "report.html").is_file()


def test_the_hosts_say_together_what_was_found(killed: tuple[Path, str]) -> None:
    text = (killed[0] / "report.md").read_text()
    assert all(f"{name}: only" in text for name in WORKLOADS)


def test_the_facts_of_every_host_are_recorded(record: FleetRecord) -> None:
    assert {one.facts["cpu"] for one in record.hosts.values()} == {machine.facts()["cpu"]}
    assert {one.facts["name"] for one in record.hosts.values()} == set(NAMES)


def of_fleet(client: Any, record: FleetRecord) -> set[str]:
    """Whose things of this fleet's experiments are still in the engine."""
    return {owner for owner in owners(client) if record.token in owner}


def on_host(container: Any) -> list[str]:
    """What a fleet leaves on no host: processes that measure, results, archives."""
    there = "~/.cache/interlock-fleet"
    shell = f"ps axo args | grep -c '[i]nterlock matrix'; ls -d {there}/results {there}/images/*.tar 2>/dev/null"
    return str(container.exec_run(["sh", "-c", shell]).output.decode()).split()


def test_nothing_is_left_on_the_hosts_that_answer_and_on_the_killed_one_once_it_is_back(
    client: Any, small: Path, fleet: dict[str, Host], key: Key, killed: tuple[Path, str], record: FleetRecord
) -> None:
    for name in ("ash", "cedar"):
        assert on_host(fleet[name].container) == ["0"]
    assert all(".birch." in owner for owner in of_fleet(client, record))
    back = fleet["birch"].container
    back.start()
    addresses = {**fleet, "birch": Host("birch", back, machines.answer(back, key))}
    code, said = run(small, machines.inventory(addresses, key, kind()), "--resume", record.name)
    assert code == 0, said
    assert of_fleet(client, record) == set()
    assert on_host(back) == ["0"]
    again = read_record(killed[0])
    assert not again.hosts["birch"].not_restored
    assert [len(shard.attempts) for shard in again.shards] == [len(shard.attempts) for shard in record.shards]


def test_a_host_that_is_not_of_its_kind_is_refused_and_nothing_of_it_is_changed(
    small: Path, fleet: dict[str, Host], key: Key
) -> None:
    other = kind() | {"cores": 1000}
    code, said = run(small, machines.inventory({"ash": fleet["ash"]}, key, other), *OPTIONS, "--plan")
    assert code == 1, "no host is left"
    assert f"cores '{kind()['cores']}' instead of '1000'" in said


def test_host_yml_changes_nothing_the_second_time_nor_in_check_mode(
    small: Path, fleet: dict[str, Host], key: Key
) -> None:
    for more in ([], ["--check"]):
        assert " changed=0 " in played(small, fleet["ash"], key, "host.yml", *more)


def played(project: Path, one: Host, key: Key, playbook: str, *more: str) -> str:
    path = project / "one.json"
    path.write_text(json.dumps(machines.inventory({one.name: one}, key, kind())))
    words = [ansible.program("ansible-playbook"), "-i", str(path), *more, str(project / "playbooks" / playbook)]
    done = subprocess.run(words, env=ansible.environment(project), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def with_toy(small: Path, fleet: dict[str, Host], tmp_path: Path) -> Path:
    """The project with a variant whose source is on the host `ash` alone."""
    toy_variant(small, TOY, "toy.tgz", toy_tarball(tmp_path, "toy.tgz", first=RUNS_PROGRAMS), base=BARE)
    container = fleet["ash"].container
    container.put_archive("/root", tar_of({"sources/toy.tgz": (tmp_path / "toy.tgz").read_bytes()}).getvalue())
    container.exec_run(["sh", "-c", "echo INTERLOCK_SOURCE_MIRROR=/root/sources >> /etc/environment"])
    return small


def test_without_containers_a_host_builds_for_itself_and_keeps_nothing_but_its_prefix(
    with_toy: Path, fleet: dict[str, Host], key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    listed = machines.inventory({"ash": fleet["ash"]}, key, kind())
    options = ("--variants", TOY, "--workloads", "one", "--quick", "--rounds", "2", "--no-profile")
    code, said = run(with_toy, listed, *options, "--engine", "host", "--as-root")
    assert code == 0, said
    folders = [path.parent for path in (with_toy / "results").glob("*/fleet.json")]
    (folder,) = (one for one in folders if read_record(one).engine is EngineName.HOST)
    described = store.read_experiment(folder / "ash")
    assert described.host["engine"]["name"] == "host"
    assert described.command.endswith("--engine host")
    assert all(cell.outcome.state is State.OK for cell in described.cells)
    container = fleet["ash"].container
    assert on_host(container) == ["0"]
    left = "cd ~/.cache/interlock; ls -d /dev/shm/interlock-* runs/* prefixes/* 2>/dev/null"
    (prefix,) = str(container.exec_run(["sh", "-c", left]).output.decode()).split()
    assert prefix.startswith(f"prefixes/{TOY}-")
