"""The tables behind the charts of the page, and those of the details of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.analysis.comparison import Table
from interlock.report.experiment import profile_sections
from interlock.report.html.drawing import Chart
from interlock.report.html.frames import Frame, curve_table_name, key_of
from interlock.report.tables import SHARE, detail_text, label_text, share_text, value_text

# Key, heading and kind: text, words (that wrap), number (three digits), share; or a figure as text, for which
# tables.js knows the key to sort by.
Column = tuple[str, str, str]

SUMMARY: list[Column] = [
    ("variant", "variant", "text"),
    ("text", "mean ratio [95 %]", "ratio"),
    ("counted", "benchmarks", "number"),
    ("of", "of", "number"),
    ("faster", "faster", "number"),
    ("slower", "slower", "number"),
    ("same", "same", "number"),
    ("undecided", "undecided", "number"),
]
RATIOS: list[Column] = [
    ("variant", "variant", "text"),
    ("value_text", "value", "value"),
    ("text", "ratio to baseline [95 %]", "ratio"),
    ("said", "verdict", "text"),
    ("control_text", "ratio to control", "control"),
    ("calls_text", "lock cost or calls per unit", "text"),
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
# Columns of the report's own tables that hold no figures.
TEXT_KINDS = dict.fromkeys(("variant", "probe", "lock"), "text") | dict.fromkeys(
    ("what it says", "where", "woken by"), "words"
)
OF_FRAME = {"summary": SUMMARY, "ratios": RATIOS, "waits": WAITS, "memory": MEMORY, "images": IMAGES, "claims": CLAIMS}


WHY = "why"


def tables_behind(charts: Sequence[Chart], texts: Mapping[str, Frame]) -> dict[str, Any]:
    """Return the table behind each chart by the chart's name, the tables of details, and one of all calls."""
    found = {chart.name: _behind(chart, texts) for chart in charts}
    detailed = {
        f"{chart.name} details": _text_table(name, texts)
        for chart in charts
        if (name := _detail_frame_of(chart)) and name in texts
    }
    every = {"frame": "calls", "where": {}, "row": "variant", "columns": CALLS}
    return {**found, **detailed, "all-calls": {**every, "choose": ["benchmark"], "search": "call"}}


def _detail_frame_of(chart: Chart) -> str:
    """Return the name of the frame with a benchmark's details, or with why it waits; empty for other charts."""
    if chart.frame == "calls":
        return f"{WHY} {chart.where['benchmark']}"
    return detail_frame_name(chart.where["benchmark"]) if chart.frame == "ratios" and chart.where else ""


def charts_with_details(charts: Sequence[Chart], benchmarks: Sequence[Table]) -> set[str]:
    """Return the names of the charts whose benchmarks have details or limits, or stacks."""
    known = detail_frames(benchmarks).keys() | profile_frames(benchmarks).keys()
    return {chart.name for chart in charts if _detail_frame_of(chart) in known}


def _text_table(name: str, texts: Mapping[str, Frame]) -> dict[str, Any]:
    """Return a table of texts from the report's own tables."""
    columns = [(key, key, TEXT_KINDS.get(key, "text-number")) for key in texts[name][0]]
    return {"frame": name, "where": {}, "row": "variant", "columns": columns}


def _behind(chart: Chart, texts: Mapping[str, Frame]) -> dict[str, Any]:
    if chart.frame == "calls":  # behind them: all that the probe counted
        return _text_table(f"profile {chart.where['benchmark']}", texts)
    if chart.frame == "points":
        return _text_table(curve_table_name(chart.where["curve"]), texts)
    columns = OF_FRAME[chart.frame]
    if chart.name == "heat-map":
        columns = [columns[0], ("benchmark", "benchmark", "text"), *columns[1:]]
    return {"frame": chart.frame, "where": chart.where, "columns": columns, "row": chart.row}


def profile_frames(benchmarks: Sequence[Table]) -> dict[str, Frame]:
    """Return the report's own tables of each profiled benchmark: what the probe counted, and why each row waits."""
    return {
        f"{kind} {key_of(table)}": [dict(zip(section.columns, row, strict=True)) for row in section.rows]
        for table in benchmarks
        for kind, section in zip(("profile", WHY), profile_sections([table]), strict=False)
    }


def detail_frames(benchmarks: Sequence[Table]) -> dict[str, Frame]:
    """Return a frame for each benchmark with details or limits: value, share of the limit and details of each row."""
    return {detail_frame_name(key_of(table)): frame for table in benchmarks if (frame := _detail_frame(table))}


def detail_frame_name(benchmark: str) -> str:
    return f"details {benchmark}"


def _detail_frame(table: Table) -> Frame:
    rows = [row for row in (*table.rows, *table.limits) if row.seconds is not None]
    labels = [detail.label for detail in table.workload.details_of(table.benchmark)]
    if not labels and not table.limits:
        return []
    return [
        {
            "variant": label_text(row.label),
            table.benchmark.metric.label: value_text(table, row),
            **({SHARE: share_text(row.share)} if table.limits else {}),
            **dict(zip(labels, map(detail_text, row.details), strict=True)),
        }
        for row in rows
    ]
