"""What a workload of kind service must say, and no other may."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from interlock.catalog.workloads import WorkloadFile

LOAD = {"connections": 8, "warm_up_requests": 20, "quick_s": 1, "full_s": 10}
BENCHMARK: dict[str, Any] = {
    "name": "light",
    "expected": ["hello"],
    "rate_per_s": 100,
    "metric": {"label": "requests/s", "scale": 1, "inverse": True},
}


def service(benchmark: dict[str, Any] | None = None, **changes: Any) -> WorkloadFile:
    data: dict[str, Any] = {
        "summary": "a service",
        "kind": "service",
        "program": "service_app.py",
        "unit": "request",
        "deadline_s": 60,
        "quick": {"warmups": 0, "values": 1},
        "full": {"warmups": 0, "values": 1},
        "load": LOAD,
        "benchmarks": [{**BENCHMARK, **(benchmark or {})}],
    }
    return WorkloadFile.model_validate({key: value for key, value in (data | changes).items() if value is not None})


def test_a_service_has_a_load_a_rate_and_an_expected_answer() -> None:
    found = service()
    assert found.load is not None
    assert found.benchmarks[0].rate_per_s == 100


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"load": None}, r"'service'.*\[load\]"),
        (
            {"kind": "program", "benchmark": {"expected": [], "rate_per_s": None}},
            r"'service'.*\[load\]",
        ),
        ({"benchmark": {"rate_per_s": None}}, "rate_per_s"),
        ({"benchmark": {"expected": []}}, "'expected'"),
        ({"full": {"warmups": 1, "values": 2}}, r"'warmups'.*\b0\b"),
        ({"quick": {"warmups": 1, "values": 1}}, r"'warmups'.*\b0\b"),
        ({"load": {**LOAD, "quick_s": 0}}, r"load\.quick_s"),
    ],
)
def test_what_lacks_or_does_not_belong_is_said(changes: dict[str, Any], found: str) -> None:
    with pytest.raises(ValidationError, match=found):
        service(**changes)


def test_no_other_kind_has_a_rate() -> None:
    with pytest.raises(ValidationError, match="rate_per_s"):
        service({"expected": []}, kind="program", load=None)
