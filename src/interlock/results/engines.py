"""The names of engines, apart from what is recorded of them: options need nothing else."""

from enum import StrEnum


class EngineName(StrEnum):
    """A container engine with Docker's API, or this machine itself."""

    DOCKER = "docker"
    PODMAN = "podman"
    HOST = "host"
