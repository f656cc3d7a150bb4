"""Takes wheels that were built out of their containers, checks them, and keeps them with their sums for later audits.

A package's build may run any code, as root of its container. So no audit reads what another audit's builder can write:
a wheel leaves its builder when everything there has ended, and the container that keeps it never runs.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from docker.models.containers import Container
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from interlock.engine.build.sources import tar_of_paths
from interlock.engine.run.archives import ContentError, archive
from interlock.untrusted import parse_json

# Written only by the container of `KeptWheels`, never by a builder.
CACHE_VOLUME, CACHE = "interlock-built-wheels", "/cache"
MOST_BYTES = 2 * 2**30  # of one wheel; the largest on the public index has 1.2 GB
MOST_RECORD_BYTES = 1 << 16


def take_out(container: Container, folder: str, name: str, into: Path) -> Path:
    """Copy this package's only wheel from a container in which nothing runs; ContentError if there is not just one."""
    with archive(container, folder, MOST_BYTES) as tar:
        wheels = [entry for entry in tar if entry.name.endswith(".whl")]
        if len(wheels) != 1:
            raise ContentError(f"the build left {len(wheels)} wheels in place of one")
        return _checked(_written(tar, wheels[0], into), name)


def _checked(wheel: Path, name: str) -> Path:
    try:
        built, *_ = parse_wheel_filename(wheel.name)
    except InvalidWheelFilename as error:
        raise ContentError(f"the build left no wheel: {error}") from None
    if built != canonicalize_name(name):
        raise ContentError(f"the build left a wheel of {built}")
    if not zipfile.is_zipfile(wheel):
        raise ContentError(f"{wheel.name}, which the build left, is not a valid wheel")
    return wheel


def _written(tar: tarfile.TarFile, entry: tarfile.TarInfo, into: Path) -> Path:
    """Write a file of the tar into the folder, under the last part of its name; ContentError if it is not regular."""
    name = Path(entry.name).name
    data = tar.extractfile(entry) if entry.isreg() and name not in {"", ".."} else None
    if data is None:
        raise ContentError(f"{entry.name}, which the build left, is not a regular file")
    path = into / name
    with path.open("wb") as file:
        shutil.copyfileobj(data, file)
    return path


@dataclass(frozen=True)
class KeptWheels:
    """Wheels that audits built from pinned sources, by key; the container has the volume and never starts."""

    container: Container

    def keep(self, key: str, wheel: Path, build_s: float) -> None:
        """Keep the wheel with its sum, replacing one with this key; errors are docker's own."""
        record = {"wheel": wheel.name, "sha256": _sum(wheel), "build_s": build_s}
        self._put({f"{CACHE}/{key}/{record['sha256']}/{wheel.name}": wheel})
        self._put({f"{CACHE}/{key}/record.json": json.dumps(record).encode()})

    def take(self, key: str, into: Path) -> tuple[Path, float] | None:
        """Copy a wheel out and return it with the seconds of its build; None if there is none whose sum is right."""
        with suppress(ContentError, ValueError, LookupError, TypeError, OverflowError):
            with archive(self.container, f"{CACHE}/{key}/record.json", MOST_RECORD_BYTES) as tar:
                record = parse_json(_written(tar, tar.getmembers()[0], into).read_bytes())
            name = Path(record["wheel"]).name
            with archive(self.container, f"{CACHE}/{key}/{record['sha256']}/{name}", MOST_BYTES) as tar:
                wheel = _written(tar, tar.getmembers()[0], into)
            if _sum(wheel) == record["sha256"]:
                return wheel, float(record["build_s"])
        return None

    def _put(self, places: Mapping[str, Path | bytes]) -> None:
        with tar_of_paths(places) as stream:
            self.container.put_archive("/", stream)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
