"""What Cachegrind prints, who is counted how, and what is subtracted; the engine's answers are made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.analysis.verdicts import Amount, compare_instructions
from interlock.engine.protocol import Ended
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure import instructions
from interlock.measure.cells import Cell, Session
from interlock.results.experiments import Subject
from interlock.results.profiles import Instructions, Method, Probe
from tests.builders import (
    ScriptedSandbox,
    make_benchmark,
    make_cost,
    make_ended,
    make_network,
    make_resources,
    make_settings,
    make_workload,
)

COUNTERS = Probe(method=Method.BPF)
NO_COUNTERS = Probe(method=Method.BPF, no_instructions="no counters")
START, PER_LOOP, UNITS = 5_000_000, 3_000_000, 1000


@pytest.mark.parametrize("printed", ["==8== I   refs:      188,930,513", "==8== I refs: 188,930,513\n==8== more"])
def test_the_count_is_read_in_the_words_of_old_and_new_releases(printed: str) -> None:
    assert instructions.parse_cachegrind(printed) == 188_930_513


def test_no_count_is_an_error_with_its_last_line() -> None:
    with pytest.raises(WorkloadError) as raised:
        instructions.parse_cachegrind("valgrind: failed\nto start")
    assert "to start" in raised.value.found


class Counting:
    """A sandbox in which a process executes so many instructions for its start and for each loop."""

    def __init__(self) -> None:
        self.loops: list[str] = []
        self.simulated = 0

    def run(self, _sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        loops = int(argv[argv.index("--loops") + 1]) if "--loops" in argv else 1
        self.loops.append(str(loops))
        count = START + loops * PER_LOOP
        self.simulated += "/interlock/valgrind/cachegrind" in argv
        report = {"interlock": 1, "loops": loops, "inner_loops": UNITS, "values": [0.1], "metadata": {}}
        cost = make_cost(1.0).model_copy(update={"instructions": count})
        stdout = json.dumps(report) + "\n" + json.dumps({"interlock_process": cost.model_dump()}) + "\n"
        return make_ended(stdout, f"==1== I refs: {count:,}")


def counted(probe: Probe, *, quick: bool = False, **changes: Any) -> tuple[Instructions, Counting]:
    engine = Counting()
    settings = make_settings(["base"]).model_copy(update={"quick": quick})
    workload = make_workload(benchmarks=[make_benchmark("counted", **{"threads": "one", **changes})])
    session = Session(make_resources(settings=settings), workload, make_network(engine.run))
    track = Cell(session, Subject(variant="base", image_id="i")).tracks["counted"]
    return instructions.count_instructions(track, probe), engine


def test_without_a_counter_one_thread_is_simulated_until_there_is_enough_to_count() -> None:
    found, engine = counted(NO_COUNTERS)
    assert (found.per_unit, found.method, found.runs) == (PER_LOOP / UNITS, "cachegrind", 2)
    assert engine.loops[:3] == ["0", "1", "10"]
    assert engine.simulated == len(engine.loops)


def test_with_a_counter_nothing_is_simulated() -> None:
    found, engine = counted(COUNTERS, profile_loops=4)
    assert (found.per_unit, found.method, engine.simulated) == (PER_LOOP / UNITS, "counter", 0)
    assert set(engine.loops) == {"0", "4"}


@pytest.mark.parametrize(("quick", "changes"), [(True, {}), (False, {"threads": "many"})])
def test_threads_and_quick_runs_are_not_simulated(quick: bool, changes: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedHereError) as raised:
        counted(NO_COUNTERS, quick=quick, **changes)
    assert "no counters" in raised.value.found


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [(1005, 1000, Amount.MORE), (995, 1000, Amount.FEWER), (1001, 1000, Amount.EQUAL), (1100, 1000, Amount.MORE)],
)
def test_half_a_per_cent_is_told_apart(mine: int, theirs: int, expected: Amount) -> None:
    one, other = (Instructions(per_unit=count, spread=0.0005, runs=2) for count in (mine, theirs))
    assert compare_instructions(one, other) == (mine / theirs, expected)


def test_what_differs_less_than_counting_again_is_equal() -> None:
    one, other = Instructions(per_unit=1.05, spread=0.04, runs=2), Instructions(per_unit=1, spread=0.02, runs=2)
    assert compare_instructions(one, other)[1] is Amount.EQUAL


def test_instructions_without_a_digit_are_none() -> None:
    with pytest.raises(WorkloadError):
        instructions.parse_cachegrind("==7== I   refs:      ,,,\n")
