"""How much is read of what others wrote, before it is parsed: a file of 250 MB needs 1 GB as Python's objects."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

MIB = 2**20
# What people write by hand; what programs write; what a container or an engine says at once.
MOST_TEXT, MOST_RECORD, MOST_SAID = 4 * MIB, 256 * MIB, 16 * MIB


def read_bytes(path: Path, most: int = MOST_RECORD) -> bytes:
    """Return a file's bytes; OSError (EFBIG) for one that is longer, a device without an end among them."""
    with path.open("rb") as stream:
        found = stream.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)}: more than {most / MIB:g} MiB", str(path))
    return found


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """Return a file's text, of UTF-8; OSError as `read_bytes` raises it, UnicodeDecodeError for other bytes."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def joined(parts: Iterable[bytes], most: int = MOST_SAID) -> bytes:
    """Return the parts as one, as far as they fit; no more of them are asked for."""
    found = bytearray()
    for part in parts:
        found += part[: most - len(found)]
        if len(found) >= most:
            break
    return bytes(found)
