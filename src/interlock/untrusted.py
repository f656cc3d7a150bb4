"""What others wrote: how much of it is read (a file of 250 MB needs 1 GB as objects), and what of it may be printed."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import stat
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

MIB = 2**20
# What people write by hand; what programs write; what a container or an engine says at once.
MOST_TEXT, MOST_RECORD, MOST_SAID = 4 * MIB, 256 * MIB, 16 * MIB

GZIP = b"\x1f\x8b"


def read_bytes(path: Path, most: int = MOST_RECORD) -> bytes:
    """Return a file's bytes; OSError (EFBIG) for one that is longer, a device without an end among them."""
    with path.open("rb") as stream:
        return _read(stream, most, path)


def _read(stream: IO[bytes] | gzip.GzipFile, most: int, path: Path) -> bytes:
    found = stream.read(most + 1)
    if len(found) > most:
        raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)}: more than {most / MIB:g} MiB", str(path))
    return found


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """Return a file's text, of UTF-8; OSError as `read_bytes` raises it, UnicodeDecodeError for other bytes."""
    return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def read_record(path: Path) -> str:
    """Return a record's text, plain or as gzip (hatch_build.py packs those that come with the package).

    Raises what `read_text` raises; the limit is that of what was unpacked.
    """
    with path.open("rb") as stream:
        packed = stream.peek(2)[:2] == GZIP
    if not packed:
        return read_text(path, MOST_RECORD)
    try:
        with gzip.open(path) as unpacked:
            return _read(unpacked, MOST_RECORD, path).decode("utf-8")
    except (EOFError, zlib.error) as error:
        raise OSError(errno.EINVAL, f"no whole gzip: {error}", str(path)) from None


def joined(parts: Iterable[bytes], most: int = MOST_SAID) -> bytes:
    """Return the parts as one, as far as they fit; no more of them are asked for."""
    found = bytearray()
    for part in parts:
        found += part[: most - len(found)]
        if len(found) >= most:
            break
    return bytes(found)


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says; ValueError for what is none, bytes of no UTF-8 and lists within lists without end."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


# ECMA-48: CSI; OSC, DCS, PM, APC and SOS up to their end, if they have one; sequences of two characters. As escapes or
# as C1 characters.
SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x80-\x9f\n]{0,4096}+(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*+[0-~]"
)
# C0 without tab and line feed, DEL, C1, and the marks that turn the order of what is shown (trojansource.codes).
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# Half a character, as Python decodes bytes that are no UTF-8: no stream takes it.
HALF = re.compile(r"[\ud800-\udfff]")


def printable(text: str) -> str:
    """Return the text without escape sequences, control characters and marks of direction; lines end with a line feed.

    What a program wrote over with carriage returns stays, a line each.
    """
    if text.isascii() and text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return HALF.sub("\ufffd", CONTROL.sub("", SEQUENCE.sub("", lines)))


OUTPUTS = (1, 2)


def forget_terminal() -> None:
    """Write no more to a terminal that is gone: the error of that would end what is still to be written to disk."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in OUTPUTS:
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
