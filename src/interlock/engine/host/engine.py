"""This machine itself as the engine: variants are prefixes, cells are folders, a server is a process."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interlock.catalog.catalog import Catalog
from interlock.catalog.variants import PRODUCTION, Surroundings
from interlock.engine.build import builds
from interlock.engine.host import cells, toolchain
from interlock.engine.host.cells import serving
from interlock.engine.host.prefixes import HostInstaller, PrefixBuilder
from interlock.engine.protocol import NOTHING, Answer, BuildOptions, Needs, Say
from interlock.errors import UsageError
from interlock.results.experiments import Built, EngineName


@dataclass(frozen=True)
class HostEngine:
    """An engine without containers; `cache` holds its prefixes and what experiments need while they run."""

    root: Path
    cache: Path

    @property
    def name(self) -> EngineName:
        return EngineName.HOST

    @property
    def is_elsewhere(self) -> bool:
        return False

    def facts(self) -> dict[str, Any]:
        """Return what an experiment records, by the same keys as of a container engine."""
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

    def build(self, known: Catalog, names: Sequence[str], options: BuildOptions, say: Say) -> list[Built]:
        if options.registry is not None or options.verifies:
            option = "--verify" if options.verifies else "--cache-from"
            found = "unsupported, because '--engine host' has no images"
            raise UsageError(key=option, found=found, todo=f"Leave out {option}.")
        return builds.build(PrefixBuilder(known, options, say), names)

    def look_up(self, known: Catalog, names: Sequence[str], options: BuildOptions) -> list[Built]:
        return builds.look_up(PrefixBuilder(known, options, lambda *_: None), names)

    def set_up(self, owner: str, needs: Needs) -> HostWorkspace:
        folder = runs(self.cache) / owner
        toolchain.put_programs(toolchain.ensure_instruments(needs.root, self.cache), needs.programs, folder / "tools")
        return HostWorkspace(needs.root, owner, folder, cells.make_memory(owner))

    def installer(self, known: Catalog, root: Path, say: Say) -> HostInstaller:
        return HostInstaller(known, self.cache, say)

    def owners(self) -> set[str]:
        return {folder.name for folder in runs(self.cache).glob("*")}

    def clean_up(self, owner: str) -> None:
        """Remove the folder that names the owner last: while it is there, something is left."""
        memory = cells.memory_of(owner)
        cells.end_all_in(memory)
        for folder in (memory, runs(self.cache) / owner):
            shutil.rmtree(folder, ignore_errors=True)


def runs(cache: Path) -> Path:
    """Return where each experiment on this machine has a folder until it has ended."""
    return cache / "runs"


@dataclass(frozen=True)
class HostWorkspace:
    """What an experiment has on this machine: a folder below the cache, and one in memory for its cells and server."""

    root: Path
    owner: str
    folder: Path
    memory: Path
    is_elsewhere: bool = False

    @contextmanager
    def network(self, server: Mapping[str, str] | None, *, load: bool) -> Iterator[HostNetwork]:
        if load:
            raise cells.unsupported("the load on a service needs a container engine")
        if server is None:
            yield HostNetwork(self, None)
            return
        with serving(self.root, server, self.memory) as url:
            yield HostNetwork(self, url)

    def open_tools_sandbox(self, *, unconfined: bool = False) -> cells.HostSandbox:
        if unconfined:
            raise cells.unsupported("they are counted in containers alone")
        return self.open(None)

    def open(self, prefix: Path | None, surroundings: Surroundings = PRODUCTION) -> cells.HostSandbox:
        return cells.open_sandbox(prefix, self.folder / "tools", surroundings, self.folder / "disk", self.memory)


@dataclass(frozen=True)
class HostNetwork:
    """This machine's own loopback, with the server of one workload or without."""

    workspace: HostWorkspace
    url: str | None
    helper_ids: Sequence[str] = ()

    def open_sandbox(
        self,
        image_id: str,
        surroundings: Surroundings = PRODUCTION,
        packages: Mapping[str, str] = NOTHING,
    ) -> cells.HostSandbox:
        return self.workspace.open(Path(image_id), surroundings)

    def open_limits_sandbox(self) -> cells.HostSandbox:
        return self.workspace.open(None)

    def ask(self, url: str) -> Answer:
        raise cells.unsupported("services run in containers")

    def put_load(self, words: Sequence[str], limit_s: float) -> str:
        raise cells.unsupported("the load on a service needs a container engine")
