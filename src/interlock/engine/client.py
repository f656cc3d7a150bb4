"""The connection to the container engine, and its errors in words that say what to do."""

from __future__ import annotations

import os
import re
from typing import Any

import docker
from docker.errors import DockerException

from interlock.engine import podman
from interlock.errors import EngineError
from interlock.model import EngineName

# A build step may be silent for minutes (the profile run of a release build).
READ_TIMEOUT_S = 3600

ERRNO = re.compile(r"\[Errno \d+\] ([^'\")]+)")
QUOTED = re.compile(r"'([^']+)'")

ENGINE = "INTERLOCK_ENGINE"
OWNER_LABEL = "interlock.experiment"


def connect(engine: EngineName | None = None) -> Any:
    """A docker SDK client whose engine answers; EngineError says why not and what to do.

    Without a name it is what INTERLOCK_ENGINE names, or Docker, or whatever DOCKER_HOST names; where nobody answers and
    nothing was named, Podman.
    """
    engine = engine or _named()
    if engine is EngineName.HOST:
        raise EngineError(
            key="--engine", found="'host' has no containers, and this needs them", todo="Choose docker or podman."
        )
    if engine is EngineName.PODMAN:
        return _connect(podman.address())
    try:
        return _connect(None)
    except EngineError:
        if engine is not None or "DOCKER_HOST" in os.environ or not podman.installed():
            raise
    return _connect(podman.address())


def _named() -> EngineName | None:
    name = os.environ.get(ENGINE)
    if not name:
        return None
    if name not in list(EngineName):
        raise EngineError(key=ENGINE, found=f"'{name}' is no engine", todo=f"Set it to {', '.join(EngineName)}.")
    return EngineName(name)


def _connect(address: str | None) -> Any:
    """The client of this address, or of the environment's."""
    try:
        client = (
            docker.DockerClient(address, timeout=READ_TIMEOUT_S) if address else docker.from_env(timeout=READ_TIMEOUT_S)
        )
        client.ping()
    except DockerException as error:
        raise _explain(str(error)) from None
    return client


def name_of(client: Any) -> EngineName:
    """Which engine answers: the same API has two."""
    parts = [part.get("Name", "") for part in client.version().get("Components") or []]
    return EngineName.PODMAN if any("podman" in part.lower() for part in parts) else EngineName.DOCKER


def _explain(message: str) -> EngineError:
    where = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if "Permission denied" in message or "PermissionError" in message:
        return EngineError(
            file=where,
            found="this user may not talk to the container engine (permission denied)",
            todo="Add the user to the group 'docker' and log in again, or run as root.",
        )
    return EngineError(
        file=where,
        found=f"no container engine answers ({_last_cause(message)})",
        todo="Start Docker (`systemctl start docker`, or `dockerd`), install podman, set DOCKER_HOST to an engine that "
        "runs, or do without containers (--engine host).",
    )


def _last_cause(message: str) -> str:
    """The system's own words, which the SDK wraps several times."""
    found = ERRNO.findall(message) or QUOTED.findall(message) or [message]
    return str(found[-1]).strip()


def engine_facts(client: Any) -> dict[str, Any]:
    """What an experiment records of the engine."""
    info = client.info()
    return {
        "name": name_of(client).value,
        "version": info.get("ServerVersion", ""),
        "storage_driver": info.get("Driver", ""),
        "cgroup_version": info.get("CgroupVersion", ""),
        "cpus": info.get("NCPU", 0),
        "memory_bytes": info.get("MemTotal", 0),
        "architecture": info.get("Architecture", ""),
        "data_root": info.get("DockerRootDir", ""),
    }


def no_space(message: str) -> bool:
    """Whether the engine's disk is full; curl has words of its own for it."""
    return "no space left on device" in message.lower() or "curl: (23)" in message


def put_tag(image: Any, name: str) -> None:
    """Names the image; in two words, because Podman takes no tag within a name."""
    repository, _, tag = name.rpartition(":")
    image.tag(repository, tag)
