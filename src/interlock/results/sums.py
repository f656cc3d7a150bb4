"""SHA256SUMS of an experiment's raw files, by which a changed digit that still parses is noticed.

`sha256sum -c` can check the file too. It is written when the experiment ends, and is not there while it is measured.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from interlock import untrusted
from interlock.errors import StoreError
from interlock.results.files import below, cannot_read, cannot_write, write_atomically

SUMS_FILE = "SHA256SUMS"
# SUM  HOST/VARIANT[+MODE]/FILE.json
LINE = re.compile(r"([0-9a-f]{64}) [ *]((?:[A-Za-z0-9][A-Za-z0-9._+-]*/){2}[A-Za-z0-9][A-Za-z0-9._+-]*\.json)")
# Enough for 100,000 raw files.
MOST_BYTES = 16 * untrusted.MIB
AGAIN = f"Restore it, or remove it: all other cells are read without it. If it is right, remove {SUMS_FILE}."
WITHOUT = "Restore it, or remove it: raw files are then taken as they are."


@dataclass(frozen=True)
class Sums:
    """The sums of an experiment's raw files by path below its folder; without any, every file is accepted."""

    folder: Path = field(default_factory=Path)
    known: Mapping[str, str] = field(default_factory=dict)

    def check(self, path: Path, data: bytes) -> None:
        """Raise StoreError if a raw file does not have its sum."""
        if not self.known:
            return
        known = self.known.get(path.relative_to(self.folder).as_posix())
        if known != hashlib.sha256(data).hexdigest():
            problem = f"was changed since it was written: it does not have its sum in {SUMS_FILE}"
            raise StoreError(file=str(path), found=problem if known else f"has no sum in {SUMS_FILE}", todo=AGAIN)


NO_SUMS = Sums()


def read_sums(folder: Path) -> Sums:
    """Return the sums in an experiment's folder; none without the file. StoreError if the file has anything else."""
    path = folder / SUMS_FILE
    try:
        lines = untrusted.as_text(untrusted.read_bytes(path, MOST_BYTES, follow=False)).splitlines()
    except FileNotFoundError:
        return Sums(folder)
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error, WITHOUT) from None
    matches = [LINE.fullmatch(line) for line in lines]
    if not lines or None in matches:
        bad = matches.index(None) + 1 if lines else 1
        raise StoreError(file=str(path), found=f"line {bad} is no sum of a raw file", todo=WITHOUT)
    return Sums(folder, {match[2]: match[1] for match in matches if match})


def check_sums(folder: Path) -> None:
    """Raise StoreError for the first raw file of an experiment that does not have its sum."""
    sums = read_sums(folder)
    for name in sums.known:
        path = below(folder, *name.split("/"))
        try:
            sums.check(path, untrusted.read_bytes(path, follow=False))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise cannot_read(path, error, "Restore it.") from None


def forget_sums(folder: Path) -> None:
    """Remove the sums of an experiment whose raw files are about to change."""
    try:
        (folder / SUMS_FILE).unlink(missing_ok=True)
    except OSError as error:
        raise cannot_write(folder / SUMS_FILE, error) from None


def write_sums(folder: Path) -> None:
    """Write the sums of an experiment's raw files, if it has any."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("[!.]*/[!.]*/[!.]*.json"))
    names = [name for name in names if LINE.fullmatch(f"{'0' * 64}  {name}")]  # no cell has any other name
    try:
        text = "".join(f"{untrusted.sha256_of(folder / name, follow=False)}  {name}\n" for name in names)
    except OSError as error:
        raise cannot_write(folder / SUMS_FILE, error) from None
    if text:
        write_atomically(folder / SUMS_FILE, text)
