"""The report's charts as SVG and PNG, for READMEs and pages of others. Pure: frames in, text and bytes out."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import vl_convert

from interlock.claims import Finding
from interlock.compare import Table
from interlock.html import figures
from interlock.html.charts import all_charts
from interlock.html.colours import COLOURS, INK, MUTED, PAPER, by_daylight
from interlock.html.drawing import LIES, WIDE, Chart, ordered
from interlock.html.figures import Frame
from interlock.model import Experiment

WIDTH_PX = 720
PIXELS = 2  # of a PNG for each of the SVG


def pictures(
    experiment: Experiment, tables: Sequence[Table], findings: Sequence[Finding]
) -> Iterator[tuple[str, bytes]]:
    """File name and content of each chart, as SVG and as PNG, with its title and what it shows."""
    frames, names = figures.frames(experiment, tables, findings), figures.variant_names(experiment)
    for chart in all_charts(tables, frames):
        specification = json.dumps(whole(chart, frames[chart.frame], names), allow_nan=False)
        yield f"{chart.name}.svg", vl_convert.vegalite_to_svg(specification).encode()
        yield f"{chart.name}.png", vl_convert.vegalite_to_png(specification, scale=PIXELS)


def whole(chart: Chart, frame: Frame, names: Sequence[str]) -> dict[str, Any]:
    """A chart with its data, its title and the colours of daylight."""
    specification: dict[str, Any] = by_daylight(chart.specification(WIDE))
    rows = ordered(chart.records(frame), chart.row, names, best_first=chart.best_first)
    title = {
        "text": chart.title,
        "subtitle": textwrap.wrap(chart.says, 115),
        "anchor": "start",
        "frame": "bounds",
        "color": COLOURS[INK].light,
        "subtitleColor": COLOURS[MUTED].light,
        "subtitlePadding": 4,
        "offset": 14,
    }
    width_px = WIDTH_PX
    if chart.columns:
        width_px = max(width_px, chart.columns.count * chart.columns.least_px)
        specification["params"] = [{"name": LIES, "value": width_px / chart.columns.count > chart.columns.lying_px}]
    return {
        **specification,
        "width": width_px,
        "background": COLOURS[PAPER].light,
        "padding": 16,
        "title": title,
        "datasets": {**specification.get("datasets", {}), "rows": rows},
    }
