"""LockSites: where a program waits and wakes, for which lock, and who wakes whom."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.catalog.types import Data

UNNAMED = "unnamed"
WAKES = ("wake", "wake_bitset", "wake_op")


class Site(Data):
    """A stack that ends in a call that waits or wakes, and what the calls from there cost.

    `python` are frames as `file:line function` and `c` are functions, both with the innermost first; `caller` is the
    first frame that is not inside the library of locks and queues.
    """

    call: str
    operation: str = ""
    lock: str
    caller: str
    python: list[str]
    c: list[str]
    calls: int
    ns: int
    max_ns: int
    errors: int = 0
    woke_nobody: int = 0

    @property
    def waits(self) -> bool:
        """Return whether the calls wait; a wake and a yield do not."""
        return self.operation not in WAKES


class Edge(Data):
    """How often and how long the first site waited until a call of the second woke it; both by index."""

    waiter: int
    waker: int
    waits: int
    ns: int


class LockSites(Data):
    """All sites of a benchmark's work, the costliest first."""

    units: int
    ns: int  # of the work, by the clock
    sites: list[Site]
    edges: list[Edge] = []
    no_frames: str = ""  # why no Python frames are known

    def calls(self, sites: Iterable[Site] | None = None) -> int:
        """Return the number of calls, of all sites or of these."""
        return sum(site.calls for site in (self.sites if sites is None else sites))

    @property
    def waited_ns(self) -> int:
        """Return the time of all threads in calls that wait."""
        return sum(site.ns for site in self.sites if site.waits)

    @property
    def named_share(self) -> float:
        """Return the share of the calls whose lock has a name; 1 if there are no calls."""
        total = self.calls()
        return 1 - self.calls(site for site in self.sites if site.lock == UNNAMED) / total if total else 1.0
