"""Packed raw values: an experiment's folder may have them in an archive, which is unpacked into the cache."""

from __future__ import annotations

import lzma
import re
import shutil
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from interlock import untrusted
from interlock.errors import StoreError
from interlock.results import files
from interlock.results.experiments import EXPERIMENT_FILE
from interlock.untrusted import MIB, Bounded

# The archive with the folders of cells of an experiment that comes with the package (hatch_build.py packs them).
VALUES_FILE = "values.tar.xz"
MOST_FILES, MOST_FILE_BYTES, MOST_BYTES = 20_000, 64 * MIB, 1024 * MIB
# HOST/VARIANT/WORKLOAD.json
NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._+-]{0,199}/){2}[A-Za-z0-9][A-Za-z0-9._+-]{0,199}\.json")


def has_values(folder: Path) -> bool:
    """Return whether an experiment has its raw values; most that come with the package have only figures."""
    return (folder / VALUES_FILE).is_file() or any(folder.glob("*/*/*.json"))


def with_values(folder: Path, cache: Path) -> Path:
    """Return the folder of an experiment, or a copy of it in the cache if its raw values are packed.

    StoreError if they cannot be unpacked, have other files than an experiment's, or more data than any experiment has.
    """
    packed = folder / VALUES_FILE
    if not packed.is_file():
        return folder
    try:
        sums = [untrusted.sha256_of(path)[:16] for path in (packed, folder / EXPERIMENT_FILE)]
        copy = cache / "reference" / "-".join(sums) / folder.name
    except OSError as error:
        raise files.cannot_read(packed, error, "Restore it, or remove it.") from None
    if not copy.is_dir():
        files.make_folder(copy.parent)
        made = Path(tempfile.mkdtemp(dir=copy.parent))
        try:
            _unpack(packed, made)
            shutil.copy(folder / EXPERIMENT_FILE, made)
            with suppress(OSError):  # another process was first
                made.rename(copy)
        except (tarfile.TarError, lzma.LZMAError, EOFError, OSError, ValueError) as error:
            raise StoreError(
                file=str(packed), found=f"cannot be unpacked ({error})", todo="Restore it, or remove it."
            ) from None
        finally:
            files.remove_folder(made)  # unless it has its name now
    return copy


def _unpack(packed: Path, into: Path) -> None:
    unpacked = 0
    with lzma.open(packed) as stream:
        bounded: Any = Bounded(stream, MOST_BYTES, MOST_FILE_BYTES)
        with tarfile.open(fileobj=bounded, mode="r:") as archive:
            for number, entry in enumerate(archive):
                if not entry.isreg() or not NAME.fullmatch(entry.name) or entry.size > MOST_FILE_BYTES:
                    raise ValueError(f"{entry.name[:80]!r} is not a file of an experiment")
                unpacked += entry.size  # a sparse file is larger than its data in the archive
                if number >= MOST_FILES or unpacked > MOST_BYTES:
                    raise ValueError("it is larger than any experiment")
                content = archive.extractfile(entry)
                if content is not None:
                    files.write_atomically(into / entry.name, content.read())
