"""Locks and queues."""

import dis
import json
import re
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Condition, Lock
from types import ModuleType
from typing import Any

import pytest

from tests.workloads.conftest import Refusal, Report, Run

AGAIN = ["--warmups", "0", "--values", "1"]
# As the pthread stubs of a build without threads do it; the function's name depends on the version.
NO_THREAD_STARTS = """
import _thread
def refuse(*arguments, **options):
    raise RuntimeError("can't start new thread")
_thread.start_new_thread = _thread.start_joinable_thread = refuse
"""
LOST_ITEM = """
import queue
class Queue(queue.Queue):
    def put(self, item):
        if item != 7:
            super().put(item)
queue.Queue = Queue
"""
BROKEN_QUEUE = """
import queue
class Queue(queue.Queue):
    def put(self, item):
        if item == 7:
            raise OSError("no room for 7")
        super().put(item)
queue.Queue = Queue
"""
# Only the lock that the program takes: those inside threading.py keep working.
LOCK_THAT_STAYS_LOCKED = """
import sys, threading
class Lock:
    def acquire(self): pass
    def release(self): pass
    def locked(self): return True
def lock(real=threading.Lock):
    return Lock() if sys._getframe(1).f_code.co_name == "make" else real()
threading.Lock = lock
"""
# Counts what the program asks of what it has made, and tells at the end.
COUNTED = """
import atexit, itertools, queue, sys, threading

NAMES = ("acquire", "release", "notify", "put", "get")
counts = {name: itertools.count() for name in NAMES}
class Counted:
    def __init__(self, real): self.real = real
    def __getattr__(self, name): return getattr(self.real, name)
def counted(name):
    def call(self, *arguments):
        next(counts[name])
        return getattr(self.real, name)(*arguments)
    return call
for name in NAMES:
    setattr(Counted, name, counted(name))
def wrap(module, kind, real):
    def make(*arguments):
        wanted = sys._getframe(1).f_code.co_name in ("make", "queue", "simple_queue")
        return Counted(real(*arguments)) if wanted else real(*arguments)
    setattr(module, kind, make)
for module, kinds in ((threading, ("Lock", "RLock", "Semaphore", "Condition")), (queue, ("Queue", "SimpleQueue"))):
    for kind in kinds:
        wrap(module, kind, getattr(module, kind))
atexit.register(lambda: print(*(next(counts[name]) for name in NAMES), file=sys.stderr))
"""
COUNTED_STARTS = """
import atexit, itertools, sys, threading
starts = itertools.count()
def start(self, real=threading.Thread.start):
    next(starts)
    real(self)
threading.Thread.start = start
atexit.register(lambda: print(next(starts), file=sys.stderr))
"""
# A thread that waits for it is awake 2 ms after the release.
LATE_LOCK = """
class Lock:
    def __init__(self): self.lock = real()
    def acquire(self):
        self.lock.acquire()
        time.sleep(0.002)
    def release(self): self.lock.release()
threading.Lock = lambda: Lock() if __import__("sys")._getframe(1).f_code.co_name == "make" else real()
"""
NO_SIMPLE_QUEUE = "import queue; del queue.SimpleQueue"
WHATS = [
    "uncontended",
    "uncontended-rlock",
    "uncontended-semaphore",
    "uncontended-condition",
    "uncontended-queue",
    "uncontended-simple-queue",
    "contended",
    "contended-rlock",
    "contended-semaphore",
    "contended-condition",
    "counter-unprotected",
    "queue",
    "simple-queue",
    "references",
    "references-apart",
    "thread-start",
    "wake-up",
]


@pytest.fixture
def threads(protocol: ModuleType) -> Any:
    return protocol.Threads()


