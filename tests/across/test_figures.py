"""Figures for programs are plain, complete, and JSON even where an interval is open."""

from __future__ import annotations

import json

import pytest

from interlock.across import figures
from interlock.across.changes import changes
from interlock.across.history import histories
from interlock.across.hosts import summaries
from tests.across.extracts import OTHER, make_extract


def test_a_change_has_both_ratios_their_change_and_both_experiments() -> None:
    (found,) = changes(("A", [make_extract({OTHER: 2.0})]), ("B", [make_extract({OTHER: 2.4}, 1)]))
    plain = json.loads(json.dumps(figures.of_changes(found, times=False)))
    assert plain["kind"]["cpu"] == "Example CPU 9000"
    assert [one["name"] for one in plain["after"]["experiments"]] == ["2026-11-02-a"]
    (row,) = plain["tables"][0]["rows"]
    assert row["change"]["ratio"] == pytest.approx(1.2)
    assert (row["variant"], row["image"], row["change"]["verdict"]) == (OTHER, "same", "slower")
    assert "seconds_per_unit_not_comparable" not in row


def test_times_are_there_when_asked_for_under_a_name_that_says_what_they_are() -> None:
    (found,) = changes(("A", [make_extract({OTHER: 2.0})]), ("B", [make_extract({OTHER: 2.4}, 1)]))
    row = figures.of_changes(found, times=True)["tables"][0]["rows"][0]
    assert row["seconds_per_unit_not_comparable"] == pytest.approx((2e-7, 2.4e-7), rel=0.01)


def test_the_open_ends_of_one_round_are_null() -> None:
    (found,) = histories([make_extract({OTHER: 2.0}, rounds=1)])
    (point,) = json.loads(json.dumps(figures.of_history(found), allow_nan=False))["tables"][0]["series"][0]["points"]
    assert (point["ratio"], point["high"]) == (pytest.approx(2.0, rel=0.01), None)


def test_a_history_has_each_point_with_its_image_and_each_change() -> None:
    (found,) = histories([make_extract({OTHER: 2.0 if day < 5 else 3.0}, day) for day in range(10)])
    (series,) = json.loads(json.dumps(figures.of_history(found)))["tables"][0]["series"]
    assert [point["experiment"] for point in series["points"]][:2] == ["2026-11-01-a", "2026-11-02-a"]
    assert series["points"][0]["image"] == f"{OTHER} as ever"
    (change,) = series["changes"]
    assert (change["since"], change["at"], change["what"]) == ("2026-11-06-a", 5, [])
    assert change["ratio"] == pytest.approx(1.5, rel=0.01)


def test_the_hosts_of_a_kind_have_their_extremes_and_counts() -> None:
    (found,) = summaries([make_extract({OTHER: 2.0 + one}, 0, host=f"h{one}") for one in range(3)])
    plain = json.loads(json.dumps(figures.of_hosts(found)))
    (row,) = plain["tables"][0]["rows"]
    assert row["highest"] == {"ratio": pytest.approx(4.0, rel=0.01), "host": "h2"}
    assert row["hosts"] == {"slower": 3, "faster": 0, "no_difference": 0}
    assert plain["means"][OTHER]["ratio"] == pytest.approx(24 ** (1 / 3), rel=0.01)
