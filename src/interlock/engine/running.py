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
from interlock.engine.host import instruments
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
    """Each cell is a folder; `run_folder` holds what an experiment needs, below the cache, and goes with it."""

    root: Path
    cache: Path
    run_folder: Path | None = None

    def set_up(self, owner: str, programs: Mapping[str, bytes]) -> OnHost:
        """The same for one experiment: its programs and the instruments where cells look for them."""
        folder = self.cache / "runs" / owner
        instruments.put_programs(instruments.ensure(self.root, self.cache), programs, folder / "tools")
        return replace(self, run_folder=folder)

    def clean_up(self, owner: str) -> None:
        shutil.rmtree(self.cache / "runs" / owner, ignore_errors=True)

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
        if self.run_folder is None:
            raise EngineError(key="engine host", found="nothing is set up for this experiment", todo="Call set_up.")
        return here.start_cell(
            Path(image_id), self.run_folder / "tools", options.surroundings, self.run_folder / "disk"
        )

    def run(
        self, cell: here.HostCell, argv: list[str], deadline_s: float, environment: Mapping[str, str]
    ) -> cells.Ended:
        return here.run_process(cell, argv, deadline_s, environment)

    def remove(self, cell: here.HostCell) -> None:
        here.remove(cell)


def facts_of(client: Any) -> dict[str, Any]:
    """What is recorded of whatever builds and measures."""
    return client.facts() if isinstance(client, OnHost) else engine_facts(client)


def require_containers(what: str) -> UnsupportedHereError:
    """What is said of something that this machine alone cannot do."""
    return UnsupportedHereError(
        key="engine host", found=f"{what} needs a container engine", todo="Choose --engine docker or podman."
    )
