"""Whom builds and workloads run as: a user without rights, whose processes a container's root still finds and ends."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from interlock.engine.host import account
from interlock.engine.host.account import MYSELF, Account, cache_for, reading_it
from interlock.engine.host.sandbox import open_sandbox

NOBODY = Account("nobody", 65534, 65534, shutil.which("setpriv") or "")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
# Of what an engine gives a container's root, this lacks; without it the processes of others are closed to root.
NO_PTRACE = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]


def test_without_another_user_a_command_and_its_files_stay_as_they_are(tmp_path: Path) -> None:
    assert MYSELF.command(["one", "two"]) == ["one", "two"]
    MYSELF.give(tmp_path)
    assert tmp_path.stat().st_uid == os.geteuid()
    assert MYSELF.reaches(Path("/root/.cache"))


def test_a_folder_below_a_closed_one_is_not_reached_and_the_cache_is_the_systems_then(tmp_path: Path) -> None:
    (tmp_path / "home/cache").mkdir(parents=True)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o001)
    assert cache_for(NOBODY, tmp_path / "home/cache/interlock") == tmp_path / "home/cache/interlock"
    (tmp_path / "home").chmod(0o700)
    assert cache_for(NOBODY, tmp_path / "home/cache/interlock") == account.SYSTEM_CACHE
    assert cache_for(MYSELF, tmp_path / "home/cache") == tmp_path / "home/cache"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody reaches."""
    folder = Path(f"/dev/shm/test-account-{os.getpid()}")
    folder.mkdir()
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


SHOW = "id -u; id -G; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status | tr -d '\\t'"


@as_root
def test_what_runs_in_a_cell_has_no_rights_and_writes_to_its_own_places_alone(place: Path) -> None:
    cell = open_sandbox(None, place, place / "disk", place, NOBODY)
    said = cell.run(["sh", "-c", SHOW], 10).stdout.split()
    assert said == ["65534", "65534", f"CapEff:{'0' * 16}", "NoNewPrivs:1"]
    assert cell.run(["touch", "/scratch/a", "/disk/b"], 10).exit_code == 0
    assert cell.run(["touch", str(place / "of-root")], 10).exit_code != 0
    written = [Path(cell.places["/scratch"]) / "a", Path(cell.places["/disk"]) / "b"]
    assert [path.stat().st_uid for path in written] == [65534, 65534]
    cell.close()
    assert not [path for path in written if path.exists()]


@as_root
def test_a_containers_root_finds_and_ends_what_the_user_left_though_it_may_not_trace(place: Path) -> None:
    sleeper = subprocess.Popen(NOBODY.command(["sleep", "60"]), env={"HOME": f"{place}/cell"}, cwd="/")
    program = (
        f"from interlock.engine.host.sandbox import end_all_in; from pathlib import Path; end_all_in(Path('{place}'))"
    )
    try:
        subprocess.run([*NO_PTRACE, sys.executable, "-c", program], check=True, timeout=30)
        assert sleeper.wait(5) == -9
    finally:
        sleeper.kill()
        sleeper.wait()


@as_root
def test_root_reads_its_own_files_again_after_it_has_looked_at_a_process_of_another(place: Path) -> None:
    closed = place / "closed"
    closed.touch(mode=0o600)
    with subprocess.Popen(NOBODY.command(["sleep", "60"])) as sleeper:
        while psutil.Process(sleeper.pid).uids().real != NOBODY.uid:
            time.sleep(0.01)
        with reading_it(psutil.Process(sleeper.pid)), pytest.raises(PermissionError):
            closed.read_bytes()
        sleeper.kill()
    assert closed.read_bytes() == b""


@as_root
def test_what_was_built_is_roots_again_so_that_no_workload_changes_it(place: Path) -> None:
    (place / "a/b").mkdir(parents=True)
    (place / "a/link").symlink_to("/etc/passwd")
    NOBODY.give(place / "a", place / "a/b", place / "a/link")
    NOBODY.take_back(place / "a")
    assert {path.lstat().st_uid for path in (place / "a", *(place / "a").iterdir())} == {0}


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("/proc/self/mountinfo", "1 0 0:30 / / rw,relatime - overlay overlay rw", True),
        ("/proc/self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:9 / /m rw - overlay overlay rw", False),
        ("/proc/1/cgroup", "0::/system.slice/docker-0123.scope", True),
        ("/proc/1/cgroup", "0::/init.scope", False),
        ("/proc/1/environ", "PATH=/bin\0container=podman\0", True),
        ("/proc/1/environ", "PATH=/bin\0my_container=no\0", False),
    ],
)
def test_a_container_is_known_by_what_its_engine_leaves_in_it(
    file: str, text: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CI", "GITHUB_ACTIONS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(account, "CONTAINER_FILES", ())
    monkeypatch.setattr(account, "text_of", lambda path: text if path == Path(file) else None)
    assert account.is_disposable() is expected


def test_a_ci_runner_is_as_good_as_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert account.is_disposable()
