"""Tables of lock sites, and flame graphs."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from interlock.report.why import difference_section, flame_svg, sections_of, summary_text, why_cells
from interlock.results.profiles import (
    Acquires,
    Acquisitions,
    BenchmarkProfile,
    Edge,
    LockSites,
    Method,
    Pauses,
    PhaseCounts,
    Site,
)
from interlock.untrusted import CONTROL

INSIDE, USER = "/lib/threading.py:355 Condition.wait", "/app/<b>.py:3 f"
WAIT = Site(
    call="futex", operation="wait", lock="GIL", caller=USER, python=[INSIDE, USER], c=["sem_wait (libc.so.6)"], calls=4,
    ns=3_000_000, max_ns=2_000_000,
)  # fmt: skip
WAKE = WAIT.model_copy(update={"operation": "wake", "ns": 1_000_000, "woke_nobody": 2})
FOUND = LockSites(units=2, ns=4_000_000, sites=[WAIT, WAKE], edges=[Edge(waiter=0, waker=1, waits=4, ns=3_000_000)])


def test_tables_show_costs_per_unit_with_the_caller_first_and_what_is_inside() -> None:
    locks, sites, edges = sections_of("x", FOUND, "item")
    assert locks.rows == (("GIL", "4", "2", "2", "1", "100%"),)
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


@pytest.mark.parametrize(("run_ns", "share"), [(8_000_000, "50%"), (500_000, "800%"), (0, "-")])
def test_a_lock_has_what_all_threads_waited_as_a_share_of_the_run(run_ns: int, share: str) -> None:
    locks, *_ = sections_of("x", FOUND.model_copy(update={"ns": run_ns}), "item")
    assert dict(zip(locks.columns, locks.rows[0], strict=True))["of the run"] == share


@pytest.mark.parametrize(("run_ns", "threads", "share"), [(8_000_000, 4, "12%"), (4_000_000, 1, "100%"), (0, 4, "-")])
def test_a_lock_has_its_share_of_the_time_that_all_threads_had(run_ns: int, threads: int, share: str) -> None:
    found = FOUND.model_copy(update={"ns": run_ns, "threads": threads})
    locks, *_ = sections_of("x", found, "item")
    assert dict(zip(locks.columns, locks.rows[0], strict=True))[f"of {threads} threads"] == share


def test_the_first_line_has_the_waiting_share_where_it_is_known() -> None:
    known = FOUND.model_copy(update={"threads": 4, "waiting_share": 0.25})
    assert "25%" in summary_text(known)
    assert "%" not in summary_text(FOUND.model_copy(update={"sites": []})).partition(";")[0]


def test_acquires_show_what_spinning_resolved_and_holds_only_where_they_end() -> None:
    place = Acquires(
        lock="PyMutex of an object", caller=USER, python=[USER], c=[], acquires=8, contended=4, parked=1,
        wait_ns=4_000_000, max_wait_ns=3_000_000, held=0, held_ns=0, max_held_ns=0,
    )  # fmt: skip
    pause = Pauses(caller=USER, python=[USER], c=[], pauses=2, stopping_ns=2_000_000, ns=6_000_000, max_ns=4_000_000)
    held = place.model_copy(update={"held": 8, "held_ns": 2_000_000, "max_held_ns": 1_000_000})
    found = Acquisitions(units=2, ns=1, probed=["PyMutex_Lock"], acquires=[place, held], pauses=[pause])
    *_, taken, stopped = sections_of("x", FOUND.model_copy(update={"acquisitions": found}), "item")
    shown = ("PyMutex of an object", "4", "50.0%", "75%", "2", "3")
    assert taken.rows == ((*shown, "-", "-", "<b>.py:3 f", "-"), (*shown, "1", "1", "<b>.py:3 f", "-"))
    # Of a build with LTO some of the calls that give a lock back are seen, and the others are inlined.
    assert [held.model_copy(update={"held": seen}).is_hold_known for seen in (0, 2, 6, 7, 8)] == [
        *[False] * 3,
        True,
        True,
    ]
    many = held.model_copy(update={"acquires": 1000})
    assert [many.model_copy(update={"held": seen}).is_hold_known for seen in (989, 990)] == [False, True]
    assert stopped.rows == (("<b>.py:3 f", "1", "1", "3", "4", "-"),)
    assert all(len(row) == len(table.columns) for table in (taken, stopped) for row in table.rows)


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


def test_a_flame_graph_is_xml_whatever_a_program_calls_its_files() -> None:
    named = WAIT.model_copy(update={"python": ["a\x1b[2J\x00\u202eb.py:1 f"]})
    text = flame_svg("a", LockSites(units=1, ns=1, sites=[named]))
    assert ElementTree.fromstring(text) is not None  # noqa: S314  our own
    assert CONTROL.search(text) is None


def test_a_service_that_stands_still_says_so_first() -> None:
    assert summary_text(FOUND.model_copy(update={"stands_still": "no answer"})).startswith(
        "it stands still (no answer)"
    )


def test_a_profile_says_why_or_why_not() -> None:
    profile = BenchmarkProfile(
        method=Method.BPF, units=1, phases={"work": PhaseCounts(total=0, syscalls={})}, counted="work"
    )
    assert why_cells(profile.model_copy(update={"why": FOUND}))[0] == ("GIL", "75%", "2", "<b>.py:3 f", "<b>.py:3 f")
    assert why_cells(profile.model_copy(update={"no_why": "no BTF"})) == [("not known: no BTF", "-", "-", "-", "-")]
