"""Figures beside the metric, as their processes reported them."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.details import DetailFigure, details_of
from interlock.model import BenchmarkValues, Detail
from tests.builders import make_benchmark, make_values, make_workload


def values(**reported: list[float]) -> BenchmarkValues:
    """Three processes of two values of 10, 20 and 10 units."""
    return make_values([1.0, 1.0], [1.0, 1.0], [1.0, 1.0]).model_copy(
        update={"units": [10, 20, 10], "reported": reported}
    )


def detail(of: str = "work_user_s", **changes: Any) -> dict[str, Any]:
    return {"label": f"a {of}", "of": of, **changes}


def found(*details: dict[str, Any], measured: BenchmarkValues | None) -> tuple[DetailFigure | None, ...]:
    benchmark = make_benchmark(details=details)
    return details_of(make_workload(benchmarks=[benchmark]), benchmark, measured)


@pytest.mark.parametrize(
    ("per", "processes"),
    [("process", (6.0, 16.0, 4.0)), ("value", (3.0, 8.0, 2.0)), ("unit", (0.3, 0.4, 0.2))],
)
def test_a_figure_is_divided_by_what_it_is_per_in_its_own_process(per: str, processes: tuple[float, ...]) -> None:
    measured = values(work_user_s=[6.0, 16.0, 4.0])
    (one,) = found(detail(per=per), measured=measured)
    assert one
    assert one.processes == pytest.approx(processes)


def test_its_value_is_the_median_over_the_processes_and_its_ends_the_least_and_the_most() -> None:
    (one,) = found(detail(scale=1000), measured=values(work_user_s=[6.0, 16.0, 4.0]))
    assert one
    assert (one.value, one.low, one.high) == (6000, 4000, 16000)


def test_what_was_not_reported_is_none_and_leaves_the_others_their_places() -> None:
    first, second = found(detail("latency_s"), detail(), measured=values(work_user_s=[1.0, 1.0, 1.0]))
    assert first is None
    assert second
    assert second.detail == Detail.model_validate(detail())


def test_a_cell_without_values_has_none() -> None:
    assert found(detail(), detail("x"), measured=None) == (None, None)


def test_the_workloads_details_come_before_the_benchmarks_own() -> None:
    benchmark = make_benchmark(details=[detail("own")])
    workload = make_workload(details=[detail("shared")], benchmarks=[benchmark])
    shown = details_of(workload, benchmark, values(own=[1.0] * 3, shared=[2.0] * 3))
    assert [one.detail.of for one in shown if one] == ["shared", "own"]
