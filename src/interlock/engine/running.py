"""Who opens cells and runs processes in them: a container engine, or this machine itself."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from interlock.engine import cells
from interlock.engine.client import engine_facts
from interlock.engine.host import cells as here
from interlock.engine.host import instruments, processes
from interlock.errors import EngineError, UnsupportedHereError
from interlock.model import EngineName


class Running(Protocol):
    """What measuring needs of an engine; a cell is whatever `open` returned, and has an `id`."""

    def open(self, image_id: str, options: cells.CellOptions) -> Any: ...

    def run(self, cell: Any, argv: list[str], deadline_s: float, environment: Mapping[str, str]) -> cells.Ended: ...

    def remove(self, cell: Any) -> None: ...


@dataclass(frozen=True)
class InContainers:
    """Each cell is a container that idles."""

    client: Any

    def open(self, image_id: str, options: cells.CellOptions) -> Any:
        return cells.start_cell(self.client, image_id, options)

    def run(self, cell: Any, argv: list[str], deadline_s: float, environment: Mapping[str, str]) -> cells.Ended:
        return cells.run_process(self.client, cell, argv, deadline_s, environment)

    def remove(self, cell: Any) -> None:
        cells.remove(cell)


@dataclass(frozen=True)
class OnHost:
    """Each cell is a folder; `run_folder` holds what an experiment needs, below the cache, and goes with it.

    So does `memory`, where its cells and its server are.
    """

    root: Path
    cache: Path
    run_folder: Path | None = None

    def set_up(self, owner: str, programs: Mapping[str, bytes]) -> OnHost:
        """The same for one experiment: its programs and the instruments where cells look for them."""
        folder = runs(self.cache) / owner
        instruments.put_programs(instruments.ensure(self.root, self.cache), programs, folder / "tools")
        here.make_memory(owner)
        return replace(self, run_folder=folder)

    @property
    def memory(self) -> Path:
        return here.memory_of(self._run_folder.name)

    @property
    def _run_folder(self) -> Path:
        if self.run_folder is None:
            raise EngineError(key="engine host", found="nothing is set up for this experiment", todo="Call set_up.")
        return self.run_folder

    def clean_up(self, owner: str) -> None:
        clean_up_here(self.cache, owner)

    def facts(self) -> dict[str, Any]:
        """What an experiment records of the engine, in the words of a container engine where they fit."""
        return {
            "name": EngineName.HOST.value,
            "version": platform.release(),
            "storage_driver": "none",
            "cgroup_version": "",
            "cpus": os.cpu_count() or 1,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "architecture": platform.machine(),
            "data_root": str(self.cache),
        }

    def open(self, image_id: str, options: cells.CellOptions) -> here.HostCell:
        folder = self._run_folder
        return here.start_cell(Path(image_id), folder / "tools", options.surroundings, folder / "disk", self.memory)

    def run(
        self, cell: here.HostCell, argv: list[str], deadline_s: float, environment: Mapping[str, str]
    ) -> cells.Ended:
        return here.run_process(cell, argv, deadline_s, environment)

    def remove(self, cell: here.HostCell) -> None:
        here.remove(cell)


def runs(cache: Path) -> Path:
    """Where each experiment that this machine itself is the engine of has a folder, until it has ended."""
    return cache / "runs"


def clean_up_here(cache: Path, owner: str) -> None:
    """Ends and removes all that such an experiment has; its folder last, for it says that something is left."""
    memory = here.memory_of(owner)
    processes.end_all_in(memory)
    for folder in (memory, runs(cache) / owner):
        shutil.rmtree(folder, ignore_errors=True)


def facts_of(client: Any) -> dict[str, Any]:
    """What is recorded of whatever builds and measures."""
    return client.facts() if isinstance(client, OnHost) else engine_facts(client)


def require_containers(what: str) -> UnsupportedHereError:
    """What is said of something that this machine alone cannot do."""
    return UnsupportedHereError(
        key="engine host", found=f"{what} needs a container engine", todo="Choose --engine docker or podman."
    )
