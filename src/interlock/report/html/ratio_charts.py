"""Charts of ratios: over all benchmarks, in each benchmark, and of published claims. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt

from interlock.analysis.comparison import Table
from interlock.analysis.verdicts import Verdict, band_of
from interlock.catalog.types import slug
from interlock.report.html import drawing
from interlock.report.html.drawing import (
    INK,
    LIES,
    PAPER,
    Chart,
    Columns,
    Layout,
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
from interlock.report.html.frames import BASELINE, SHADES, Record, key_of
from interlock.results.experiments import State

FIELD_PX = 30  # the narrowest field of a heat map that holds a ratio
PX_A_LETTER = 7
LONGEST_STATE = max((state.value for state in State), key=len)
VERDICT_COLOURS = {
    Verdict.FASTER: drawing.FASTER,
    Verdict.SLOWER: drawing.SLOWER,
    Verdict.SAME: drawing.SAME,
    BASELINE: drawing.BASELINE,
}
SIDE_COLOURS = {"less time": drawing.FASTER, "more time": drawing.SLOWER, "not clear": drawing.SAME}
CLAIM_COLOURS = {"confirmed": drawing.GOOD, "refuted": drawing.BAD, "not testable here": drawing.SAME}


@dataclass(frozen=True)
class _Dots:
    """Dots with intervals, one in each row, over the twin's band."""

    frame: Sequence[Record]
    colour: alt.Color
    title: str
    tips: Mapping[str, str]
    band: float = 1.0

    @property
    def scale(self) -> alt.Scale:
        known = [one[key] for one in self.frame for key in ("ratio", "low", "high")]
        return log_scale([*known, self.band, 1 / self.band])


def _dots(layout: Layout, *, what: _Dots) -> alt.LayerChart:
    scale, band = what.scale, what.band
    x = partial(alt.X, scale=scale)
    place: dict[str, Any] = {"y": y_of(layout), "color": what.colour, "tooltip": tips(what.tips)}
    lone = alt.Chart(alt.InlineData([{"from": 1 / band, "one": 1, "to": band}]))
    edge = lone.mark_rule(color=token("band-edge"), strokeDash=[3, 3])
    shaded = [
        lone.mark_rect(color=token("band")).encode(x=x("from:Q"), x2="to:Q"),
        edge.encode(x=x("from:Q")),
        edge.encode(x=x("to:Q")),
    ]
    interval = rows().mark_rule(strokeWidth=2, yOffset=layout.mark_dy).encode(x=x("low:Q"), x2="high:Q", **place)
    dot = rows().mark_circle(size=75, opacity=1, yOffset=layout.mark_dy)
    figure = "format(datum.ratio, datum.ratio < 10 ? '.3f' : '.2f') + 'x'"
    parts = [
        *(shaded if band > 1 else []),
        lone.mark_rule(color=token(INK)).encode(x=x("one:Q")),
        interval,
        dot.encode(x=x("ratio:Q", axis=ratio_axis(layout, scale, what.title)), **place),
        drawing.figures(layout, rows().transform_calculate(shown=figure)),
        *names(layout),
    ]
    return layered(layout, 60, parts)


def summary_chart(tables: Sequence[Table], frame: Sequence[Record]) -> Chart | None:
    """Return the chart of means over all benchmarks, least time first; None if there is none."""
    has = [one for one in frame if one["ratio"] is not None]
    if not has:
        return None
    baseline = tables[0].baseline
    said = {"variant": "variant", "text": "mean ratio", "counted": "benchmarks", "faster": "faster", "slower": "slower"}
    what = _Dots(
        frame=has,
        colour=alt.Color("side:N", scale=scaled(SIDE_COLOURS), legend=alt.Legend()),
        title=f"time as a multiple of {baseline}'s",
        tips={**said, "same": "no difference"},
    )
    draw = partial(_dots, what=what)
    says = (
        f"Time per unit of work as a multiple of {baseline}'s (x, logarithmic): the geometric mean over up to "
        f"{len(tables)} benchmarks with its 95 % interval; left of 1 takes less time."
    )
    return Chart("summary", "All benchmarks in one figure", says, "summary", draw, needs="ratio", best_first=True)


def benchmark_chart(table: Table, frame: Sequence[Record]) -> Chart | None:
    """Return the chart of one benchmark's ratios to the baseline; None if there is none."""
    key, band = key_of(table), band_of(table.twin)
    has = [one for one in frame if one["benchmark"] == key and one["ratio"] is not None]
    if not has:
        return None
    said = {"variant": "variant", "value_text": table.benchmark.metric.label, "text": "ratio", "verdict": "verdict"}
    what = _Dots(
        frame=has,
        colour=alt.Color("verdict:N", scale=scaled(VERDICT_COLOURS), legend=alt.Legend()),
        title=f"time as a multiple of {table.baseline}'s",
        tips={**said, "control_text": "to its control", "state": "state"},
        band=band,
    )
    draw = partial(_dots, what=what)
    noise = f"the twin's band ({1 / band:.3f}x to {band:.3f}x) is shaded" if table.twin else "there is no twin"
    says = (
        f"Time per {table.workload.unit} as a multiple of {table.baseline}'s (x, logarithmic) with 95 % intervals over "
        f"{table.rounds} round{'' if table.rounds == 1 else 's'}; left of 1 is faster, and {noise}."
    )
    return Chart(f"ratio-{slug(key)}", key, says, "ratios", draw, {"benchmark": key}, needs="ratio")


