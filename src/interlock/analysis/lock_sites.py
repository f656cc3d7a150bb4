"""What waits cost by lock and by caller's line, and how two interpreters differ. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interlock.results.lock_sites import LockSites, Site


@dataclass(frozen=True)
class Cost:
    """What the calls from one place cost per unit of work; `longest_ns` is of one call."""

    calls: float = 0.0
    ns: float = 0.0
    longest_ns: int = 0
    woke_nobody: float = 0.0


def cost_of(sites: Sequence[Site], units: int) -> Cost:
    """Return what sites cost together per unit of work."""
    return Cost(
        calls=sum(site.calls for site in sites) / units,
        ns=sum(site.ns for site in sites) / units,
        longest_ns=max((site.max_ns for site in sites), default=0),
        woke_nobody=sum(site.woke_nobody for site in sites) / units,
    )


def costs_by(found: LockSites, key: Callable[[Site], str]) -> dict[str, Cost]:
    """Return the cost of the sites that have a key in common, the costliest first."""
    groups: dict[str, list[Site]] = defaultdict(list)
    for site in found.sites:
        groups[key(site)].append(site)
    costs = {name: cost_of(sites, found.units) for name, sites in groups.items()}
    return dict(sorted(costs.items(), key=lambda one: (-one[1].ns, -one[1].calls)))


def place_of(site: Site) -> str:
    """Return a site as people tell it from others, in any version: its lock, and the caller's file and function."""
    file, _, rest = site.caller.rpartition(":")
    lock = "lock" if site.lock.startswith("lock of ") else site.lock
    return f"{lock} in {file.rpartition('/')[2]} {rest.partition(' ')[2]}".rstrip()


@dataclass(frozen=True)
class Difference:
    """A place in two interpreters; a cost is None where it has no calls."""

    place: str
    before: Cost | None
    after: Cost | None

    @property
    def kind(self) -> str:
        """Return new, gone, more or less: by time, and by calls where no time tells them apart."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        return "more" if (self.after.ns, self.after.calls) > (self.before.ns, self.before.calls) else "less"

    @property
    def changed_ns(self) -> float:
        """Return the amount by which the time per unit of work changed."""
        return abs((self.after.ns if self.after else 0) - (self.before.ns if self.before else 0))


def differences(before: LockSites, after: LockSites) -> list[Difference]:
    """Return all places of both, those whose time changed most first."""
    first, second = costs_by(before, place_of), costs_by(after, place_of)
    found = [Difference(place, first.get(place), second.get(place)) for place in {**first, **second}]
    return sorted(found, key=lambda one: -one.changed_ns)
