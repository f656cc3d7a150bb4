"""The record of a fleet (fleet.json), and what its hosts measured: an experiment in a folder of each host's own.

What a host sends is not trusted: files and folders with plain names alone are unpacked, all of it bounded.
"""

from __future__ import annotations

import gzip
import io
import re
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Literal

from interlock.catalog.types import Data, FileName
from interlock.errors import StoreError, UsageError
from interlock.report.comparisons import read_extract
from interlock.results import store
from interlock.results.experiments import EngineName, Experiment, Settings


class HostRecord(Data):
    """What is known of a host: whether it measured everything, what failed there, and why it was not restored."""

    complete: bool = False
    reason: str = ""
    not_restored: str = ""


class FleetRecord(Data):
    """The state of a fleet, with which `--resume` continues it."""

    schema_version: Literal[1] = 1
    name: FileName
    token: str  # makes the names of its experiments on the hosts unique
    command: str
    settings: Settings
    engine: EngineName
    builds: dict[str, str]  # content hashes by variant
    hosts: dict[FileName, HostRecord] = {}

    def require_same(self, engine: EngineName, builds: dict[str, str]) -> None:
        """Raise UsageError unless the fleet began with this engine and these builds."""
        changed = sorted(name for name, before in self.builds.items() if builds.get(name, before) != before)
        if engine is not self.engine or changed:
            now = f"{engine}, not with {self.engine}" if engine is not self.engine else f"new {', '.join(changed)}"
            raise UsageError(
                key="--resume",
                found=f"{self.name} would go on with {now}, and such ratios are not comparable",
                todo=f"Use --engine {self.engine} and the files that it began with, or start a new fleet.",
            )


FLEET_FILE = "fleet.json"


def write_record(folder: Path, record: FleetRecord) -> None:
    store.write_json(folder / FLEET_FILE, record)


def read_record(folder: Path) -> FleetRecord:
    return store.read_json(folder / FLEET_FILE, FleetRecord)


def take_in_results(archive: Path, fleet: Path, host: str, record: FleetRecord) -> Experiment:
    """Replace a host's folder by what it sent, and return the experiment.

    The host's word counts for figures alone: which files there are, and what they are called, is said here. StoreError
    if the archive is damaged, has another experiment than was asked for, or figures that cannot be read.
    """
    incoming = fleet / ".incoming"  # what is in it lies deeper than commands look for experiments
    sent, new = incoming / "sent", incoming / "new" / host
    store.remove_folder(incoming)
    try:
        sent.mkdir(parents=True)
        new.mkdir(parents=True)
        source = unpack(archive, sent)
        experiment = store.read_experiment(source)
        _require_asked(archive, experiment, record.settings)
        # Each file is read before any is taken: an experiment with one that cannot be read has no report.
        store.read_cells(source, experiment)
        _move_cells(source, experiment, new)
        # Cloned machines have the same name; and the line that repeats an experiment is not a host's to say.
        named = {"name": record.name, "command": record.command, "host": {**experiment.host, "name": host}}
        experiment = experiment.model_copy(update=named)
        store.write_json(new / store.EXPERIMENT_FILE, experiment)
        store.write_sums(new)
        read_extract(new)
        store.remove_folder(fleet / host)
        new.rename(fleet / host)
    finally:
        store.remove_folder(incoming)
    return experiment


# What decides whether the hosts measured the same.
ASKED = ("quick", "rounds", "rounds_limit", "seed", "baseline", "profile", "variants", "workloads", "conditions")


def _require_asked(archive: Path, experiment: Experiment, asked: Settings) -> None:
    """Raise StoreError unless the experiment is what was asked for, and of nothing else."""
    told, wanted = experiment.settings.model_dump(include={*ASKED}), asked.model_dump(include={*ASKED})
    differ = [key for key in ASKED if told[key] != wanted[key]]
    named = {*experiment.workloads, *(one.workload for one in (*experiment.cells, *experiment.limits))}
    if differ or not named <= {*asked.workloads}:
        found = f"holds another experiment ({', '.join(differ) or 'other workloads'})"
        raise StoreError(file=str(archive), found=found, todo="Measure it again with --resume.")


def _move_cells(source: Path, experiment: Experiment, into: Path) -> None:
    """Move the files of the cells that experiment.json names, and no others."""
    for cell in (*experiment.cells, *experiment.limits):
        names = (experiment.host["folder"], cell.variant, cell.mode, cell.workload)
        there, here = store.cell_path(source, *names), store.cell_path(into, *names)
        for path, target in ((there, here), (store.profile_path(there), store.profile_path(here))):
            if path.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.move(path, target)


# The largest of the reference experiments has 22 MB, unpacked.
MOST_BYTES = 256 * 2**20
MOST_FILES = 20_000
# EXPERIMENT/HOST/VARIANT/WORKLOAD.json
MOST_DEPTH = 4
PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")
# An experiment that did not end has a journal, and files that are half written.
HIDDEN = re.compile(r"\.[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")


def unpack(archive: Path, into: Path) -> Path:
    """Unpack a tar.gz with one folder into an empty folder; return that one. StoreError for any other archive."""
    try:
        with gzip.open(archive) as packed:
            data = packed.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise ValueError(f"it unpacks to more than {MOST_BYTES // 2**20} MiB")
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
            for number, member in enumerate(tar):
                if number >= MOST_FILES:
                    raise ValueError(f"it has more than {MOST_FILES} files")
                _unpack(tar, member, into)
        (source,) = into.iterdir()
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(
            file=str(archive),
            found=f"is not an archive of an experiment ({error})",
            todo="Measure it again with --resume.",
        ) from None
    return source


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    *above, last = parts = member.name.split("/")
    is_hidden = bool(above) and bool(HIDDEN.fullmatch(last))
    if len(parts) > MOST_DEPTH or not all(map(PART.fullmatch, above if is_hidden else parts)):
        raise ValueError(f"{member.name[:80]!r} is not the name of a file of an experiment")
    path, content = into.joinpath(*parts), tar.extractfile(member) if member.isreg() and not member.issparse() else None
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
    elif content is None:
        raise ValueError(f"{member.name[:80]!r} is neither a folder nor a plain file")
    elif not is_hidden:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:  # never another one, nor where a link leads
            shutil.copyfileobj(content, file)
