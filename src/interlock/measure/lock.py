"""The lock that lets one experiment or trial at a time measure on a machine; all who may measure share it.

Who can open the file can hold it, and stop all measuring: its group is `interlock` or `docker`, if who makes it is in
one of them.
"""

from __future__ import annotations

import errno
import getpass
import grp
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from interlock.errors import StoreError
from interlock.results.files import take_lock

FILE = "interlock.lock"
# Where the system keeps locks until it restarts; not every system has it, or lets all users write there.
LOCKS = Path("/run/lock")
POLL_S = 0.5
# Members of the first of these groups that its maker is in share the lock; without one only its owner can take it.
GROUPS = ("interlock", "docker")
MEMBERS, OWNER, OTHERS = 0o660, 0o600, 0o007


def lock_path() -> Path:
    """Return the lock's file: in no user's folder, so that all users and clones share it.

    Where LOCKS is root's alone, as in Fedora, root takes it elsewhere too: users would not meet it there.
    """
    is_for_all = LOCKS.is_dir() and LOCKS.stat().st_mode & stat.S_IWOTH
    return (LOCKS if is_for_all else Path(tempfile.gettempdir())) / FILE


@contextmanager
def hold(what: str, on_wait: Callable[[str], None], path: Path | None = None) -> Iterator[None]:
    """Run the block with the lock; while another process holds it, wait and pass its name to `on_wait`.

    `what` names the holder for those that wait. The kernel releases the lock of a process that ends, even in a crash.
    Raise StoreError if the file cannot be opened.
    """
    descriptor = _open(path or lock_path())
    try:
        reported = None
        while not take_lock(descriptor):
            holder = _read(descriptor)
            if holder != reported:
                reported = holder
                on_wait(f"waiting for the lock that {holder or 'another measurement'} holds")
            time.sleep(POLL_S)
        started = f"{datetime.now():%H:%M}"  # local time, for a person
        _write(descriptor, f"{what} (process {os.getpid()} of {_user()}, since {started})")
        try:
            yield
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)


def holder(path: Path | None = None) -> str:
    """Return who holds the lock, in words; empty if nobody does. The lock is not taken."""
    descriptor = _open(path or lock_path())
    try:
        return "" if take_lock(descriptor) else _read(descriptor) or "another measurement"
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the file or create it. Linux may refuse O_CREAT alone for another user's file in a shared folder."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with suppress(FileNotFoundError):
            return _ours(os.open(path, flags))
        with suppress(FileExistsError):
            return _ours(os.open(path, flags | os.O_CREAT | os.O_EXCL, OWNER))
        return _ours(os.open(path, flags))
    except OSError as error:
        raise StoreError(
            file=str(path),
            found=f"the lock for measuring cannot be opened: {error.strerror}",
            todo=f"Put all users who measure into a group `{GROUPS[0]}`, and run `sudo rm {path}`.",
        ) from None


def _ours(descriptor: int) -> int:
    """Return the lock's file, which others than those who may measure cannot open from now on.

    Raise PermissionError if the file is a stranger's, who could hold it forever.
    """
    status, group = os.fstat(descriptor), _group()
    if status.st_uid in {os.geteuid(), 0} or os.geteuid() == 0:
        if status.st_uid == os.geteuid() or os.geteuid() == 0:
            os.fchmod(descriptor, MEMBERS if group is not None and _given_to(descriptor, group) else OWNER)
        return descriptor
    if group is not None and status.st_gid == group and not status.st_mode & OTHERS:
        return descriptor
    os.close(descriptor)
    raise PermissionError(errno.EPERM, "it belongs to another user")


def _given_to(descriptor: int, group: int) -> bool:
    """Give the file to a group; False in a user's namespace that does not have it."""
    try:
        os.fchown(descriptor, -1, group)
    except OSError:
        return False
    return True


def _group() -> int | None:
    """Return the group whose members may measure, if this user is in it; root is in all."""
    for name in GROUPS:
        with suppress(KeyError):
            number = grp.getgrnam(name).gr_gid
            if os.geteuid() == 0 or number in {os.getegid(), *os.getgroups()}:
                return number
    return None


def _read(descriptor: int) -> str:
    return os.pread(descriptor, 1000, 0).decode(errors="replace").strip()


def _write(descriptor: int, text: str) -> None:
    with suppress(OSError):  # a full disk: it is held without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"user {os.getuid()}"
