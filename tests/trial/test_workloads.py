"""A trial's checks as the workload of an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.catalog.services import ServiceAddress
from interlock.catalog.workloads import Workload
from interlock.measure.kinds.choosing import kind_of
from interlock.measure.kinds.command import Command
from interlock.trial.workloads import Checks, workload_of

ADDRESS = ServiceAddress(port=8000)


@pytest.mark.parametrize(
    ("checks", "name", "unit", "profiled"),
    [
        (Checks(address=ADDRESS, load=["wrk", "{url}"], test="true"), "load", "request", True),
        (Checks(address=ADDRESS, load=["curl", "{url}"]), "load", "load", True),
        (Checks(address=ADDRESS, test="true"), "start", "start", False),
        (Checks(test="pytest -q"), "tests", "run", True),
    ],
)
def test_a_load_decides_before_the_start_and_both_before_the_tests(
    checks: Checks, name: str, unit: str, profiled: bool
) -> None:
    found = workload_of(Path("/home/ada/My Service"), checks)
    (one,) = found.benchmarks
    assert (found.name, one.name, found.unit) == ("trial-my-service", name, unit)
    assert (one.profile_metric is not None) is profiled
    assert kind_of(found).needs_load is (checks.address is not None)
    assert isinstance(kind_of(found, one), Command) is (checks.address is None)
    assert Workload.model_validate_json(found.model_dump_json()) == found


def test_more_requests_per_second_are_better_and_tests_are_run_by_a_shell() -> None:
    (one,) = workload_of(Path("x"), Checks(address=ADDRESS, load=["wrk", "{url}"])).benchmarks
    assert one.metric.shown(0.001) == 1000
    (one,) = workload_of(Path("x"), Checks(test="pytest -q | tail")).benchmarks
    assert one.command == ["sh", "-c", "pytest -q | tail"]
