"""Where cells write on this machine: a folder in memory, or on a disk if memory has too little room."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path

import psutil

from interlock.engine.host.account import Account
from interlock.engine.ownership import mark

# A tmpfs on every Linux, as a cell's /scratch is one. Engines give a container 64 MiB of it.
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  a folder of our own is made in it
# One and a half times the largest files of the server and of two cells together.
WANTED_BYTES = 512 * 2**20
IN_MEMORY = {"tmpfs", "ramfs"}


def places() -> list[Path]:
    """Return where the folder may be, the best place first."""
    return [SHARED_MEMORY, Path(tempfile.gettempdir()), Path("/var/tmp")]  # noqa: S108  a folder of our own is made


def choose(account: Account) -> Path:
    """Return the first place with enough room; if there is none, the place with the most room."""
    here = [place for place in places() if place.is_dir() and account.reaches(place)]
    return next(filter(has_room, here), max(here, key=_free_bytes))


def has_room(place: Path) -> bool:
    """Return whether a place has room for what cells write."""
    return _free_bytes(place) >= WANTED_BYTES


def _free_bytes(place: Path) -> int:
    return shutil.disk_usage(place).free


def file_system(place: Path) -> str:
    """Return the kind of file system that a folder is on."""
    mounts = [mount for mount in psutil.disk_partitions(all=True) if place.is_relative_to(mount.mountpoint)]
    return max(mounts, key=lambda mount: len(mount.mountpoint)).fstype if mounts else "unknown"


def is_memory(place: Path) -> bool:
    """Return whether what is written there stays in memory."""
    return file_system(place) in IN_MEMORY


def words(place: Path) -> str:
    """Return a place in words: where it is, and whether it is on a disk."""
    return f"{place} ({'in memory' if is_memory(place) else f'on a disk, {file_system(place)}'})"


def name_of(owner: str) -> str:
    """Return the name of an experiment's folder, by which its processes are found again.

    It is short whatever the experiment is called, because a socket's whole path may have at most 107 bytes.
    """
    return f"interlock-{hashlib.sha256(owner.encode()).hexdigest()[:12]}"


def folders_of(owner: str) -> list[Path]:
    """Return where an experiment's folder may be; another place may have had room when it was made."""
    return [place / name_of(owner) for place in places()]


def make(owner: str, account: Account) -> Path:
    """Make an experiment's folder, marked with who made it; FileExistsError if it is there."""
    folder = choose(account) / name_of(owner)
    folder.mkdir()
    mark(folder, owner)
    folder.chmod(0o711)  # a server that root starts reads its files as another user
    return folder