@pytest.fixture
def shared(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("locks_shared")


@pytest.fixture
def wakes(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("locks_wakes")


def test_an_uncontended_value_is_ten_thousand_pairs_a_loop(report: Report) -> None:
    found = report("locks.py", "--what", "uncontended", "--loops", "10", *AGAIN)
    assert found["inner_loops"] == 10_000
    assert found["values"][0] > 100_000 * 1e-9


# Two loops. Asking at the end whether a semaphore is free takes and lets go of it once more; each thread of several
# waits for a lock that is taken before; of two locks that wake threads each is taken before; two items end the two that
# get.
@pytest.mark.parametrize(
    ("what", "inner_loops", "counts"),
    [
        ("uncontended", 10_000, [20_000, 20_000, 0, 0, 0]),
        ("uncontended-rlock", 1_000, [2_000, 2_000, 0, 0, 0]),
        ("uncontended-semaphore", 1_000, [2_001, 2_001, 0, 0, 0]),
        ("uncontended-condition", 1_000, [2_000, 2_000, 2_000, 0, 0]),
        ("uncontended-queue", 1_000, [0, 0, 0, 2_000, 2_000]),
        ("uncontended-simple-queue", 1_000, [0, 0, 0, 2_000, 2_000]),
        ("contended", 1_000, [2_008, 2_004, 0, 0, 0]),
        ("contended-rlock", 1_000, [2_008, 2_004, 0, 0, 0]),
        ("contended-semaphore", 1_000, [2_008, 2_004, 0, 0, 0]),
        ("contended-condition", 100, [204, 202, 200, 0, 0]),
        ("queue", 100, [8, 4, 0, 202, 202]),
        ("simple-queue", 100, [8, 4, 0, 202, 202]),
        ("wake-up", 100, [202, 200, 0, 0, 0]),
    ],
)
def test_a_benchmark_does_what_its_name_says_as_often_as_it_says(
    run_program: Run, what: str, inner_loops: int, counts: list[int]
) -> None:
    """Acquired, released, notified, put and got."""
    done = run_program("locks.py", "--what", what, "--loops", "2", *AGAIN, sabotage=COUNTED)
    assert json.loads(done.stdout)["inner_loops"] == inner_loops
    assert [int(word) for word in done.stderr.split()] == counts


@pytest.mark.parametrize(
    ("what", "inner_loops", "starts"),
    [
        ("thread-start", 10, 3 * 10),
        # Their CPU time is what counts, and another thread's would be a part of it.
        ("uncontended-rlock", 1_000, 0),
        ("uncontended-semaphore", 1_000, 0),
        ("uncontended-condition", 1_000, 0),
    ],
)
def test_a_unit_of_thread_start_is_one_thread_and_where_one_thread_works_no_other_starts(
    run_program: Run, what: str, inner_loops: int, starts: int
) -> None:
    done = run_program("locks.py", "--what", what, "--loops", "3", *AGAIN, sabotage=COUNTED_STARTS)
    assert json.loads(done.stdout)["inner_loops"] == inner_loops
    proof_that_threads_start = 1
    assert int(done.stderr) == starts + proof_that_threads_start


def test_a_lock_that_is_not_released_is_an_error(refusal: Refusal) -> None:
    assert "expected a free lock" in refusal(
        "locks.py", "--what", "uncontended", "--loops", "1", *AGAIN, sabotage=LOCK_THAT_STAYS_LOCKED
    )


@pytest.mark.parametrize("kind", ["Lock", "RLock", "Semaphore", "Condition"])
def test_one_that_is_held_is_not_free_and_one_that_is_not_is(
    protocol: ModuleType, module: Callable[[str], ModuleType], kind: str
) -> None:
    alone, lock = module("locks_alone"), protocol.Threads().make(kind)
    alone.require_free(lock)
    lock.acquire()
    with pytest.raises(Exception, match="expected a free lock"):
        alone.require_free(lock)


def test_an_item_that_one_thread_gets_back_changed_is_an_error(module: Callable[[str], ModuleType]) -> None:
    class Doubling(SimpleQueue[int]):
        def get(self, block: bool = True, timeout: float | None = None) -> int:
            return 2 * super().get(block, timeout)

    with pytest.raises(Exception, match=r"\b10\b.*\b55\b.*\b110\b"):
        module("locks_alone").time_passing(Doubling(), 10)


def test_counts_that_a_lock_did_not_save_are_an_error(
    shared: ModuleType, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shared.count_under
    monkeypatch.setattr(shared, "count_under", lambda guard, counter, repeats: real(guard, counter, repeats[1:]))
    with pytest.raises(Exception, match=r"\b1000\b.*\b996\b"):
        shared.time_counter(threads, Lock(), 4, 1000)


def test_the_share_of_lost_counts_is_over_all_timings(
    shared: ModuleType, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = shared.UnprotectedCount(threads, 4)
    work.timed(1)
    assert work.metadata == {"threads": 4, "lost_share": 0.0}
    real = shared.count_without_lock
    monkeypatch.setattr(shared, "count_without_lock", lambda counter, repeats: real(counter, repeats[::2]))
    work.timed(1)
    assert work.metadata["lost_share"] == 0.25


def test_more_counts_than_were_made_or_none_at_all_are_an_error(
    shared: ModuleType, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = shared.UnprotectedCount(threads, 4)
    for total in (0, 1001):
        monkeypatch.setattr(shared.Counter, "total", total)
        monkeypatch.setattr(shared, "count_without_lock", lambda counter, repeats: None)
        with pytest.raises(Exception, match=rf"\b1\b.*\b1000\b.*\b{total}\b"):
            work.timed(1)


def test_zero_loops_of_unprotected_counts_lose_none(report: Report) -> None:
    found = report("locks.py", "--what", "counter-unprotected", "--loops", "0", *AGAIN)
    assert "lost_share" not in found["metadata"]


def test_a_turn_that_was_not_taken_is_an_error(
    shared: ModuleType, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shared.take_turns
    monkeypatch.setattr(shared, "take_turns", lambda *one: real(*one[:3], one[3][:-1]))
    with pytest.raises(Exception, match=r"\b100\b.*\b98\b"):
        shared.time_turns(threads, Condition(), 100)


@pytest.mark.parametrize("what", ["references", "references-apart"])
def test_a_loop_of_references_is_ten_thousand_of_two_threads(report: Report, what: str) -> None:
    found = report("locks.py", "--what", what, "--loops", "2", *AGAIN)
    assert found["inner_loops"] == 10_000


def test_both_threads_take_half_of_the_references_to_the_one_object(shared: ModuleType) -> None:
    one = object()
    taken: list[int] = []
    before = sys.getrefcount(one)
    shared.take_references(one, range(500), taken)
    assert taken == [5000]
    assert sys.getrefcount(one) == before
    stores = [line for line in dis.Bytecode(shared.take_references) if line.argval == "held" and "STORE" in line.opname]
    assert len(stores) == shared.REFERENCES_PER_REPEAT


def test_references_that_were_not_taken_are_an_error(
    shared: ModuleType, threads: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = shared.take_references
    monkeypatch.setattr(shared, "take_references", lambda one, repeats, taken: real(one, repeats[1:], taken))
    with pytest.raises(Exception, match=r"\b10000\b.*\b9980\b"):
        shared.time_references(threads, None, 10_000)


def test_the_latency_of_a_wake_up_is_from_the_release_on(report: Report) -> None:
    late = "import threading, time\nreal = threading.Lock\n" + LATE_LOCK
    found = report("locks.py", "--what", "wake-up", "--loops", "1", *AGAIN, sabotage=late)
    metadata = found["metadata"]
    assert 0.002 <= metadata["latency_p50_s"] <= metadata["latency_p99_s"] <= metadata["latency_max_s"]
    # A hundred ways, half of which are seen.
    assert found["values"][0] >= 100 * 0.002


def test_percentiles_are_of_the_waits_in_order(wakes: ModuleType) -> None:
    waits = [number / 1000 for number in range(200, 0, -1)]
    assert wakes.latencies(waits) == {"latency_p50_s": 0.1, "latency_p99_s": 0.198, "latency_max_s": 0.2}
    assert wakes.latencies([0.5]) == {"latency_p50_s": 0.5, "latency_p99_s": 0.5, "latency_max_s": 0.5}
    assert wakes.latencies([]) == {}


def test_latencies_are_of_the_last_values_and_not_of_the_warm_up(wakes: ModuleType) -> None:
    work = wakes.Wakes(None, 2)
    for wait_s in (9.0, 1.0, 3.0):
        work._note([wait_s], 1)
    assert work.metadata["latency_max_s"] == 3.0


@pytest.mark.parametrize("waits", [[0.1], [0.1, -0.1]])
def test_a_wake_up_that_is_missing_or_before_its_release_is_an_error(wakes: ModuleType, waits: list[float]) -> None:
    with pytest.raises(Exception, match=r"\b2 waits\b"):
        wakes.Wakes(None, 2)._note(waits, 2)


def test_a_version_without_a_simple_queue_is_unsupported(report: Report) -> None:
    for what in ("simple-queue", "uncontended-simple-queue"):
        found = report("locks.py", "--what", what, sabotage=NO_SIMPLE_QUEUE)
        assert "queue.SimpleQueue" in found["unsupported"]


@pytest.mark.parametrize("what", ["queue", "simple-queue"])
@pytest.mark.parametrize("threads", [2, 4, 8])
@pytest.mark.parametrize("loops", [0, 1, 50])
def test_every_item_passes_through_the_queue(report: Report, what: str, threads: int, loops: int) -> None:
    found = report("locks.py", "--what", what, "--threads", str(threads), "--loops", str(loops), *AGAIN)
    assert (found["loops"], found["inner_loops"]) == (loops, 100)
    assert found["metadata"]["threads"] == threads


def test_a_lost_item_is_an_error(refusal: Refusal) -> None:
    assert re.search(
        r"\b100\b.*\b5050\b.*\b5043\b",
        refusal("locks.py", "--what", "queue", "--loops", "1", *AGAIN, sabotage=LOST_ITEM),
    )


def test_a_thread_that_fails_ends_the_process(refusal: Refusal) -> None:
    assert "OSError: no room for 7" in refusal(
        "locks.py", "--what", "queue", "--loops", "1", *AGAIN, sabotage=BROKEN_QUEUE
    )


@pytest.mark.parametrize("what", WHATS)
def test_an_interpreter_that_cannot_start_a_thread_is_unsupported(report: Report, what: str) -> None:
    found = report("locks.py", "--what", what, sabotage=NO_THREAD_STARTS)
    assert found.keys() == {"interlock", "unsupported"}
    assert "RuntimeError" in found["unsupported"]
