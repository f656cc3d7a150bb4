"""What experiments record, and what is said of the engine that built and measured."""

from __future__ import annotations

import pytest

from interlock.results.experiments import Subject, engine_line, host_line


def test_a_subject_in_a_mode_is_labelled_with_it() -> None:
    assert Subject(variant="a", image_id="i", mode="twin").label == "a+twin"
    assert Subject(variant="a", image_id="i").label == "a"


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


def test_the_machine_is_one_line_with_its_memory_in_gib() -> None:
    host = {"cores": 2, "cpu": "Example CPU", "memory_bytes": 8 * 2**30, "kernel": "6.18.0", "system": "Debian 13"}
    assert host_line(host) == "2 cores Example CPU, 8 GiB, Linux 6.18.0, Debian 13"
