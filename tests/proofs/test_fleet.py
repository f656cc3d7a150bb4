"""A fleet over real SSH: three hosts, one of which is killed while it measures, and what is left on them.

Then two hosts whose engines differ: this machine's, and a newer one with another store.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from interlock.catalog.project import Catalog
from interlock.engine.build.base import ensure_base
from interlock.engine.build.sources import tar_of
from interlock.engine.ownership import OWNER_LABEL
from interlock.fleet import ansible
from interlock.fleet.record import FLEET_FILE, FleetRecord
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, EngineName, State
from tests.apart import command
from tests.builders import ROOT
from tests.integration.resources import clean, owned
from tests.integration.toys import BARE, add_workload, copy_project, toy_tarball, toy_variant
from tests.proofs import door
from tests.proofs import hosts as machines
from tests.proofs.engines import EngineCell
from tests.proofs.hosts import Host, Key

VARIANTS = ["cpython-2.7", "cpython-2.7-nothreads"]
NAMES = ["ash", "birch", "cedar"]
WORKLOADS = ["one", "two"]
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
    """A project with two variants and two workloads of half a minute each."""
    project = copy_project(root, tmp_path_factory.mktemp("fleet") / "project", VARIANTS, [])
    machines.copy_code(root, project)
    for name in WORKLOADS:
        add_workload(project, name, PROGRAM)
        with (project / f"workloads/{name}.toml").open("a") as file:
            file.write('profile_metric = { label = "futex", scale = 1 }\n')
    return project


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
    print(done.stdout)  # what Ansible said of a host, for who reads why a test failed
    return done.returncode, done.stdout


OPTIONS = ("--variants", ",".join(VARIANTS), "--baseline", VARIANTS[0], "--quick", "--rounds", "2", "--no-profile")


def owners(client: Any) -> set[str]:
    """The experiments that have something in the engine."""
    return {labels[OWNER_LABEL] for labels in owned(client).values()}


def kill_once_it_measures(client: Any, doomed: Host) -> None:
    """As the power would: in the middle of an experiment of its own, of which cells are up."""
    before = owners(client)
    limit = time.monotonic() + LIMIT_S
    while time.monotonic() < limit:
        if any(f".{doomed.name}-" in owner for owner in owners(client) - before):
            doomed.container.kill()
            return
        time.sleep(0.5)


def read_record(folder: Path) -> FleetRecord:
    return store.read_json(folder / FLEET_FILE, FleetRecord)


@pytest.fixture(scope="module")
def killed(client: Any, small: Path, fleet: dict[str, Host], key: Key) -> Iterator[tuple[Path, FleetRecord]]:
    """The folder and the record of a fleet of which `birch` was killed while it measured."""
    killer = threading.Thread(target=kill_once_it_measures, args=(client, fleet["birch"]), daemon=True)
    killer.start()
    code, said = run(small, machines.inventory(fleet, key), *OPTIONS)
    assert code == 1, said
    assert not killer.is_alive()
    (folder,) = (path.parent for path in (small / "results").glob(f"*/{FLEET_FILE}"))
    record = read_record(folder)
    yield folder, record
    clean(client, f"{record.name}-{record.token}.")


def test_the_killed_host_is_told_with_the_reason_and_stops_no_other_one(killed: tuple[Path, FleetRecord]) -> None:
    hosts = killed[1].hosts
    assert {name for name, host in hosts.items() if host.complete} == {"ash", "cedar"}
    assert "does not answer" in hosts["birch"].reason
    assert {name for name, host in hosts.items() if host.not_restored} == {"birch"}


def check_whole(folder: Path, name: str) -> None:
    described = store.read_experiment(folder / name)
    assert set(described.settings.workloads) == set(WORKLOADS)
    assert described.host["name"] == name
    assert {cell.outcome.state for cell in described.cells} == {State.OK}
    values, _ = store.read_cells(folder / name, described)
    assert all(values[cell.label, cell.workload] for cell in described.cells)


@pytest.mark.parametrize("name", ["ash", "cedar"])
def test_each_of_the_others_has_measured_everything(killed: tuple[Path, FleetRecord], name: str) -> None:
    check_whole(killed[0], name)


def of_fleet(client: Any, record: FleetRecord) -> set[str]:
    """Whose things of this fleet's experiments are still in the engine."""
    return {owner for owner in owners(client) if record.token in owner}


