"""What the kernel counted of a container: CPU time and memory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.accounting import CpuUsed, parse_cpu_used, parse_memory_bytes
from interlock.errors import WorkloadError

SECOND = st.integers(0, 10**6)


def test_cgroup_v2_names_its_microseconds() -> None:
    text = "usage_usec 3500000\nuser_usec 2500000\nsystem_usec 1000000\nnr_periods 0\n"
    assert parse_cpu_used(text) == CpuUsed(2.5, 1.0)


def test_cgroup_v1_has_nanoseconds_in_two_files() -> None:
    assert parse_cpu_used("2500000000\n1000000000\n") == CpuUsed(2.5, 1.0)


@given(SECOND, SECOND, SECOND, SECOND)
def test_what_was_used_in_between_is_the_difference(user: int, system: int, more_user: int, more_system: int) -> None:
    before = parse_cpu_used(f"user_usec {user}\nsystem_usec {system}\n")
    after = parse_cpu_used(f"user_usec {user + more_user}\nsystem_usec {system + more_system}\n")
    found = after.since(before)
    assert found.user_s == pytest.approx(more_user / 1e6)
    assert found.sys_s == pytest.approx(more_system / 1e6)


@pytest.mark.parametrize("text", ["", "cat: no such file\n", "1\n", "user_usec 1\n"])
def test_a_kernel_that_shows_none_is_an_error(text: str) -> None:
    with pytest.raises(WorkloadError, match="no CPU time"):
        parse_cpu_used(text)


@pytest.mark.parametrize("text", ["cache 9\nrss 1\ntotal_rss 4096\ntotal_cache 9\n", "anon 4096\nfile 9\n"])
def test_memory_is_that_of_processes_by_either_version(text: str) -> None:
    assert parse_memory_bytes(text) == 4096


@pytest.mark.parametrize("text", ["", "cat: no such file\n", "file 9\n"])
def test_a_kernel_that_shows_no_memory_is_an_error(text: str) -> None:
    with pytest.raises(WorkloadError, match="no memory"):
        parse_memory_bytes(text)
