"""How much a process takes, in which sandboxes it runs, and to whom they are left."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.measure.cells import Cell, shares_slots
from interlock.measure.sessions import Session
from interlock.results.experiments import Subject
from tests.builders import METRIC, make_benchmark, make_network, make_resources, make_settings, make_workload

SUBJECT = Subject(variant="cpython-2.7", image_id="sha256:1")


@pytest.mark.parametrize(
    ("rows", "quick", "values"), [(15, True, [1, 2, 4, 24]), (16, True, [1, 2, 3, 12]), (16, False, [9, 9, 9, 9])]
)
def test_of_many_rows_a_quick_process_takes_half_of_its_values(rows: int, quick: bool, values: list[int]) -> None:
    settings = make_settings([f"v{number}" for number in range(rows)]).model_copy(update={"quick": quick})
    full = {"warmups": 1, "values": 9}
    found = [
        Session(
            make_resources(settings=settings),
            make_workload(quick={"warmups": 1, "values": given}, full=full),
            make_network(),
        ).repetition
        for given in (1, 2, 4, 24)
    ]
    assert [take.values for take in found] == values


def test_a_benchmark_of_shorter_values_takes_so_many_times_as_many_warm_ups_and_values() -> None:
    session = Session(
        make_resources(settings=make_settings(["v0", "v1"])),
        make_workload(
            quick={"warmups": 1, "values": 10, "rounds_limit": 8},
            full={"warmups": 2, "values": 24},
            benchmarks=[make_benchmark("long"), make_benchmark("short", values_factor=5)],
        ),
        make_network(),
    )
    tracks = Cell(session, SUBJECT).tracks
    assert tracks["long"].take == session.repetition
    take = tracks["short"].take
    assert take.values == 5 * session.repetition.values
    assert take.warmups == 5 * session.repetition.warmups
    assert take.rounds_limit == session.repetition.rounds_limit


@pytest.mark.parametrize(("benchmarks", "on_volume"), [(["hot"], False), (["hot", "cold"], True)])
def test_hot_and_cold_read_the_interpreter_from_one_file_system(benchmarks: list[str], on_volume: bool) -> None:
    network = make_network()
    workload = make_workload(benchmarks=[make_benchmark(name, cold=name == "cold") for name in benchmarks])
    Cell(Session(make_resources(workspace=network), workload, network), SUBJECT).slot()
    assert [opened.prefix_on_volume for opened in network.surroundings] == [on_volume]


def test_a_workload_goes_on_in_the_sandboxes_of_the_one_before_with_their_agents() -> None:
    resources = make_resources()
    first, second = (Session(resources, make_workload(name), make_network()) for name in ("locks", "startup"))
    cell, again = Cell(first, SUBJECT), Cell(second, SUBJECT)
    slot = cell.slot()
    slot.agent = slot.sandbox.start_agent()
    cell.leave()
    assert again.slot().sandbox is slot.sandbox
    assert again.slot().agent is slot.agent
    # The baseline and its twin are of one image, and each has a sandbox of its own.
    assert Cell(second, SUBJECT).slot().sandbox is not slot.sandbox
    # Another image is another sandbox.
    again.leave()
    other = Cell(second, SUBJECT.model_copy(update={"image_id": "sha256:2"}))
    assert other.slot().sandbox is not slot.sandbox


def test_a_cell_has_slots_in_sandboxes_of_their_own_and_leaves_them_all() -> None:
    session = Session(make_resources(), make_workload(), make_network())
    cell = Cell(session, SUBJECT)
    slots = [cell.slot(number) for number in range(3)]
    assert slots == cell.slots
    assert len({id(slot.sandbox) for slot in slots}) == 3
    assert cell.slot(2) is slots[2]
    cell.leave()
    again = Cell(session, SUBJECT)
    assert {id(again.slot(number).sandbox) for number in range(3)} == {id(slot.sandbox) for slot in slots}


@pytest.mark.parametrize(
    "changes",
    [
        {"benchmarks": [make_benchmark(arguments=["--into", "{scratch}/x"])]},
        {"benchmarks": [make_benchmark(set_up=["x.py"])]},
        {"benchmarks": [make_benchmark(cold=True)]},
        {"rights": ["root"]},
        {"kind": "pyperf", "benchmarks": [], "metric": METRIC},
        {"server": {"environment": {}}},
    ],
)
def test_what_a_workload_may_leave_in_a_sandbox_no_other_one_finds(changes: dict[str, Any]) -> None:
    resources = make_resources()
    workload = make_workload("own", **changes)
    own = Session(resources, workload, make_network(), shares_slots=shares_slots(workload))
    plain = Session(resources, make_workload("plain"), make_network())
    for before, after in ((own, plain), (plain, own)):
        cell = Cell(before, SUBJECT)
        left = cell.slot().sandbox
        cell.leave()
        assert Cell(after, SUBJECT).slot().sandbox is not left
