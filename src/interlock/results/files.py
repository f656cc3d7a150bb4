"""Writes files whole or not at all, and so that they survive a crash of the machine."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from interlock.errors import StoreError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file with this text (as UTF-8) or these bytes; if that fails, raise StoreError and leave it unchanged."""
    try:
        with replacement(path) as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
    except OSError as error:
        raise cannot_write(path, error) from None


@contextmanager
def replacement(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that replaces the path when the block ends; if anything fails the path stays as it was."""
    make_folder(path.parent)
    with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent, delete=False) as stream:
        temporary = Path(stream.name)
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            temporary.chmod(0o644)
            temporary.replace(path)
            sync_folder(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def take_lock(descriptor: int) -> bool:
    """Take the lock of an open file until the process ends; False if another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_folder(folder: Path) -> None:
    """Make a folder and those above it so that they survive a crash of the machine."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on the disk, on file systems that can say so."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporary(folder: Path) -> None:
    """Remove what `write_atomically` left below an experiment's folder because its process was killed."""
    for path in folder.rglob(".*.json.????????"):
        path.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(
        file=str(path),
        found=f"cannot be written: {error.strerror or error}",
        todo=f"Check permissions and free space of {path.absolute().parent}.",
    )


def cannot_read(path: Path, error: Exception, todo: str = "") -> StoreError:
    return StoreError(
        file=str(path), found=f"cannot be read: {error}", todo=todo or f"Restore it, or remove {path.parent}."
    )


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def below(folder: Path, *names: str) -> Path:
    """Return the path of names below a folder; StoreError for a name that is none, or a link that leads outside."""
    path = folder
    for name in names:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            problem = f"{name!r} is no name of a file"
            raise StoreError(file=str(folder), found=problem, todo="Read results that Interlock wrote.")
        if path != folder and path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            problem = f"{path.name} is a link that leads out of it"
            raise StoreError(file=str(folder), found=problem, todo="Copy what it names to where the link is.")
        path /= name
    return path
