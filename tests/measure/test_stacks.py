"""What the profiler printed of stacks -> sites and edges; and what this interpreter says of itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.engine.ended import Ended
from interlock.engine.protocol import StackOptions
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure import stacks
from interlock.measure.stacks import OFFSETS, Interpreter, Lines, Work, lock_sites_of
from interlock.results.profiles import CallCounts, PhaseCounts, Site


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
SITE = Site(call="futex", lock="GIL", caller="", python=[], c=[], calls=1, ns=800, max_ns=800)
DATA: dict[str, Any] = {
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
    "with_symbols": [],
}


def no_lines(_: object) -> Lines:
    return {}


def line_12(_: object) -> Lines:
    return {(("/app/a.py", 1, "f"), 4): 12}


def work(data: dict[str, Any] = DATA, ask: Callable[[Any], Lines] = no_lines, *, calls: int = 6, ns: int = 46) -> Work:
    counted = PhaseCounts(total=calls, ns=100, syscalls={"futex": CallCounts(calls=calls, ns=ns)})
    return Work(data, "work", counted, 3, ask)


def test_sites_of_equal_stacks_are_one_and_edges_are_between_sites() -> None:
    found = lock_sites_of(work(ask=line_12))
    assert [(one.operation, one.calls, one.ns, one.max_ns, one.caller) for one in found.sites] == [
        ("wait", 3, 40, 30, "/app/a.py:12 f"),
        ("wake", 3, 6, 6, "/app/a.py:12 f"),
    ]
    assert [(one.waiter, one.waker, one.waits, one.ns) for one in found.edges] == [(0, 1, 3, 40)]
    assert (found.units, found.ns, found.waited_ns) == (3, 100, 40)


@pytest.mark.parametrize(
    ("files", "lacks"),
    [
        ([], True),
        (["/usr/lib/python3/wheel.so"], True),
        (["/usr/local/bin/python3.13"], False),
        (["/usr/lib/libpython3.9.so.1.0"], False),
    ],
)
def test_functions_without_names_have_a_reason_unless_there_are_the_interpreters_symbols(
    files: list[str], lacks: bool
) -> None:
    found = lock_sites_of(work({**DATA, "with_symbols": files}))
    assert bool(found.no_symbols) is lacks


@pytest.mark.parametrize("name", ["<shim>", "<interpreter trampoline>"])
def test_a_frame_of_the_interpreter_between_c_and_python_is_not_shown_and_nobody_is_asked_for_its_line(
    name: str,
) -> None:
    main = ["<module>", "<module>", 1, 0]
    stacks_with_shim = {"1": {"c": ["sem_wait (libc.so.6)"], "python": [FRAME, [name, name, 1, 0], main]}}
    data = {**DATA, "stacks": {**DATA["stacks"], **stacks_with_shim}}
    asked: list[Any] = []

    def ask(wanted: Any) -> dict[Any, int]:
        asked.extend(wanted)
        return {}

    found = lock_sites_of(work(data, ask))
    assert ["/app/a.py:1 f", "<module>:1 <module>"] in [one.python for one in found.sites]
    assert name not in {frame[2] for frame in asked}


def test_the_share_that_threads_wait_is_of_all_the_time_they_had() -> None:
    found = lock_sites_of(work({**DATA, "threads": {"startup": 9, "work": 4}}))
    assert (found.ns, found.waited_ns, found.threads, found.waiting_share) == (100, 40, 4, 0.1)
    unknown = lock_sites_of(work())
    assert (unknown.threads, unknown.waiting_share) == (0, None)


def place(stack: str, phase: str = "work") -> dict[str, Any]:
    counts = {"acquires": 4, "contended": 3, "parked": 1, "wait_ns": 30, "max_wait_ns": 20}
    return {"phase": phase, "stack": stack, **counts, "held": 4, "held_ns": 8, "max_held_ns": 5}


PROBED = {
    **DATA,
    "probed": ["PyMutex_Lock", "PyMutex_Lock"],
    "acquires": [place("1"), place("2"), place("3", "end")],
    "pauses": [{"phase": "work", "stack": "3", "pauses": 2, "stopping_ns": 3, "ns": 9, "max_ns": 6}],
}


def test_acquires_of_equal_stacks_are_one_whose_maxima_are_not_added() -> None:
    found = stacks.acquisitions_of(work(PROBED, line_12))
    (one,) = found.acquires
    assert (one.caller, one.acquires, one.contended, one.spun) == ("/app/a.py:12 f", 8, 6, 4)
    assert (one.wait_ns, one.max_wait_ns, one.held_ns, one.max_held_ns) == (60, 20, 16, 5)
    assert [(one.caller, one.pauses, one.stopping_ns, one.max_ns) for one in found.pauses] == [
        ("/app/a.py:12 f", 2, 3, 6)
    ]
    assert found.probed == ["PyMutex_Lock"]


def test_acquires_are_not_probed_where_a_library_switches_threads() -> None:
    with pytest.raises(UnsupportedHereError):
        StackOptions([], [], None, switches_threads=True).with_acquires()


@pytest.mark.parametrize(
    ("options", "probed"),
    [
        (StackOptions([], [], None), "locks,gil"),
        (StackOptions([], [], None, has_gil=False), "locks"),
        (StackOptions([], [], None, switches_threads=True, attempts=True), "attempts"),
    ],
)
def test_what_is_probed_is_what_the_interpreter_has(options: StackOptions, probed: str) -> None:
    words = options.with_acquires().arguments()
    assert words[words.index("--probe") + 1] == probed
    assert "--probe" not in options.arguments()


@pytest.mark.parametrize("ns", [0, 7])
def test_a_phase_that_never_began_has_no_stacks(ns: int) -> None:
    """A program that marks no phase waited for nothing, it was said."""
    text = json.dumps({"lost": {}, "phases": {"work": {"total": 0, "syscalls": {}, "ns": ns}}})
    if ns:
        assert stacks.work_from(text, 3, "work", no_lines).counted.ns == ns
        return
    with pytest.raises(WorkloadError, match="'work'"):
        stacks.work_from(text, 3, "work", no_lines)


@pytest.mark.parametrize(("calls", "ns"), [(7, 46), (6, 47), (0, 0)])
def test_sums_that_are_not_the_exact_counts_fail(calls: int, ns: int) -> None:
    with pytest.raises(WorkloadError):
        lock_sites_of(work(calls=calls, ns=ns))


@pytest.mark.parametrize(
    "said", ["", "[1]", "{}", '{"offsets": {}, "files": [], "missing": ""}', '{"offsets": 1}', "[" * 20_000]
)
def test_an_interpreter_that_says_something_else_of_its_frames_has_none(said: str) -> None:
    sandbox: Any = SimpleNamespace(run=lambda *_: Ended(0, said, "no", False))
    found = Interpreter(sandbox).frames()
    assert (found.offsets, found.files) == (None, [])
    assert found.no_frames
    assert Interpreter(sandbox).lines([("/a.py", 1, "f", 4)]) == {}


@pytest.mark.parametrize(
    "data", [{}, {**DATA, "sites": [1]}, {**DATA, "stacks": {"1": {}}}, {**DATA, "edges": [{"phase": "work"}]}]
)
def test_stacks_that_are_none_are_refused(data: dict[str, Any]) -> None:
    for read in (lock_sites_of, stacks.acquisitions_of):
        with pytest.raises(WorkloadError):
            read(work(data))


def test_a_function_with_a_name_of_100_kilobytes_is_kept_shortened_and_takes_no_time() -> None:
    start = time.process_time()
    long = {"c": ["sem_wait (libc.s" * 6000], "python": [["/app/a.py" * 10_000, "f", 1, 4]]}
    found = lock_sites_of(work({**DATA, "stacks": dict.fromkeys(DATA["stacks"], long)}))
    assert max(len(one) for site in found.sites for one in (*site.c, *site.python)) < 300
    assert time.process_time() - start < 2


@pytest.mark.parametrize(
    ("ns", "threads", "share"), [(1000, 1, 0.8), (1000, 4, 0.2), (400, 8, 0.25), (0, 4, None), (1000, 0, None)]
)
def test_the_waiting_share_is_of_the_time_that_all_threads_had(ns: int, threads: int, share: float | None) -> None:
    wakes = SITE.model_copy(update={"operation": "wake"})
    assert stacks.waiting_share([SITE, wakes], ns, threads) == share


def test_a_chain_ends_at_the_innermost_loop() -> None:
    loop = "_PyEval_EvalFrameDefault (python3.13)"
    assert stacks.up_to_loop(["sem_post (libc.so.6)", loop, "python3.13+0x1", loop]) == ["sem_post (libc.so.6)", loop]
    assert stacks.up_to_loop(["clone (libc.so.6)"]) == ["clone (libc.so.6)"]
