"""What an experiment leaves when it is killed, or its machine is: processes, containers, networks, volumes, folders."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock.engine.cells import clean_up
from interlock.engine.client import OWNER_LABEL
from interlock.engine.host.prefixes import EXPERIMENT
from interlock.engine.running import clean_up_here, runs

PROC = Path("/proc")
END_S = 60.0
LOOK_S = 0.2


def remove(client: Any, beginning: str) -> list[str]:
    """Removes what belongs to experiments whose names begin so, and says whose it was."""
    owners = sorted(owner for owner in _owners(client) if owner.startswith(beginning))
    for owner in owners:
        clean_up(client, owner)
    return owners


def remove_here(cache: Path, beginning: str) -> list[str]:
    """The same of experiments that this machine itself was the engine of."""
    owners = sorted(folder.name for folder in runs(cache).glob("*") if folder.name.startswith(beginning))
    for owner in owners:
        clean_up_here(cache, owner)
    return owners


def _owners(client: Any) -> set[str]:
    owned = {"label": OWNER_LABEL}
    return {
        *(one.labels[OWNER_LABEL] for one in client.containers.list(all=True, ignore_removed=True, filters=owned)),
        *(one.attrs["Labels"][OWNER_LABEL] for one in client.networks.list(filters=owned)),
        *(one.attrs["Labels"][OWNER_LABEL] for one in client.volumes.list(filters=owned)),
    }


def end_processes(beginning: str, within_s: float = END_S) -> list[str]:
    """Ends `interlock matrix --name NAME` of such names as Ctrl-C would, and builds that are marked with such a name;
    what does not end in time by force.
    """
    found = dict(_processes(beginning))
    for number, limit_s in ((signal.SIGTERM, within_s), (signal.SIGKILL, within_s)):
        left = [pid for pid in found if _runs(pid)]
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        _wait(lambda left=left: not any(map(_runs, left)), limit_s)  # type: ignore[misc]
    return sorted(set(found.values()))


def _processes(beginning: str) -> Iterator[tuple[int, str]]:
    """This user's, by their own command lines: not a `timeout` around one, which hands the signal on a second time."""
    for folder in PROC.glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
            mine = folder.stat().st_uid == os.getuid() and int(folder.name) != os.getpid()
            name = (_name_of(words) or _mark_of(folder)) if mine and Path(words[0]).name != "timeout" else ""
            if name and name.startswith(beginning):
                yield int(folder.name), name


def _name_of(words: list[str]) -> str:
    """That of the experiment, if these are the words of `interlock matrix`; empty if not."""
    names = (after for word, after in itertools.pairwise(words) if word == "--name")
    return next(names, "") if "matrix" in words else ""


def _mark_of(process: Path) -> str:
    """For which experiment it builds; empty if for none."""
    settings = (process / "environ").read_bytes().decode(errors="replace").split("\0")
    mark = f"{EXPERIMENT}="
    return next((one.removeprefix(mark) for one in settings if one.startswith(mark)), "")


def _runs(pid: int) -> bool:
    """A zombie has ended, whoever has not asked for its exit code."""
    try:
        state = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _wait(until: Callable[[], bool], limit_s: float) -> None:
    end = time.monotonic() + limit_s
    while not until() and time.monotonic() < end:
        time.sleep(LOOK_S)
