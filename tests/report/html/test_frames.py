"""Tables and findings as flat records."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from interlock.analysis import comparison
from interlock.report.html import frames as figures
from interlock.report.html.frames import Frame, Record
from tests.builders import make_experiment, make_values
from tests.reports import VARIANTS, example


@cache
def example_frames() -> dict[str, Frame]:
    return dict(figures.frames(example()[1]))


def one(frame: str, **where: Any) -> Record:
    (found,) = [record for record in example_frames()[frame] if where.items() <= record.items()]
    return found


def test_a_ratio_has_its_interval_its_value_and_its_control() -> None:
    record = one("ratios", variant="cpython-2.7-pth", benchmark="locks uncontended")
    assert record["low"] < record["ratio"] < record["high"]
    assert record["ratio"] == pytest.approx(7.5, rel=0.01)
    assert record["value_text"] == "750 ±1%"
    assert record["control_text"].endswith("slower than cpython-3.14")


def test_the_ends_of_one_round_are_open() -> None:
    experiment = make_experiment(["cpython-3.13", "cpython-3.14t"])
    values = {("cpython-3.13", "locks"): {"uncontended": make_values([1.0])}}
    values |= {("cpython-3.14t", "locks"): {"uncontended": make_values([2.0])}}
    frames = figures.frames(comparison.tables(experiment, values, {}))
    record = frames["ratios"][1]
    assert (record["ratio"], record["low"], record["high"]) == (2.0, None, None)
    assert record["text"] == "2.000x [one round]"


def test_calls_are_per_unit_of_work() -> None:
    assert one("calls", call="futex")["calls"] == pytest.approx(500 / 1000 * 1e6)


def test_calls_of_other_phases_than_the_work_are_not_among_them() -> None:
    assert {record["call"] for record in example_frames()["calls"]} == {"futex", "read"}


def calls_of(**counts: dict[str, float]) -> Frame:
    return [
        {"benchmark": benchmark, "variant": "v", "call": call, "calls": count}
        for benchmark, calls in counts.items()
        for call, count in calls.items()
    ]


def test_calls_have_a_colour_by_the_room_that_they_take_in_any_chart() -> None:
    many = {f"call{number:02}": 10.0 for number in range(12)}
    named = figures.top_calls(calls_of(first={**many, "futex": 1.0, "big": 900.0}, second={"rare": 0.001}))
    assert named[:3] == ["futex", "rare", "big"]
    assert len(named) == 9


def test_the_twin_is_no_row() -> None:
    assert figures.variant_names(example()[0]) == VARIANTS
