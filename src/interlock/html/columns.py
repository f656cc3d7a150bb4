"""The tables behind the charts: which columns of which frame, and how each is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.compare import Table
from interlock.html import figures
from interlock.html.drawing import Chart
from interlock.html.figures import Frame
from interlock.report import profile_sections

# Key, heading, and kind: text, words (that wrap), number (three digits), share, or the text of a figure that has
# another key, by which it is sorted.
Column = tuple[str, str, str]

SUMMARY: list[Column] = [
    ("variant", "variant", "text"),
    ("text", "mean ratio [95 %]", "ratio"),
    ("counted", "benchmarks", "number"),
    ("of", "of", "number"),
    ("faster", "faster", "number"),
    ("slower", "slower", "number"),
    ("same", "no difference", "number"),
]
RATIOS: list[Column] = [
    ("variant", "variant", "text"),
    ("value_text", "value", "value"),
    ("text", "ratio to baseline [95 %]", "ratio"),
    ("verdict", "verdict", "text"),
    ("control_text", "ratio to control", "control"),
    ("rss_mb", "RSS MB", "number"),
    ("state", "state", "words"),
]
CALLS: list[Column] = [
    ("variant", "variant", "text"),
    ("benchmark", "benchmark", "text"),
    ("call", "call", "text"),
    ("calls", "calls per unit", "number"),
    ("share", "of its calls", "share"),
    ("failed", "failed per unit", "number"),
    ("ms", "ms in it per unit", "number"),
]
WAITS: list[Column] = [
    ("variant", "variant", "text"),
    ("bin", "a wait lasted", "bin"),
    ("waits", "waits", "number"),
    ("share", "of its waits", "share"),
]
MEMORY: list[Column] = [("variant", "variant", "text"), ("benchmark", "benchmark", "text"), ("mb", "RSS MB", "number")]
IMAGES: list[Column] = [
    ("variant", "variant", "text"),
    ("says", "the interpreter says", "words"),
    ("tag", "image", "text"),
    ("size_mb", "MB", "number"),
    ("own_mb", "its own MB", "number"),
    ("build_s", "build s", "number"),
    ("state", "state", "words"),
]
CLAIMS: list[Column] = [
    ("claim", "claim", "text"),
    ("published", "published", "number"),
    ("text", "ours [95 %]", "ratio"),
    ("verdict", "verdict", "text"),
]
OF_FRAME = {"summary": SUMMARY, "ratios": RATIOS, "waits": WAITS, "memory": MEMORY, "images": IMAGES, "claims": CLAIMS}


def tables(charts: Sequence[Chart], profiles: Mapping[str, Frame]) -> dict[str, Any]:
    """The table behind each chart by the chart's name, and one of all calls."""
    found = {chart.name: _profile(chart, profiles) if chart.frame == "calls" else _behind(chart) for chart in charts}
    every = {"frame": "calls", "where": {}, "row": "variant", "columns": CALLS}
    return {**found, "all-calls": {**every, "choose": ["benchmark"], "search": "call"}}


def _profile(chart: Chart, profiles: Mapping[str, Frame]) -> dict[str, Any]:
    """Behind a chart of calls is what the probe counted besides."""
    name = f"profile {chart.where['benchmark']}"
    kinds = {"variant": "text", "probe": "text"}
    columns = [(key, key, kinds.get(key, "text-number")) for key in profiles[name][0]]
    return {"frame": name, "where": {}, "row": "variant", "columns": columns}


def _behind(chart: Chart) -> dict[str, Any]:
    columns = OF_FRAME[chart.frame]
    if chart.name == "heat-map":
        columns = [columns[0], ("benchmark", "benchmark", "text"), *columns[1:]]
    return {"frame": chart.frame, "where": chart.where, "columns": columns, "row": chart.row}


def profiles(benchmarks: Sequence[Table]) -> dict[str, Frame]:
    """What the probe counted, as the report's own tables say it, a frame for each profiled benchmark."""
    found = {}
    for table in benchmarks:
        for section in profile_sections([table]):
            rows = [dict(zip(section.columns, row, strict=True)) for row in section.rows]
            found[f"profile {figures.key_of(table)}"] = rows
    return found
