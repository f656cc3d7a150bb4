"""What lock_sites.py must yield, by the comments in its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.results.profiles import Acquires, Acquisitions, LockSites, Pauses, Site

PROGRAM = Path(__file__).with_name("lock_sites.py")
ROUNDS, HELD_MS = 5, 100
WAITS = ("first waits", "second waits", "third waits")
LINES = {
    comment: number
    for number, line in enumerate(PROGRAM.read_text(encoding="utf-8").splitlines(), 1)
    for comment in (*WAITS, "wakes", "holds", "stops", "takes")
    if line.endswith(f"# {comment}")
}


def line_of(site: Site | Acquires | Pauses) -> int:
    """Return the program's line that a stack ends in; 0 if it ends elsewhere."""
    file, _, rest = site.python[0].rpartition(":") if site.python else ("", "", "")
    return int(rest.split()[0]) if file.endswith(PROGRAM.name) else 0


def assert_exact(found: LockSites, pairs: int) -> None:
    """Each line has as many waits as there were, for as long as the lock was held, and the holder ends them."""
    expected = ROUNDS * pairs
    for comment in WAITS:
        sites = [
            (index, site)
            for index, site in enumerate(found.sites)
            if site.lock.startswith("lock of ")
            and site.waits
            and site.call == "futex"
            and line_of(site) == LINES[comment]
        ]
        calls = sum(site.calls for _, site in sites)
        assert calls == expected, f"{calls} calls of {expected}: {comment}"
        waited_ms = sum(site.ns for _, site in sites) / 1e6
        assert waited_ms >= 0.8 * expected * HELD_MS, f"{waited_ms} ms: {comment}"
        assert max(site.max_ns for _, site in sites) / 1e6 >= 0.8 * HELD_MS
        edges = [edge for edge in found.edges if edge.waiter in dict(sites)]
        assert {line_of(found.sites[edge.waker]) for edge in edges} == {LINES["wakes"]}
        assert sum(edge.waits for edge in edges) == expected
    assert found.named_share >= 0.95
    assert found.threads == 1 + pairs * (1 + len(WAITS))
    assert found.waiting_share == pytest.approx(found.waited_ns / found.ns / found.threads)


def assert_acquired(found: Acquisitions, pairs: int) -> None:
    """Each acquire that must wait waits and parks, none of the holders' does, and each is held as long as it was."""
    expected = ROUNDS * pairs
    for comment in WAITS:
        taken = acquired_at(found, comment)
        assert sum(one.acquires for one in taken) == expected
        assert sum(one.contended for one in taken) == expected
        assert sum(one.parked for one in taken) == expected
        assert sum(one.wait_ns for one in taken) / 1e6 >= 0.8 * expected * HELD_MS
    held = acquired_at(found, "holds")
    assert sum(one.acquires for one in held) == len(WAITS) * expected
    assert sum(one.contended for one in held) == 0
    assert sum(one.held for one in held) == len(WAITS) * expected
    assert sum(one.held_ns for one in held) / 1e6 >= 0.8 * len(WAITS) * expected * HELD_MS


def assert_attempted(found: Acquisitions, pairs: int) -> None:
    """Each line found its lock taken as often as it had to wait, and the holder's never."""
    expected = ROUNDS * pairs
    for comment in WAITS:
        taken = acquired_at(found, comment)
        assert sum(one.acquires for one in taken) == sum(one.contended for one in taken) == expected
    held = acquired_at(found, "holds")
    assert sum(one.acquires for one in held) == len(WAITS) * expected
    assert sum(one.contended for one in held) == 0


def assert_taken(found: Acquisitions) -> None:
    """A file's own lock is taken by each write, free, and given back."""
    taken = acquired_at(found, "takes")
    assert sum(one.acquires for one in taken) == sum(one.held for one in taken) == ROUNDS
    assert sum(one.contended for one in taken) == 0


def acquired_at(found: Acquisitions, comment: str) -> list[Acquires]:
    """Return the acquires of a line's own lock; 2.7 takes the GIL there as well."""
    return [one for one in found.acquires if line_of(one) == LINES[comment] and one.lock.startswith("lock of ")]


def assert_stopped(found: Acquisitions) -> None:
    """Each collection stops all threads as often as every other one, and a pause is no shorter than the stopping."""
    stopped = [one for one in found.pauses if line_of(one) == LINES["stops"]]
    pauses = sum(one.pauses for one in stopped)
    assert pauses >= ROUNDS
    assert pauses % ROUNDS == 0
    assert all(0 < one.stopping_ns <= one.ns and one.max_ns <= one.ns for one in stopped)


def assert_gil_held(found: Acquisitions) -> None:
    """One thread at a time has it; a build with LTO gives it back inline at most places, whose holds are not shown."""
    taken = [one for one in found.acquires if one.lock == "GIL"]
    assert 0 < sum(one.held_ns for one in taken) <= found.ns
    assert all(one.held <= one.acquires for one in taken)
    assert sum(one.contended for one in taken) > 0