def on_host(container: Any) -> list[str]:
    """What a fleet leaves on no host: processes that measure, results, archives."""
    there = "~/.cache/interlock-fleet"
    shell = f"ps axo args | grep -c '[i]nterlock matrix'; ls -d {there}/results/* {there}/*.tar 2>/dev/null"
    return str(container.exec_run(["sh", "-c", shell]).output.decode()).split()


def test_the_killed_one_goes_on_once_it_is_back_and_nothing_is_left_on_any(
    client: Any, small: Path, fleet: dict[str, Host], key: Key, killed: tuple[Path, FleetRecord]
) -> None:
    folder, record = killed
    for name in ("ash", "cedar"):
        assert on_host(fleet[name].container) == ["0"]
    assert all(".birch-" in owner for owner in of_fleet(client, record))
    before = {name: (folder / name / EXPERIMENT_FILE).read_bytes() for name in ("ash", "cedar")}
    back = fleet["birch"].container
    back.start()
    addresses = {**fleet, "birch": Host("birch", back, machines.answer(back, key))}
    code, said = run(small, machines.inventory(addresses, key), "--resume", record.name)
    assert code == 0, said
    assert of_fleet(client, record) == set()
    assert on_host(back) == ["0"]
    check_whole(folder, "birch")
    assert not any(host.problem for host in read_record(folder).hosts.values())
    assert before == {name: (folder / name / EXPERIMENT_FILE).read_bytes() for name in before}


def test_host_yml_changes_nothing_the_second_time_nor_in_check_mode(
    small: Path, fleet: dict[str, Host], key: Key
) -> None:
    for more in ([], ["--check"]):
        assert " changed=0 " in played(small, fleet["ash"], key, "host.yml", *more)


def played(project: Path, one: Host, key: Key, playbook: str, *more: str) -> str:
    path = project / "one.json"
    path.write_text(json.dumps(machines.inventory({one.name: one}, key)))
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
    listed = machines.inventory({"ash": fleet["ash"]}, key)
    options = ("--variants", TOY, "--workloads", "one", "--quick", "--rounds", "2", "--no-profile")
    code, said = run(with_toy, listed, *options, "--engine", "host", "--as-root")
    assert code == 0, said
    folders = [path.parent for path in (with_toy / "results").glob(f"*/{FLEET_FILE}")]
    (folder,) = (one for one in folders if read_record(one).engine is EngineName.HOST)
    described = store.read_experiment(folder / "ash")
    assert described.host["engine"]["name"] == "host"
    assert described.command.endswith("--engine host --as-root")
    assert {cell.outcome.state for cell in described.cells} == {State.OK}
    container = fleet["ash"].container
    assert on_host(container) == ["0"]
    left = "cd ~/.cache/interlock; ls -d /dev/shm/interlock-* runs/* prefixes/* 2>/dev/null"
    (prefix,) = str(container.exec_run(["sh", "-c", left]).output.decode()).split()
    assert prefix.startswith(f"prefixes/{TOY}-")


@pytest.fixture
def newer(tmp_path: Path) -> Iterator[Path]:
    """The socket of a newer engine, which keeps its images in another kind of store."""
    options = Namespace(seed=None, docker=[f"--volume={tmp_path / 'run'}:/run"], folder=tmp_path)
    with door.machine(EngineCell("trixie", "docker-26-containerd", "root", "first"), "HEAD", options):
        yield tmp_path / "run/docker.sock"


def test_hosts_with_different_engines_measure_the_same_images_and_are_sent_them_once(
    client: Any, small: Path, image_id: str, fleet: dict[str, Host], key: Key, newer: Path
) -> None:
    options = ("--variants", VARIANTS[1], "--workloads", "one", "--quick", "--rounds", "2", "--no-profile")
    with machines.running(client, image_id, ["dogwood"], key, newer) as others:
        listed = machines.inventory({"ash": fleet["ash"], **others}, key)
        ran = [run(small, listed, *options) for _ in range(2)]
    assert [code for code, _ in ran] == [0, 0], ran
    loaded = ["Load the images into the host's engine" in said for _, said in ran]
    assert loaded == [True, False]
    folders = [path.parent for path in (small / "results").glob("*/dogwood")]
    assert len(folders) == 2
    for folder in folders:
        measured = {name: store.read_experiment(folder / name) for name in ("ash", "dogwood")}
        assert len({one.host["engine"]["version"] for one in measured.values()}) == 2
        assert len({one.images[0].content_hash for one in measured.values()}) == 1
        assert {cell.outcome.state for one in measured.values() for cell in one.cells} == {State.OK}
