"""The tables behind charts: each has one, and its columns exist."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.report.html import chart_tables, page
from interlock.report.html import frames as figures
from interlock.results.profiles import LockSites, Site
from tests.reports import example, reference

KINDS = {"text", "words", "number", "share", "ratio", "value", "control", "bin", "text-number"}


@pytest.mark.parametrize("name", ["small", "a", "b"])
def test_there_is_a_table_behind_each_chart_and_its_columns_exist(name: str) -> None:
    report = example() if name == "small" else reference(name)
    frames = figures.frames(*report)
    profiles = chart_tables.profile_frames(report[1])
    drawn = page.all_charts(report[1], frames)
    tables = chart_tables.tables_behind(drawn, profiles)
    assert set(tables) == {*(one.name for one in drawn), "all-calls"}
    for chart, table in tables.items():
        frame = (frames | profiles)[table["frame"]]
        keys = {key for key, _, _ in table["columns"]}
        assert keys <= set(frame[0]), chart
        assert {kind for _, _, kind in table["columns"]} <= KINDS
        assert table["row"] in keys


def test_a_figure_that_is_shown_as_text_is_sorted_by_a_key_that_its_record_has() -> None:
    sorted_by = {"ratio": "ratio", "value": "value", "control": "control", "bin": "log2"}
    frames = figures.frames(*example())
    for name, of_frame in chart_tables.OF_FRAME.items():
        for _, _, kind in of_frame:
            assert kind not in sorted_by or sorted_by[kind] in frames[name][0], (name, kind)


def test_why_rows_wait_is_a_table_beside_what_the_probe_counted() -> None:
    experiment, tables, *rest = example()
    site = Site(call="futex", lock="GIL", caller="a.py:1 f", python=[], c=[], calls=1, ns=1, max_ns=1)
    why = LockSites(units=1, ns=1, sites=[site])
    explained = [
        replace(
            table,
            rows=tuple(
                replace(row, profile=row.profile and row.profile.model_copy(update={"why": why})) for row in table.rows
            ),
        )
        for table in tables
    ]
    found = chart_tables.profile_frames(explained)
    assert list(found) == ["profile locks uncontended", "why locks uncontended"]
    assert "futex wait" in found["profile locks uncontended"][0]
    assert found["why locks uncontended"][0]["lock"] == "GIL"
    known = figures.frames(experiment, explained, *rest)
    drawn = page.all_charts(explained, known)
    (calls,) = [one.name for one in drawn if one.frame == "calls"]
    assert calls in chart_tables.charts_with_details(drawn, explained)
    assert chart_tables.tables_behind(drawn, found | known)[f"{calls} details"]["frame"] == "why locks uncontended"


def test_behind_a_chart_of_calls_is_what_the_probe_counted_besides() -> None:
    ((name, rows),) = chart_tables.profile_frames(example()[1]).items()
    assert name == "profile locks uncontended"
    assert rows[0]["variant"] == "cpython-2.7-pth"
    assert rows[0]["futex wait"] == "40,000"
