"""Who is counted, and what is subtracted; the engine's answers are made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from interlock.analysis.verdicts import Amount, compare_instructions
from interlock.engine.ended import Ended
from interlock.errors import UnsupportedHereError
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


class Counting:
    """A sandbox in which a process executes so many instructions for its start and for each loop."""

    def __init__(self) -> None:
        self.loops: list[str] = []

    def run(self, _sandbox: ScriptedSandbox, argv: list[str]) -> Ended:
        loops = int(argv[argv.index("--loops") + 1]) if "--loops" in argv else 1
        self.loops.append(str(loops))
        count = START + loops * PER_LOOP
        report = {"interlock": 1, "loops": loops, "inner_loops": UNITS, "values": [0.1], "metadata": {}}
        cost = make_cost(1.0).model_copy(update={"instructions": count})
        stdout = json.dumps(report) + "\n" + json.dumps({"interlock_process": cost.model_dump()}) + "\n"
        return make_ended(stdout)


def counted(probe: Probe, **changes: Any) -> tuple[Instructions, Counting]:
    engine = Counting()
    workload = make_workload(benchmarks=[make_benchmark("counted", **changes)])
    session = Session(make_resources(settings=make_settings(["base"])), workload, make_network(engine.run))
    track = Cell(session, Subject(variant="base", image_id="i")).tracks["counted"]
    return instructions.count_instructions(track, probe), engine


def test_a_program_is_counted_three_times_each_less_one_without_work() -> None:
    counts, engine = counted(COUNTERS, profile_loops=4)
    assert (counts.per_unit, counts.spread, counts.runs) == (PER_LOOP / UNITS, 0, 3)
    assert engine.loops == ["4", "0"] * 3


def test_without_a_counter_nothing_is_counted_and_it_says_why() -> None:
    with pytest.raises(UnsupportedHereError, match="no counters"):
        counted(NO_COUNTERS)


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [(1005, 1000, Amount.MORE), (995, 1000, Amount.FEWER), (1001, 1000, Amount.EQUAL), (1100, 1000, Amount.MORE)],
)
def test_half_a_per_cent_is_told_apart(mine: int, theirs: int, expected: Amount) -> None:
    first, second = (Instructions(per_unit=count, spread=0.0005, runs=2) for count in (mine, theirs))
    assert compare_instructions(first, second) == (mine / theirs, expected)


def test_what_differs_less_than_counting_again_is_equal() -> None:
    first, second = Instructions(per_unit=1.05, spread=0.04, runs=2), Instructions(per_unit=1, spread=0.02, runs=2)
    assert compare_instructions(first, second)[1] is Amount.EQUAL
