"""A fleet's engine: what the controller builds, what its playbooks run on a host, and what --resume goes on with."""

from __future__ import annotations

import json
import shutil
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from interlock import cli, experiment
from interlock.commands import fleet, supply
from interlock.engine import archives
from interlock.fleet import ansible, files, inventory
from interlock.fleet.ansible import Call, Played
from interlock.fleet.inventory import Inventory
from interlock.fleet.record import Ending, FleetRecord, Kind
from interlock.fleet.running import Run
from interlock.model import Built, EngineName, Outcome, State
from tests.builders import ROOT, make_settings

KIND = Kind(name="here", cpu="AMD EPYC", cores=2, kernel="6.12")
OK = Outcome(state=State.OK)
CLIENTS = "client of "
QUICKEST = "cpython-2.7-nothreads"
OPTIONS = ["--workloads", "import-loop", "--quick", "--seed", "1"]


class Asked(list[str]):
    """What was asked of container engines, in order."""


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Container engines that have every image."""
    said = Asked()

    def connect(engine: EngineName | None = None) -> str:
        said.append(f"connect {engine or 'without a name'}")
        return f"{CLIENTS}{engine or 'none named'}"

    def build(client: str, _known: object, names: list[str], options: Any) -> list[Built]:
        said.append(f"build with the {client}")
        return [Built(variant=name, profile=options.profile, outcome=OK, tag=name) for name in names]

    monkeypatch.setattr(supply, "connect", connect)
    monkeypatch.setattr(supply, "build_variants", build)
    monkeypatch.setattr(supply, "wanted_tags", lambda _client, _places, _known, built: [one.tag for one in built])
    monkeypatch.setattr(archives, "ids_of", lambda _client, tags: {tag: f"id of {tag}" for tag in tags})
    return said


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The inventory's, in a list that a test may change."""
    found: list[str | None] = [None]
    monkeypatch.setattr(inventory, "read", lambda path, _root: Inventory(path, {"ash": KIND}, found[0]))
    return found


@pytest.fixture
def ordered(
    monkeypatch: pytest.MonkeyPatch, project: Path, tmp_path: Path, registry: list[str | None]
) -> list[tuple[Run, supply.Supply]]:
    """The runs that would have been carried out, whose records are written."""
    found: list[tuple[Run, supply.Supply]] = []

    def carry_out(run: Run, supplied: supply.Supply, **_options: bool) -> None:
        files.write(run.orders.folder, run.record)
        found.append((run, supplied))

    assert registry == [None]
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("INTERLOCK_ENGINE", raising=False)
    monkeypatch.setattr(fleet, "_carry_out", carry_out)
    return found


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["interlock", "fleet", "-i", "inventory.yml", *words])
    try:
        cli.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_without_containers_the_controller_builds_nothing_and_asks_no_engine(
    monkeypatch: pytest.MonkeyPatch, engines: Asked, ordered: list[tuple[Run, supply.Supply]]
) -> None:
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--engine", "host", "--release") == 0
    ((run, supplied),) = ordered
    assert engines == []
    assert run.orders.variables["interlock_engine"] == "host"
    assert run.orders.variables["prefixes_options"] == [QUICKEST, "--release"]
    assert run.orders.variables["prefixes_deadline_s"] == 7200
    assert not [name for name in run.orders.variables if name.startswith("images_")]
    assert supplied.pack(run.orders.variables) == []
    assert run.record.settings.baseline == QUICKEST


def test_without_containers_no_registry_is_asked(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
    registry: list[str | None],
) -> None:
    registry[0] = "registry.example.org/team"
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--engine", "host") == 0
    assert engines == []
    assert "images_options" not in ordered[0][0].orders.variables


def test_what_needs_containers_is_not_built_on_the_hosts_but_still_measured_as_unavailable(
    monkeypatch: pytest.MonkeyPatch, engines: Asked, ordered: list[tuple[Run, supply.Supply]]
) -> None:
    assert call(monkeypatch, "--variants", f"official-3.13,{QUICKEST}", *OPTIONS, "--engine", "host") == 0
    ((run, supplied),) = ordered
    assert engines == []
    assert run.orders.variables["prefixes_options"] == [QUICKEST]
    assert run.record.settings.variants == ["official-3.13", QUICKEST]
    assert run.record.settings.baseline == QUICKEST
    assert "needs a container engine" in supplied.built[0].outcome.reason


def test_conditions_are_of_containers(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
) -> None:
    words = ["--variants", QUICKEST, *OPTIONS, "--conditions", "seccomp-unconfined", "--engine", "host"]
    assert call(monkeypatch, *words) == 2
    assert "are of containers, and '--engine host' has none" in capfd.readouterr().err
    assert (engines, ordered) == ([], [])


