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


@given(st.integers(1, 100))
def test_all_builds_together_use_about_twice_the_cores(workers: int) -> None:
    jobs = build.make_jobs(workers)
    assert 1 <= jobs <= CORES
    assert jobs == 1 or (jobs - 1) * workers < 2 * CORES


def test_a_lonely_build_uses_every_core() -> None:
    assert build.make_jobs(build.worker_count(1)) == CORES
