"""The names of engines, in a module of their own because options need nothing else."""

from enum import StrEnum


class EngineName(StrEnum):
    """A container engine with Docker's API, or this machine itself."""

    DOCKER = "docker"
    PODMAN = "podman"
    HOST = "host"
