"""This machine itself as the engine: variants are prefixes, cells are folders, a server is a process."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from interlock.catalog.project import Catalog
from interlock.engine import machine
from interlock.engine.build import builds
from interlock.engine.build.places import Answers
from interlock.engine.host import memory, profiler, sandbox, servers, toolchain
from interlock.engine.host.account import MYSELF, Account
from interlock.engine.host.core import core_here
from interlock.engine.host.features import cannot, refused
from interlock.engine.host.packages import HostInstaller
from interlock.engine.host.prefixes import PrefixBuilder
from interlock.engine.ownership import Life, labels_in, life_of, makers_of, mark
from interlock.engine.protocol import (
    NOTHING,
    USUAL,
    Answer,
    BuildOptions,
    CoreSet,
    CpuUsed,
    Feature,
    LoadRun,
    Needs,
    OnStep,
    OwnStart,
    Surroundings,
    UserContainer,
)
from interlock.errors import EngineError, UnsupportedHereError
from interlock.results.experiments import Built, EngineName


@dataclass(frozen=True)
class HostEngine:
    """An engine without containers; `cache` holds its prefixes and what experiments need while they run."""

    root: Path
    cache: Path
    account: Account = MYSELF
    answers: Answers = field(default_factory=Answers)  # what places of sources answered in this run

    @property
    def name(self) -> EngineName:
        return EngineName.HOST

    @property
    def is_elsewhere(self) -> bool:
        return False

    def cannot(self, feature: Feature) -> UnsupportedHereError | None:
        return cannot(feature)

    def facts(self) -> dict[str, Any]:
        """Return what an experiment records, by the same keys as of a container engine."""
        return {
            "name": EngineName.HOST.value,
            "version": platform.release(),
            "storage_driver": "none",
            "cgroup_version": "",
            "cpus": os.cpu_count() or 1,
            "memory_bytes": machine.memory_bytes(),
            "architecture": platform.machine(),
            "data_root": str(self.cache),
            "user": self.account.name or psutil.Process().username(),
            "server": servers.words(self.cache),
            "memory_folder": memory.words(memory.choose(self.account)),
        }

    def core(self, known: Catalog) -> CoreSet:
        return core_here(known, self.cache, self.account)

    def build(self, known: Catalog, names: Sequence[str], options: BuildOptions, on_step: OnStep) -> list[Built]:
        return builds.build(self._builder(known, options, on_step), names)

    def look_up(self, known: Catalog, names: Sequence[str], options: BuildOptions) -> list[Built]:
        return builds.look_up(self._builder(known, options, lambda *_: None), names)

    def _builder(self, known: Catalog, options: BuildOptions, on_step: OnStep) -> PrefixBuilder:
        return PrefixBuilder(known, replace(options, cache=self.cache), on_step, self.account, answers=self.answers)

    def set_up(self, owner: str, needs: Needs) -> HostWorkspace:
        folder = runs(self.cache) / owner
        folder.mkdir(parents=True)
        mark(folder, owner)
        instruments = toolchain.ensure_instruments(needs.root, self.cache, self.account)
        toolchain.put_programs(instruments, needs.programs, folder / "tools")
        return HostWorkspace(needs.root, owner, folder, memory.make(owner, self.account), self.cache, self.account)

    def installer(self, known: Catalog, root: Path, on_step: OnStep) -> HostInstaller:
        return HostInstaller(known, self.cache, on_step, self.account)

    def owners(self) -> dict[str, Life]:
        return {folder.name: life_of(folder) for folder in runs(self.cache).glob("*")}

    def makers(self) -> dict[int, str]:
        return makers_of({folder.name: [labels_in(folder)] for folder in runs(self.cache).glob("*")})

    def clean_up(self, owner: str) -> None:
        """Remove everything of an owner, the folder with its name last: while that is there, something is left.

        EngineError names a folder that cannot be removed.
        """
        folders = memory.folders_of(owner)
        for folder in folders:
            sandbox.end_all_in(folder)
        profiler.remove_cgroups(f"{memory.name_of(owner)}.")
        for folder in (*folders, runs(self.cache) / owner):
            open_folders(folder)
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                todo = f"Remove it: chmod -R u+rwX {folder}; rm -r {folder}"
                raise EngineError(file=str(folder), found="the folder cannot be removed", todo=todo)


def open_folders(folder: Path) -> None:
    """Let their owner change all folders below this one: a workload may leave some that nobody can write to."""
    for place, names, _ in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if not path.is_symlink():
                with suppress(OSError):
                    path.chmod(stat.S_IRWXU)


def runs(cache: Path) -> Path:
    """Return the folder in which each running experiment of this machine has its own folder."""
    return cache / "runs"


@dataclass(frozen=True)
class HostWorkspace:
    """What an experiment has on this machine: a folder below the cache, and one in memory for its cells and server."""

    root: Path
    owner: str
    folder: Path
    memory: Path
    cache: Path
    account: Account = MYSELF
    is_elsewhere: bool = False

    @contextmanager
    def network(self, server: Mapping[str, str] | None, *, load: bool) -> Iterator[HostNetwork]:
        if load:
            raise refused(Feature.LOAD)
        if server is None:
            yield HostNetwork(self, None)
            return
        place = servers.ServerPlace(self.root, self.cache, self.memory, self.account)
        with servers.serving(place, server) as url:
            yield HostNetwork(self, url)

    def open_tools_sandbox(self) -> sandbox.HostSandbox:
        return self.open(None)

    def open(self, prefix: Path | None) -> sandbox.HostSandbox:
        return sandbox.open_sandbox(prefix, self.folder / "tools", self.folder / "disk", self.memory, self.account)


@dataclass(frozen=True)
class HostNetwork:
    """This machine's own loopback, with the server of one workload or without."""

    workspace: HostWorkspace
    url: str | None
    helper_ids: Sequence[str] = ()
    can_evict: bool = False  # a prefix of this machine is shared by several cells

    def open_sandbox(
        self, image_id: str, surroundings: Surroundings = USUAL, packages: Mapping[str, str] = NOTHING
    ) -> sandbox.HostSandbox:
        """Open a sandbox. It has the user's rights, and a prefix is on this machine's disk as if on a volume."""
        return self.workspace.open(Path(image_id))

    def open_limits_sandbox(self, surroundings: Surroundings = USUAL) -> sandbox.HostSandbox:
        return self.workspace.open(None)

    def started(self, start: OwnStart) -> AbstractContextManager[UserContainer]:
        raise refused(Feature.USER_IMAGES)

    def ask(self, url: str, *, any_answer: bool = False, body: bool = True) -> Answer:
        raise refused(Feature.SERVICES)

    def put_load(self, words: Sequence[str], limit_s: float) -> LoadRun:
        raise refused(Feature.LOAD)

    def load_cpu_used(self) -> CpuUsed:
        raise refused(Feature.LOAD)
