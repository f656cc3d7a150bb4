"""A fleet's engine: what the controller builds, what its playbooks run on a host, and what --resume goes on with."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.cli import fleet, main
from interlock.engine.registry import archives
from interlock.fleet import ansible
from interlock.fleet.ansible import Call, Inventory, PlaybookResult
from interlock.fleet.record import Ending, FleetRecord, Kind, read_record, write_record
from interlock.fleet.running import FleetRun
from interlock.measure import experiment
from interlock.results.experiments import Built, EngineName, Outcome, State
from tests.builders import make_settings
from tests.signing import make_key

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

    def connect(engine: EngineName | None = None) -> SimpleNamespace:
        said.append(f"connect {engine or 'without a name'}")
        return SimpleNamespace(client=f"{CLIENTS}{engine or 'none named'}")

    def build(engine: SimpleNamespace, _known: object, names: list[str], options: Any) -> list[Built]:
        said.append(f"build with the {engine.client}")
        return [Built(variant=name, profile=options.profile, outcome=OK, tag=name) for name in names]

    monkeypatch.setattr(fleet, "connect", connect)
    monkeypatch.setattr(fleet, "build_variants", build)
    monkeypatch.setattr(fleet, "tags_to_send", lambda built: [one.tag for one in built])
    monkeypatch.setattr(archives, "ids_of", lambda _client, tags: {tag: f"id of {tag}" for tag in tags})
    return said


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The inventory's, in a list that a test may change."""
    found: list[str | None] = [None]
    monkeypatch.setattr(ansible, "read_inventory", lambda path, _root: Inventory(path, {"ash": KIND}, found[0]))
    return found


@pytest.fixture
def ordered(
    monkeypatch: pytest.MonkeyPatch, project: Path, tmp_path: Path, registry: list[str | None]
) -> list[tuple[FleetRun, fleet.FleetBuilds]]:
    """The runs that would have been carried out, whose records are written."""
    found: list[tuple[FleetRun, fleet.FleetBuilds]] = []

    def measure(run: FleetRun, supplied: fleet.FleetBuilds) -> None:
        write_record(run.settings.folder, run.record)
        found.append((run, supplied))

    assert registry == [None]
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("INTERLOCK_ENGINE", raising=False)
    monkeypatch.setattr(fleet, "_measure", measure)
    return found


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["interlock", "fleet", "-i", "inventory.yml", *words])
    try:
        main.main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_without_containers_the_controller_builds_nothing_and_asks_no_engine(
    monkeypatch: pytest.MonkeyPatch, engines: Asked, ordered: list[tuple[FleetRun, fleet.FleetBuilds]]
) -> None:
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--engine", "host", "--release") == 0
    ((run, supplied),) = ordered
    assert engines == []
    assert run.settings.variables["interlock_engine"] == "host"
    assert run.settings.variables["prefixes_options"] == [QUICKEST, "--release"]
    assert run.settings.variables["prefixes_deadline_s"] == 7200
    assert not [name for name in run.settings.variables if name.startswith("images_")]
    assert supplied.write_archive(run.settings.variables) == []
    assert run.record.settings.baseline == QUICKEST


def test_without_containers_no_registry_is_asked(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    registry: list[str | None],
) -> None:
    registry[0] = "registry.example.org/team"
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--engine", "host") == 0
    assert engines == []
    assert "images_options" not in ordered[0][0].settings.variables


def test_what_needs_containers_is_not_built_on_the_hosts_but_still_measured_as_unavailable(
    monkeypatch: pytest.MonkeyPatch, engines: Asked, ordered: list[tuple[FleetRun, fleet.FleetBuilds]]
) -> None:
    assert call(monkeypatch, "--variants", f"official-3.13,{QUICKEST}", *OPTIONS, "--engine", "host") == 0
    ((run, supplied),) = ordered
    assert engines == []
    assert run.settings.variables["prefixes_options"] == [QUICKEST]
    assert run.record.settings.variants == ["official-3.13", QUICKEST]
    assert run.record.settings.baseline == QUICKEST
    assert supplied.built[0].outcome.state is State.UNAVAILABLE


