"""Who made a container, a volume, a network, an image or a folder, and whether that process is still at work.

A process is known by its host, its id and its start; sooner or later another process gets the same id.
"""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from pathlib import Path

from interlock.untrusted import parse_json

# The label that has the experiment's name, or that of an audit, a trial, a proof or an installation.
OWNER_LABEL = "interlock.experiment"
PID, STARTED, HOST = "interlock.pid", "interlock.started", "interlock.host"
# The file that marks a folder, with what containers and images have as labels.
MARK = ".interlock-owner.json"
PREFIX = "interlock-"
PROC = Path("/proc")
ENDED = {"Z", "X"}
NUMBER = re.compile(r"[0-9]{1,10}")


class Life(StrEnum):
    """Whether the process that made something is still at work."""

    LIVING = "living"
    DEAD = "dead"
    UNKNOWN = "unknown"  # made on another machine, or before there were these labels


def labels_of(owner: str) -> dict[str, str]:
    """Return the labels of what this process makes for an owner."""
    return {OWNER_LABEL: owner, PID: str(os.getpid()), STARTED: start_of(os.getpid()), HOST: host()}


def life(labels: Mapping[str, str]) -> Life:
    """Return whether the process that gave something these labels is still at work."""
    if not {PID, STARTED, HOST} <= set(labels) or labels[HOST] != host() or not NUMBER.fullmatch(labels[PID]):
        return Life.UNKNOWN
    return Life.LIVING if start_of(int(labels[PID])) == labels[STARTED] else Life.DEAD


def lives_of(labels: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[str, Life]:
    """Return for each owner whether it is still in use; one process that lives, or is unknown, is enough."""
    order = [Life.LIVING, Life.UNKNOWN, Life.DEAD]
    return {owner: min(map(life, made), key=order.index) for owner, made in labels.items()}


def makers_of(labels: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[int, str]:
    """Return the processes of this machine that are at work: the owner by process id."""
    return {int(marks[PID]): owner for owner, made in labels.items() for marks in made if life(marks) is Life.LIVING}


@cache
def host() -> str:
    """Return this machine's name and this process's PID namespace; a container has a namespace of its own."""
    return f"{platform.node()} {(PROC / 'self/ns/pid').stat().st_ino}"


def start_of(pid: int) -> str:
    """Return when a process started: the boot and the clock ticks since then, which setting the clock does not change.

    Empty for a process that is gone or has ended.
    """
    try:
        words = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        # The second word is the program's name in parentheses, which may have any character in it.
        state, *rest = words.rpartition(")")[2].split()
        boot = (PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
    return "" if state in ENDED else f"{boot} {rest[18]}"


@contextmanager
def temporary_folder(purpose: str, within: Path | None = None) -> Iterator[Path]:
    """Make a folder that says who made it, and remove it after the block."""
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}-", dir=within) as name:
        mark(Path(name), purpose)
        yield Path(name)


def mark(folder: Path, owner: str) -> None:
    """Write the owner's name into a folder."""
    (folder / MARK).write_text(json.dumps(labels_of(owner)), encoding="utf-8")


def folders(*within: Path) -> dict[Path, Life]:
    """Return this user's marked folders right below these."""
    marked = {path for place in within if place.is_dir() for path in place.glob(f"{PREFIX}*") if _is_mine(path)}
    return {path: life_of(path) for path in sorted(marked) if (path / MARK).is_file()}


def _is_mine(path: Path) -> bool:
    try:
        return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.geteuid()
    except OSError:
        return False


def life_of(folder: Path) -> Life:
    """Return whether the maker of a folder is still at work; unknown without a mark."""
    return life(labels_in(folder))


def labels_in(folder: Path) -> dict[str, str]:
    """Return what a folder's mark says; nothing without one that can be read."""
    try:
        return {str(name): str(value) for name, value in parse_json((folder / MARK).read_bytes()).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def remove_dead(*within: Path) -> list[Path]:
    """Remove the marked folders below these whose makers have ended, and return them."""
    dead = [path for path, alive in folders(*within).items() if alive is Life.DEAD]
    for path in dead:
        shutil.rmtree(path, ignore_errors=True)
    return dead
