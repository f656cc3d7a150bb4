"""The connection to the container engine, and its errors in words that say what to do."""

from __future__ import annotations

import os
import re
from typing import Any

import docker
from docker.errors import DockerException

from interlock.errors import EngineError

# A build step may be silent for minutes (the profile run of a release build).
READ_TIMEOUT_S = 3600

ERRNO = re.compile(r"\[Errno \d+\] ([^'\")]+)")
QUOTED = re.compile(r"'([^']+)'")

OWNER_LABEL = "interlock.experiment"


def connect() -> Any:
    """A docker SDK client whose engine answers; EngineError says why not and what to do."""
    try:
        client = docker.from_env(timeout=READ_TIMEOUT_S)
        client.ping()
    except DockerException as error:
        raise _explain(str(error)) from None
    return client


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
        todo="Start Docker (`systemctl start docker`, or `dockerd`), or set DOCKER_HOST to an engine that runs.",
    )


def _last_cause(message: str) -> str:
    """The system's own words, which the SDK wraps several times."""
    found = ERRNO.findall(message) or QUOTED.findall(message) or [message]
    return str(found[-1]).strip()


def engine_facts(client: Any) -> dict[str, Any]:
    """What an experiment records of the engine."""
    info = client.info()
    return {
        "name": "docker",
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
