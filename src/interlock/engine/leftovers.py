"""What an experiment leaves when it is killed, or its machine is: processes, containers, networks, volumes, folders."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from interlock.engine.host.prefixes import EXPERIMENT

END_S = 60.0
LOOK_S = 0.2


def end_processes(beginning: str, within_s: float = END_S) -> list[str]:
    """End each `interlock matrix --name NAME` whose name has this prefix as Ctrl-C would, and builds marked with one.

    What does not end in time is killed. Return the names.

    A process is known by its id and its start: what has the id of one that has ended is left alone.
    """
    found = dict(_processes(beginning))
    for end in (psutil.Process.terminate, psutil.Process.kill):
        left = [process for process in found if _runs(process)]
        for process in left:
            with suppress(psutil.NoSuchProcess):
                end(process)
        _wait(lambda left=left: not any(map(_runs, left)), within_s)  # type: ignore[misc]
    return sorted(set(found.values()))


def _processes(beginning: str) -> Iterator[tuple[psutil.Process, str]]:
    """Yield this user's processes and their experiments; not a `timeout` around one, which repeats the signal."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            words = process.cmdline()
            mine = process.uids().effective == os.getuid() and process.pid != os.getpid()
            name = (_name_of(words) or _mark_of(process)) if mine and not _is_timeout(words) else ""
            if name and name.startswith(beginning):
                yield process, name


def _is_timeout(words: list[str]) -> bool:
    return bool(words) and Path(words[0]).name == "timeout"


def _name_of(words: list[str]) -> str:
    """Return the experiment's name if this is a command line of `interlock matrix`, else an empty text."""
    names = (after for word, after in itertools.pairwise(words) if word == "--name")
    return next(names, "") if "matrix" in words else ""


def _mark_of(process: psutil.Process) -> str:
    """Return the experiment that the process builds for, or an empty text."""
    return process.environ().get(EXPERIMENT, "")


def _runs(process: psutil.Process) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait(until: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not until() and time.monotonic() < end:
        time.sleep(LOOK_S)
