"""What happens to a workload's cells before and after their rounds."""

from __future__ import annotations

import dataclasses

import pytest

from interlock.catalog.variants import Gil
from interlock.measure import workload as workloads
from interlock.measure.cells import Cell
from interlock.measure.sessions import Interpreters, Session
from interlock.results.experiments import Facts, State, Subject
from tests.builders import OK, make_benchmark, make_facts, make_network, make_resources, make_workload

FACTS = {"a": make_facts(gil="off"), "a+locked": make_facts(gil="on")}


@pytest.mark.parametrize(
    ("mode", "declared", "facts", "expected"),
    [
        (None, None, FACTS, Gil.OFF),
        ("twin", None, FACTS, Gil.OFF),
        ("locked", None, FACTS, Gil.ON),
        ("locked", Gil.ON, {}, Gil.ON),
        (None, None, {}, None),
    ],
)
def test_programs_must_start_with_the_gil_as_the_mode_declares_or_the_interpreter_says(
    mode: str | None, declared: Gil | None, facts: dict[str, Facts], expected: Gil | None
) -> None:
    known = Interpreters(facts=dict(facts), silent={"a", "a+locked"} - facts.keys())
    session = Session(make_resources(known=known), make_workload(), make_network())
    cells = [
        Cell(session, Subject(variant="a", image_id="i", mode=name, gil=declared if name == mode else None))
        for name in (None, "twin", "locked")
    ]
    workloads._make_ready(session, cells)
    assert {cell.gil for cell in cells if cell.subject.mode == mode} == {expected}


def test_a_mode_that_takes_no_effect_fails_in_every_benchmark_before_it_is_timed() -> None:
    workload = make_workload(benchmarks=[make_benchmark("one"), make_benchmark("two")])
    session = Session(make_resources(), workload, make_network())
    states = []
    for gil in (None, Gil.ON):
        cell = Cell(session, Subject(variant="a", image_id="i", gil=gil))
        workloads.fail_without_mode(cell, make_facts(gil="off"))
        states.append([track.outcome.state for track in cell.tracks.values()])
    assert states == [[State.OK] * 2, [State.FAILED] * 2]


@pytest.mark.parametrize(
    ("prefix", "can_evict", "state", "notes"),
    [
        ("/usr/local", True, State.OK, 0),
        ("/home/me/prefix", False, State.UNSUPPORTED, 0),
        ("/usr", True, State.UNSUPPORTED, 1),
        ("/usr/localish", True, State.UNSUPPORTED, 1),
    ],
)
def test_a_cold_benchmark_needs_the_library_on_a_volume_and_says_if_it_is_not(
    prefix: str, can_evict: bool, state: State, notes: int
) -> None:
    network = dataclasses.replace(make_network(), can_evict=can_evict)
    workload = make_workload(benchmarks=[make_benchmark("hot"), make_benchmark("cold", cold=True)])
    session = Session(make_resources(programs={str(workload.program): b""}), workload, network)
    cell = Cell(session, Subject(variant="a", image_id="i"))
    workloads.exclude_impossible(cell, make_facts(prefix=prefix))
    assert cell.tracks["cold"].outcome.state is state
    assert cell.tracks["hot"].outcome == OK
    assert len(cell.notes) == notes
