"""Tables of lock sites, and flame graphs."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from interlock.report.why import difference_section, flame_svg, sections_of, why_cells
from interlock.results.lock_sites import Edge, LockSites, Site
from interlock.results.profiles import BenchmarkProfile, Method, PhaseCounts

INSIDE, USER = "/lib/threading.py:355 Condition.wait", "/app/<b>.py:3 f"
WAIT = Site(
    call="futex", operation="wait", lock="GIL", caller=USER, python=[INSIDE, USER], c=["sem_wait (libc.so.6)"], calls=4,
    ns=3_000_000, max_ns=2_000_000,
)  # fmt: skip
WAKE = WAIT.model_copy(update={"operation": "wake", "ns": 1_000_000, "woke_nobody": 2})
FOUND = LockSites(units=2, ns=4_000_000, sites=[WAIT, WAKE], edges=[Edge(waiter=0, waker=1, waits=4, ns=3_000_000)])


def test_tables_show_costs_per_unit_with_the_caller_first_and_what_is_inside() -> None:
    locks, sites, edges = sections_of("x", FOUND, "item")
    assert locks.rows == (("GIL", "4", "2", "2", "1"),)
    assert sites.rows[0] == (
        "GIL",
        "futex wait",
        "2",
        "1.5",
        "2",
        "0",
        "<b>.py:3 f",
        "threading.py:355 Condition.wait -> sem_wait",
    )
    assert edges.rows == (("<b>.py:3 f", "<b>.py:3 f", "GIL", "2", "1.5"),)
    assert all(len(row) == len(table.columns) for table in (locks, sites, edges) for row in table.rows)


def test_a_difference_has_both_costs_of_each_place() -> None:
    section = difference_section("new", "old", FOUND, LockSites(units=1, ns=1, sites=[]), "item")
    assert section.rows == (("new", "GIL in <b>.py f", "-", "-", "4", "2"),)


@pytest.mark.parametrize("sites", [[WAIT, WAKE], [WAIT.model_copy(update={"ns": 0})], []])
def test_a_flame_graph_is_xml_whose_layers_are_as_wide_as_the_image(sites: list[Site]) -> None:
    tree = ElementTree.fromstring(flame_svg("a < b", LockSites(units=1, ns=1, sites=sites)))  # noqa: S314  our own
    boxes = [one for one in tree.iter() if one.tag.endswith("}rect")][1:]
    lowest = max((float(one.attrib["y"]) for one in boxes), default=0.0)
    widths = [float(one.attrib["width"]) for one in boxes if float(one.attrib["y"]) == lowest]
    assert sum(widths) == (1200 if sites else 0)


def test_a_profile_says_why_or_why_not() -> None:
    profile = BenchmarkProfile(
        method=Method.BPF, perturbed=False, units=1, phases={"work": PhaseCounts(total=0, syscalls={})}, counted="work"
    )
    assert why_cells(profile.model_copy(update={"why": FOUND}))[0] == ("GIL", "75%", "2", "<b>.py:3 f")
    assert why_cells(profile.model_copy(update={"no_why": "no BTF"})) == [("not known: no BTF", "-", "-", "-")]
