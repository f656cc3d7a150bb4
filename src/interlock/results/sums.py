"""SHA256SUMS of an experiment's raw files, for `sha256sum -c` too: a digit that changed and still parses is noticed.

It is written when the experiment ends, and is not there while it is measured.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from interlock import untrusted
from interlock.errors import StoreError

SUMS_FILE = "SHA256SUMS"
# SUM  HOST/VARIANT[+MODE]/FILE.json
LINE = re.compile(r"([0-9a-f]{64}) [ *]((?:[A-Za-z0-9][A-Za-z0-9._+-]*/){2}[A-Za-z0-9][A-Za-z0-9._+-]*\.json)")
# Of 100,000 raw files.
MOST_BYTES = 16 * untrusted.MIB
AGAIN = f"Restore it, or remove it: all other cells are read without it. If it is right, remove {SUMS_FILE}."


@dataclass(frozen=True)
class Sums:
    """The sums of an experiment's raw files by their names below its folder; without any, every file is taken."""

    folder: Path = field(default_factory=Path)
    known: Mapping[str, str] = field(default_factory=dict)

    def check(self, path: Path, data: bytes) -> None:
        """Raise StoreError if a raw file does not have its sum."""
        if not self.known:
            return
        known = self.known.get(path.relative_to(self.folder).as_posix())
        if known != hashlib.sha256(data).hexdigest():
            found = f"was changed since it was written: it does not have its sum in {SUMS_FILE}"
            raise StoreError(file=str(path), found=found if known else f"has no sum in {SUMS_FILE}", todo=AGAIN)


NO_SUMS = Sums()


def read_sums(folder: Path) -> Sums:
    """Return the sums in an experiment's folder; none if it has no such file. StoreError for one of something else."""
    path = folder / SUMS_FILE
    try:
        lines = untrusted.as_text(untrusted.read_file(path, MOST_BYTES, follow=False)).splitlines()
    except FileNotFoundError:
        return Sums(folder)
    except (OSError, UnicodeDecodeError) as error:
        raise _not_readable(path, f"cannot be read: {error}") from None
    found = [LINE.fullmatch(line) for line in lines]
    if not lines or None in found:
        raise _not_readable(path, f"line {found.index(None) + 1 if lines else 1} is no sum of a raw file")
    return Sums(folder, {one[2]: one[1] for one in found if one})


def _not_readable(path: Path, found: str) -> StoreError:
    return StoreError(
        file=str(path), found=found, todo="Restore it, or remove it: raw files are then taken as they are."
    )


def text_of(folder: Path, kept: Mapping[str, str] = NO_SUMS.known) -> str:
    """Return what SHA256SUMS is to say of an experiment's raw files; those in `kept` are not read again."""
    names = sorted(path.relative_to(folder).as_posix() for path in folder.glob("[!.]*/[!.]*/[!.]*.json"))
    return "".join(f"{kept.get(name) or _sum_of(folder / name)}  {name}\n" for name in names)


def _sum_of(path: Path) -> str:
    return hashlib.sha256(untrusted.read_file(path, follow=False)).hexdigest()
