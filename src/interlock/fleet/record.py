"""The record of a fleet (fleet.json), and how what its hosts measured is merged into experiments.

What a host sends is not trusted: files and folders with plain names alone are unpacked, all of it bounded.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from interlock.catalog.types import Data, FileName, Name, slug
from interlock.errors import StoreError
from interlock.results import store
from interlock.results.experiments import EngineName, Experiment, Settings
from interlock.results.sums import read_sums
from interlock.untrusted import parse_json


class Kind(Data):
    """The facts that all hosts of a kind share, as the inventory declares them."""

    name: Name
    cpu: str
    cores: int
    kernel: str


class Ending(StrEnum):
    """How a step on a host ended."""

    DONE = "done"
    FAILED = "failed"  # the host answers, but the step failed
    LOST = "lost"  # the host no longer answers, or the deadline passed


class Attempt(Data):
    """One try at a workload on one host."""

    host: str
    started: str
    duration_s: float
    ending: Ending
    reason: str = ""


class Shard(Data):
    """A workload with all its variants, measured by one host of the kind, or by `host` if that is set."""

    kind: str
    workload: FileName
    host: FileName | None = None
    expected_s: float
    attempts: list[Attempt] = Field(default_factory=list)

    @property
    def done_by(self) -> str | None:
        """Return the host that measured it, None if none has."""
        return next((attempt.host for attempt in self.attempts if attempt.ending is Ending.DONE), None)

    @property
    def title(self) -> str:
        return f"{self.workload} ({self.host or self.kind})"


class HostRecord(Data):
    """A host of the inventory: its kind, its facts, and why it was refused, given up or not restored."""

    kind: Kind
    facts: dict[str, Any] = Field(default_factory=dict)
    refused: str = ""
    given_up: str = ""
    not_restored: str = ""


class FleetRecord(Data):
    """The state of a fleet, with which `--resume` continues it."""

    schema_version: Literal[1] = 1
    name: FileName
    token: str  # makes the names of its experiments on the hosts unique
    tool_version: str
    command: str
    started: str
    duration_s: float
    settings: Settings
    each: bool
    engine: EngineName | None = None  # None if none was named
    images: dict[str, str]  # image ids by tag; with the engine `host` content hashes by variant
    hosts: dict[FileName, HostRecord]
    shards: list[Shard]


FLEET_FILE = "fleet.json"


def write_record(folder: Path, record: FleetRecord) -> None:
    store.write_json(folder / FLEET_FILE, record)


def read_record(folder: Path) -> FleetRecord:
    return store.read_json(folder / FLEET_FILE, FleetRecord)


MOST_FACTS_BYTES = 2**20


def read_facts(path: Path) -> dict[str, Any]:
    """Read the facts that a host reported, and remove the file; StoreError if they are none."""
    try:
        if path.stat().st_size > MOST_FACTS_BYTES:
            raise ValueError(f"they have more than {MOST_FACTS_BYTES} bytes")
        facts = parse_json(path.read_bytes())
        if not isinstance(facts, dict):
            raise ValueError("they are not a table")
        return facts
    except (OSError, ValueError) as error:
        found = f"the facts of the host cannot be read ({error})"
        raise StoreError(file=str(path), found=found, todo="Run `interlock doctor` there.") from None
    finally:
        path.unlink(missing_ok=True)


def earlier_durations_s(results: Path, settings: Settings) -> Iterator[tuple[str, float]]:
    """Yield workloads and their seconds in earlier fleets with the same --quick, oldest first, scaled by variants."""
    records = []
    for path in results.glob(f"*/{FLEET_FILE}"):
        with suppress(StoreError):  # one that is damaged says nothing, and stops nobody
            records.append(read_record(path.parent))
    for record in sorted(records, key=lambda record: record.started):
        if record.settings.quick == settings.quick:
            share = len(settings.variants) / len(record.settings.variants)
            for shard in record.shards:
                for attempt in shard.attempts:
                    if attempt.host == shard.done_by:
                        yield shard.workload, attempt.duration_s * share


Repeat = Callable[[Settings], str]


def merge_experiments(before: Experiment | None, new: Experiment, name: str, host: str, repeat: Repeat) -> Experiment:
    """Return a host's experiment with another workload added, or replaced if it was measured before.

    The host gets the inventory's name, because cloned machines have the same name.
    """
    parts = [*([] if before is None else [_without(before, new.settings.workloads)]), new]
    settings = new.settings.model_copy(
        update={"workloads": [name for part in parts for name in part.settings.workloads]}
    )
    joined = {
        "name": name,
        "command": repeat(settings),
        "started": min(part.started for part in parts),
        "settings": settings,
        "host": {**new.host, "name": host},
        **{key: _sum(parts, key) for key in ("duration_s", "measuring_s", "in_processes_s", "waiting_s", "set_up_s")},
        **{key: _union(parts, key) for key in ("workloads", "facts", "order", "left_out", "times")},
        **{key: _concatenated(parts, key) for key in ("cells", "limits", "warnings")},
    }
    return new.model_copy(update=joined)


def _without(experiment: Experiment, workloads: list[str]) -> Experiment:
    kept = [name for name in experiment.settings.workloads if name not in workloads]
    return experiment.model_copy(
        update={
            "settings": experiment.settings.model_copy(update={"workloads": kept}),
            "cells": [cell for cell in experiment.cells if cell.workload in kept],
            "limits": [cell for cell in experiment.limits if cell.workload in kept],
            **{key: {name: one for name, one in getattr(experiment, key).items() if name in kept}
               for key in ("workloads", "order", "left_out", "times")},
        }
    )  # fmt: skip


def _sum(parts: list[Experiment], key: str) -> float:
    return round(sum(float(getattr(part, key)) for part in parts), 3)


def _union(parts: list[Experiment], key: str) -> dict[str, Any]:
    return {name: one for part in parts for name, one in getattr(part, key).items()}


def _concatenated(parts: list[Experiment], key: str) -> list[Any]:
    return [one for part in parts for one in getattr(part, key)]


def take_in_results(
    archive: Path,
    folder: Path,
    workload: str,
    rename: Callable[[Experiment | None, Experiment], Experiment],
    asked: Settings | None = None,
) -> None:
    """Unpack what a host measured into its experiment's folder; experiment.json last, so that it is always true.

    The host's word counts for figures alone: which files there are, and what they are called, is said here. StoreError
    if the archive is damaged, has another workload than was asked for, or figures that cannot be read.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".incoming-") as there:
        source = unpack(archive, Path(there))
        new = store.read_experiment(source)
        _require_asked(archive, new, workload, asked)
        # Each file is read before any is taken: an experiment with one that cannot be read has no report.
        store.read_cells(source, new)
        before = store.read_experiment(folder) if (folder / store.EXPERIMENT_FILE).is_file() else None
        host = before.host["folder"] if before else slug(folder.name) or "host"
        before_sums = read_sums(folder).known
        store.forget_sums(folder)
        moved = _move_cells(source, new, folder, host)
        named = new.model_copy(update={"host": {**new.host, "folder": host}})
        store.write_json(folder / store.EXPERIMENT_FILE, rename(before, named))
        store.write_sums(folder, {name: one for name, one in before_sums.items() if folder / name not in moved})


