"""What doctor says of this machine, and of machines described by their facts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import ImageNotFound

from interlock.catalog import project as catalogs
from interlock.engine import machine
from interlock.engine.checks import CheckState, MachineCheck
from interlock.engine.client import Address
from interlock.engine.docker import DockerEngine
from interlock.engine.host import account, checks, memory, profiler, servers, toolchain
from interlock.engine.host.account import Account
from interlock.engine.host.servers import HostServer
from interlock.measure import doctor, lock
from interlock.results.profiles import Method, Probe
from tests.builders import ROOT

FACTS: dict[str, Any] = {"cores": 4, "load_1min": 0.5, "governor": "performance", "no_turbo": "1"}
ENGINE = {"name": "docker", "version": "28.0", "cgroup_version": "2", "storage_driver": "overlay2", "data_root": "/"}


def tuning(**changes: Any) -> list[MachineCheck]:
    return list(doctor._tuning({key: value for key, value in (FACTS | changes).items() if value is not None}))


def test_a_tuned_and_quiet_machine_needs_no_fix() -> None:
    assert tuning() == [
        MachineCheck("tuning", CheckState.OK, "governor performance"),
        MachineCheck("load", CheckState.OK, "0.5 over the last minute on 4 cores"),
    ]


@pytest.mark.parametrize(
    ("changes", "tunable"), [({"governor": "powersave"}, True), ({"no_turbo": "0"}, True), ({"governor": None}, False)]
)
def test_a_processor_whose_frequency_may_change_is_warned_of(changes: dict[str, Any], tunable: bool) -> None:
    check = tuning(**changes)[0]
    assert (check.subject, check.state, check.by_playbook) == ("tuning", CheckState.WARNING, tunable)
    assert ("python -m pyperf system tune" in check.fix) is tunable


@pytest.mark.parametrize(("load", "state"), [(2.0, CheckState.OK), (2.1, CheckState.WARNING)])
def test_a_machine_is_busy_when_half_its_cores_are(load: float, state: CheckState) -> None:
    assert tuning(load_1min=load)[1].state is state


def test_this_machine_is_described_with_cores_tuning_load_and_disk(tmp_path: Path) -> None:
    checks = list(doctor.examine_machine(tmp_path / "not" / "there"))
    assert [check.subject for check in checks] == ["cores", "tuning", "load", "disk for results"]
    assert checks[0].found[0].isdigit()
    free, unit, *_ = checks[3].found.split()
    assert (free.isdigit(), unit) == (True, "GB")


def test_a_folder_for_results_that_cannot_be_made_is_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It was OK, with the free space of the file system, and `matrix` refused it."""
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    check = list(doctor.examine_machine(tmp_path / "not" / "there"))[3]
    assert (check.subject, check.state) == ("disk for results", CheckState.WARNING)
    assert check.found == f"{tmp_path}/not/there cannot be written"
    assert "--results" in check.fix


def test_a_disk_that_is_nearly_full_is_told_by_the_engine_whose_images_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(machine, "free_bytes", lambda _: 9_900_000_000)
    (of_podman,) = doctor._engine_disk(ENGINE | {"name": "podman"}, is_elsewhere=False)
    of_results = doctor._disk("disk for results", tmp_path)
    assert (of_podman.state, of_podman.found.split()[0]) == (CheckState.WARNING, "9")
    assert ("podman system df" in of_podman.fix, "system df" in of_results.fix) == (True, False)
    # That of an engine elsewhere is not looked at.
    assert list(doctor._engine_disk(ENGINE, is_elsewhere=True)) == []


def test_a_lock_that_this_user_cannot_take_is_a_problem_and_no_end_of_the_checks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file of another user's was an error in the place of all checks, or came after the builds."""
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setattr(lock, "lock_path", lambda: tmp_path / "lock")
    check = list(doctor.examine_machine(tmp_path))[-1]
    assert (check.subject, check.state, str(tmp_path / "lock") in check.found) == ("lock", CheckState.PROBLEM, True)
    engine: Any = SimpleNamespace(find_workspace=lambda *_: object())
    assert list(doctor._probes(engine, tmp_path, catalogs.load(ROOT).bases["trixie"])) == []


@pytest.mark.parametrize(
    ("driver", "state"),
    [("overlay2", CheckState.OK), ("vfs", CheckState.WARNING), ("fuse-overlayfs", CheckState.WARNING)],
)
def test_a_slow_storage_driver_is_warned_of(driver: str, state: CheckState) -> None:
    engine, storage = doctor._engine(ENGINE | {"storage_driver": driver})
    assert engine == MachineCheck("engine", CheckState.OK, "Docker API, version 28.0, cgroup v2")
    assert (storage.state, storage.found) == (state, driver)
    assert bool(storage.fix) is (state is CheckState.WARNING)


