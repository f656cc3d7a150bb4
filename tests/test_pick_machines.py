"""How far this machine is from an experiment's."""

from __future__ import annotations

from typing import Any

from interlock import host
from interlock.model import Apart
from interlock.pick.machines import Here, apart, described
from tests.builders import make_experiment

THERE: dict[str, Any] = {
    "folder": "box",
    "name": "box",
    "cores": 2,
    "cpu": "Example CPU 9000",
    "memory_bytes": 8 * 2**30,
    "kernel": "6.18.0",
    "system": "Debian 13",
    "load_1min": 0.1,
    "engine": {"name": "docker", "version": "28.0", "storage_driver": "overlay2"},
}


def here(engine: dict[str, Any] | None = None, **changes: Any) -> Here:
    host_facts = {key: value for key, value in THERE.items() if key != "engine"} | changes
    return Here(host_facts, THERE["engine"] if engine is None else engine)


def test_a_machine_is_described_in_one_line() -> None:
    assert described(THERE) == (
        "2 cores, Example CPU 9000, 8 GiB, Linux 6.18.0, Debian 13, docker 28.0, storage driver overlay2"
    )


def test_the_same_machine_by_another_name_and_load_is_not_apart() -> None:
    assert apart(THERE, here(name="other", load_1min=7.5)) == []


def test_what_makes_figures_differ_is_named_with_both_sides() -> None:
    elsewhere = here({"name": "podman", "version": "5.4", "storage_driver": "vfs"}, cores=8, kernel="6.1.0")
    assert apart(THERE, elsewhere) == [
        Apart(what="cores", there="2", here="8"),
        Apart(what="kernel", there="6.18.0", here="6.1.0"),
        Apart(what="engine", there="docker 28.0", here="podman 5.4"),
        Apart(what="storage driver", there="overlay2", here="vfs"),
    ]


def test_memory_differs_by_whole_gibibytes() -> None:
    assert apart(THERE, here(memory_bytes=8 * 2**30 - 4096)) == []
    assert apart(THERE, here(memory_bytes=16 * 2**30)) == [Apart(what="memory", there="8 GiB", here="16 GiB")]


def test_what_one_side_does_not_know_is_not_compared_and_a_missing_engine_is_said() -> None:
    without = Here({"cores": 2}, None)
    assert apart(THERE, without) == []
    assert without.notes == ["no container engine answers here: its version and storage driver are not compared"]
    assert here().notes == []


def test_the_facts_of_this_machine_and_of_an_experiment_have_the_same_names() -> None:
    found = apart(make_experiment().host, Here(host.facts()))
    assert {one.what for one in found} >= {"processor"}
