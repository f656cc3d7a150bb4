"""Ends runs that are still at work, and removes what killed runs left on this machine and in its engines."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from interlock.catalog.project import cache_folder
from interlock.engine.docker import connect
from interlock.engine.host import memory
from interlock.engine.host.account import cache_for, find_account, reading_it
from interlock.engine.host.engine import HostEngine
from interlock.engine.host.prefixes import EXPERIMENT
from interlock.engine.ownership import remove_dead
from interlock.engine.protocol import Engine
from interlock.errors import EngineError
from interlock.results.engines import EngineName

END_S = 60.0
# psutil lets FileNotFoundError through if another process has the id by the time it looks again.
GONE = (psutil.NoSuchProcess, FileNotFoundError)
LOOK_S = 0.2


def engines(named: EngineName | None) -> tuple[list[Engine], str]:
    """Return every engine that may hold leftovers, and why none is a container engine; EngineError if it was named."""
    caches = dict.fromkeys([cache_folder(), cache_for(find_account(), cache_folder())])
    here: list[Engine] = [HostEngine(Path(), cache) for cache in caches]
    if named is EngineName.HOST:
        return here, ""
    try:
        return [*here, connect(named)], ""
    except EngineError as error:
        if named is not None:
            raise
        return here, error.found


def remove_folders() -> list[Path]:
    """Remove the folders of processes that have ended, and return them."""
    return remove_dead(cache_folder(), *memory.places())


def end_processes(beginning: str, engines: Sequence[Engine] = (), within_s: float = END_S) -> list[str]:
    """End each experiment whose name has this prefix, as Ctrl-C would, and the builds marked with such a name.

    What does not end in time is killed. Return the names of what was ended: experiments, as in `interlock matrix --name
    NAME`, and the owners for which a process was at work with one of the engines.

    A process is known by its id and its start, so a new process with an old id is left alone.
    """
    ended = set[str]()
    # By their names first: an engine may not answer.
    for processes in (_processes(beginning), _makers(beginning, engines)):
        experiments = dict(processes)
        _end(experiments, within_s)
        ended.update(experiments.values())
    return sorted(ended)


def _end(processes: Iterable[psutil.Process], within_s: float) -> None:
    for end in (psutil.Process.terminate, psutil.Process.kill):
        left = [process for process in processes if _runs(process)]
        for process in left:
            with suppress(*GONE):
                end(process)
        _wait(lambda left=left: not any(map(_runs, left)), within_s)  # type: ignore[misc]


def _makers(beginning: str, engines: Sequence[Engine]) -> Iterator[tuple[psutil.Process, str]]:
    """Yield this user's processes that are at work with an engine, and their owners."""
    for pid, owner in (maker for engine in engines for maker in engine.makers().items()):
        with suppress(psutil.Error, *GONE):
            process = psutil.Process(pid)
            if owner.startswith(beginning) and _is_mine(process):
                yield process, owner


def _processes(beginning: str) -> Iterator[tuple[psutil.Process, str]]:
    """Yield this user's processes and their experiments; not a `timeout` around one, which repeats the signal."""
    for process in psutil.process_iter():
        with suppress(psutil.Error, *GONE):
            words = process.cmdline()
            if not _is_mine(process) or (words and Path(words[0]).name == "timeout"):
                continue
            # A build for an experiment is known by its mark.
            name = _name_of(words) or _environment(process).get(EXPERIMENT, "")
            if name and name.startswith(beginning):
                yield process, name


def _is_mine(process: psutil.Process) -> bool:
    """Return whether a process is one that this user has started, and not this one."""
    return process.uids().effective in {os.getuid(), find_account().uid} and process.pid != os.getpid()


def _environment(process: psutil.Process) -> dict[str, str]:
    with reading_it(process):
        return process.environ()


def _name_of(words: list[str]) -> str:
    """Return the experiment's name if this is a command line of `interlock matrix`, else an empty text."""
    split = [part for word in words for part in (word.split("=", 1) if word.startswith("--name=") else [word])]
    names = (after for word, after in itertools.pairwise(split) if word == "--name")
    return next(names, "") if "matrix" in words else ""


def _runs(process: psutil.Process) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except GONE:
        return False


def _wait(until: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not until() and time.monotonic() < end:
        time.sleep(LOOK_S)
