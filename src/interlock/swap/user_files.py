"""Read and replace users' files: byte for byte, completely or not at all."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from interlock.errors import StoreError


def read(path: Path) -> str:
    """Return a user's file as text; bytes that are not UTF-8 are written back as they were."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(
            file=str(path),
            found=f"cannot be read: {error.strerror or error}",
            todo="Check its path and its permissions.",
        ) from None
    if b"\0" in data:
        raise StoreError(
            file=str(path),
            found="is not UTF-8 text (it has zero bytes)",
            todo="Save it as UTF-8, as builders require.",
        )
    return data.decode("utf-8", "surrogateescape")


def replace(path: Path, text: str) -> None:
    """Replace a user's file completely or not at all; its mode, owner, attributes and symbolic links to it stay."""
    temporary: Path | None = None
    try:
        target = path.resolve(strict=True)
        status = target.stat()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        temporary = Path(name)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(text.encode("utf-8", "surrogateescape"))
            _take_over(target, status, descriptor)
            stream.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    except OSError as error:
        raise StoreError(
            file=str(path),
            found=f"cannot be written: {error.strerror or error}",
            todo="Check the permissions and free space of its folder; the file is unchanged.",
        ) from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def _take_over(source: Path, status: os.stat_result, descriptor: int) -> None:
    """Copy owner, mode and attributes; the owner first, since changing it clears set-user-ID bits."""
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(descriptor, status.st_uid, status.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    for name in os.listxattr(source):
        with suppress(OSError):  # the system sets its own attributes itself
            os.setxattr(descriptor, name, os.getxattr(source, name))
