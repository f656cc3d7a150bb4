"""Costs by lock and place, and differences of two interpreters."""

from __future__ import annotations

import pytest

from interlock.analysis.lock_sites import caller_of, costs_by, differences, lock_name, roles
from interlock.results.profiles import UNNAMED, LockSites, Site


def site(lock: str, caller: str, ns: int, calls: int = 10) -> Site:
    return Site(
        call="futex", operation="wait", lock=lock, caller=caller, python=[caller], c=[], calls=calls, ns=ns, max_ns=ns
    )


def lock_sites(*sites: Site) -> LockSites:
    return LockSites(units=10, ns=1000, sites=list(sites))


GIL = site("GIL", "/app/a.py:1 f", 500)
POOL = site("lock of a:2 f", "/app/a.py:2 f", 300)


def test_costs_are_added_by_lock_per_unit_with_the_costliest_first() -> None:
    costs = costs_by(lock_sites(POOL, GIL, GIL), lambda one: one.lock)
    assert list(costs) == ["GIL", POOL.lock]
    assert (costs["GIL"].calls, costs["GIL"].ns, costs["GIL"].longest_ns) == (2, 100, 500)


def test_a_difference_is_new_gone_more_or_less_whatever_the_line_numbers() -> None:
    moved = site("lock of a:9 f", "/elsewhere/a.py:9 f", 100)
    new = site("PyMutex of an object", "/app/b.py:1 g", 50)
    found = {one.place: one.kind for one in differences(lock_sites(GIL, POOL), lock_sites(moved, new))}
    assert found == {"GIL in a.py f": "gone", "lock in a.py f": "less", "PyMutex of an object in b.py g": "new"}


def test_a_method_is_the_same_place_where_one_of_two_interpreters_names_functions_without_their_class() -> None:
    old, new = site("GIL", "/lib/pool.py:212 acquire", 500), site("GIL", "/app/pool.py:9 Pool.acquire", 100)
    assert [(one.place, one.kind) for one in differences(lock_sites(old), lock_sites(new))] == [
        ("GIL in pool.py acquire", "less")
    ]
    assert [(one.place, one.kind) for one in differences(lock_sites(new), lock_sites(old))] == [
        ("GIL in pool.py acquire", "more")
    ]


def test_methods_of_two_classes_are_two_places_where_both_interpreters_name_the_class() -> None:
    mine, other = site("GIL", "/app/pool.py:9 Pool.acquire", 100), site("GIL", "/app/pool.py:20 Lock.acquire", 100)
    assert {one.place for one in differences(lock_sites(mine), lock_sites(mine, other))} == {
        "GIL in pool.py Pool.acquire",
        "GIL in pool.py Lock.acquire",
    }


def test_the_named_share_counts_calls() -> None:
    found = lock_sites(site(UNNAMED, "", 1, calls=1), site("GIL", "", 1, calls=3))
    assert found.named_share == 0.75
    assert lock_sites().named_share == 1


LOOP = "_PyEval_EvalFrameDefault (python3.13)"
USER = "/app/pool.py:212 acquire"
SPAWN = "pth_spawn_trampoline (libpth.so.20)"
# As the profiler shows them in stripped images.
TAKE_GIL = [
    "libc.so.6+0x9a700",
    "pthread_cond_timedwait (libc.so.6)",
    "python3.13+0x287630",
    "python3.13+0x2b6e20",
    LOOP,
]
GIL_MUTEX = ["libc.so.6+0x8fc10", "libc.so.6+0x97460", "python3.13+0x287630", LOOP]
PARK = ["libc.so.6+0x9a5d0", "_PySemaphore_Wait (python3.13)", "_PyParkingLot_Park (python3.13)", "python3.13+0x2a3210"]
PARKED = [*PARK, "python3.13+0x34b1c0", LOOP]
SEMAPHORE = [
    "sem_post (libc.so.6)",
    "PyThread_release_lock (python3.9)",
    "python3.9+0x10",
    "_PyEval_EvalFrameDefault (python3.9)",
]
ROLES = roles([TAKE_GIL, PARKED])

