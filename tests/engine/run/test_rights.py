"""What containers may do: cells nothing, installations what files need."""

from __future__ import annotations

import pytest

from interlock.catalog.types import SCRATCH
from interlock.engine.protocol import Surroundings
from interlock.engine.run import rights


def test_a_cell_has_no_right_and_writes_to_memory_alone() -> None:
    options = rights.of_cell(Surroundings())
    assert (options["cap_drop"], options.get("cap_add")) == (["ALL"], None)
    assert options["security_opt"] == ["no-new-privileges"]
    assert options["read_only"]
    assert options["user"].split(":")[0] not in {"0", "root", ""}
    assert set(options["tmpfs"]) == {SCRATCH, "/tmp"}
    assert all("size=" in text for text in options["tmpfs"].values())
    assert options["pids_limit"] == rights.PROCESSES
    assert options["log_config"]["Type"] == "none"
    assert {one["Name"]: one["Hard"] for one in options["ulimits"]} == rights.ULIMITS
    # Podman exchanges the limits that are not given.
    assert rights.ULIMITS.keys() == {"fsize", "nofile", "nproc"}


def test_what_a_workload_asks_for_it_has_and_no_capability_with_it() -> None:
    root = rights.of_cell(Surroundings(rights=("root",)))
    assert (root["user"], root["read_only"], root["cap_drop"]) == (rights.ROOT, True, ["ALL"])
    writable = rights.of_cell(Surroundings(rights=("writable-root",)))
    assert (writable["user"], writable["read_only"]) == (rights.USER, False)


@pytest.mark.parametrize("right", ["SYS_ADMIN", "NET_ADMIN", "NET_RAW", "MKNOD", "SYS_CHROOT", "SYS_PTRACE"])
def test_an_installation_has_what_files_need_and_nothing_of_the_machine(right: str) -> None:
    options = rights.of_installation()
    assert options["log_config"]["Config"].keys() == {"max-size"}
    assert options["cap_drop"] == ["ALL"]
    assert right not in options["cap_add"]
