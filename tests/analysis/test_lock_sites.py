"""Costs by lock and place, and differences of two interpreters."""

from __future__ import annotations

from interlock.analysis.lock_sites import costs_by, differences
from interlock.results.lock_sites import UNNAMED, LockSites, Site


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


def test_the_named_share_counts_calls() -> None:
    found = lock_sites(site(UNNAMED, "", 1, calls=1), site("GIL", "", 1, calls=3))
    assert found.named_share == 0.75
    assert lock_sites().named_share == 1
