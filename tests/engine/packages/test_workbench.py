"""What ended a program of a workbench: its deadline, or it itself."""

from __future__ import annotations

import pytest

from interlock.engine.packages.workbench import KILLED, TIMED_OUT, was_late


@pytest.mark.parametrize("code", [TIMED_OUT, KILLED])
@pytest.mark.parametrize("took_s", [2.99999, 3.0, 13.2])
def test_a_program_that_timeout_ended_was_late_whichever_clock_is_a_little_faster(code: int, took_s: float) -> None:
    assert was_late(code, took_s, 3)


@pytest.mark.parametrize(("code", "took_s"), [(0, 3.0), (1, 5.0), (TIMED_OUT, 0.5), (KILLED, 2.8)])
def test_a_program_that_ended_by_itself_was_not(code: int, took_s: float) -> None:
    assert not was_late(code, took_s, 3)
