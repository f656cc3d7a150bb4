"""What happens to a workload's cells before and after their rounds."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from interlock.catalog.variants import Gil, Surroundings
from interlock.measure import workload as workloads
from interlock.measure.cells import Cell, Session
from interlock.results.experiments import Facts, State, Subject
from tests.builders import OK, make_benchmark, make_facts, make_network, make_resources, make_workload

SANDBOX = make_network().open_limits_sandbox()
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
    subject = Subject(variant="a", image_id="i", mode=mode, gil=declared)
    assert workloads._gil_at_start(subject, facts) == expected


def test_a_mode_that_takes_no_effect_fails_in_every_benchmark_before_it_is_timed() -> None:
    workload = make_workload(benchmarks=[make_benchmark("one"), make_benchmark("two")])
    plain, locked = (Cell(Subject(variant="a", image_id="i", gil=gil), SANDBOX) for gil in (None, Gil.ON))
    for cell in (plain, locked):
        workloads._fail_without_mode(workload, cell, make_facts(gil="off"))
    assert plain.outcomes == {}
    assert [locked.outcomes[name].state for name in ("one", "two")] == [State.FAILED, State.FAILED]
    assert not any(locked.goes_on(benchmark) for benchmark in workload.benchmarks)


@pytest.mark.parametrize(
    ("prefix", "interpreter", "can_evict", "state", "notes"),
    [
        ("/usr/local", None, True, State.OK, 0),
        ("/usr/local", "image", True, State.UNSUPPORTED, 0),
        ("/home/me/prefix", None, False, State.UNSUPPORTED, 0),
        ("/usr", None, True, State.UNSUPPORTED, 1),
        ("/usr/localish", None, True, State.UNSUPPORTED, 1),
    ],
)
def test_a_cold_benchmark_needs_the_library_on_a_volume_and_says_if_it_is_not(
    prefix: str, interpreter: Any, can_evict: bool, state: State, notes: int
) -> None:
    network = dataclasses.replace(make_network(), can_evict=can_evict)
    workload = make_workload(benchmarks=[make_benchmark("hot"), make_benchmark("cold", cold=True)])
    cell = Cell(Subject(variant="a", image_id="i", surroundings=Surroundings(interpreter=interpreter)), SANDBOX)
    resources = make_resources(workspace=network, programs=frozenset({workload.program}))
    workloads._exclude_impossible(Session(resources, workload, network), cell, make_facts(prefix=prefix))
    assert cell.outcomes.get("cold", OK).state is state
    assert "hot" not in cell.outcomes
    assert len(cell.notes) == notes
