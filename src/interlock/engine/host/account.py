"""The user that builds and workloads run as: whoever runs Interlock, or for root in a container one made for it."""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from interlock.engine.ended import run_here
from interlock.engine.machine import text_of

NAME = "interlock"
# Root's home, and so the cache below it, is closed to others.
SYSTEM_CACHE = Path("/var/cache/interlock")
CONTAINER_FILES = (Path("/.dockerenv"), Path("/run/.containerenv"))
CONTAINER_GROUPS = re.compile(r"docker|kubepods|containerd|libpod|/lxc", re.MULTILINE)
OVERLAY_ROOT = re.compile(r"^\d+ \d+ \S+ / / .* - overlay ", re.MULTILINE)
SYSTEM_PROGRAMS = "/usr/sbin:/sbin:/usr/bin:/bin"


@dataclass(frozen=True)
class Account:
    """A user that root's programs run as; without a name they keep their own."""

    name: str = ""
    uid: int = -1
    gid: int = -1
    setpriv: str = ""

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs this one as the user, who gains no right to become anybody else."""
        if not self.name:
            return list(argv)
        who = (f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", "--no-new-privs")
        return [self.setpriv, *who, "--", *argv]

    def give(self, *paths: Path) -> None:
        """Make the user the owner of files and folders, to write to them."""
        for path in paths:
            os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def take_back(self, folder: Path) -> None:
        """Make all of a folder root's again, so that no workload can change what another one runs."""
        if not self.name:
            return
        for place, folders, files in os.walk(folder):
            for name in (".", *folders, *files):
                os.chown(Path(place, name), 0, 0, follow_symlinks=False)

    def reaches(self, path: Path) -> bool:
        """Return whether no folder on the way to a path is closed to the user."""
        if not self.name:
            return True
        return all(place.stat().st_mode & 0o001 for place in (path, *path.parents) if place.is_dir())


MYSELF = Account()


def is_disposable() -> bool:
    """Return whether this is a container or a CI runner: made for one purpose, with nothing of a user's own in it."""
    return (
        any(path.exists() for path in CONTAINER_FILES)
        or os.environ.get("CI", "").lower() in {"1", "true"}
        or "GITHUB_ACTIONS" in os.environ
        or "\0container=" in f"\0{text_of(Path('/proc/1/environ'))}"
        or CONTAINER_GROUPS.search(text_of(Path("/proc/1/cgroup")) or "") is not None
        or OVERLAY_ROOT.search(text_of(Path("/proc/self/mountinfo")) or "") is not None
    )


def find_account() -> Account:
    """Return the user that was made for builds and workloads; MYSELF if there is none."""
    setpriv = shutil.which("setpriv", path=SYSTEM_PROGRAMS)
    try:
        user = pwd.getpwnam(NAME)
    except KeyError:
        return MYSELF
    return Account(NAME, user.pw_uid, user.pw_gid, setpriv) if setpriv else MYSELF


def expected() -> Account:
    """Return the user that builds and workloads would run as now; none is made."""
    if os.geteuid() != 0 or not is_disposable():
        return MYSELF
    there, setpriv = find_account(), shutil.which("setpriv", path=SYSTEM_PROGRAMS)
    if there.name or setpriv is None or shutil.which("useradd", path=SYSTEM_PROGRAMS) is None:
        return there
    return Account(NAME, setpriv=setpriv)


def ensure_account() -> tuple[Account, str]:
    """Return the user for builds and workloads, made now if need be; or MYSELF and the reason why there is none."""
    made = "" if find_account().name else _make_account()
    user = find_account()
    if not user.name:
        return MYSELF, made or "setpriv, of util-linux, is not here"
    tried = run_here(user.command(["true"]))
    return (user, "") if tried.ok else (MYSELF, tried.why)


def _make_account() -> str:
    """Make the user; return why that failed, or an empty text."""
    useradd = shutil.which("useradd", path=SYSTEM_PROGRAMS)
    if useradd is None:
        return "useradd, of the package passwd, is not here"
    homeless = ["--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    return run_here([useradd, "--system", "--user-group", *homeless, NAME]).why


def cache_for(account: Account, cache: Path) -> Path:
    """Return the cache of this machine as the engine: the user's own, unless the account cannot reach it."""
    return cache if account.reaches(cache) else SYSTEM_CACHE


@contextmanager
def reading_it(process: psutil.Process) -> Iterator[None]:
    """Let root's thread read what a process's own user may: a container's root cannot look into others' processes."""
    if os.geteuid() != 0 or process.uids().real == 0:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsgid(process.gids().real)
    libc.setfsuid(process.uids().real)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(os.getegid())