@pytest.mark.parametrize(
    ("options", "client", "variable"),
    [
        ([], "none named", ""),
        (["--engine", "docker"], "docker", "docker"),
        (["--engine", "podman"], "podman", "podman"),
    ],
    ids=["none named", "docker", "podman"],
)
def test_images_are_built_and_packed_by_the_engine_that_was_named_and_the_hosts_are_told(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
    options: list[str],
    client: str,
    variable: str,
) -> None:
    saved: list[tuple[str, list[str]]] = []

    def save(client: str, tags: list[str], path: Path) -> None:
        saved.append((client, tags))
        path.write_bytes(b"")

    monkeypatch.setattr(archives, "save", save)
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, *options) == 0
    ((run, supplied),) = ordered
    assert f"build with the {CLIENTS}{client}" in engines
    assert run.orders.variables["interlock_engine"] == variable
    assert "prefixes_options" not in run.orders.variables
    sent = supplied.pack(run.orders.variables)
    assert saved == [(f"{CLIENTS}{client}", [QUICKEST])]
    assert json.loads(sent[0].read_text()) == {QUICKEST: f"id of {QUICKEST}"}
    assert run.orders.options_of("import-loop")[-2:] == (options or ["--seed", "1"])


def test_images_of_a_registry_are_pulled_by_the_engine_that_was_named(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
    registry: list[str | None],
) -> None:
    registry[0] = "registry.example.org/team"
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--engine", "podman") == 0
    ((run, supplied),) = ordered
    assert run.orders.variables["images_options"] == [QUICKEST]
    assert run.orders.variables["interlock_engine"] == "podman"
    assert supplied.pack(run.orders.variables) == []
    assert set(engines) == {"connect podman", f"build with the {CLIENTS}podman"}


@pytest.mark.parametrize(("options", "named"), [([], False), (["--engine", "host"], True)])
def test_the_command_that_repeats_a_fleet_names_the_engine_if_one_was_named(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
    options: list[str],
    named: bool,
) -> None:
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, *options) == 0
    record = files.read(ordered[0][0].orders.folder)
    assert record.command.startswith("nox -s fleet -- ")
    assert ("--engine host" in record.command) is named
    assert record.engine == (EngineName.HOST if named else None)
    assert bool(engines) is not named


def begun(engine: EngineName | None, project: Path, **changes: Any) -> FleetRecord:
    """The record of a fleet that was interrupted before anything was measured."""
    settings = make_settings([QUICKEST]).model_copy(update={"workloads": ["import-loop"], "baseline": QUICKEST})
    data: dict[str, Any] = {
        "name": "2026-11-21-a",
        "token": "abc",
        "tool_version": "0",
        "command": experiment.repeat_command(settings, engine=engine),
        "started": "2026-11-21T06:00:00+00:00",
        "duration_s": 1,
        "settings": settings,
        "each": False,
        "engine": engine,
        "images": {},
        "hosts": {"ash": {"kind": KIND}},
        "shards": [{"kind": "here", "workload": "import-loop", "expected_s": 1}],
    }
    record = FleetRecord.model_validate(data | changes)
    files.write(project / "results" / record.name, record)
    return record


@pytest.mark.parametrize("again", [[], ["--engine", "host"]])
def test_a_resumed_fleet_goes_on_with_the_engine_with_which_it_began(
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
    again: list[str],
) -> None:
    begun(EngineName.HOST, project)
    assert call(monkeypatch, "--resume", "2026-11-21-a", *again) == 0
    ((run, _),) = ordered
    assert engines == []
    assert run.record.engine is EngineName.HOST
    assert run.orders.variables["interlock_engine"] == "host"
    assert "--engine host" in " ".join(run.orders.options_of("import-loop"))


@pytest.mark.parametrize(
    ("engine", "wanted", "began"),
    [(None, "host", "docker"), (None, "podman", "docker"), (EngineName.HOST, "docker", "host")],
)
def test_another_engine_than_the_fleet_began_with_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    capfd: pytest.CaptureFixture[str],
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
    engine: EngineName | None,
    wanted: str,
    began: str,
) -> None:
    begun(engine, project)
    assert call(monkeypatch, "--resume", "2026-11-21-a", "--engine", wanted) == 2
    assert f"key '--engine': 2026-11-21-a began with {began}, not with {wanted}. " in capfd.readouterr().err
    assert (engines, ordered) == ([], [])


def test_a_record_of_before_there_were_engines_to_choose_means_docker(
    monkeypatch: pytest.MonkeyPatch, project: Path, engines: Asked, ordered: list[tuple[Run, supply.Supply]]
) -> None:
    begun(None, project)
    path = project / "results/2026-11-21-a/fleet.json"
    old = json.loads(path.read_text())
    del old["engine"]
    path.write_text(json.dumps(old))
    assert call(monkeypatch, "--resume", "2026-11-21-a", "--engine", "docker") == 0
    assert call(monkeypatch, "--resume", "2026-11-21-a") == 0
    assert [run.orders.variables["interlock_engine"] for run, _ in ordered] == ["", ""]
    assert engines[0] == "connect without a name"


