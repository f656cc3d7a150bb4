"""What others wrote: how much of it is read (a file of 250 MB needs 1 GB as objects), and what of it may be printed."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import lzma
import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

MIB = 2**20
# What people write by hand; what programs write; what a container or an engine says at once.
MOST_TEXT, MOST_RECORD, MOST_SAID = 4 * MIB, 256 * MIB, 16 * MIB

XZ = b"\xfd7zXZ\x00"
# What unpacking xz may take: a header of a few bytes can ask for gigabytes.
MOST_TO_UNPACK = 128 * MIB


def read_bytes(path: Path, most: int = MOST_RECORD, *, follow: bool = True) -> bytes:
    """Return a regular file's bytes; OSError for a longer one, for what is none, and for a link that is not followed.

    Who opens a FIFO waits for somebody who writes it, and to open a device may start it.
    """
    if not stat.S_ISREG((path.stat() if follow else path.lstat()).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    with os.fdopen(os.open(path, flags), "rb") as stream:
        return _read(stream, most, path)


def _read(stream: IO[bytes], most: int, path: Path) -> bytes:
    data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"{os.strerror(errno.EFBIG)}: more than {most / MIB:g} MiB", str(path))
    return data


def sha256_of(path: Path, *, follow: bool = True) -> str:
    """Return a file's SHA-256; OSError as `read_bytes` raises it."""
    return hashlib.sha256(read_bytes(path, follow=follow)).hexdigest()


def read_text(path: Path, most: int = MOST_TEXT) -> str:
    """Return a file's text, of UTF-8; OSError as `read_bytes` raises it, UnicodeDecodeError for other bytes."""
    return as_text(read_bytes(path, most))


def as_text(data: bytes) -> str:
    """Return UTF-8 as text whose lines end with a line feed; UnicodeDecodeError for other bytes."""
    return data.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def record_of(data: bytes, path: Path) -> str:
    """Return a record's text, plain or as xz (hatch_build.py packs those that come with the package).

    OSError and UnicodeDecodeError for other bytes, and for what unpacks to more than MOST_RECORD.
    """
    if not data.startswith(XZ):
        return as_text(data)
    unpacker = lzma.LZMADecompressor(memlimit=MOST_TO_UNPACK)
    try:
        unpacked = _read(io.BytesIO(unpacker.decompress(data, MOST_RECORD + 1)), MOST_RECORD, path)
    except lzma.LZMAError as error:
        raise OSError(errno.EINVAL, f"no whole xz: {error}", str(path)) from None
    if not unpacker.eof:
        raise OSError(errno.EINVAL, "no whole xz: its end is missing", str(path))
    return as_text(unpacked)


class Bounded:
    """A file of which no byte after `most` is read, and no more than `most_at_once`; OSError for more.

    What unpacks an archive reads as much as a header in it says: a hundred kilobytes can say gigabytes.
    """

    def __init__(self, stream: IO[bytes], most: int, most_at_once: int) -> None:
        self._stream, self._most, self._most_at_once = stream, most, most_at_once
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        if not 0 <= size <= self._most_at_once or self.tell() + size > self._most:
            raise OSError(errno.EFBIG, "a part of it is larger than is read")
        return self._stream.read(size)


def joined(parts: Iterable[bytes], most: int = MOST_SAID) -> bytes:
    """Return the parts as one, as far as they fit; no more of them are asked for."""
    data = bytearray()
    for part in parts:
        data += part[: most - len(data)]
        if len(data) >= most:
            break
    return bytes(data)


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


def printable_name(name: object) -> str:
    """Return a file's name on one line: what is not printed stands as an escape, a byte that is no UTF-8 too."""
    return "".join(character if character.isprintable() else ascii(character)[1:-1] for character in str(name))


OUTPUTS = (1, 2)


def forget_terminal() -> None:
    """Write no more to a terminal that is gone: the error of that would end what is still to be written to disk."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in OUTPUTS:
        with suppress(OSError):
            if stat.S_ISCHR(os.fstat(descriptor).st_mode):
                os.dup2(nowhere, descriptor)
    os.close(nowhere)
