"""Changes, histories and hosts as text: the head says what was compared, and nothing is passed over in silence."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from interlock.across import text
from interlock.across.changes import changes
from interlock.across.history import histories
from interlock.across.hosts import summaries
from interlock.across.text import Document, blocks
from tests.across.extracts import BASE, OTHER, THIRD, make_extract


def changed(*, times: bool = False, **after: Any) -> Document:
    before = make_extract({OTHER: 2.0, THIRD: 3.0, "cpython-3.9": 1.0})
    (found,) = changes(("A", [before]), ("B", [make_extract({OTHER: 2.4, THIRD: 3.0}, 1, **after)]))
    return text.of_changes(found, times=times)


def test_the_head_of_a_change_names_both_sides_the_kind_and_how_many_changed() -> None:
    assert changed().head == (
        "before   2026-11-01-a, 2026-11-01T06:00:00+00:00, Interlock 0.1.0, host box",
        "after    2026-11-02-a, 2026-11-02T06:00:00+00:00, Interlock 0.1.0, host box",
        "kind     2 cores Example CPU 9000, Linux 6.18.0, docker 28.0, storage driver overlay2; "
        "baseline cpython-3.13, profile standard",
        "image    of the baseline same",
        f"changed  1 of 2 ratios; {text.RATIOS_ONLY}",
        "noise    1 of 2 ratios of images that did not change differ: noise, or the host's doing",
    )


def test_a_changed_baseline_is_said_to_be_in_every_ratio() -> None:
    head = changed(content_hashes={BASE: "new"}).head
    assert "image    of the baseline changed, and it is in every ratio" in head
    assert not any(line.startswith("noise") for line in head)


def test_what_changed_stands_first_and_every_ratio_after_it() -> None:
    first, table = changed().sections
    assert (first.title, table.title) == ("what changed", "locks: uncontended, ratio to cpython-3.13, band 1.000")
    (row,) = first.rows
    assert row[:2] == ("locks uncontended", OTHER)
    assert table.rows[0] == row[1:]
    assert row[2:] == ("2.000x [1.989, 2.011]", "2.400x [2.387, 2.413]", row[4], "slower", "same")
    assert row[4].startswith("1.200x [1.19")
    assert table.rows[1][4] == "no difference"


def test_times_are_shown_only_when_asked_for_and_labelled() -> None:
    assert not any("ns per lock" in column for section in changed().sections for column in section.columns)
    document = changed(times=True)
    assert (
        "times    of another day and another state of the machine: shown as asked, not to be compared" in document.head
    )
    columns = document.sections[1].columns
    assert columns[-2:] == ("ns per lock before (not comparable)", "ns per lock after (not comparable)")
    assert document.sections[1].rows[0][-2:] == ("200", "240")


def test_sides_of_many_hosts_are_named_by_their_folder() -> None:
    sides = [[make_extract({OTHER: 2.0}, day, host=f"h{one}") for one in range(3)] for day in (0, 1)]
    (found,) = changes(("fleet/a", sides[0]), ("fleet/b", sides[1]))
    assert text.of_changes(found, times=True).head[0].startswith("before   fleet/a, 3 hosts, 2026-11-01T06")


@pytest.mark.parametrize("width", [80, 200])
def test_the_terminal_shows_what_was_left_out_and_the_legend_and_fits(width: int) -> None:
    stream = io.StringIO()
    Console(file=stream, width=width).print(text.terminal([changed()]))
    shown = stream.getvalue()
    assert max(map(len, shown.splitlines())) <= width
    assert "  only in A: cpython-3.9" in shown.splitlines()
    assert "'slower' and 'faster' need all of" in " ".join(shown.split())


def test_the_markdown_has_every_table_and_what_was_left_out() -> None:
    lines = text.markdown([changed()]).splitlines()
    assert lines[0] == "# A to B"
    assert [line for line in lines if line.startswith("## ")] == [
        "## what changed",
        "## locks: uncontended, ratio to cpython-3.13, band 1.000",
        "## left out",
    ]
    assert "- only in A: cpython-3.9" in lines


def test_a_history_lists_its_changes_before_its_series() -> None:
    extracts = [
        make_extract(
            {OTHER: 2.0 if day < 6 else 3.0, THIRD: 1.0}, day, content_hashes={OTHER: "old" if day < 6 else "new"}
        )
        for day in range(12)
    ]
    (found,) = histories(extracts)
    document = text.of_history(found)
    assert document.head[-1] == "changes  1 in 2 series"
    all_changes, table = document.sections
    (row,) = all_changes.rows
    assert row[:6] == (OTHER, "locks uncontended", "2026-11-07-a", "2.000x", "3.000x", "1.500x")
    assert row[7] == "image of cpython-3.14t old -> new"
    assert table.rows[0] == (
        OTHER,
        "▁▁▁▁▁▁██████",
        "12",
        "2.000x to 3.000x",
        "2.000x [1.989, 2.011]",
        "3.000x [2.984, 3.016]",
        "1.500x since 2026-11-07-a",
    )
    assert table.rows[1][-1] == "no change"


def test_a_history_of_few_says_that_they_are_too_few() -> None:
    (found,) = histories([make_extract({OTHER: 2.0}, day) for day in range(5)])
    (table,) = text.of_history(found).sections
    assert table.rows[0][-1] == "too few to tell"


def test_the_hosts_of_a_kind_are_counted_and_the_extremes_named() -> None:
    (found,) = summaries([make_extract({OTHER: 2.0 + 0.1 * one}, 0, host=f"h{one}") for one in range(10)])
    document = text.of_hosts(found)
    assert document.head[1] == "hosts    10: h0, h1, h2, h3, h4, h5, h6, h7, ..."
    mean, table = document.sections
    assert mean.rows[0][0] == OTHER
    assert table.columns[2:] == ("lowest", "highest", "slower", "faster", "no difference")
    assert table.rows[0][2:] == ("2.000x h0", "2.900x h9", "10", "0", "0")


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=300))
def test_a_line_of_blocks_is_short_and_of_blocks_alone(series: list[float]) -> None:
    line = blocks(series)
    assert len(line) == min(len(series), text.WIDEST)
    assert set(line) <= set(text.BLOCKS)


def test_the_lowest_and_the_highest_have_the_outer_blocks_and_noise_is_flat() -> None:
    assert blocks([0.0, 0.5, 1.0]) == "▁▅█"
    assert len(set(blocks([math.log(1 + 0.005 * (number % 2)) for number in range(10)]))) <= 2
