"""Charts of the page: ratios and system calls. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from interlock.analysis.comparison import Table
from interlock.analysis.verdicts import Verdict
from interlock.catalog.types import slug
from interlock.report.experiment import per_unit
from interlock.report.html import drawing
from interlock.report.html.drawing import (
    INK,
    PAPER,
    Chart,
    Drawing,
    Layout,
    bar_height,
    layered,
    log_scale,
    names,
    ratio_axis,
    rows,
    scaled,
    tips,
    token,
    y_of,
)
from interlock.report.html.frames import (
    BASELINE,
    OTHER,
    Record,
    key_of,
)
from interlock.report.tables import ratio_text, rounds_text


def calls_chart(table: Table, frame: Sequence[Record], named: Sequence[str]) -> Chart | None:
    """Return the chart of one benchmark's system calls; None if none were counted."""
    key, unit = key_of(table), per_unit(table.benchmark.profile_metric)
    kinds = {record["kind"] for record in frame if record["benchmark"] == key}
    if not kinds:
        return None
    paint = {**dict(zip(named, drawing.CALLS, strict=False)), OTHER: drawing.OTHER_CALLS}
    draw = partial(_calls, paint={kind: name for kind, name in paint.items() if kind in kinds}, unit=unit)
    says = (
        f"System calls {unit} by name, with their sum as a number, counted in a separate pass; variants without any "
        "call are left out."
    )
    return Chart(f"calls-{slug(key)}", f"{key}: system calls", says, "calls", draw, {"benchmark": key})


def _calls(layout: Layout, *, paint: Mapping[str, str], unit: str) -> Drawing:
    legend = alt.Legend(columns=2 if layout.narrow else 4, symbolType="square")
    axis = alt.Axis(orient="top", title=f"system calls {unit}", tickCount=layout.ticks, format=",~r")
    bars = (
        rows()
        .mark_bar(stroke=token(PAPER), strokeWidth=0.5, **bar_height(layout))
        .encode(
            x=alt.X("sum(calls):Q", stack="zero", axis=axis),
            y=y_of(layout),
            color=alt.Color("kind:N", scale=scaled(paint), legend=legend),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("variant:N"),
                alt.Tooltip("kind:N", title="call"),
                alt.Tooltip("sum(calls):Q", format=",.4~r", title=unit),
            ],
        )
    )
    total = rows().transform_aggregate(total="sum(calls)", order="min(order)", groupby=["variant"])
    shown = total.transform_calculate(shown="format(datum.total, datum.total < 1000 ? '.3~r' : ',.0f')")
    return layered(layout, 66, [bars, drawing.figures(layout, shown), *names(layout)])


VERDICT_COLOURS = {
    Verdict.FASTER: drawing.FASTER,
    Verdict.SLOWER: drawing.SLOWER,
    Verdict.SAME: drawing.GOOD,
    Verdict.UNDECIDED: drawing.SAME,
    BASELINE: drawing.BASELINE,
}


def benchmark_chart(table: Table, frame: Sequence[Record]) -> Chart | None:
    """Return the chart of one benchmark's ratios to the baseline; None if there is none."""
    key, margin = key_of(table), table.workload.margin
    ratios = [record for record in frame if record["benchmark"] == key and record["ratio"] is not None]
    if not ratios:
        return None
    known = [record[end] for record in ratios for end in ("ratio", "low", "high")]
    draw = partial(_ratios, table=table, scale=log_scale([*known, 1 + margin, 1 / (1 + margin)]))
    twin = f"; the twin, which is the same image, shows {ratio_text(table.twin)}" if table.twin else ""
    says = (
        f"Time per {table.workload.unit} as a multiple of {table.baseline}'s (x, logarithmic) with 95 % intervals over "
        f"{rounds_text(table.rounds)}; left of 1 is faster; {100 * margin:g} % to either side are shaded{twin}."
    )
    return Chart(f"ratio-{slug(key)}", key, says, "ratios", draw, {"benchmark": key}, needs="ratio")


def _ratios(layout: Layout, *, table: Table, scale: alt.Scale) -> Drawing:
    """Draw dots with intervals, one in each row, over the band in which two are the same."""
    x, band = partial(alt.X, scale=scale), 1 + table.workload.margin
    # In one line the legend would be wider than a phone.
    colour = alt.Color("verdict:N", scale=scaled(VERDICT_COLOURS), legend=alt.Legend(columns=3 if layout.narrow else 0))
    said = {"variant": "variant", "value_text": table.benchmark.metric.label, "text": "ratio", "said": "verdict"}
    said |= {"control_text": "to its control", "state": "state"}
    place: dict[str, Any] = {"y": y_of(layout), "color": colour, "tooltip": tips(said)}
    lone = alt.Chart(alt.InlineData([{"from": 1 / band, "one": 1, "to": band}]))
    edge = lone.mark_rule(color=token("band-edge"), strokeDash=[3, 3])
    interval = rows().mark_rule(strokeWidth=2, yOffset=layout.mark_dy)
    dot = rows().mark_circle(size=75, opacity=1, yOffset=layout.mark_dy)
    axis = ratio_axis(layout, scale, f"time as a multiple of {table.baseline}'s")
    figure = "format(datum.ratio, datum.ratio < 10 ? '.3f' : '.2f') + 'x'"
    parts = [
        lone.mark_rect(color=token("band")).encode(x=x("from:Q"), x2=alt.X2("to:Q")),
        edge.encode(x=x("from:Q")),
        edge.encode(x=x("to:Q")),
        lone.mark_rule(color=token(INK)).encode(x=x("one:Q")),
        interval.encode(x=x("low:Q"), x2=alt.X2("high:Q"), **place),
        dot.encode(x=x("ratio:Q", axis=axis), **place),
        drawing.figures(layout, rows().transform_calculate(shown=figure)),
        *names(layout),
    ]
    return layered(layout, 60, parts)
