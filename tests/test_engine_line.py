"""What is said of the engine that built and measured."""

from __future__ import annotations

import pytest

from interlock.model import engine_line

FACTS = {"version": "4.3.1", "storage_driver": "overlay"}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ({}, "Docker API 4.3.1, storage driver overlay, base image from a registry"),
        ({"name": "docker"}, "Docker API 4.3.1, storage driver overlay, base image from a registry"),
        ({"name": "podman"}, "Podman 4.3.1, storage driver overlay, base image from a registry"),
        ({"name": "host"}, "host: this machine itself, without containers"),
    ],
    ids=["recorded before there were names", "docker", "podman", "host"],
)
def test_the_engine_is_called_what_it_is(name: dict[str, str], line: str) -> None:
    assert engine_line({**FACTS, **name}, "base image from a registry") == line
