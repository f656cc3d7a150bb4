"""Which engine is found here, and what is said where none is."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from interlock.engine import finding
from interlock.engine.client import Address
from interlock.engine.docker import DockerEngine
from interlock.engine.finding import Found
from interlock.errors import EngineError, NoEngineError
from interlock.results.engines import EngineName
from tests.builders import make_program

EVERY_RIGHT, OF_A_CONTAINER = "000001ffffffffff", "00000000a80425fb"
# With it Docker was installed, and its service did not start: 'ulimit: error setting limit'.
ALL_BUT_LIMITS = "000001fffeffffff"
CGROUPS = "30 24 0:26 / /sys/fs/cgroup {} - cgroup2 cgroup2 rw"
SILENT = NoEngineError(file="unix:///x.sock", found="no container engine answers", todo="Start one.")


def machine(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    *,
    rights: str = EVERY_RIGHT,
    cgroups: str = "rw,nosuid",
    ids: str = "0 0 4294967295",
    manager: bool = True,
) -> None:
    """A machine as /proc describes it."""
    (folder / "self").mkdir()
    (folder / "self/status").write_text(f"Name:\tx\nCapBnd:\t{rights}\n")
    (folder / "self/mountinfo").write_text(f"20 1 8:1 / / rw - ext4 /dev/vda rw\n{CGROUPS.format(cgroups)}\n")
    (folder / "self/uid_map").write_text(f"{ids}\n")
    monkeypatch.setattr(finding, "PROC", folder)
    monkeypatch.setattr(finding, "SYSTEMD", folder if manager else folder / "none")
    monkeypatch.setattr("shutil.which", lambda *_args, **_options: None)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({}, ""),
        ({"cgroups": "ro,nosuid"}, "cgroups"),
        ({"rights": OF_A_CONTAINER}, "CAP_SYS_ADMIN"),
        ({"rights": ALL_BUT_LIMITS}, "CAP_SYS_RESOURCE"),
        ({"ids": "0 100000 65536"}, "user namespace"),
        ({"manager": False}, "service manager"),
    ],
)
def test_what_keeps_an_engine_from_running_is_found_before_one_is_installed(
    changed: dict[str, Any], why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, tmp_path, **changed)
    found = finding.why_no_start()
    assert why in found
    assert bool(found) is bool(why)


def test_what_the_kernel_does_not_say_or_says_in_other_letters_is_no_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, tmp_path)
    mounts = tmp_path / "self/mountinfo"
    mounts.write_bytes(b"21 1 8:1 / /mnt/\xfc rw - ext4 /dev/vdb rw\n" + mounts.read_bytes())
    assert finding.why_no_start() == ""
    for name in ("uid_map", "mountinfo", "status"):
        (tmp_path / "self" / name).unlink()
        (tmp_path / "self" / name).mkdir()
        assert finding.why_no_start()


@pytest.mark.parametrize(
    ("user", "programs", "sudo_allows", "may"),
    [(0, {"apt-get"}, False, True), (1000, {"apt-get"}, False, False), (0, set(), False, False)]
    + [(1000, {"apt-get", "sudo"}, allows, allows) for allows in (True, False)],
)
def test_who_may_install_packages_is_known_without_installing_one(
    user: int, programs: set[str], sudo_allows: bool, may: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in programs:
        make_program(tmp_path / name, f"exit {0 if sudo_allows else 1}")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: user)
    assert bool(finding.why_no_packages()) is not may


@pytest.mark.parametrize(
    ("found", "could"),
    [
        (Found(None, SILENT), True),
        (Found(None, SILENT, no_start="read-only cgroups"), False),
        (Found(None, SILENT, no_packages="no sudo"), False),
        (Found(None, SILENT, answers=True), False),
        (Found(cast(DockerEngine, object())), False),
    ],
)
def test_docker_is_installed_only_where_it_can_run_and_where_none_is(
    found: Found, could: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(finding, "podman_is_installed", lambda: False)
    assert found.could_install() is could


@pytest.mark.parametrize("chosen", ["address", "podman"])
def test_an_engine_that_the_user_chose_is_not_replaced_and_is_named(
    chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr(finding, "podman_is_installed", lambda: chosen == "podman")
    if chosen == "address":
        monkeypatch.setenv("DOCKER_HOST", SILENT.file)
    assert not Found(None, SILENT).could_install()
    assert Found(None, SILENT).could_install(EngineName.DOCKER) is (chosen == "podman")
    assert SILENT.file in Found(None, SILENT, no_start="read-only cgroups").why_none


@pytest.mark.parametrize(
    ("said", "raised"), [("cannot clone", NoEngineError), ("no space left on device", EngineError), ("", None)]
)
def test_an_engine_that_answers_and_starts_no_container_is_none(said: str, raised: type[Exception] | None) -> None:
    address = Address("unix:///x.sock")
    engine: Any = SimpleNamespace(address=address, is_elsewhere=False, try_container=lambda: said)
    if raised is None:
        finding.require_containers(engine)
        return
    with pytest.raises(raised) as caught:
        finding.require_containers(engine)
    assert type(caught.value) is raised
    assert said in str(caught.value)


def test_what_is_wrong_with_a_dead_address_is_said_with_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/none.sock"
    monkeypatch.setitem(os.environ, "DOCKER_HOST", address)
    found = finding.find_containers()
    assert found.containers is None
    assert address in found.why_none
