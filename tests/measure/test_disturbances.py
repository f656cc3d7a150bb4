"""What two samples of a machine say of the time in between."""

from __future__ import annotations

import os
import re
import time
from typing import Any

import pytest

from interlock.measure import disturbances
from interlock.measure.disturbances import RunningProcess, Sample

CELL = "5a4ea8518c24a2fc995400140401cbd38685534dd7f0dc817f211a2950c51581"
SHIM = f"/usr/bin/containerd-shim-runc-v2 -namespace moby -id {CELL} -address /var/run/containerd.sock"


def process(
    name: str = "make", *, parent: int = 1, own_s: float = 0.0, ended_s: float = 0.0, **more: Any
) -> RunningProcess:
    data: dict[str, Any] = {"started_s": 5.0, "command": ""} | more
    return RunningProcess(name=name, parent=parent, own_s=own_s, ended_children_s=ended_s, **data)


def test_this_machine_has_this_process() -> None:
    seen = disturbances.sample()
    assert 0 < seen.busy_s < seen.total_s
    assert seen.processes[os.getpid()].parent == os.getppid()
    assert 0 < seen.processes[os.getpid()].own_s <= time.process_time()


def test_a_quiet_machine_is_not_warned_of() -> None:
    quiet: dict[str, Any] = {"swapped_in_bytes": 4, "swapped_out_bytes": 5, "throttles": {"cpu0": 3}}
    before = Sample(0.0, total_s=100.0, busy_s=50.0, steal_s=1.0, **quiet)
    after = Sample(10.0, total_s=120.0, busy_s=60.5, steal_s=1.2, **quiet)
    assert disturbances.warnings(before, after, own_cpu_s=10.0) == []


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({"total_s": 100.0, "steal_s": 1.0}, {"total_s": 120.0, "steal_s": 1.22}, r"^1\.1% "),
        # Each CPU of a package counts its heat.
        (
            {"throttles": {"cpu0/package": 5, "cpu1/package": 5, "cpu0/core": 1}},
            {"throttles": {"cpu0/package": 8, "cpu1/package": 8, "cpu0/core": 2}},
            r"^\D* 3 times ",
        ),
        ({"swapped_in_bytes": 100}, {"swapped_in_bytes": 4196}, r"^4 kB .* 0 kB "),
        ({"swapped_out_bytes": 200}, {"swapped_out_bytes": 4296}, r"^0 kB .* 4 kB "),
        ({"busy_s": 50.0}, {"busy_s": 66.0}, r"60% of a core \(make 55%, sh 4%\)"),
    ],
    ids=["stolen time", "heat", "a page swapped in", "a page swapped out", "others"],
)
def test_what_disturbs_is_warned_of_with_its_figure(then: dict[str, Any], now: dict[str, Any], said: str) -> None:
    (warning,) = disturbances.warnings(Sample(0.0, **then), Sample(10.0, **now), 10.0, ["make 55%", "sh 4%"])
    assert re.search(said, warning)


def test_a_busy_machine_is_not_warned_of_if_the_experiments_own_share_is_unknown() -> None:
    before, after = Sample(0.0, busy_s=50.0), Sample(10.0, busy_s=66.0)
    assert disturbances.warnings(before, after, None) == []


def test_the_busiest_are_named_by_their_share_of_a_core_with_those_of_one_name_together() -> None:
    before = Sample(0.0, processes={1: process("old", own_s=70.0), 2: process("old", own_s=1.0)})
    after = Sample(
        10.0,
        processes={
            1: process("old", own_s=71.0),
            2: process("old", own_s=1.5),
            3: process("make", own_s=0.5, ended_s=6.0),
            4: process("sh", own_s=0.3),
            5: process("fourth", own_s=0.2),
            6: process("mine", own_s=9.0),
            7: process("dockerd", own_s=9.0),
        },
    )
    assert disturbances.busiest(before, after, own={6}) == ["make 65%", "old 15%", "sh 3%"]
    # What uses less than a hundredth of a core is not named.
    assert disturbances.busiest(Sample(0.0), Sample(10.0, processes={1: process("idle", own_s=0.09)}), own=()) == []


def test_a_process_id_that_is_used_again_starts_from_nothing() -> None:
    before = Sample(0.0, processes={9: process("long", own_s=100.0)})
    after = Sample(10.0, processes={9: process("short", own_s=2.0, started_s=900.0)})
    assert disturbances.busiest(before, after, own=()) == ["short 20%"]


def test_what_a_child_used_before_is_not_put_down_to_the_parent_that_it_ended_under() -> None:
    """A shell waits for a make and that for a compiler; both end in between."""
    before = Sample(
        0.0,
        processes={
            1: process("sh", parent=0, ended_s=5.0),
            2: process("make", parent=1, own_s=10.0, ended_s=200.0),
            3: process("cc1", parent=2, own_s=30.0),
        },
    )
    after = Sample(10.0, processes={1: process("sh", parent=0, ended_s=5.0 + 240.0 + 4.0)})
    assert disturbances.busiest(before, after, own=()) == ["sh 40%"]


def test_what_an_orphan_used_before_is_not_put_down_to_the_first_process() -> None:
    """A compiler outlives the make that started it; a container's init was said to have used 577 % of a core."""
    before = Sample(
        0.0,
        processes={
            1: process("init", parent=0, ended_s=5.0),
            2: process("sh", parent=1),
            3: process("make", parent=2, own_s=1.0),
            4: process("cc1", parent=3, own_s=300.0),
        },
    )
    sh = process("sh", parent=1, ended_s=1.0)  # make's
    after = Sample(10.0, processes={1: process("init", parent=0, ended_s=5.0 + 300.0 + 3.0), 2: sh})
    assert disturbances.busiest(before, after, own=()) == ["init 30%"]