def test_conditions_are_of_containers(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
) -> None:
    words = ["--variants", QUICKEST, *OPTIONS, "--conditions", "seccomp-unconfined", "--engine", "host"]
    assert call(monkeypatch, *words) == 2
    assert capfd.readouterr().err.startswith("error: --conditions: ")
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
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    options: list[str],
    client: str,
    variable: str,
) -> None:
    saved: list[tuple[str, list[str]]] = []

    def save(client: str, tags: list[str], path: Path) -> str:
        saved.append((client, tags))
        path.write_bytes(b"")
        return "the sum"

    monkeypatch.setattr(archives, "save", save)
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, *options) == 0
    ((run, supplied),) = ordered
    assert f"build with the {CLIENTS}{client}" in engines
    assert run.settings.variables["interlock_engine"] == variable
    assert "prefixes_options" not in run.settings.variables
    sent = supplied.write_archive(run.settings.variables)
    assert saved == [(f"{CLIENTS}{client}", [QUICKEST])]
    assert json.loads(sent[0].read_text()) == {QUICKEST: f"id of {QUICKEST}"}
    assert Path(run.settings.variables["images_sum"]).read_text() == "the sum"
    assert run.settings.options_of("import-loop")[-2:] == (options or ["--seed", "1"])


def test_images_of_a_registry_are_pulled_by_the_engine_that_was_named(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    registry: list[str | None],
) -> None:
    registry[0] = "registry.example.org/team"
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--engine", "podman") == 0
    ((run, supplied),) = ordered
    assert run.settings.variables["images_options"] == [QUICKEST]
    assert run.settings.variables["interlock_engine"] == "podman"
    assert supplied.write_archive(run.settings.variables) == []
    assert set(engines) == {"connect podman", f"build with the {CLIENTS}podman"}


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A public key of a team's."""
    return make_key(tmp_path, "team")[1]


def test_the_hosts_pull_what_the_key_has_signed(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    registry: list[str | None],
    key: Path,
) -> None:
    registry[0] = "registry.example.org/team"
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--key", str(key)) == 0
    assert engines
    assert ordered[0][0].settings.variables["images_key"] == str(key)


@pytest.mark.parametrize(
    ("place", "options", "content", "code"),
    [
        (None, [], None, 2),
        ("registry.example.org/team", ["--engine", "host"], None, 2),
        ("registry.example.org/team", [], b"no key", 3),
    ],
    ids=["no registry", "no containers", "no key"],
)
def test_a_key_that_nothing_is_held_to_or_that_is_none_is_refused_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    registry: list[str | None],
    key: Path,
    place: str | None,
    options: list[str],
    content: bytes | None,
    code: int,
) -> None:
    registry[0] = place
    key.write_bytes(content or key.read_bytes())
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, *options, "--key", str(key)) == code
    assert (engines, ordered) == ([], [])


@pytest.mark.parametrize(("options", "named"), [([], False), (["--engine", "host"], True)])
def test_the_command_that_repeats_a_fleet_names_the_engine_if_one_was_named(
    monkeypatch: pytest.MonkeyPatch,
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    options: list[str],
    named: bool,
) -> None:
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, *options) == 0
    record = read_record(ordered[0][0].settings.folder)
    assert record.command.startswith("interlock fleet -i ")
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
        "command": experiment.repeat_command(settings, where=["--engine", engine] if engine else []),
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
    write_record(project / "results" / record.name, record)
    return record


@pytest.mark.parametrize("again", [[], ["--engine", "host"]])
def test_a_resumed_fleet_goes_on_with_the_engine_with_which_it_began(
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    again: list[str],
) -> None:
    begun(EngineName.HOST, project)
    assert call(monkeypatch, "--resume", "2026-11-21-a", *again) == 0
    ((run, _),) = ordered
    assert engines == []
    assert run.record.engine is EngineName.HOST
    assert run.settings.variables["interlock_engine"] == "host"
    assert "--engine host" in " ".join(run.settings.options_of("import-loop"))


@pytest.mark.parametrize(
    ("engine", "wanted", "began"),
    [(None, "host", "docker"), (None, "podman", "docker"), (EngineName.HOST, "docker", "host")],
)
def test_another_engine_than_the_fleet_began_with_is_refused(
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    capfd: pytest.CaptureFixture[str],
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
    engine: EngineName | None,
    wanted: str,
    began: str,
) -> None:
    begun(engine, project)
    assert call(monkeypatch, "--resume", "2026-11-21-a", "--engine", wanted) == 2
    said = capfd.readouterr().err
    assert re.search(rf"--engine: 2026-11-21-a\b.*\b{began}\b.*\b{wanted}\b.*--engine {began}\b", said), said
    assert (engines, ordered) == ([], [])


