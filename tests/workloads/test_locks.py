"""Locks and queues."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
Report = Callable[..., dict[str, Any]]

ONCE = ["--warmups", "0", "--values", "1"]
NO_THREAD_MODULE = "import sys; sys.modules['threading'] = None"
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
    return Lock() if sys._getframe(1).f_code.co_name == "lock" else real()
threading.Lock = lock
"""


def test_an_uncontended_value_is_ten_thousand_pairs_a_loop(report: Report) -> None:
    found = report("locks.py", "--what", "uncontended", "--loops", "10", *ONCE)
    assert found["inner_loops"] == 10_000
    assert found["values"][0] > 100_000 * 1e-9


def test_a_lock_that_is_not_released_is_an_error(run_program: Run) -> None:
    done = run_program("locks.py", "--what", "uncontended", "--loops", "1", *ONCE, sabotage=LOCK_THAT_STAYS_LOCKED)
    assert done.returncode == 1
    assert "expected a free lock" in done.stderr


@pytest.mark.parametrize("threads", [2, 4, 8])
@pytest.mark.parametrize("loops", [0, 1, 50])
def test_every_item_passes_through_the_queue(report: Report, threads: int, loops: int) -> None:
    found = report("locks.py", "--what", "queue", "--threads", str(threads), "--loops", str(loops), *ONCE)
    assert (found["loops"], found["inner_loops"]) == (loops, 100)
    assert found["metadata"]["threads"] == threads


def test_a_lost_item_is_an_error(run_program: Run) -> None:
    done = run_program("locks.py", "--what", "queue", "--loops", "1", *ONCE, sabotage=LOST_ITEM)
    assert done.returncode == 1
    assert "expected 100 items with the sum 5050, found the sum 5043" in done.stderr


def test_a_thread_that_fails_ends_the_process(run_program: Run) -> None:
    done = run_program("locks.py", "--what", "queue", "--loops", "1", *ONCE, sabotage=BROKEN_QUEUE)
    assert done.returncode == 1
    assert "OSError: no room for 7" in done.stderr


@pytest.mark.parametrize("what", ["uncontended", "queue"])
def test_an_interpreter_without_the_thread_module_is_unsupported(report: Report, what: str) -> None:
    found = report("locks.py", "--what", what, sabotage=NO_THREAD_MODULE)
    assert found.keys() == {"interlock", "unsupported"}
    assert found["unsupported"].startswith("threading cannot be imported: ModuleNotFoundError: ")


@pytest.mark.parametrize("what", ["uncontended", "queue"])
def test_an_interpreter_that_cannot_start_a_thread_is_unsupported(report: Report, what: str) -> None:
    found = report("locks.py", "--what", what, sabotage=NO_THREAD_STARTS)
    assert found == {
        "interlock": 1,
        "unsupported": "a thread cannot be started: RuntimeError: can't start new thread",
    }


@pytest.mark.parametrize("threads", ["0", "3"])
def test_producers_and_consumers_must_be_equally_many(run_program: Run, threads: str) -> None:
    done = run_program("locks.py", "--what", "queue", "--threads", threads)
    assert done.returncode == 2
    assert "--threads" in done.stderr
