"""Packages that workloads require, installed by a prefix's own pip into a folder below the cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.engine.host.prefixes import environment_of, network_settings
from interlock.engine.image import Say
from interlock.model import Built, Catalog, Outcome, PackageSet, State

INSTALL_S = 900
RECORD = "interlock.json"
QUIET = ["--no-input", "--disable-pip-version-check", "--no-warn-script-location"]


@dataclass(frozen=True)
class HostInstaller:
    """Installs for the variants of a project; `say(variant, step)` is called for each step."""

    catalog: Catalog
    cache: Path
    say: Say

    def tidy(self) -> None:
        """Folders of prefixes that are gone."""
        for record in self.cache.glob(f"packages/*/{RECORD}"):
            if not Path(json.loads(record.read_text(encoding="utf-8"))["prefix"]).is_dir():
                shutil.rmtree(record.parent)

    def ensure(self, image: Built, lines: Sequence[str]) -> PackageSet:
        """As they were installed before, or installed now; what cannot be had says so in its outcome."""
        prefix = Path(image.image_id)
        key = hashlib.sha256(json.dumps([image.image_id, image.content_hash, *lines]).encode()).hexdigest()[:16]
        folder = self.cache / "packages" / key
        record = folder / RECORD
        if not record.is_file():
            self.say(image.variant, f"getting {', '.join(lines)}")
            problem = _install(prefix, folder, lines)
            if problem is not None:
                shutil.rmtree(folder, ignore_errors=True)
                return PackageSet(outcome=problem)
            written = {"prefix": str(prefix), "versions": _versions(prefix, folder / "site")}
            record.write_text(json.dumps(written), encoding="utf-8")
        versions = json.loads(record.read_text(encoding="utf-8"))["versions"]
        return PackageSet(volume=str(folder), place=str(folder), versions=versions)


def _install(prefix: Path, folder: Path, lines: Sequence[str]) -> Outcome | None:
    """None if all is there; otherwise what a cell says."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if _pip(prefix, ["--version"], folder).returncode != 0:
        return Outcome(state=State.UNSUPPORTED, reason=f"{prefix.name} has no pip to install packages with")
    ended = _pip(prefix, ["install", "-q", *QUIET, "--target", str(folder / "site"), *lines], folder)
    if ended.returncode == 0:
        return None
    said = [line for line in ended.stderr.splitlines() if "ERROR" in line] or ended.stderr.splitlines() or ["nothing"]
    return Outcome(state=State.FAILED, reason=f"pip cannot install {', '.join(lines)}: {said[0]}")


def _versions(prefix: Path, site: Path) -> dict[str, str]:
    listed = _pip(prefix, ["list", "--format", "json", "--disable-pip-version-check", "--path", str(site)], site)
    return {one["name"].lower(): one["version"] for one in json.loads(listed.stdout or "[]")}


def _pip(prefix: Path, words: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """With the user's own settings of pip, which say where packages are to be had."""
    argv = [str(prefix / "bin" / "python"), "-m", "pip", *words]
    environment = network_settings() | environment_of(prefix)
    return subprocess.run(
        argv, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=INSTALL_S
    )
