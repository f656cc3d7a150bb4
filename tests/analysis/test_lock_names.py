"""Names of locks by what is on a stack."""

from __future__ import annotations

import pytest

from interlock.analysis.lock_names import caller_of, lock_name, roles, up_to_loop
from interlock.results.lock_sites import UNNAMED

LOOP = "_PyEval_EvalFrameDefault (python3.13)"
USER = "/app/pool.py:212 acquire"
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
    assert caller_of(["/app/my_queue.py:3 get", USER]) == "/app/my_queue.py:3 get"
    assert caller_of([]) == ""


def test_a_chain_ends_at_the_innermost_loop() -> None:
    assert up_to_loop(["sem_post (libc.so.6)", LOOP, "python3.13+0x1", LOOP]) == ["sem_post (libc.so.6)", LOOP]
    assert up_to_loop(["clone (libc.so.6)"]) == ["clone (libc.so.6)"]
