"""What builds and runs variants."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class EngineName(StrEnum):
    """A container engine with Docker's API, or this machine itself."""

    DOCKER = "docker"
    PODMAN = "podman"
    HOST = "host"


PRODUCTS = {EngineName.DOCKER: "Docker API", EngineName.PODMAN: "Podman"}


def engine_line(engine: Mapping[str, Any], built: str) -> str:
    """What an experiment, a build or a trial says of the engine that it recorded; `built` is of containers alone.

    Where no name is recorded it was Docker: there was no other.
    """
    name = EngineName(engine.get("name", EngineName.DOCKER))
    if name is EngineName.HOST:
        return "host: this machine itself, without containers"
    return f"{PRODUCTS[name]} {engine['version']}, storage driver {engine['storage_driver']}, {built}"
