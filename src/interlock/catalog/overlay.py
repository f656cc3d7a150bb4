"""One folder with links to the package's files and to those that a user's folder adds or replaces by name."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Files with a table for each name. A user's file adds tables or overrides them by name, so it lies beside, in `OWN`.
SHARED_FILES = ("bases", "families", "differences", "sources", "published", "optimisations")
TABLES = (
    *(f"variants/{name}.toml" for name in SHARED_FILES),
    "workloads/claims.toml",
)
OWN = "own"
FOLDERS = ("variants", "workloads")


@dataclass(frozen=True)
class OwnFile:
    """A file of the user's folder, by its path there, and whether it replaces the package's file of the same name."""

    path: Path
    name: str
    replaces: bool

    @property
    def words(self) -> str:
        if self.name in TABLES:
            return f"{self.path} is read in addition to Interlock's own"
        return f"{self.path} is read{' instead of the one that Interlock brings' if self.replaces else ''}"


def own_folder(start: Path) -> Path | None:
    """Return the nearest folder, from `start` up, that has TOML files in variants/ or workloads/ of its own."""
    return next(
        (folder for folder in (start, *start.parents) if any(any((folder / name).glob("*.toml")) for name in FOLDERS)),
        None,
    )


def own_files(installed: Path, own: Path) -> list[OwnFile]:
    """Return the files of the user's folder that are read."""
    return [OwnFile(own / name, name, (installed / name).is_file()) for name in _names(own, FOLDERS)]


def lay(installed: Path, own: Path, cache: Path) -> Path:
    """Return a folder of the cache with links to both; the same names share a folder, made once."""
    links = {name: installed / name for name in _names(installed, (*FOLDERS, "dockerfiles", "playbooks"))}
    for file in own_files(installed, own):
        links[f"{OWN}/{file.name}" if file.name in TABLES else file.name] = file.path
    links["results"] = installed / "results"
    listed = "\n".join(f"{name} {target}" for name, target in sorted(links.items()))
    folder = cache / "projects" / hashlib.sha256(listed.encode()).hexdigest()[:16]
    if not folder.is_dir():
        _make(folder, links)
    return folder


def _names(folder: Path, below: tuple[str, ...]) -> Iterator[str]:
    for part in below:
        for path in sorted((folder / part).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(folder).as_posix()


def _make(folder: Path, links: dict[str, Path]) -> None:
    """Make the folder whole or not at all: another process may make it at the same time."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    for name, target in links.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).symlink_to(target)
    try:
        made.rename(folder)
    except OSError:  # the other process was first
        shutil.rmtree(made)
