"""What profiles count of a benchmark."""

from __future__ import annotations

from interlock.catalog.workloads import Metric
from interlock.results.profiles import FutexCounts, Method
from tests.builders import (
    make_benchmark,
    make_phase,
    make_profile,
)


def test_the_calls_that_a_benchmark_shows_are_those_that_it_names() -> None:
    phases = {"startup": make_phase(execve=1), "work": make_phase(futex=3, read=20, stat=7)}
    profile = make_profile(units=10, phases=phases)
    kilo = Metric(label="calls per 1k", scale=1e3)
    shown = [
        profile.calls_shown(make_benchmark(profile_metric=kilo, **named))
        for named in ({}, {"profile_syscalls": ["read", "stat"]}, {"profile_syscalls": "all"})
    ]
    assert shown == [300, 2700, 3000]
    assert profile.calls_shown(make_benchmark(profile_metric=None)) is None
    only_futex = profile.model_copy(update={"method": Method.STRACE_FUTEX})
    assert only_futex.calls_shown(make_benchmark(profile_syscalls="all")) is None


def test_futex_operations_are_waits_wakes_or_neither() -> None:
    one = FutexCounts(calls=1, ns=1, max_ns=1, errors=0, woke_nobody=0)
    names = ("wait_bitset", "lock_pi", "wake", "requeue")
    phase = make_phase(futex=4).model_copy(update={"futex": dict.fromkeys(names, one)})
    assert (len(phase.futex_waits), len(phase.futex_wakes)) == (2, 1)
