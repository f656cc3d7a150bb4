"""What lock_sites.py must yield, by the comments in its lines."""

from __future__ import annotations

from pathlib import Path

from interlock.results.lock_sites import LockSites, Site

PROGRAM = Path(__file__).with_name("lock_sites.py")
ROUNDS, HELD_MS = 5, 30
LINES = {
    comment: number
    for number, line in enumerate(PROGRAM.read_text(encoding="utf-8").splitlines(), 1)
    for comment in ("first waits", "second waits", "third waits", "wakes")
    if line.endswith(f"# {comment}")
}


def line_of(site: Site) -> int:
    return int(site.python[0].rpartition(":")[2].split()[0]) if site.python else 0


def assert_exact(found: LockSites, pairs: int) -> None:
    """Each line has as many waits as there were, for as long as the lock was held, and the holder ends them."""
    expected = ROUNDS * pairs
    for comment in ("first waits", "second waits", "third waits"):
        sites = [
            (index, site)
            for index, site in enumerate(found.sites)
            if site.lock.startswith("lock of ")
            and site.waits
            and site.call == "futex"
            and line_of(site) == LINES[comment]
        ]
        assert sum(site.calls for _, site in sites) == expected
        waited_ms = sum(site.ns for _, site in sites) / 1e6
        assert waited_ms >= 0.8 * expected * HELD_MS
        assert max(site.max_ns for _, site in sites) / 1e6 >= 0.8 * HELD_MS
        edges = [edge for edge in found.edges if edge.waiter in dict(sites)]
        assert {line_of(found.sites[edge.waker]) for edge in edges} == {LINES["wakes"]}
        assert sum(edge.waits for edge in edges) == expected
    assert found.named_share >= 0.95
