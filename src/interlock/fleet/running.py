"""Measure on all hosts of a fleet by one run of matrix.yml, then fetch and join their results by one of restore.yml."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.catalog.project import ProjectPaths
from interlock.errors import InterlockError, StoreError
from interlock.fleet import ansible
from interlock.fleet.record import FLEET_FILE, FleetRecord, HostRecord, take_in_results
from interlock.measure.assignment import choose_baseline
from interlock.report.experiment import failed_cells
from interlock.results import store
from interlock.results.commands import command_line
from interlock.results.experiments import Built, State
from interlock.results.settings import Settings

# On the host `timeout` ends what outlives the deadline; if that fails, Ansible gives the task up this much later.
GRACE_S = 180
UNENDED = "Ansible did not come to its end"


def images_of(built: Sequence[Built]) -> list[str]:
    """Return the tags of the images that a host needs to measure; it then builds only its instruments."""
    ready = [image for image in built if image.outcome.state is State.OK]
    # A base from a registry is pulled there too, because an archive does not keep its digest.
    bases = [image.base.reference for image in ready if image.base and image.base.origin == "mmdebstrap"]
    return list(dict.fromkeys([*bases, *(image.tag for image in ready)]))


def builds_of(built: Sequence[Built]) -> dict[str, str]:
    """Return the content hashes of what hosts measure, by variant."""
    return {image.variant: image.content_hash for image in built if image.content_hash}


def versions_of(built: Sequence[Built]) -> dict[str, str]:
    """Return the versions of the images that hosts are sent, so that no other version is built there."""
    return {image.variant: image.version for image in built if image.version and image.outcome.state is State.OK}


def begun(results: Path, inventory: Path, asked: Settings, built: Sequence[Built]) -> FleetRecord:
    """Return the record of a new fleet, with a folder of its own."""
    settings = asked.with_baseline(choose_baseline(asked.baseline, built))
    command = command_line("fleet", "-i", str(inventory), *settings.repeat_words)
    name = store.new_experiment(results, datetime.date.today().isoformat()).name
    builds, versions = builds_of(built), versions_of(built)
    return FleetRecord(name=name, command=command, settings=settings, builds=builds, versions=versions)


@dataclass
class FleetRun:
    """One execution of a fleet, whose record is written before and after."""

    paths: ProjectPaths
    folder: Path
    inventory: Path
    record: FleetRecord
    images: Sequence[str]  # the images that hosts are sent
    as_root: bool
    deadline_s: int

    def measure(self, hosts: Sequence[str]) -> None:
        """Let each of these hosts measure what it has not yet measured, restore it, and fetch results to its folder.

        Whatever ends this, the hosts are restored, and what they have measured is fetched.
        """
        before = {name: self.record.hosts.get(name, HostRecord()) for name in hosts}
        self._save({name: host for name, host in self.record.hosts.items() if host.complete} | before)
        to_do = [name for name, host in before.items() if not host.complete]
        dirty = [name for name, host in before.items() if not host.complete or host.not_restored]
        failed, left = dict.fromkeys(to_do, UNENDED), dict.fromkeys(dirty, UNENDED)
        variables = self._variables()
        try:
            failed = self._play("matrix.yml", to_do, variables)
        finally:
            for end in ("", ".part"):
                Path(variables["images_archive"] + end).unlink(missing_ok=True)
            try:
                left = self._play("restore.yml", dirty, variables)
            finally:
                now = before | {name: self._taken_in(name, failed.get(name, "")) for name in to_do}
                told = {name: now[name].model_copy(update={"not_restored": left.get(name, "")}) for name in dirty}
                self._save(self.record.hosts | told)

    def _save(self, hosts: dict[str, HostRecord]) -> None:
        self.record = self.record.model_copy(update={"hosts": hosts})
        store.write_json(self.folder / FLEET_FILE, self.record)

    def _variables(self) -> dict[str, Any]:
        """Return the playbooks' variables, and write the archive of Interlock that they name."""
        archive, version = ansible.write_project_archive(self.paths.root, self.paths.cache)
        name = f"{self.record.name}-{self.record.token}"
        return {
            "interlock_version": version,
            "interlock_engine": self.record.engine.value,
            "interlock_as_root": "1" if self.as_root else "",
            "interlock_versions": " ".join(f"{name}={version}" for name, version in self.record.versions.items()),
            "project_archive": str(archive),
            "images_tags": list(self.images),
            "images_archive": str(archive.with_name(f"{name}.tar")),
            "experiment_fleet": name,
            "experiment_options": self.record.settings.options,
            "experiment_deadline_s": self.deadline_s,
            "experiment_fetched": str(self.folder.absolute()),
        }

    def _play(self, playbook: str, hosts: Sequence[str], variables: dict[str, Any]) -> dict[str, str]:
        settings = {
            "ANSIBLE_INVENTORY": str(self.inventory.absolute()),
            "ANSIBLE_TASK_TIMEOUT": str(self.deadline_s + GRACE_S),
        }
        return ansible.play(self.paths.root, playbook, hosts, variables, settings) if hosts else {}

    def _taken_in(self, name: str, reason: str) -> HostRecord:
        """Take in what a host sent; the archive is kept as long as the host has to go on with it."""
        archive = self.folder / f"{name}.tar.gz"
        if not archive.is_file():
            return HostRecord(reason=reason or "it sent no results")
        try:
            taken = take_in_results(archive, self.folder, name, self.record)
        except Exception as error:
            refused = archive.replace(archive.with_name(f"{name}.refused"))
            return HostRecord(reason=reason or str(_refusal(refused, error)))
        if taken.unfinished or not taken.times.keys() >= {*taken.settings.workloads}:
            return HostRecord(reason=reason or taken.ended_by or "it is not complete")
        archive.unlink()
        failed = [f"{cell.label} / {cell.workload}: {cell.outcome.reason}" for cell in failed_cells(taken.cells)]
        return HostRecord(complete=True, reason=next(iter(failed), ""))


def _refusal(refused: Path, error: Exception) -> StoreError:
    """Return why what a host sent is not taken; it names the kept file, and the files in it by their own names."""
    problem, key = f"its results cannot be read ({error!r})", ""
    if isinstance(error, InterlockError):
        inside = Path(error.file).name if error.file.endswith(".json") else ""
        problem, key = error.found, ", ".join(filter(None, [inside, error.key]))
    return StoreError(file=str(refused), key=key, found=problem, todo="Measure it again with --resume.")
