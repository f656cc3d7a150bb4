"""Whether a host is of its kind."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.fleet.kinds import refusal
from interlock.fleet.record import Kind

KIND = Kind(name="epyc-2", cpu="AMD EPYC", cores=2, kernel="6.18.0")
FACTS: dict[str, Any] = {"cpu": "AMD EPYC", "cores": 2, "kernel": "6.18.0", "memory_bytes": 8}


def test_a_host_with_the_facts_of_its_kind_is_not_refused() -> None:
    assert refusal(KIND, FACTS) == ""


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cores": 4}, "it is not of the kind 'epyc-2': cores '4' instead of '2'"),
        ({"cpu": "Xeon"}, "it is not of the kind 'epyc-2': cpu 'Xeon' instead of 'AMD EPYC'"),
        (
            {"kernel": "6.1", "cores": 4},
            "it is not of the kind 'epyc-2': cores '4' instead of '2', kernel '6.1' instead of '6.18.0'",
        ),
    ],
)
def test_a_host_with_other_facts_is_refused_in_one_sentence(change: dict[str, Any], said: str) -> None:
    assert refusal(KIND, FACTS | change) == said
