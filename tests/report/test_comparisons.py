"""Comparisons say what was compared and what was left out, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.analysis.changes import Changes, Side, changes_between
from interlock.analysis.cohorts import Extract, kind_summaries
from interlock.errors import StoreError
from interlock.report import comparisons
from interlock.report.comparisons import Document
from tests.analysis.extracts import BASE, OTHER, THIRD, make_extract, write_experiment
from tests.reports import printed


def changes(before: Extract, after: Extract) -> Changes:
    return changes_between(Side("A", before), Side("B", after))


def changed(**after: Any) -> Document:
    before = make_extract({OTHER: 2.0, THIRD: 3.0, "cpython-3.9": 1.0})
    return comparisons.changes_document(changes(before, make_extract({OTHER: 2.4, THIRD: 3.0}, 1, **after)))


def test_the_head_of_a_change_names_both_sides_the_kind_and_how_many_changed() -> None:
    head = changed().head
    assert head == (
        "before   2026-11-01-a, 2026-11-01T06:00:00+00:00, Interlock 0.1.0, host box",
        "after    2026-11-02-a, 2026-11-02T06:00:00+00:00, Interlock 0.1.0, host box",
        "kind     2 cores Example CPU 9000, Linux 6.18.0, docker 28.0, storage driver overlay2; "
        "baseline cpython-3.13 (PGO and LTO unknown)",
        "image    of the baseline same",
        f"changed  1 of 2 ratios; {comparisons.RATIOS_ONLY}",
        head[-1],
    )
    assert head[-1].startswith("noise    1 of 2 ratios ")


def test_a_changed_baseline_is_said_to_be_in_every_ratio() -> None:
    head = changed(content_hashes={BASE: "new"}).head
    assert any(line.startswith("image ") and "changed" in line for line in head)
    assert not any(line.startswith("noise") for line in head)


def test_changed_packages_are_named_once_and_marked_in_every_ratio_that_has_them() -> None:
    old, new = {"waitress": "3.0.1"}, {"waitress": "3.0.2"}

    def marked(*having: str) -> tuple[list[str], dict[str, str]]:
        ratios = {OTHER: 2.0, THIRD: 3.0}
        sides = [make_extract(ratios, packages=dict.fromkeys(having, packages)) for packages in (old, new)]
        document = comparisons.changes_document(changes(*sides))
        said = [line for line in document.head if line.startswith("packages ")]
        return said, {row[0]: row[-1] for row in document.sections[-1].rows}

    assert marked() == ([], {OTHER: "same", THIRD: "same"})
    (line,), rows = marked(OTHER)
    assert all(part in line for part in ("locks", "waitress 3.0.1 to 3.0.2", OTHER))
    assert (rows[OTHER] != "same", rows[THIRD] == "same") == (True, True)
    (line,), rows = marked(BASE, OTHER)
    assert BASE in line
    assert "same" not in rows.values()


def test_what_changed_stands_first_and_every_ratio_after_it() -> None:
    first, table = changed().sections
    assert (first.title, table.title) == ("what changed", "locks: uncontended, ratio to cpython-3.13")
    (row,) = first.rows
    assert row[:2] == ("locks uncontended", OTHER)
    assert table.rows[0] == row[1:]
    assert row[2:] == ("2.000x [1.993, 2.007]", "2.400x [2.392, 2.408]", row[4], "slower", "same")
    assert row[4].startswith("1.200x [1.19")
    assert table.rows[1][4] == "same within 5 %"


@pytest.mark.parametrize("width", [80, 200])
def test_the_terminal_shows_what_was_left_out_and_the_legend_and_fits(width: int) -> None:
    shown = printed(comparisons.terminal([changed()]), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "  only in A: cpython-3.9" in shown.splitlines()
    assert any(" ".join(legend.split()) in " ".join(shown.split()) for legend in comparisons.LEGENDS.values())


def test_the_markdown_has_every_table_and_what_was_left_out() -> None:
    lines = comparisons.markdown([changed()]).splitlines()
    assert lines[0] == "# A to B"
    assert [line for line in lines if line.startswith("## ")] == [
        "## what changed",
        "## locks: uncontended, ratio to cpython-3.13",
        "## left out",
    ]
    assert "- only in A: cpython-3.9" in lines


def test_the_hosts_of_a_kind_are_counted_and_the_extremes_named() -> None:
    (found,) = kind_summaries([make_extract({OTHER: 2.0 + 0.1 * one}, 0, host=f"h{one}") for one in range(10)])
    document = comparisons.hosts_document(found)
    assert document.head[1] == "hosts    10: h0, h1, h2, h3, h4, h5, h6, h7, ..."
    mean, table = document.sections
    assert mean.rows[0][0] == OTHER
    assert table.columns[2:] == ("lowest", "highest", "slower", "faster", "same", "undecided")
    assert table.rows[0][2:] == ("2.000x h0", "2.900x h9", "10", "0", "0", "0")


def test_a_change_has_both_ratios_their_change_and_both_experiments() -> None:
    after = make_extract({OTHER: 2.4}, 1, packages={OTHER: {"waitress": "3"}})
    plain = json.loads(comparisons.as_json(changes(make_extract({OTHER: 2.0}), after)))
    assert plain["kind"]["cpu"] == "Example CPU 9000"
    assert plain["after"]["name"] == "2026-11-02-a"
    (table,) = plain["tables"]
    (row,) = table["rows"]
    assert (row["packages"], table["baseline_packages"]) == ("waitress none to 3", "")
    assert row["change"]["ratio"] == pytest.approx(1.2)
    assert (row["variant"], row["image"], row["change"]["verdict"]) == (OTHER, "same", "slower")


def test_the_open_ends_of_one_round_are_null() -> None:
    found = changes(*(make_extract({OTHER: 2.0}, day, rounds=1) for day in (0, 1)))
    (row,) = json.loads(comparisons.as_json(found))["tables"][0]["rows"]
    assert (row["before"]["low"], row["before"]["high"]) == (0, None)


def test_an_experiment_is_read_with_its_ratios_and_a_spoilt_file_of_it_is_named(tmp_path: Path) -> None:
    folder = write_experiment(tmp_path / "e", {OTHER: 2.0}, 1)
    one = comparisons.read_extract(folder)
    assert one.name == "2026-11-02-a"
    assert one.measured["locks", "uncontended"].points[OTHER].ratio.estimate == pytest.approx(2)
    spoilt = folder / "box" / OTHER / "locks.json"
    spoilt.write_text("{", encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        comparisons.read_extract(folder)
    assert caught.value.file == str(spoilt)
