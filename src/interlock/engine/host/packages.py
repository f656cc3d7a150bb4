"""Packages that workloads require, installed for a prefix by its own pip into a folder of the cache."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog.project import Catalog
from interlock.catalog.types import Data
from interlock.engine.ended import Ended
from interlock.engine.host.account import MYSELF, Account
from interlock.engine.host.prefixes import environment_of, network_settings
from interlock.engine.host.sandbox import run_process
from interlock.engine.packages.installer import versions_of
from interlock.engine.protocol import OnStep
from interlock.errors import StoreError
from interlock.results import store
from interlock.results.experiments import Built, Outcome, PackageSet, State

INSTALL_S = 900
PACKAGES_RECORD = "interlock.json"
# What an installer leaves beside a package's modules, as NAME-VERSION.dist-info or NAME-VERSION-TAG.egg-info.
METADATA = "*-*.*-info"
QUIET_PIP = ["--no-input", "--disable-pip-version-check", "--no-warn-script-location"]


@dataclass(frozen=True)
class HostInstaller:
    """Installs for the variants of a project; `on_step(variant, step)` is called for each step."""

    catalog: Catalog
    cache: Path
    on_step: OnStep
    account: Account = MYSELF

    def tidy(self) -> None:
        """Remove packages of prefixes that are gone."""
        for record in self.cache.glob(f"packages/*/{PACKAGES_RECORD}"):
            known = _packages_record(record)
            if known is None or not Path(known.prefix).is_dir():
                shutil.rmtree(record.parent)

    def ensure_all(self, wanted: Sequence[tuple[Built, Sequence[str]]]) -> list[PackageSet]:
        """Return the packages of each prefix and its requirement lines, one after the other."""
        return [self.ensure(image, lines) for image, lines in wanted]

    def ensure(self, image: Built, lines: Sequence[str]) -> PackageSet:
        """Return the packages, installed now if they were not; if they cannot be installed, the outcome says why."""
        prefix = Path(image.image_id)
        key = hashlib.sha256(json.dumps([image.image_id, image.content_hash, *lines]).encode()).hexdigest()[:16]
        folder = self.cache / "packages" / key
        record = folder / PACKAGES_RECORD
        known = _packages_record(record)
        if known is None:
            self.on_step(image.variant, f"getting {', '.join(lines)}")
            problem = self._install(prefix, folder, lines)
            if problem is not None:
                shutil.rmtree(folder, ignore_errors=True)
                return PackageSet(outcome=problem)
            installed = (path.name.rpartition(".")[0] for path in (folder / "site").glob(METADATA))
            known = _PackagesRecord(prefix=str(prefix), versions=versions_of(installed))
            self.account.take_back(folder)
            store.write_json(record, known)
        return PackageSet(volume=str(folder), mount_path=str(folder), versions=known.versions)

    def _install(self, prefix: Path, folder: Path, lines: Sequence[str]) -> Outcome | None:
        """Install packages and return None; if that fails, return the outcome for the cells that need them."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.account.give(folder)
        if not self._pip(prefix, ["--version"], folder).ok:
            return Outcome(state=State.UNSUPPORTED, reason=f"{prefix.name} has no pip to install packages with")
        ended = self._pip(prefix, ["install", "-q", *QUIET_PIP, "--target", str(folder / "site"), *lines], folder)
        if ended.ok:
            return None
        printed = ended.stderr.splitlines()
        said = [line for line in printed if "ERROR" in line] or printed or ["nothing"]
        why = f"it did not end within {INSTALL_S} s" if ended.timed_out else said[0]
        return Outcome(state=State.FAILED, reason=f"pip cannot install {', '.join(lines)}: {why}")

    def _pip(self, prefix: Path, words: Sequence[str], folder: Path) -> Ended:
        """Run the prefix's pip, and end what it leaves, with the user's own settings, which say where packages are."""
        argv = self.account.command([str(prefix / "bin" / "python"), "-m", "pip", *words])
        environment = network_settings(self.cache, self.account) | environment_of(prefix)
        return run_process(argv, INSTALL_S, environment, folder)


class _PackagesRecord(Data):
    """The prefix that packages were installed for, and their versions."""

    prefix: str
    versions: dict[str, str]


def _packages_record(path: Path) -> _PackagesRecord | None:
    """Return the record of what was installed; None if nothing was, or the installation did not end."""
    try:
        return store.read_json(path, _PackagesRecord)
    except StoreError:
        return None