def test_a_record_of_before_there_were_engines_to_choose_means_docker(
    monkeypatch: pytest.MonkeyPatch, project: Path, engines: Asked, ordered: list[tuple[FleetRun, fleet.FleetBuilds]]
) -> None:
    begun(None, project)
    path = project / "results/2026-11-21-a/fleet.json"
    old = json.loads(path.read_text())
    del old["engine"]
    path.write_text(json.dumps(old))
    assert call(monkeypatch, "--resume", str(path.parent), "--engine", "docker") == 0
    assert call(monkeypatch, "--resume", "2026-11-21-a") == 0
    assert [run.settings.variables["interlock_engine"] for run, _ in ordered] == ["", ""]
    assert engines[0] == "connect without a name"


def test_a_fleet_without_containers_is_not_resumed_on_another_build(
    monkeypatch: pytest.MonkeyPatch,
    project: Path,
    capfd: pytest.CaptureFixture[str],
    engines: Asked,
    ordered: list[tuple[FleetRun, fleet.FleetBuilds]],
) -> None:
    begun(EngineName.HOST, project, images={QUICKEST: "another hash"})
    assert call(monkeypatch, "--resume", "2026-11-21-a") == 2
    said = capfd.readouterr().err
    assert said.startswith("error: --resume: ")
    assert QUICKEST in said
    assert (engines, ordered) == ([], [])


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, project: Path, tmp_path: Path, registry: list[str | None]) -> list[str]:
    """The steps that Ansible was asked for, of a host that tells its facts and does nothing else."""
    steps: list[str] = []

    def play(call: Call, _stop: threading.Event) -> PlaybookResult:
        steps.append(call.tag)
        call.log.write_text("what Ansible says")
        if call.tag != "facts":
            return PlaybookResult(Ending.FAILED, "it does nothing else")
        facts = {"cpu": KIND.cpu, "cores": KIND.cores, "kernel": KIND.kernel}
        Path(call.variables["host_facts_file"]).write_text(json.dumps(facts))
        return PlaybookResult(Ending.DONE)

    assert registry == [None]
    monkeypatch.chdir(project)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("INTERLOCK_ENGINE", raising=False)
    monkeypatch.setattr(ansible, "play", play)
    return steps


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch, answers: list[str]) -> list[str]:
    """The same steps, of a host that does not answer."""

    def play(call: Call, _stop: threading.Event) -> PlaybookResult:
        answers.append(call.tag)
        return PlaybookResult(Ending.LOST, "no route")

    monkeypatch.setattr(ansible, "play", play)
    return answers


def files_below(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_plan_builds_nothing_and_leaves_no_file(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    project: Path,
    tmp_path: Path,
    engines: Asked,
    answers: list[str],
) -> None:
    before = files_below(project)
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--plan") == 0
    assert "ash: import-loop" in capfd.readouterr().out
    assert (engines, answers) == ([], ["facts"])
    assert files_below(project) == before
    assert files_below(tmp_path / "cache") == {}


def test_the_plan_of_a_resumed_fleet_leaves_its_record_alone(
    monkeypatch: pytest.MonkeyPatch, project: Path, engines: Asked, answers: list[str]
) -> None:
    begun(None, project, images={QUICKEST: "a hash"})
    before = files_below(project)
    assert call(monkeypatch, "--resume", "2026-11-21-a", "--plan") == 0
    assert (engines, answers) == ([], ["facts"])
    assert files_below(project) == before


def test_a_plan_without_a_host_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    project: Path,
    engines: Asked,
    silence: list[str],
) -> None:
    before = files_below(project)
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS, "--plan") == 1
    assert "no route" in capfd.readouterr().err
    assert (engines, silence) == ([], ["facts"])
    assert files_below(project) == before


def test_a_run_without_a_host_is_an_error_that_names_the_reason_and_no_report(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    project: Path,
    engines: Asked,
    silence: list[str],
) -> None:
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS) == 1
    said = capfd.readouterr()
    assert "no route" in said.err
    assert "report.md" not in said.out + said.err
    assert not list(project.glob("results/*/report.md"))
    assert silence == ["facts"]


def test_a_run_in_which_nothing_was_measured_names_no_report(
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    engines: Asked,
    answers: list[str],
) -> None:
    monkeypatch.setattr(archives, "save", lambda _client, _tags, path: str(path.write_bytes(b"")))
    assert call(monkeypatch, "--variants", QUICKEST, *OPTIONS) == 1
    assert "report.md" not in capfd.readouterr().out
    assert answers == ["facts", "ready", "restore"]
