"""Unpack what a host sends, which is not trusted: files and folders with plain names alone, all of it bounded."""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import zlib
from pathlib import Path
from typing import Any

from interlock.errors import StoreError

# What an experiment of one workload has is a hundredth of this.
MOST_PACKED_BYTES = 256 * 2**20
MOST_UNPACKED_BYTES = 1024 * 2**20
MOST_FILE_BYTES = 64 * 2**20
MOST_FILES = 20_000
# EXPERIMENT/HOST/VARIANT/WORKLOAD.json
MOST_DEPTH = 4
MOST_READ_BYTES = 2**20
PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


class _Bounded:
    """A stream of which no more is read, at once and in all, than an archive of a host may have."""

    def __init__(self, stream: gzip.GzipFile) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_READ_BYTES:
            raise ValueError("one of its headers is too long")
        self._require_within(self.tell() + size - MOST_READ_BYTES)
        return self._stream.read(size)

    def seek(self, position: int) -> int:
        self._require_within(position)
        return self._stream.seek(position)

    def tell(self) -> int:
        return self._stream.tell()

    @staticmethod
    def _require_within(position: int) -> None:
        if position > MOST_UNPACKED_BYTES:
            raise ValueError(f"it unpacks to more than {MOST_UNPACKED_BYTES // 2**20} MiB")


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a tar.gz with one folder into an empty folder; return that one. StoreError for any other archive."""
    try:
        if archive.stat().st_size > MOST_PACKED_BYTES:
            raise ValueError(f"it has more than {MOST_PACKED_BYTES // 2**20} MiB")
        with gzip.open(archive) as packed:
            bounded: Any = _Bounded(packed)
            with tarfile.open(fileobj=bounded, mode="r:") as tar:
                _unpack(tar, into)
        (source,) = into.iterdir()
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(
            file=str(archive),
            found=f"is not an archive of an experiment ({error})",
            todo="Measure it again with --resume.",
        ) from None
    return source


def _unpack(tar: tarfile.TarFile, into: Path) -> None:
    for number, member in enumerate(tar):
        if number >= MOST_FILES:
            raise ValueError(f"it has more than {MOST_FILES} files")
        parts = member.name.split("/")
        if len(parts) > MOST_DEPTH or not all(map(PART.fullmatch, parts)):
            raise ValueError(f"{member.name[:80]!r} is not the name of a file of an experiment")
        path = into.joinpath(*parts)
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
        elif member.isreg() and not member.issparse() and 0 <= member.size <= MOST_FILE_BYTES:
            _write(tar, member, path)
        else:
            raise ValueError(f"{member.name[:80]!r} is neither a folder nor a file of less than 64 MiB")


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        while content is not None and (data := content.read(1 << 16)):
            file.write(data)
