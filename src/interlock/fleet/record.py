"""The record of a fleet (fleet.json), and what its hosts measured: each host has its own folder with an experiment.

What a host sends is not trusted: only an experiment's files are unpacked, each checked by name, with bounded sizes.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import secrets
import shutil
import tarfile
import zlib
from pathlib import Path
from typing import Literal

from pydantic import Field

from interlock.catalog.types import Data, FileName
from interlock.errors import FleetError, StoreError, UsageError
from interlock.report.comparisons import read_extract
from interlock.results import store
from interlock.results.commands import resuming
from interlock.results.experiments import EXPERIMENT_FILE, EngineName, Experiment
from interlock.results.files import remove_folder
from interlock.results.settings import Settings
from interlock.results.sums import write_sums


class HostRecord(Data):
    """What is known of a host: whether it measured everything, what failed there, and why it was not restored."""

    complete: bool = False
    reason: str = ""
    not_restored: str = ""

    @property
    def problem(self) -> str:
        return f"not restored: {self.not_restored}" if self.not_restored else self.reason


class FleetRecord(Data):
    """The state of a fleet, with which `--resume` continues it."""

    schema_version: Literal[1] = 1
    name: FileName
    # Makes the names of its experiments on the hosts unique.
    token: str = Field(default_factory=lambda: secrets.token_hex(3))
    command: str
    settings: Settings
    builds: dict[str, str]  # content hashes by variant
    versions: dict[str, str] = Field(default_factory=dict)  # the versions that images were built from, by variant
    hosts: dict[FileName, HostRecord] = Field(default_factory=dict)

    @property
    def engine(self) -> EngineName:
        """Return the engine of all hosts."""
        return self.settings.where.engine or EngineName.DOCKER

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

    @property
    def resuming(self) -> str:
        """Return the line that measures and restores what is left."""
        return resuming(self.command, self.name, self.settings.where.words)

    def require_well(self, folder: Path) -> None:
        """Raise FleetError if not every host has measured everything and was restored."""
        problems = {name: host.problem for name, host in self.hosts.items() if host.problem}
        if not problems:
            return
        todo = "Every other cell of a complete host is in its folder; measure what failed in a new fleet."
        if any(not host.complete or host.not_restored for host in self.hosts.values()):
            todo = f"What is not measured, or not restored: {self.resuming}"
        problem = "; ".join(dict.fromkeys(problems.values()))
        raise FleetError(file=str(folder), key=", ".join(problems), found=problem, todo=todo)


FLEET_FILE = "fleet.json"


def take_in_results(archive: Path, fleet: Path, host: str, record: FleetRecord) -> Experiment:
    """Replace a host's folder by what it sent, and return the experiment.

    The host is only trusted for figures: which files there are, and their names, is decided here. StoreError if the
    archive is damaged, has another experiment than was asked for, or figures that cannot be read.
    """
    new = fleet / ".incoming" / "new" / host  # deeper than commands look for experiments
    remove_folder(fleet / ".incoming")
    try:
        new.mkdir(parents=True)
        unpack(archive, new)
        experiment = store.read_experiment(new)
        _require_asked(archive, experiment, record.settings)
        store.read_cells(new, experiment)
        # Cloned machines have the same name; and a host must not decide how and where an experiment is repeated.
        settings = experiment.settings.model_copy(update={"where": record.settings.where})
        # Nor by which registry's image `pick` writes a FROM line: a host is sent images, which have no digest there.
        images = [image.model_copy(update={"digest": None}) for image in experiment.images]
        said = {"name": record.name, "command": record.command, "settings": settings, "images": images}
        experiment = experiment.model_copy(update={**said, "host": {**experiment.host, "name": host}})
        store.write_json(new / EXPERIMENT_FILE, experiment)
        write_sums(new)
        read_extract(new)  # an experiment that cannot be compared would block the report of all others
        os.sync()  # else a loss of power could take both this and what it replaces
        remove_folder(fleet / host)
        new.rename(fleet / host)
    finally:
        remove_folder(fleet / ".incoming")
    return experiment


# The settings that decide whether the hosts measured the same.
ASKED = ("quick", "rounds", "rounds_limit", "seed", "baseline", "variants", "workloads", "benchmarks")


def _require_asked(archive: Path, experiment: Experiment, asked: Settings) -> None:
    """Raise StoreError unless the experiment is exactly what was asked for."""
    told, wanted = (
        {
            key: sorted(value) if isinstance(value, list) else value
            for key, value in settings.model_dump(include={*ASKED}).items()
        }
        for settings in (experiment.settings, asked)
    )
    differ = [key for key in ASKED if told[key] != wanted[key]]
    named = {*experiment.workloads, *(cell.workload for cell in (*experiment.cells, *experiment.limits))}
    if differ or not named <= {*asked.workloads}:
        problem = f"holds another experiment ({', '.join(differ) or 'other workloads'})"
        raise StoreError(file=str(archive), found=problem, todo="Measure it again with --resume.")


# The largest of the reference experiments has 22 MB, unpacked.
MOST_BYTES = 256 * 2**20
MOST_FILES = 20_000
PART = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}"
# The files that are taken: the record, the sums, and the cells' files, HOST/VARIANT/WORKLOAD.json.
TAKEN = re.compile(rf"{PART}/(experiment\.json|SHA256SUMS|{PART}/{PART}/{PART}\.json)")


def unpack(archive: Path, into: Path) -> None:
    """Unpack the files of an experiment from a tar.gz into an empty folder; StoreError if it cannot be read."""
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
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError, OverflowError, RecursionError) as error:
        raise StoreError(
            file=str(archive),
            found=f"is not an archive of an experiment ({error})",
            todo="Measure it again with --resume.",
        ) from None


def _unpack(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    """Write a member that is a regular file with one of the taken names; skip all others."""
    taken = TAKEN.fullmatch(member.name)
    content = tar.extractfile(member) if taken and member.isreg() and not member.issparse() else None
    if taken and content:
        path = into / taken[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            shutil.copyfileobj(content, file)