def test_a_fleet_without_containers_is_not_resumed_on_another_build(
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    capfd: pytest.CaptureFixture[str],
    engines: Asked,
    ordered: list[tuple[Run, supply.Supply]],
) -> None:
    begun(EngineName.HOST, project, images={QUICKEST: "another hash"})
    assert call(monkeypatch, "--resume", "2026-11-21-a") == 2
    said = capfd.readouterr().err
    assert f"what was built is not what it was when 2026-11-21-a began: {QUICKEST}." in said
    assert (engines, ordered) == ([], [])


# What changes a host only says that it was there.
STUBBED = ("python", "tools", "engine", "podman", "account", "tuning", "project")
STUB_TASK = """\
---
- name: Say that this role was run
  ansible.builtin.lineinfile:
    path: "{{ playbook_dir }}/../said"
    line: "role %s"
    create: true
    mode: "0644"
"""
STUB = """\
#!{python}
import os, sys
with open({said!r}, "a") as file:
    mark = os.environ.get("INTERLOCK_EXPERIMENT")
    print(*sys.argv[1:], "by", os.environ.get("INTERLOCK_ENGINE"), *([f"for {{mark}}"] if mark else []), file=file)
if sys.argv[1] == "build":
    print("variant  image  MB  s  state\\nx  /prefix  70  60  ok ")
"""


@pytest.fixture
def stubbed(tmp_path: Path) -> Path:
    """The playbooks, with a stub in the place of Interlock and of what changes a host."""
    shutil.copytree(ROOT / "playbooks", tmp_path / "playbooks")
    for role in STUBBED:
        for path in (tmp_path / "playbooks/roles" / role / "tasks").glob("*.yml"):
            path.write_text(STUB_TASK % f"{role}{'' if path.stem == 'main' else f' {path.stem}'}")
    (tmp_path / "interlock").write_text(STUB.format(python=sys.executable, said=str(tmp_path / "said")))
    (tmp_path / "interlock").chmod(stat.S_IRWXU)
    return tmp_path


def played(root: Path, engine: str, tag: str, **variables: Any) -> list[str]:
    """What was run on the host, in order; nothing that needs root is left in the playbooks."""
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "interlock_engine": engine,
        "interlock_version": "1",
        "interlock_home": str(root / "home"),
        "interlock_folder": str(root),
        "interlock_command": str(root / "interlock"),
        "experiment_fleet": "fleet-abc.ash.",
    }
    one = Call(
        root=root,
        inventory="ash,",
        host="ash",
        playbook="matrix.yml",
        variables={**common, **variables},
        log=root / "log",
        tag=tag,
        deadline_s=120,
    )
    assert ansible.play(one, threading.Event()) == Played(Ending.DONE), (root / "log").read_text()
    return (root / "said").read_text().splitlines()


CLEANED = "clean fleet-abc.ash. by"


def test_a_host_without_containers_is_made_ready_by_building_for_itself(stubbed: Path) -> None:
    said = played(stubbed, "host", "ready", prefixes_options=[QUICKEST, "--release"], prefixes_deadline_s=60)
    build = f"build {QUICKEST} --release by host for fleet-abc.ash.build"
    assert [line for line in said if line.startswith("role ")] == [
        "role python",
        "role tools",
        "role account",
        "role tuning",
        "role project",
    ]
    assert said[-2:] == [f"{CLEANED} host", build]
    assert "changed: [ash]" in (stubbed / "log").read_text().rpartition("TASK [prefixes : ")[2]


def test_a_host_with_podman_gets_podman_and_the_images_by_it(stubbed: Path) -> None:
    said = played(stubbed, "podman", "ready", registry="example.org/team", images_options=[QUICKEST])
    assert "role podman" in said
    assert "role engine" not in said
    assert said[-2:] == [f"{CLEANED} podman", f"pull --registry example.org/team {QUICKEST} by podman"]


def test_a_host_of_which_no_engine_is_said_gets_docker(stubbed: Path) -> None:
    said = played(stubbed, "", "ready", registry="example.org/team", images_options=[QUICKEST])
    assert "role engine" in said
    assert "role podman" not in said
    assert said[-2:] == [f"{CLEANED} ", f"pull --registry example.org/team {QUICKEST} by "]


def test_measuring_and_restoring_are_by_the_same_engine(stubbed: Path) -> None:
    options = {"experiment_name": "fleet-abc.ash.locks", "experiment_deadline_s": 60, "experiment_fetched": "none"}
    said = played(stubbed, "host", "measure,restore", experiment_options=["--engine", "host"], **options)
    results = f"{stubbed}/home/results"
    assert said == [
        f"matrix --name fleet-abc.ash.locks --results {results} --engine host by host",
        "role tuning restore",
        f"{CLEANED} host",
    ]


def test_an_engine_that_there_is_none_of_is_refused_by_name(stubbed: Path) -> None:
    with pytest.raises(AssertionError, match="interlock_engine is 'dokcer': set it to docker, podman or host"):
        played(stubbed, "dokcer", "ready")
