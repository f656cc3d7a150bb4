"""What a run of a workload's service is made of: what its program reports, and what its turns under load have shown."""

from __future__ import annotations

import json
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.engine.protocol import CpuUsed
from interlock.measure.kinds.service import Running, Service, Stay, Turn
from interlock.measure.services import FixedRateRun, WrkRun
from interlock.measure.tracks import Result
from interlock.results.experiments import ProgramOutput
from tests.builders import OK, make_benchmark, make_cost, make_ended, make_workload, present

TURN = Turn(
    FixedRateRun(latencies_us=[1000] * 10, unanswered=0, bad_answers=0, broken=0),
    WrkRun(100, 50.0, {}, 0, {}),
    CpuUsed(0.6, 0.2),
    10_000_000,
)


@pytest.mark.parametrize("turns", [1, 3])
def test_the_cpu_time_of_a_service_is_that_of_its_load_however_many_turns_it_had(turns: int) -> None:
    """That of one turn was the program's own, of its start, its warm-up and the load at a fixed rate as well."""
    output = ProgramOutput(interlock=1, loops=1, values=[30.0], cpu=[9.0])
    ended = make_ended(json.dumps({"interlock_process": make_cost().model_dump()}) + "\n")
    track: Any = SimpleNamespace(name="known")
    run: Future[Result] = Future()
    run.set_result(Result(track, OK, ended, output))
    anything: Any = None
    result = Stay(Running(track, anything, anything, "http://x/", run), [TURN] * turns).result()
    made = present(Service(make_workload(), make_benchmark()).run_of(result))
    figures = made.get_metadata()
    assert made.values == pytest.approx((1 / 50,) * turns)
    of_work = [figures[f"interlock_work_{name}_s"] for name in ("cpu", "user", "sys")]
    assert of_work == pytest.approx([0.8 * turns, 0.6 * turns, 0.2 * turns])
