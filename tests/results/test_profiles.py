"""What profiles count of a benchmark."""

from __future__ import annotations

from interlock.catalog.workloads import Metric
from interlock.results.profiles import FUTEX_WAITS, FUTEX_WAKES, CallCounts, FutexCounts, LockCost, Method, PhaseCounts
from tests.builders import make_benchmark, make_phase, make_profile


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
    assert (len(phase.futex_of(FUTEX_WAITS)), len(phase.futex_of(FUTEX_WAKES))) == (2, 1)


def test_the_lock_cost_is_futex_and_sched_yield_with_the_time_in_them() -> None:
    """3.14t's 60 futex calls beside 3.13's 1,490 hid 4,805 of sched_yield."""
    calls = {"futex": (2, 3000), "sched_yield": (8, 1000), "read": (50, 9000), "rt_sigprocmask": (4, 500)}
    counts = {name: CallCounts(calls=number, ns=ns) for name, (number, ns) in calls.items()}
    profile = make_profile(units=2, phases={"work": PhaseCounts(total=64, syscalls=counts)})
    assert profile.lock_cost == LockCost({"futex": 1.0, "sched_yield": 4.0, "pth": 0.0}, 2000.0)


def test_the_lock_cost_of_gnu_pth_is_its_schedulers_calls_with_the_reads_of_its_pipe_alone() -> None:
    """GNU pth's 0 futex calls hid 18,996 others."""
    calls = {"rt_sigprocmask": 40, "rt_sigpending": 10, "pselect6": 10, "read": 13, "write": 7}
    counts = {name: CallCounts(calls=number, ns=100 * number) for name, number in calls.items()}
    profile = make_profile(units=10, phases={"work": PhaseCounts(total=80, syscalls=counts)})
    assert profile.lock_cost == LockCost({"futex": 0.0, "sched_yield": 0.0, "pth": 7.0}, 600.0)


def test_a_probe_that_counts_futex_alone_or_has_no_times_says_so() -> None:
    alone = make_profile(method="strace-futex", units=1, phases={"work": make_phase(futex=3)})
    assert alone.lock_cost == LockCost({"futex": 3.0}, None, futex_alone=True)
    counted = make_profile(units=1, phases={"work": make_phase(futex=3, sched_yield=1)})
    assert counted.lock_cost == LockCost({"futex": 3.0, "sched_yield": 1.0, "pth": 0.0}, None)