NAMED = [
    (TAKE_GIL, [USER], "GIL"),
    (GIL_MUTEX, [USER], "GIL"),
    (["PyThread_acquire_lock (python2.7)", "PyEval_RestoreThread (python2.7)"], [USER], "GIL"),
    (["libc.so.6+0x8fc10", "libc.so.6+0x97460", "PyEval_SaveThread (python3.13)", LOOP], [USER], "GIL"),
    (["pthread_cond_signal (libc.so.6)", "_PySemaphore_Wait (python3.13)", *PARK[2:], LOOP], [USER], "GIL"),
    (
        ["pthread_cond_wait (libc.so.6)", "PyThread_acquire_lock (python2.7)", "python2.7+0x5", LOOP],
        [USER],
        "lock of pool:212 acquire",
    ),
    (
        ["sched_yield (libc.so.6)", "_PyMutex_LockTimed (python3.14)", "python3.14+0x5", LOOP],
        [USER],
        "lock of pool:212 acquire",
    ),
    (PARKED, [USER], "lock of pool:212 acquire"),
    (SEMAPHORE, [USER], "lock of pool:212 acquire"),
    (SEMAPHORE, ["/lib/queue.py:177 Queue.get", USER], "queue.Queue.mutex"),
    (
        SEMAPHORE,
        ["/lib/threading.py:355 Condition.wait", "/lib/queue.py:177 Queue.get", USER],
        "queue.Queue's condition",
    ),
    (PARKED, ["/lib/threading.py:355 Condition.wait", "/lib/threading.py:979 Thread.start", USER], "thread start/end"),
    (SEMAPHORE, ["<frozen importlib._bootstrap>:120 _ModuleLock.acquire", USER], "import lock"),
    ([*PARK, "PyMutex_Lock (python3.14)", "python3.14+0x9", LOOP], [USER], "PyMutex of an object"),
    ([*PARK[:3], "PyEval_RestoreThread (python3.14)", LOOP], [USER], "stop-the-world"),
    (["libc.so.6+0x1", "malloc (libc.so.6)", "python3.13+0x5", LOOP], [USER], "malloc arena"),
    (["select (libc.so.6)", "pth_scheduler (libpth.so.20)"], [], "pth scheduler"),
    (["select (libc.so.6)", "libpth.so.20+0x5", "libpth.so.20+0x9"], [], "pth scheduler"),
    # Where symbols name what the image does not export.
    (
        ["PyThread_acquire_lock (python2.7)", "PyEval_AcquireThread (python2.7)", "t_bootstrap (python2.7)", SPAWN],
        [],
        "GIL",
    ),
    (
        ["pthread_cond_signal (libc.so.6)", "drop_gil (python3.13)", "_PyThreadState_Detach (python3.13)", LOOP],
        [USER],
        "GIL",
    ),
    (
        ["_PyMutex_LockTimed (python3.13)", "lock_PyThread_acquire_lock (python3.13)", LOOP],
        [USER],
        "lock of pool:212 acquire",
    ),
    (
        ["sem_post (libc.so.6)", "PyThread_release_lock (python2.7)", "PyImport_ImportModuleLevel (python2.7)", LOOP],
        [USER],
        "import lock",
    ),
    (SEMAPHORE, ["/lib/concurrent/futures/thread.py:90 _worker", "/lib/threading.py:9 run"], "idle worker of a pool"),
    (["libc.so.6+0x1", "pthread_once (libc.so.6)", "setlocale (libc.so.6)"], [], "one-time initialisation"),
    (["libc.so.6+0x1", "other (libother.so)"], [USER], UNNAMED),
    (["PyThread_release_lock (python2.7)", "python2.7+0x5", "libc.so.6+0x9"], [], "thread start/end"),
    (["PyThread_release_lock (python2.7)", "python2.7+0x5", LOOP], [], UNNAMED),
    ([], [], UNNAMED),
]


@pytest.mark.parametrize(("c", "python", "name"), NAMED)
def test_a_stack_names_its_lock(c: list[str], python: list[str], name: str) -> None:
    assert lock_name(c, python, ROLES) == name


def test_the_caller_is_the_first_frame_outside_the_library_of_locks_and_queues() -> None:
    inside = ["/usr/lib/python3.13/threading.py:355 Condition.wait", "/usr/lib/python3.13/queue.py:177 Queue.get"]
    assert caller_of([*inside, USER, "/app/main.py:1 main"]) == USER
    assert caller_of(inside) == inside[-1]
    frozen = ["<frozen abc>:106 ABCMeta.__new__", "<frozen importlib._bootstrap>:1360 _find_and_load"]
    assert caller_of(frozen) == caller_of(frozen[::-1]) == frozen[0]
    worker = "/lib/concurrent/futures/thread.py:90 _worker"
    started = ["/lib/threading.py:994 Thread.run", "/lib/threading.py:1014 Thread._bootstrap"]
    assert caller_of([worker, *started]) == worker
    assert caller_of(started) == started[-1]
    assert caller_of(["/app/my_queue.py:3 get", USER]) == "/app/my_queue.py:3 get"
    assert caller_of([]) == ""


def test_an_unnamed_function_that_yields_spins_for_a_mutex() -> None:
    spinning = ["sched_yield (libc.so.6)", "python3.14+0x2ff290", LOOP]
    assert lock_name(spinning, [USER], roles([spinning])).startswith("lock of ")
