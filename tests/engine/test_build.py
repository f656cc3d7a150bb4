"""How many builds run at once, and with how many jobs each."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from interlock.engine import build

CORES = os.cpu_count() or 1


@given(st.integers(0, 100))
def test_there_is_at_least_one_builder_and_at_most_one_per_core_and_plan(plans: int) -> None:
    workers = build.worker_count(plans)
    assert 1 <= workers <= min(CORES, 4)
    assert workers <= max(1, plans)


def test_a_build_has_as_many_jobs_as_there_are_cores_however_many_run_beside_it() -> None:
    assert build.make_jobs() == CORES
