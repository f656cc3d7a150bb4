"""What a visit took."""

from __future__ import annotations

import json

from interlock.visits import Spent
from tests.builders import make_cost, make_ended


def printed(wall_s: float) -> str:
    return json.dumps({"interlock_process": make_cost(wall_s).model_dump()}) + "\n"


def test_a_process_that_was_killed_took_its_deadline_and_nobody_knows_what_cpu_time() -> None:
    spent = Spent()
    for ended in (make_ended(printed(1.5)), make_ended(timed_out=True), make_ended(printed(1.5))):
        spent.add(ended, deadline_s=20)
    assert (spent.in_processes_s, spent.cpu_s) == (1.5 + 20 + 1.5, None)
