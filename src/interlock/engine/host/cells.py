"""Cells without containers: a folder each, and processes that see the prefix, the instruments and nothing of the user.

The places that programs know in a container (/interlock, /scratch, ...) are folders of this machine here: every word of
a command line and every entry of an environment that names one is translated.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.engine.cells import Ended
from interlock.engine.host import processes
from interlock.engine.host.prefixes import environment_of
from interlock.errors import WorkloadError
from interlock.model import DISK, MOUNT, PRODUCTION, SCRATCH, Surroundings

LIMITS_PATH = "/usr/local/bin:/usr/bin:/bin"
# A tmpfs on every Linux, as a cell's /scratch is.
MEMORY = Path("/dev/shm")  # noqa: S108  a folder of our own is made in it


@dataclass(frozen=True)
class HostCell:
    """Where the processes of one cell are: its prefix, and what containers' places are on this machine."""

    prefix: Path
    folder: Path
    places: Mapping[str, str]

    @property
    def id(self) -> str:
        return self.folder.name


def memory_of(owner: str) -> Path:
    """The folder in memory that all of an experiment's cells and its server are in, by which they are found again.

    Its name is short, whatever the experiment's: a socket's whole path has room for 107 bytes.
    """
    below = MEMORY if MEMORY.is_dir() else Path(tempfile.gettempdir())
    return below / f"interlock-{hashlib.sha256(owner.encode()).hexdigest()[:12]}"


def make_memory(owner: str) -> Path:
    """That folder, which is not there yet."""
    folder = memory_of(owner)
    folder.mkdir()
    folder.chmod(0o711)  # started by root, a server reads its files as somebody else
    return folder


def start_cell(prefix: Path, tools: Path, surroundings: Surroundings, disk: Path, memory: Path) -> HostCell:
    """A new cell; WorkloadError for surroundings that only a container has."""
    if surroundings != PRODUCTION:
        raise WorkloadError(
            key="conditions", found="a condition is of a container", todo="Choose --engine docker or podman for it."
        )
    folder = Path(tempfile.mkdtemp(prefix="cell-", dir=memory))
    on_disk = disk / folder.name
    on_disk.mkdir(parents=True)
    (folder / "scratch").mkdir()
    return HostCell(prefix, folder, {MOUNT: str(tools), SCRATCH: str(folder / "scratch"), DISK: str(on_disk)})


def run_process(cell: HostCell, argv: Sequence[str], deadline_s: float, environment: Mapping[str, str]) -> Ended:
    """Runs argv with the cell's interpreter to its end or the deadline; what is left of it is killed.

    As with a container, a cell is gone with a process that had to be killed.
    """
    told = {name: translated_list(value, cell.places) for name, value in environment.items()}
    home = {"HOME": str(cell.folder), "TMPDIR": cell.places[SCRATCH]}
    if not cell.prefix.name:  # a limit's, which is no interpreter's
        home["PATH"] = f"{cell.places[MOUNT]}/limits:{LIMITS_PATH}"
    words = [translated(word, cell.places) for word in argv]
    ended = processes.run(words, deadline_s, environment_of(cell.prefix) | home | told, cell.folder)
    if ended.took_container:
        remove(cell)
    return ended


def remove(cell: HostCell) -> None:
    """Gone, with all that its processes wrote."""
    for folder in (cell.folder, Path(cell.places[DISK])):
        shutil.rmtree(folder, ignore_errors=True)


def translated(word: str, places: Mapping[str, str]) -> str:
    """A word that names a container's place, or something below it, names this machine's."""
    for place, here in places.items():
        if word == place or word.startswith(f"{place}/"):
            return here + word[len(place) :]
    return word


def translated_list(value: str, places: Mapping[str, str]) -> str:
    """Entries of a path, which are separated by colons."""
    return ":".join(translated(entry, places) for entry in value.split(":"))
