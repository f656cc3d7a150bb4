"""Frames -> the report's charts: Vega-Lite by Altair, each for a wide and for a narrow place. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.compare import Table
from interlock.html import costs, ratios, scaling
from interlock.html.drawing import Chart
from interlock.html.figures import Frame, top_calls


def all_charts(tables: Sequence[Table], frames: Mapping[str, Frame]) -> list[Chart]:
    """The charts that the experiment has data for, in the order of the page."""
    named = top_calls(frames["calls"])
    found = [
        ratios.summary(tables, frames["summary"]),
        ratios.heat_map(tables, frames["ratios"]),
        *(ratios.benchmark(table, frames["ratios"]) for table in tables),
        *(scaling.curve(one, frames["points"]) for one in frames["curves"]),
        *(costs.calls(table, frames["calls"], named) for table in tables),
        *(costs.waits(table, frames["waits"]) for table in tables),
        costs.memory(frames["memory"]),
        costs.image_sizes(frames["images"]),
        ratios.claims(frames["claims"]),
    ]
    return [chart for chart in found if chart]