def heat_map_chart(tables: Sequence[Table], frame: Sequence[Record]) -> Chart | None:
    """Return the heat map of variants and benchmarks; None without any."""
    if not frame:
        return None
    keys = [key_of(table) for table in tables]
    present = {one["shade"] for one in frame}
    shades = {label: f"shade-{name}" for name, label in SHADES.items() if label in present}
    codes = {one["word"]: one["code"] for one in frame if one["shade"] == SHADES["none"]}
    without = "".join(f"; {code} is {word}" for word, code in sorted(codes.items()))
    says = (
        f"Time per unit of work as a multiple of {tables[0].baseline}'s (x) for each variant and benchmark: orange is "
        f"slower, blue is faster, grey is no difference shown{without}."
    )
    draw = partial(_heat_map, keys=keys, shades=shades)
    title = "Variants and benchmarks"
    longest = max((word for key in keys for word in [*key.split(), LONGEST_STATE]), key=len)
    columns = Columns(len(keys), FIELD_PX, lying_px=PX_A_LETTER * len(longest))
    return Chart("heat-map", title, says, "ratios", draw, columns=columns)


def _heat_map(layout: Layout, *, keys: list[str], shades: Mapping[str, str]) -> alt.LayerChart:
    # Horizontal labels have two lines: the workload and the benchmark.
    axis = alt.Axis(
        orient="top",
        title=None,
        domain=False,
        ticks=False,
        labelLimit=0,
        labelAngle=alt.ExprRef(f"{LIES} ? 0 : -90"),
        labelAlign=alt.ExprRef(f"{LIES} ? 'center' : 'left'"),
        labelBaseline=alt.ExprRef(f"{LIES} ? 'bottom' : 'middle'"),
        labelPadding=alt.ExprRef(f"{LIES} ? 20 : 6"),
        labelExpr=f"{LIES} ? split(datum.label, ' ') : datum.label",
    )
    scale = alt.Scale(domain=keys, paddingInner=0.04, paddingOuter=0.02)
    said = {"variant": "variant", "benchmark": "benchmark", "value_text": "value", "text": "ratio"}
    encoded = rows().encode(
        x=alt.X("benchmark:N", sort=keys, axis=axis, scale=scale),
        y=y_of(layout, lines=False),
        tooltip=tips({**said, "verdict": "verdict", "state": "state"}),
    )
    legend = alt.Legend(columns=2 if layout.narrow else 3, symbolType="square", symbolStrokeColor=token("band-edge"))
    high: dict[str, Any] = {"height": 22, "yOffset": layout.mark_dy} if layout.narrow else {}
    fields = encoded.mark_rect(stroke=token(PAPER), strokeWidth=1, **high).encode(
        color=alt.Color("shade:N", scale=scaled(shades), legend=legend)
    )
    inks = {label: f"{name}-ink" for label, name in shades.items()}
    text = alt.ExprRef(f"{LIES} ? datum.word : datum.code")
    words = encoded.mark_text(fontSize=11, dy=layout.mark_dy, text=text).encode(
        color=alt.Color("shade:N", scale=scaled(inks), legend=None)
    )
    chart: alt.LayerChart = layered(layout, 6, [fields, words, *names(layout)]).resolve_scale(color="independent")
    return chart.add_params(alt.param(name=LIES, value=False))


def claims_chart(frame: Sequence[Record]) -> Chart | None:
    """Return the chart of published ratios and ours; None if no claim is of a ratio."""
    if not frame:
        return None
    says = (
        "Published ratios and ours (x, logarithmic): the bar is what a claim allows, the tick what was published, the "
        "dot our ratio with its 95 % interval."
    )
    return Chart("claims", "Published and measured", says, "claims", partial(_claims, frame=frame), row="claim")


def _claims(layout: Layout, *, frame: Sequence[Record]) -> alt.LayerChart:
    scale = log_scale([one[key] for one in frame for key in ("ratio", "low", "high", "published", "from", "to")])
    low, high = scale.domain
    x, y = partial(alt.X, scale=scale), y_of(layout, "claim")
    colour = alt.Color("verdict:N", scale=scaled(CLAIM_COLOURS), legend=alt.Legend())
    said = tips({"claim": "claim", "published": "published", "text": "ours", "verdict": "verdict"})
    mine: dict[str, Any] = {"y": y, "color": colour, "tooltip": said}
    drop: dict[str, Any] = {"yOffset": layout.mark_dy}
    # A claim with one bound ends where the axis does.
    allowed = rows().transform_calculate(start=f"datum.from || {low}", end=f"datum.to || {high}")
    bar = allowed.mark_bar(height=12, color=token("band"), stroke=token("band-edge"), strokeWidth=0.5, **drop)
    tick = rows().mark_tick(color=token(INK), thickness=2, size=14, orient="vertical", **drop)
    axis = ratio_axis(layout, scale, "ratio, as the claim puts it")
    parts = [
        bar.encode(x=x("start:Q"), x2="end:Q", y=y, tooltip=said),
        tick.encode(x=x("published:Q"), y=y, tooltip=said),
        rows().mark_rule(strokeWidth=2, **drop).encode(x=x("low:Q"), x2="high:Q", **mine),
        rows().mark_circle(size=75, opacity=1, **drop).encode(x=x("ratio:Q", axis=axis), **mine),
        *names(layout, "claim"),
    ]
    return layered(layout, 8, parts)
