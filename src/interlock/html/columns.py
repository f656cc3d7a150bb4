"""The tables behind the charts: which columns of which frame, and how each is shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from interlock.beside import detail_text
from interlock.compare import Table
from interlock.html import figures
from interlock.html.curve_frames import table_name
from interlock.html.drawing import Chart
from interlock.html.figures import Frame
from interlock.report import profile_sections, value_text
from interlock.sections import SHARE, label_text, share_text

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
# Columns of texts that are no figures.
TEXT_KINDS = {"variant": "text", "probe": "text", "what it says": "words"}
OF_FRAME = {"summary": SUMMARY, "ratios": RATIOS, "waits": WAITS, "memory": MEMORY, "images": IMAGES, "claims": CLAIMS}


def tables(charts: Sequence[Chart], texts: Mapping[str, Frame]) -> dict[str, Any]:
    """The table behind each chart by the chart's name, that of its details, and one of all calls."""
    found = {chart.name: _behind(chart, texts) for chart in charts}
    beside = {
        f"{chart.name} details": _of_texts(name, texts)
        for chart in charts
        if (name := _details_of(chart)) and name in texts
    }
    every = {"frame": "calls", "where": {}, "row": "variant", "columns": CALLS}
    return {**found, **beside, "all-calls": {**every, "choose": ["benchmark"], "search": "call"}}


def _details_of(chart: Chart) -> str:
    """The frame of what stands beside a benchmark's metric; empty of a chart that is of something else."""
    return details_name(chart.where["benchmark"]) if chart.frame == "ratios" and chart.where else ""


def detailed(charts: Sequence[Chart], benchmarks: Sequence[Table]) -> set[str]:
    """The names of the charts whose benchmarks have something beside their metric."""
    known = details(benchmarks)
    return {chart.name for chart in charts if _details_of(chart) in known}


def _of_texts(name: str, texts: Mapping[str, Frame]) -> dict[str, Any]:
    """A table of texts, as the report's own tables have them."""
    columns = [(key, key, TEXT_KINDS.get(key, "text-number")) for key in texts[name][0]]
    return {"frame": name, "where": {}, "row": "variant", "columns": columns}


def _behind(chart: Chart, texts: Mapping[str, Frame]) -> dict[str, Any]:
    if chart.frame == "calls":  # what the probe counted besides
        return _of_texts(f"profile {chart.where['benchmark']}", texts)
    if chart.frame == "points":
        return _of_texts(table_name(chart.where["curve"]), texts)
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


def details(benchmarks: Sequence[Table]) -> dict[str, Frame]:
    """What stands beside the metric: a frame for each benchmark that has details or limits, with the limits' rows."""
    return {details_name(figures.key_of(table)): frame for table in benchmarks if (frame := _details(table))}


def details_name(benchmark: str) -> str:
    return f"details {benchmark}"


def _details(table: Table) -> Frame:
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