def _require_asked(archive: Path, new: Experiment, workload: str, asked: Settings | None) -> None:
    """Raise StoreError unless the experiment is of this workload alone, and of what was asked for."""
    workloads = {*new.settings.workloads, *new.workloads, *(one.workload for one in (*new.cells, *new.limits))}
    differ = [key for key in ASKED if asked and _plain(new.settings, key) != _plain(asked, key)]
    if workloads != {workload} or new.workloads.keys() != {workload} or differ:
        found = f"{', '.join(differ)} of another experiment" if differ else f"{sorted(workloads)}, not {workload}"
        raise StoreError(file=str(archive), found=f"holds {found}", todo="Measure it again with --resume.")


# What decides whether the workloads of a host are one experiment.
ASKED = ("quick", "rounds", "rounds_limit", "seed", "baseline", "profile", "variants", "conditions")


def _plain(settings: Settings, key: str) -> object:
    value = getattr(settings, key)
    return sorted(value) if isinstance(value, list) else value


def _move_cells(source: Path, new: Experiment, folder: Path, host: str) -> set[Path]:
    """Move the files of the cells that experiment.json names, and no others; return where they are."""
    moved = set[Path]()
    for cell in (*new.cells, *new.limits):
        there, here = (
            store.cell_path(root, name, cell.variant, cell.mode, cell.workload)
            for root, name in ((source, new.host["folder"]), (folder, host))
        )
        for path, target in ((there, here), (store.profile_path(there), store.profile_path(here))):
            if path.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, target)
                moved.add(target)
    return moved


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
