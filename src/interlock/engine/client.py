"""The connection to the container engine, and its errors in words that say what to do."""

from __future__ import annotations

import os
from typing import Any

import docker
from docker.errors import DockerException

from interlock.errors import EngineError

# A build step may be silent for minutes (the profile run of a release build).
READ_TIMEOUT_S = 3600

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
    """The innermost of the SDK's nested messages."""
    return message.rsplit("(", 1)[-1].strip("()' ") or message


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
    return "no space left on device" in message.lower()