class NoImages:
    """Of an engine without the base, whose registry does not answer."""

    def get(self, reference: str) -> None:
        raise ImageNotFound(f"no {reference}")

    get_registry_data = get


def test_a_base_that_cannot_be_had_blocks_and_the_playbook_fixes_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    client: Any = SimpleNamespace(images=NoImages())
    check = doctor._base(DockerEngine(client, Address("unix:///x.sock")), catalogs.load(ROOT).bases["trixie"])
    assert (check.state, check.by_playbook) == (CheckState.PROBLEM, True)
    assert "mmdebstrap" in check.fix


def test_without_containers_the_packages_of_a_better_probe_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "PROFILER", (toolchain.Need("no-such-program", "some-package", "some-package"),))
    monkeypatch.setattr(toolchain, "PROBE", ())
    monkeypatch.setattr(profiler, "could_trace", lambda: True)
    check = checks.of_probe()
    assert (check.subject, check.state) == ("probe", CheckState.WARNING)
    assert "no-such-program" in check.found
    (packages,) = checks.of_packages()
    assert "some-package" in packages.fix


def host_checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lacking: Sequence[str]) -> dict[str, MachineCheck]:
    """What is said of a container without these programs and headers, by the check's subject."""
    monkeypatch.setattr(toolchain.Need, "is_here", property(lambda need: need.what not in lacking))
    monkeypatch.setattr(memory, "choose", lambda _: tmp_path)
    monkeypatch.setattr(memory, "file_system", lambda _: "overlay")
    monkeypatch.setattr(servers, "choose", lambda _: HostServer("caddy", "caddy by pip", ("caddy",)))
    monkeypatch.setattr(account, "expected", lambda: Account("interlock"))
    return {one.subject: one for one in doctor.examine_host(tmp_path)}


def test_a_container_that_lacks_nearly_all_can_measure_and_is_told_one_command_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lacking = ["gcc", "zlib.h", "/usr/share/misc/config.guess", "strace", "clang"]
    found = host_checks(monkeypatch, tmp_path, lacking)
    assert doctor.blocking(list(found.values())) == []
    wrong = {subject for subject, one in found.items() if one.state is CheckState.WARNING}
    assert {"compiler", "libraries", "GNU pth", "server", "memory", "probe", "packages"} <= wrong
    assert "caddy by pip" in found["server"].found
    assert "on a disk, overlay" in found["memory"].found
    assert "interlock, without rights" in found["user"].found
    assert [one.subject for one in found.values() if "install" in one.fix and one.subject != "engine"] == ["packages"]
    assert {"gcc", "zlib1g-dev", "autotools-dev", "strace"} <= set(found["packages"].fix.split())


def test_a_machine_that_lacks_nothing_is_asked_to_install_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = host_checks(monkeypatch, tmp_path, [])
    assert "packages" not in found
    assert {found[one].state for one in ("compiler", "libraries", "GNU pth")} == {CheckState.OK}


def test_the_best_probe_needs_no_fix_and_a_lesser_one_says_why_it_is_not_had() -> None:
    best = doctor.probe_check(Probe(method=Method.BPF))
    assert (best.state, best.fix) == (CheckState.OK, "")
    assert best.found.startswith("BPF: ")
    reason = "the kernel refuses the BPF program"
    lesser = doctor.probe_check(Probe(method=Method.STRACE_FUTEX, refused={Method.BPF: reason}))
    assert lesser.state is CheckState.WARNING
    assert f"bpf: {reason}" in lesser.found


@pytest.mark.parametrize(("plugin", "found"), [("github.com/docker/buildx v0.13.1", "v0.13.1"), ("", "RUN --mount")])
def test_what_builds_a_dockerfile_is_said_and_without_it_what_a_trial_refuses(plugin: str, found: str) -> None:
    parts = [{"Name": "Engine"}]
    client = SimpleNamespace(buildx=plugin, version=lambda: {"Components": parts})
    check = doctor._buildkit(DockerEngine(client, Address("unix:///x")))
    assert (check.subject, check.state) == ("BuildKit", CheckState.OK)
    assert found in check.found
    parts.append({"Name": "Podman Engine"})
    assert "Podman" in doctor._buildkit(DockerEngine(client, Address("unix:///x"))).found or plugin
