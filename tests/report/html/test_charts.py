"""Every chart that there is data for, in both layouts: valid, drawn by Vega-Lite, with its unit and a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import altair as alt
import pytest
import vl_convert

from interlock.report.html import frames as figures
from interlock.report.html import page
from interlock.report.html.drawing import NARROW, WIDE, Chart, Layout, token
from tests.reports import ReportInput, example, reference

EXPERIMENTS = ("small", "57 rows")
UNITS = re.compile(r"\(x\b|\(x,|System calls per")


@cache
def experiments() -> dict[str, ReportInput]:
    return dict(zip(EXPERIMENTS, (example(), reference("b")), strict=True))


def drawn(report: ReportInput) -> list[tuple[Chart, list[figures.Record]]]:
    frames = figures.frames(report[1])
    return [(chart, records_of(chart, frames[chart.frame])) for chart in page.all_charts(report[1], frames)]


def records_of(chart: Chart, frame: figures.Frame) -> figures.Frame:
    """Return the records that the page's script gives to a chart."""
    mine = [record for record in frame if all(record[key] == value for key, value in chart.where.items())]
    return [record for record in mine if chart.needs is None or record[chart.needs] is not None]


@cache
def all_of(name: str) -> list[tuple[Chart, list[figures.Record]]]:
    """Return all charts of an experiment."""
    return drawn(experiments()[name])


@cache
def charts_of(name: str) -> list[tuple[Chart, list[figures.Record]]]:
    """Return all charts of the small experiment, and of the others those that it has not or that are much larger."""
    chosen: dict[str, Callable[[Chart], bool]] = {
        "small": lambda _: True,
        "57 rows": lambda chart: chart.where.get("benchmark", "locks queue") == "locks queue",
    }
    return [one for one in all_of(name) if chosen[name](one[0])]


@cache
def specifications(name: str) -> dict[tuple[str, Layout], dict[str, Any]]:
    """Return the charts of an experiment that the tests look at as Vega-Lite in both layouts, made once."""
    return {
        (chart.name, layout): chart.specification(layout) for chart, _ in charts_of(name) for layout in (WIDE, NARROW)
    }


def whole(name: str, chart: Chart, records: list[figures.Record], layout: Layout, width: int) -> dict[str, Any]:
    specification = specifications(name)[chart.name, layout]
    order = {name: number for number, name in enumerate(dict.fromkeys(record["variant"] for record in records))}
    rows = [{**record, "order": order[record["variant"]]} for record in records]
    return {**specification, "width": width, "datasets": {**specification.get("datasets", {}), "rows": rows}}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_chart_is_valid_vega_lite_in_both_layouts(name: str) -> None:
    for chart, records in charts_of(name):
        assert records, chart.name
        for layout in (WIDE, NARROW):
            # `from_dict` would make objects of it besides, which takes ten times as long.
            alt.LayerChart.validate(specifications(name)[chart.name, layout])


@pytest.mark.parametrize(("layout", "width"), [(WIDE, 720), (NARROW, 330)], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_chart_is_drawn_without_a_warning_and_names_every_row(name: str, layout: Layout, width: int) -> None:
    for chart, records in charts_of(name):
        rows = {record["variant"] for record in records}
        drawn_as = vl_convert.vegalite_to_svg(json.dumps(whole(name, chart, records, layout, width)))
        texts = set(re.findall(r">([^<>]+)</text>", drawn_as))
        # A name that has no room in a narrow place is cut, with an ellipsis.
        cut = [text[:-1] for text in texts if text.endswith("…")]
        missing = {row for row in rows - texts if not any(row.startswith(one) for one in cut)}
        assert missing == set(), chart.name
        assert "NaN" not in drawn_as, chart.name
        assert "undefined" not in drawn_as, chart.name


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_chart_says_in_one_sentence_what_it_shows_and_names_its_unit(name: str) -> None:
    for chart, _ in charts_of(name):
        assert UNITS.search(chart.says), chart.says
        assert chart.says.endswith("."), chart.says
        assert ". " not in chart.says, chart.says
        assert specifications(name)[chart.name, WIDE]["description"] == chart.says


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_charts_have_names_of_their_own_that_can_be_files(name: str) -> None:
    names = [chart.name for chart, _ in all_of(name)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9.-]+", one) for one in names)


def test_there_is_a_chart_of_each_kind() -> None:
    names = [chart.name for chart, _ in all_of("small")]
    assert names == [
        "ratio-locks-uncontended",
        "ratio-locks-queue",
        "calls-locks-uncontended",
    ]


def test_the_margin_within_which_two_are_the_same_is_shaded_behind_the_dots() -> None:
    by_name = specifications("57 rows")
    specification = by_name["ratio-locks-queue", WIDE]
    lowest = specification["layer"][0]
    assert lowest["mark"] == {"type": "rect", "color": token("band")}
    assert specification["datasets"][lowest["data"]["name"]] == [{"from": 1 / 1.05, "one": 1, "to": 1.05}]
