"""Which phase a second counts to."""

from __future__ import annotations

import time

import pytest

from interlock.measure.stopwatch import Phase, Stopwatch


def test_a_phase_within_another_stops_the_outer_ones_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    clock = Stopwatch()
    with clock.during(Phase.MEASURING):
        now_s = 2.0
        with clock.during(Phase.PREPARING):
            now_s = 5.0
        now_s = 6.0
    now_s = 100.0
    with clock.during(Phase.PROFILING):
        now_s = 107.0
    clock.add(Phase.PREPARING, 0.5)
    times = clock.times
    assert (times.preparing_s, times.measuring_s, times.profiling_s) == (3.5, 3.0, 7.0)
    assert times.total_s == 13.5


def test_an_error_stops_the_clock_too(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    clock = Stopwatch()

    def fail() -> None:
        nonlocal now_s
        now_s = 2.0
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"), clock.during(Phase.MEASURING):
        fail()
    now_s = 50.0
    assert clock.times.measuring_s == 2.0
