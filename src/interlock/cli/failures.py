"""How a command ends when something unforeseen fails: one sentence, and a log with the rest."""

from __future__ import annotations

import errno
import os
import platform
import tempfile
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from interlock import __version__
from interlock.catalog.project import cache_folder
from interlock.engine.client import engine_failure
from interlock.errors import InterlockError, StoreError, UnexpectedError, UsageError, last_line
from interlock.untrusted import printable

# A full disk, or a user's full quota.
FULL = {errno.ENOSPC, errno.EDQUOT}
# How many logs are kept; the oldest go first.
KEPT = 20


def foreseen(error: Exception, argv: Sequence[str]) -> InterlockError:
    """Return the error to end with: the engine's, the network's, or a defect of ours. A log keeps the traceback."""
    cache = cache_folder()
    if isinstance(error, OSError) and error.errno in FULL:
        problem, todo = f"cannot be written: {error.strerror}", "Free space: `df -h` shows where it is short."
        return StoreError(file=str(error.filename or ""), found=problem, todo=todo)
    if isinstance(error, OSError) and error.filename is not None and _is_about(Path(str(error.filename)), cache):
        todo = "Set XDG_CACHE_HOME or HOME to a folder of yours."
        return UsageError(file=str(cache), found=f"cannot be written: {error.strerror}", todo=todo)
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd()
        return UsageError(found="the current folder is not there any more", todo="Change to one that is there.")
    log = keep_log(error, argv)
    where = f"The traceback is in {log}." if log else "No log could be written."
    failure = engine_failure(error)
    if failure is not None:
        return type(failure)(found=failure.found, todo=f"{failure.todo} {where}")
    return UnexpectedError(
        found=f"unexpected {type(error).__name__} ({last_line(str(error) or 'it says nothing')})",
        todo=f"This is a defect of Interlock; please report it. {where}",
    )


def _is_about(path: Path, folder: Path) -> bool:
    """Return whether a path is in a folder, or one of the folders above it."""
    return path.is_relative_to(folder) or folder.is_relative_to(path)


def keep_log(error: Exception, argv: Sequence[str]) -> Path | None:
    """Write the traceback to a new file in the cache, or in the temporary folder; None if neither can be written.

    Values of the command line are left out, because they may be secret.
    """
    text = _describe(error, argv)
    prefix = f"error-{datetime.now(UTC):%Y%m%dT%H%M%S.%f}-"
    for folder in (_cache_logs, tempfile.gettempdir):
        try:
            descriptor, name = tempfile.mkstemp(".log", prefix, folder())
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
        except (OSError, RuntimeError):  # no room, read-only, or no home at all
            continue
        return Path(name)
    return None


def _cache_logs() -> Path:
    """Return the folder of logs in the cache, with room for one more."""
    folder = cache_folder() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("error-*.log"))[: -KEPT + 1]:
        old.unlink(missing_ok=True)
    return folder


def _describe(error: Exception, argv: Sequence[str]) -> str:
    options = [word.partition("=")[0] for word in argv[2:] if word.startswith("-")]
    head = [
        f"interlock {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: {' '.join([*argv[1:2], *options])} (without values)",
    ]
    return printable("\n".join([*head, "", *traceback.format_exception(error)]))
