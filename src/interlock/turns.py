"""One measurement at a time on a machine: a lock that all its users and all their clones share."""

from __future__ import annotations

import fcntl
import getpass
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from interlock.errors import StoreError

FILE = "interlock-turn"
# Where the system keeps locks that do not outlive it; not every system has it.
LOCKS = Path("/run/lock")
POLL_S = 0.5
ANYBODY = 0o666


def place() -> Path:
    """The lock's file: nobody's own, so that it is one for all users and clones."""
    return (LOCKS if os.access(LOCKS, os.W_OK) else Path(tempfile.gettempdir())) / FILE


@contextmanager
def turn(what: str, on_wait: Callable[[str], None], path: Path | None = None) -> Iterator[None]:
    """The block runs while no other one does on this machine. `on_wait` is told who has the turn meanwhile.

    The kernel takes the lock from a process that has ended, however it ended.
    """
    descriptor = _open(path or place())
    try:
        told = None
        while not _taken(descriptor):
            holder = _read(descriptor)
            if holder != told:
                told = holder
                on_wait(f"waiting for the turn of {holder or 'another measurement'}")
            time.sleep(POLL_S)
        _write(descriptor, _myself(what))
        try:
            yield
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)


def holder(path: Path | None = None) -> str:
    """Who has the turn, in words; empty if nobody has."""
    descriptor = _open(path or place())
    try:
        return "" if _taken(descriptor) else _read(descriptor) or "another measurement"
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Not O_CREAT alone: in a folder for all, Linux may refuse that for a file of another user."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with suppress(FileNotFoundError):
            return os.open(path, flags)
        with suppress(FileExistsError):
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, ANYBODY)
            os.fchmod(descriptor, ANYBODY)  # whatever this user's umask is
            return descriptor
        return os.open(path, flags)
    except OSError as error:
        raise StoreError(
            file=str(path),
            found=f"the lock that lets one experiment measure at a time cannot be opened: {error.strerror}",
            todo="Make it a file that everybody may write, or remove it.",
        ) from None


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 1000, 0).decode(errors="replace").strip()


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode(), 0)


def _myself(what: str) -> str:
    return f"{what} (process {os.getpid()} of {_user()}, since {datetime.now():%H:%M})"  # local time, for a person


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}"
