"""One measurement at a time on a machine."""

from __future__ import annotations

import errno
import grp
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from interlock.errors import StoreError
from interlock.measure import lock as locks
from tests import apart

HOLD = """
import sys
from pathlib import Path
from interlock.measure import lock as locks
with locks.hold("matrix elsewhere", print, Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def another(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock until its input ends."""
    argv = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def take(lock: Path) -> list[str]:
    """What was said while waiting for the lock."""
    said: list[str] = []
    with locks.hold("trial", said.append, lock):
        said.append("mine")
    return said


def test_who_is_alone_never_waits_and_an_error_releases_the_lock(lock: Path) -> None:
    assert take(lock) == ["mine"]
    with pytest.raises(ZeroDivisionError), locks.hold("matrix", pytest.fail, lock):
        _ = 1 / 0
    assert take(lock) == ["mine"]


def test_the_second_waits_for_the_first_and_says_who_it_is(lock: Path) -> None:
    said: list[str] = []
    with another(lock) as first:

        def end_first(sentence: str) -> None:
            said.append(sentence)
            assert first.stdin
            first.stdin.close()

        with locks.hold("trial", end_first, lock):
            said.append("mine")
            assert first.wait(60) == 0
    waited, mine = said
    assert f"matrix elsewhere (process {first.pid} of " in waited
    assert mine == "mine"


def test_a_crash_releases_the_lock(lock: Path) -> None:
    with another(lock) as first:
        first.send_signal(signal.SIGKILL)
        first.wait(60)
        assert take(lock) == ["mine"]


def test_it_can_be_asked_who_holds_the_lock_without_taking_it(lock: Path) -> None:
    assert locks.holder(lock) == ""
    with locks.hold("matrix here", pytest.fail, lock):
        assert locks.holder(lock).startswith(f"matrix here (process {os.getpid()} of ")
    assert locks.holder(lock) == ""


def test_threads_of_one_process_wait_for_each_other_too(lock: Path) -> None:
    inside, together = 0, 0

    def measure() -> None:
        nonlocal inside, together
        with locks.hold("a thread", lambda _: None, lock):
            inside += 1
            together = max(together, inside)
            time.sleep(0.05)
            inside -= 1

    threads = [Thread(target=measure) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (inside, together) == (0, 1)


def test_a_full_disk_has_no_room_for_a_name_and_the_lock_is_held(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The temporary folder may be on it; the experiment's results need not be."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with locks.hold("matrix", pytest.fail, lock):
        assert locks.holder(lock) == "another measurement"


@pytest.mark.parametrize("umask", [0o077, 0o000])
@pytest.mark.parametrize("there_before", [False, True])
def test_who_may_measure_may_take_the_lock_and_nobody_else(lock: Path, umask: int, there_before: bool) -> None:
    before = os.umask(umask)
    try:
        if there_before:  # as an older version has made it
            lock.touch()
            lock.chmod(0o666)
        take(lock)
    finally:
        os.umask(before)
    group = locks._group()
    assert stat.S_IMODE(lock.stat().st_mode) == (0o600 if group is None else 0o660)
    assert group in {None, lock.stat().st_gid}


def test_the_group_of_those_who_measure_comes_before_that_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = os.getegid()
    known = {"docker": mine + 1000, "interlock": mine}
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_gid=known[name]))
    assert locks._group() == mine
    known.clear()
    assert locks._group() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file that is somebody else's")
def test_a_strangers_file_in_its_place_is_refused(lock: Path) -> None:
    lock.touch()
    lock.chmod(0o666)
    lock.parent.chmod(0o777)
    os.chown(lock, 12345, 12345)
    code = (
        "import os, sys; from pathlib import Path; from interlock.measure import lock\n"
        "os.setgroups([]); os.setgid(23456); os.setuid(23456)\n"
        "from interlock.errors import StoreError\n"
        "try:\n    lock._open(Path(sys.argv[1]))\nexcept StoreError: print('refused')"
    )
    for folder in [*lock.parents][:3]:
        folder.chmod(0o755)
    said = subprocess.run([sys.executable, "-c", code, str(lock)], capture_output=True, text=True, check=True).stdout
    assert said == "refused\n"


def test_a_link_in_its_place_is_not_followed(lock: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    lock.symlink_to(tmp_path / "precious")
    with pytest.raises(StoreError) as refused:
        take(lock)
    assert refused.value.file == str(lock)
    assert (tmp_path / "precious").read_text() == "kept"


def test_all_users_and_clones_have_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCKS", apart.LOCKS_OF_ALL)
    assert locks.lock_path().parent in {Path("/run/lock"), Path("/var/tmp"), Path("/tmp")}
    assert locks.lock_path().name == locks.FILE


def test_a_folder_of_locks_that_is_roots_alone_is_nobodys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "LOCKS", tmp_path)
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/temporary")
    for mode, folder in ((0o755, Path("/temporary")), (0o1777, tmp_path)):
        tmp_path.chmod(mode)
        assert locks.lock_path().parent == folder
