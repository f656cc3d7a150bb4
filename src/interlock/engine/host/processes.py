"""Processes of a cell without a container: started, waited for up to a deadline, and gone afterwards, every one."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from interlock.engine.cells import Ended
from interlock.errors import EngineError

# In the environment of all that a cell starts: a process can leave its group and its session, but not this.
OWNER = "INTERLOCK_PROCESS"
GONE_S = 5


def run(argv: list[str], deadline_s: float, environment: Mapping[str, str], folder: Path) -> Ended:
    """Runs argv to its end or to the deadline; what it started and left behind is killed in both cases."""
    owner = secrets.token_hex(8)
    try:
        process = subprocess.Popen(
            argv,
            env={**environment, OWNER: owner},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise EngineError(found=f"a process could not be started: {error}", todo="See `interlock doctor`.") from None
    late = False
    try:
        stdout, stderr = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        late = True
        end_all(owner)
        stdout, stderr = process.communicate()
    finally:
        end_all(owner)
    code = None if late else _as_engines_say(process.returncode)
    return Ended(code, stdout.decode("utf-8", "replace"), stderr.decode("utf-8", "replace"), late)


def end_all(owner: str) -> None:
    """Kills every process with this owner until none is left; EngineError if one cannot be killed."""
    mark = f"{OWNER}={owner}".encode()
    _end(lambda process: mark in (process / "environ").read_bytes().split(b"\0"))


def end_all_in(folder: Path) -> None:
    """The same for every process whose environment names a place in the folder, or that is in it.

    A server writes its title over its environment, but stays where its files are.
    """
    mark = f"{folder}/".encode()
    _end(
        lambda process: (
            mark in (process / "environ").read_bytes() or (process / "cwd").readlink().is_relative_to(folder)
        )
    )


def _end(belongs: Callable[[Path], bool]) -> None:
    limit = time.monotonic() + GONE_S
    while found := list(_found(belongs)):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > limit:
            raise EngineError(found=f"processes {found} do not end", todo="Look at what holds them, and kill them.")
        time.sleep(0.005)


def _found(belongs: Callable[[Path], bool]) -> Iterator[int]:
    for folder in Path("/proc").iterdir():
        # Others' processes cannot be read, and any may end meanwhile.
        with suppress(OSError):
            if folder.name.isdigit() and belongs(folder):
                yield int(folder.name)


def _as_engines_say(code: int) -> int:
    """An engine reports a process that died of a signal like a shell."""
    return code if code >= 0 else 128 - code
