"""The files of a folder that may name a Python image, and what a swap, a revert or a check makes of all of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from interlock.errors import StoreError, SwapError
from interlock.swap.caveats import Caveat
from interlock.swap.files import YAML_ENDS, read_file
from interlock.swap.paths import FoundVersion

DOCKERFILE = re.compile(r"(?:.+\.)?(?:Dockerfile|Containerfile)(?:\.(?!dockerignore$).+)?", re.IGNORECASE)
DEVCONTAINERS = frozenset({"devcontainer.json", ".devcontainer.json"})
# Hidden folders whose files are a project's own; in others are what tools keep.
OWN_HIDDEN = frozenset({".github", ".gitlab", ".devcontainer", ".ci", ".docker"})
OTHERS_FOLDERS = frozenset({"node_modules", "venv", "site-packages", "vendor", "__pycache__"})
# A line that would be swapped if the file could be: what a person wants to hear of.
MEANT = re.compile(
    r"^\s*(?:FROM\s|-?\s*(?:image|container|\"image\")\s*:).*\b(?:python|pypy)\b", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True)
class PlannedFile:
    """A file before and after, with what a person must know about the change."""

    path: Path
    before: str
    after: str
    warnings: tuple[Caveat, ...] = ()
    paths: tuple[FoundVersion, ...] = ()

    @property
    def is_dockerfile(self) -> bool:
        return DOCKERFILE.fullmatch(self.path.name) is not None


@dataclass
class Plan:
    """What is done to one file, or to all of a folder, and why others of it are left."""

    files: list[PlannedFile] = field(default_factory=list)
    left: list[SwapError] = field(default_factory=list)

    @property
    def changed(self) -> list[PlannedFile]:
        return [one for one in self.files if one.before != one.after]


def plan(place: Path, action: Callable[[Path, str], PlannedFile]) -> Plan:
    """Return what an action makes of a file, or of each file below a folder that names a Python image.

    The SwapError of a single file is raised; of a folder's files it is kept if a line there names Python.
    """
    if not place.is_dir():
        return Plan([action(place, read_file(place))])
    made = Plan()
    for path in find_files(place):
        try:
            text = read_file(path)
        except StoreError:  # it cannot be text that names an image
            continue
        try:
            made.files.append(action(path, text))
        except SwapError as error:
            if MEANT.search(text):
                made.left.append(error)
    return made


def find_files(folder: Path) -> Iterator[Path]:
    """Yield the Dockerfiles, YAML files and devcontainer.json below a folder, but for what tools keep there."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            one for one in folders if one not in OTHERS_FOLDERS and (not one.startswith(".") or one in OWN_HIDDEN)
        )
        for name in sorted(names):
            if DOCKERFILE.fullmatch(name) or name.lower().endswith(YAML_ENDS) or name in DEVCONTAINERS:
                path = Path(place, name)
                if path.is_file() and not path.is_symlink():
                    yield path
