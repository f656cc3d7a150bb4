"""What builds and runs variants."""

from __future__ import annotations

from enum import StrEnum


class EngineName(StrEnum):
    """A container engine with Docker's API, or this machine itself."""

    DOCKER = "docker"
    PODMAN = "podman"
    HOST = "host"
