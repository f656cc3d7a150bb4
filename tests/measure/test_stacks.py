"""What the profiler printed of stacks -> sites and edges; and what this interpreter says of itself."""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import pytest

from interlock.engine.protocol import Ended
from interlock.errors import WorkloadError
from interlock.measure import stacks
from interlock.measure.stacks import OFFSETS, Interpreter, Work, lock_sites_of
from interlock.results.profiles import CallCounts, PhaseCounts


class Here:
    """A sandbox that is this process's machine, with this interpreter."""

    def run(self, argv: list[str], deadline_s: float, environment: Any = types.MappingProxyType({})) -> Ended:
        done = subprocess.run(
            [sys.executable, *argv[1:]], capture_output=True, text=True, timeout=deadline_s, check=False
        )
        return Ended(done.returncode, done.stdout, done.stderr, False)


HERE: Any = Here()


def test_an_interpreter_finds_its_own_frames() -> None:
    options = Interpreter(HERE).frames()
    assert options.no_frames == ""
    assert options.offsets is not None
    assert len(options.offsets) == len(OFFSETS)
    assert any("python" in file for file in options.files)


def test_lines_are_those_that_the_interpreter_says() -> None:
    code = stacks.check_sums.__code__
    offsets = {line: start for start, _, line in code.co_lines() if line}
    name = getattr(code, "co_qualname", code.co_name)
    wanted = [(code.co_filename, code.co_firstlineno, name, start) for start in offsets.values()]
    found = Interpreter(HERE).lines([*wanted, ("/nowhere.py", 7, "f", 3)])
    assert {line for (function, _), line in found.items() if function[2] == name} == set(offsets)
    assert found[("/nowhere.py", 7, "f"), 3] == 7


def site(stack: str, operation: str, calls: int, ns: int) -> dict[str, Any]:
    counts = {"calls": calls, "ns": ns, "max_ns": ns, "errors": 0, "woke_nobody": 0}
    return {"phase": "work", "stack": stack, "call": "futex", "operation": operation, **counts}


FRAME = ["/app/a.py", "f", 1, 4]
DATA = {
    "stacks": {
        "1": {"c": ["sem_wait (libc.so.6)"], "python": [FRAME]},
        "2": {"c": ["sem_wait (libc.so.6)"], "python": [FRAME]},  # of another process
        "3": {"c": ["sem_post (libc.so.6)"], "python": [FRAME]},
    },
    "sites": [site("1", "wait", 2, 30), site("2", "wait_bitset", 1, 10), site("3", "wake", 3, 6)],
    "edges": [
        {"phase": "work", "waiter": "1", "waker": "3", "waits": 2, "ns": 30},
        {"phase": "work", "waiter": "2", "waker": "3", "waits": 1, "ns": 10},
        {"phase": "work", "waiter": "2", "waker": "gone", "waits": 1, "ns": 10},
    ],
}


def counted(calls: int, ns: int) -> PhaseCounts:
    return PhaseCounts(total=calls, ns=100, syscalls={"futex": CallCounts(calls=calls, ns=ns)})


def test_sites_of_equal_stacks_are_one_and_edges_are_between_sites() -> None:
    found = lock_sites_of(DATA, Work("work", counted(6, 46), 3), lambda _: {(("/app/a.py", 1, "f"), 4): 12})
    assert [(one.operation, one.calls, one.ns, one.max_ns, one.caller) for one in found.sites] == [
        ("wait", 3, 40, 30, "/app/a.py:12 f"),
        ("wake", 3, 6, 6, "/app/a.py:12 f"),
    ]
    assert [(one.waiter, one.waker, one.waits, one.ns) for one in found.edges] == [(0, 1, 3, 40)]
    assert (found.units, found.ns, found.waited_ns) == (3, 100, 40)


@pytest.mark.parametrize(("calls", "ns"), [(7, 46), (6, 47), (0, 0)])
def test_sums_that_are_not_the_exact_counts_fail(calls: int, ns: int) -> None:
    with pytest.raises(WorkloadError):
        lock_sites_of(DATA, Work("work", counted(calls, ns), 3), lambda _: {})
