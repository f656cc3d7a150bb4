"""Containers that packages are got and installed in: a builder with a network, and the variant's own image without."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from docker.errors import DockerException

from interlock.engine import cells
from interlock.engine.client import OWNER_LABEL, no_space
from interlock.engine.packing import tar_of_paths
from interlock.engine.pip_settings import AUDIT, PipSettings
from interlock.errors import EngineError

# What outlives an audit, so that the next one is quick: what pip downloaded, and what was built from a pinned source.
CACHE_VOLUME, CACHE = "interlock-pip-cache", "/cache"
WHEELS = f"{AUDIT}/wheels"
IDLE = ["sleep", "infinity"]
# coreutils' timeout: the process and what it started end, the container stays.
UNTIL = 'limit=$1; shift; exec timeout --kill-after=10 "$limit" "$@"'
TIMED_OUT, KILLED = 124, 137
OUT_OF_MEMORY = "\nERROR: killed: most likely it needed more memory than the container has\n"
# The container goes as well if something in it outlives even that.
GRACE_S = 60
PROCESSES = 4096
SHARE_OF_MEMORY = 0.75


@dataclass(frozen=True)
class Said:
    """How a program in a container ended: its exit code, all that it printed, and whether its deadline had passed."""

    code: int
    output: str
    late: bool

    @property
    def ok(self) -> bool:
        return self.code == 0


@dataclass(frozen=True)
class Workbench:
    """A container that idles until a program is run in it."""

    client: Any
    container: Any
    environment: Mapping[str, str] = field(default_factory=dict)

    def put(self, places: Mapping[str, Path | bytes]) -> None:
        """Files, folders and texts at their absolute places."""
        if places:
            with tar_of_paths(places) as stream:
                self.container.put_archive("/", stream)

    def run(self, argv: list[str], deadline_s: float, **environment: str) -> Said:
        """The program's standard output and errors are joined, in their order."""
        command = ["sh", "-c", f"exec 2>&1; {UNTIL}", "sh", f"{deadline_s:g}", *argv]
        started = time.monotonic()
        ended = cells.run_process(
            self.client, self.container, command, deadline_s + GRACE_S, {**self.environment, **environment}
        )
        if ended.exit_code is None:
            raise EngineError(key=argv[0], found="it cannot be stopped in a container", todo="See the engine's log.")
        if ended.exit_code and no_space(ended.stdout):
            raise EngineError(found="no space left on the engine's disk", todo="Free some (`docker system df`).")
        late = ended.exit_code in {TIMED_OUT, KILLED} and time.monotonic() - started >= deadline_s
        output = ended.stdout + (OUT_OF_MEMORY if ended.exit_code == KILLED and not late else "")
        return Said(ended.exit_code, output, late)

    def pip(self, *words: str, deadline_s: float, **environment: str) -> Said:
        return self.run(["python", "-m", "pip", *words], deadline_s, **environment)


def open_builder(client: Any, owner: str, image_id: str, settings: PipSettings) -> Workbench:
    """With this machine's settings of pip, the network, and the cache."""
    environment = {
        **settings.environment,
        "PYTHONUNBUFFERED": "1",  # or errors come before what led to them
        "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
    }
    bench = _open(
        client,
        owner,
        image_id,
        environment,
        volumes={CACHE_VOLUME: {"bind": CACHE, "mode": "rw"}, wheels_volume(owner): {"bind": WHEELS, "mode": "rw"}},
        # pip would take what it built once for built here, and in no time.
        tmpfs={f"{CACHE}/pip/wheels": ""},
        network_mode="host" if settings.host_network else "bridge",
    )
    bench.put(dict(settings.files))
    return bench


def open_image(
    client: Any, owner: str, image_id: str, more_volumes: Mapping[str, str] = MappingProxyType({})
) -> Workbench:
    """The variant's own image as production has it, without a network; what was got for it is at WHEELS.

    `more_volumes` are places in the container by the volume's name.
    """
    volumes = {name: {"bind": place, "mode": "rw"} for name, place in more_volumes.items()}
    volumes[wheels_volume(owner)] = {"bind": WHEELS, "mode": "ro"}
    environment = {
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_ROOT_USER_ACTION": "ignore",
        "PIP_BREAK_SYSTEM_PACKAGES": "1",
    }
    return _open(client, owner, image_id, environment, volumes=volumes, network_mode="none")


def create_wheels_volume(client: Any, owner: str) -> None:
    client.volumes.create(wheels_volume(owner), labels={OWNER_LABEL: owner})


def wheels_volume(owner: str) -> str:
    return f"interlock-{owner}-wheels"


def _open(client: Any, owner: str, image_id: str, environment: Mapping[str, str], **options: Any) -> Workbench:
    try:
        memory = int(client.info()["MemTotal"] * SHARE_OF_MEMORY)
        container = client.containers.run(
            image_id,
            IDLE,
            entrypoint=[],
            user="root",
            init=True,
            detach=True,
            mem_limit=memory,
            memswap_limit=memory,
            pids_limit=PROCESSES,
            labels={OWNER_LABEL: owner},
            **options,
        )
    except DockerException as error:
        raise EngineError(found=f"the engine cannot start a container: {error}", todo="See the engine's log.") from None
    return Workbench(client, container, environment)
