"""How a process ended and what it printed, bounded: the one answer, wherever the process was.

This machine's own programs are run by `run_here`; cells, containers and agents have their own ways.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.errors import last_line

LAST_LINES = 3
# The exit code by which shells say that a program does not exist.
NOT_FOUND = 127


@dataclass(frozen=True)
class Ended:
    """How a process ended: without an exit code if it had to be killed, or its container was gone."""

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    out_of_memory: bool = False
    flooded: bool = False  # it printed too much: it was killed, or only the end of its output is here

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def took_sandbox(self) -> bool:
        """Return whether it was killed in a way that took its sandbox with it."""
        return self.timed_out or self.out_of_memory or (self.flooded and self.exit_code is None)

    @property
    def why(self) -> str:
        """Return the last line of its errors; empty if it ended well."""
        return "" if self.ok else last_line(self.stderr)


def run_here(
    argv: Sequence[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    given: str | None = None,
    limit_s: float | None = None,
) -> Ended:
    """Run a program of this machine to its end or the limit; a missing one ends with 127 and the reason."""
    try:
        done = subprocess.run(
            argv,
            cwd=folder,
            env=environment,
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return Ended(None, stderr=str(error), timed_out=True)
    except (OSError, ValueError) as error:
        return Ended(NOT_FOUND, stderr=str(error))
    return Ended(done.returncode, done.stdout, done.stderr)


def end_session(process: subprocess.Popen[Any], within_s: float) -> None:
    """End a session's leader and all that it has started there; after `within_s` seconds what is left is killed."""
    try:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(within_s)
    finally:
        with suppress(ProcessLookupError, subprocess.TimeoutExpired):
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(within_s)


def linked_by(program: str) -> list[Path]:
    """Return the paths of the loader and the libraries that a program of this machine links."""
    return [Path(word) for word in run_here(["ldd", program]).stdout.split() if word.startswith("/")]


def last_lines(text: str) -> str:
    """Return the last lines of an output, in words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"its last lines: {' / '.join(lines[-LAST_LINES:])}" if lines else "it printed nothing"