def engine(own_s: float, ended_s: float, server_s: float, foreign_s: float) -> dict[int, RunningProcess]:
    """dockerd, a cell's shim with a server below it, and another container's shim with a job below that."""
    return {
        os.getpid(): process("interlock", parent=1, own_s=own_s),
        10: process("dockerd", parent=1, own_s=own_s),
        20: process("containerd-shim", parent=1, own_s=own_s, ended_s=ended_s, command=SHIM),
        21: process("docker-init", parent=20),
        22: process("nginx", parent=21, own_s=server_s),
        30: process("containerd-shim", parent=1, ended_s=foreign_s, command=SHIM.replace(CELL, "b" * 64)),
        31: process("job", parent=30, own_s=foreign_s),
    }


def test_what_is_in_the_experiments_containers_is_its_own_unless_a_supervisor_is_not_seen() -> None:
    after = Sample(0.0, processes=engine(0.0, 0.0, 0.0, 0.0))
    assert disturbances.own_processes(after, [CELL]) == {os.getpid(), 20, 21, 22}
    assert disturbances.own_processes(after, [CELL, "c" * 64]) is None


def test_each_supervisor_of_a_container_and_all_below_it_are_the_experiments_own() -> None:
    """Podman has one for each process that is started in a container: the measured ones counted as other programs'."""
    conmon = f"/usr/bin/conmon --api-version 1 -c {CELL} -u "
    podman = {
        50: process("conmon", parent=1, command=conmon + CELL),
        51: process("launch", parent=50),
        60: process("conmon", parent=1, command=conmon + "d" * 64),
        61: process("python", parent=60),
    }
    after = Sample(0.0, processes={os.getpid(): process("interlock"), **podman, 70: process("job")})
    assert disturbances.own_processes(after, [CELL]) == {os.getpid(), *podman}


@pytest.mark.parametrize(
    ("ended_s", "launched_s", "expected_s"), [(6.0, 5.0, 9.0), (0.0, 5.0, 8.0)], ids=["Docker", "Podman"]
)
def test_the_experiments_cpu_time_is_its_processes_and_the_engines(
    ended_s: float, launched_s: float, expected_s: float
) -> None:
    """Interlock, dockerd and the shim 0.5 s each, the server 1.5 s, and what ended in the cell."""
    before = Sample(0.0, processes=engine(1.0, 1.0, 1.0, 1.0))
    after = Sample(10.0, processes=engine(1.5, 1.0 + ended_s, 2.5, 9.0))
    own = disturbances.own_processes(after, [CELL])
    assert own is not None
    assert disturbances.experiments_cpu_s(before, after, own, launched_s) == pytest.approx(expected_s)


def test_a_disturbed_experiment_is_told_by_whom() -> None:
    before = Sample(0.0, busy_s=100.0, processes=engine(1.0, 1.0, 1.0, 1.0))
    after = Sample(10.0, busy_s=114.0, processes=engine(1.5, 7.0, 2.5, 6.0))
    (said,) = disturbances.disturbances(before, after, [CELL], launched_s=5.0)
    assert re.search(r"50%.*\(job 50%\)", said)


def test_what_a_removed_container_used_is_the_experiments_own_beside_what_ended_in_those_that_are_left() -> None:
    """Of a trial's services and its load only the larger one counted."""
    before = Sample(0.0, busy_s=100.0, processes=engine(1.0, 1.0, 1.0, 1.0))
    after = Sample(10.0, busy_s=113.0, processes=engine(1.5, 7.0, 2.5, 1.0))
    # 1.5 s of Interlock and the engine, 1.5 s of the server, 6 s of the load.
    assert disturbances.disturbances(before, after, [CELL], launched_s=0.0, removed_s=4.0) == []
    (said,) = disturbances.disturbances(before, after, [CELL], launched_s=4.0)
    assert "40%" in said


@pytest.mark.parametrize(("launched_s", "container"), [(None, CELL), (5.0, "c" * 64)])
def test_without_the_experiments_own_time_the_rest_is_still_told(launched_s: float | None, container: str) -> None:
    before = Sample(0.0, busy_s=100.0, processes=engine(1.0, 1.0, 1.0, 1.0))
    after = Sample(10.0, busy_s=114.0, swapped_in_bytes=8192, processes=before.processes)
    (sentence,) = disturbances.disturbances(before, after, [container], launched_s)
    assert sentence.startswith("8 kB were swapped in")


def test_more_slow_processes_than_trimming_takes_out_are_warned_of() -> None:
    calm, disturbed = [1.0, 1.01, 0.99, 1.0, 1.3, 1.0], [2.0, 2.0, 2.9, 2.0, 3.1, 2.0]
    assert disturbances.unsteady("queue", {"a": calm, "b": calm[::-1], "c": []}) == []
    (warning,) = disturbances.unsteady("queue", {"a": calm, "b": disturbed})
    assert all(part in warning for part in ("'queue'", " 1.2 times "))
    assert "(1 of 2 cells: b)" in warning


def test_where_most_cells_were_disturbed_a_few_are_named() -> None:
    disturbed = {f"v{number}": [2.0, 2.0, 2.9, 2.0, 3.1, 2.0] for number in range(9)}
    (warning,) = disturbances.unsteady("queue", disturbed)
    assert "(9 of 9 cells: v0, v1, v2, v3, v4 and 4 more)" in warning
