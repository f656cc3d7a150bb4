"""Charts of what work costs besides time: system calls, futex waits, memory, the size of images. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import altair as alt

from interlock.compare import Table
from interlock.html import colours, drawing
from interlock.html.colours import PAPER, token
from interlock.html.drawing import Chart, Layout, bar_height, layered, names, rows, scaled, tips, y_of
from interlock.html.figures import OTHER, Record, duration, key_of, per_unit
from interlock.model import slug


def calls(table: Table, frame: Sequence[Record], named: Sequence[str]) -> Chart | None:
    """One benchmark's system calls; none if nothing was counted in its work."""
    key, unit = key_of(table), per_unit(table)
    kinds = {one["kind"] for one in frame if one["benchmark"] == key}
    if not kinds:
        return None
    paint = {**dict(zip(named, colours.CALLS, strict=False)), OTHER: colours.OTHER_CALLS}
    draw = partial(_calls, paint={kind: name for kind, name in paint.items() if kind in kinds}, unit=unit)
    says = (
        f"System calls {unit}, by their names, with their sum as a figure, counted in a pass of its own; variants "
        "whose work makes no call are left out."
    )
    return Chart(f"calls-{slug(key)}", f"{key}: system calls", says, "calls", draw, {"benchmark": key})


def _calls(layout: Layout, *, paint: Mapping[str, str], unit: str) -> alt.LayerChart:
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
                "variant:N",
                alt.Tooltip("kind:N", title="call"),
                alt.Tooltip("sum(calls):Q", format=",.4~r", title=unit),
            ],
        )
    )
    total = rows().transform_aggregate(total="sum(calls)", order="min(order)", groupby=["variant"])
    shown = total.transform_calculate(shown="format(datum.total, datum.total < 1000 ? '.3~r' : ',.0f')")
    return layered(layout, 66, [bars, drawing.figures(layout, shown), *names(layout)])


def waits(table: Table, frame: Sequence[Record]) -> Chart | None:
    """One benchmark's futex waits by how long they took; none if nothing waited."""
    key = key_of(table)
    bins = [one["log2"] for one in frame if one["benchmark"] == key]
    if not bins:
        return None
    says = (
        f"How long futex waits lasted in the work of {key}, in ns, us or ms: a histogram for each variant in bins of "
        "powers of two, whose tallest fills the row, with the number of waits as a figure."
    )
    draw = partial(_waits, bins=list(range(min(bins), max(bins) + 1)))
    return Chart(f"waits-{slug(key)}", f"{key}: futex waits", says, "waits", draw, {"benchmark": key})


def _waits(layout: Layout, *, bins: list[int]) -> alt.LayerChart:
    label = f"{[duration(2**one) for one in bins]}[datum.value - {bins[0]}]"
    every = 4 if layout.narrow else 2
    axis = alt.Axis(orient="top", title="a wait lasted at least", labelExpr=label, labelAngle=0, values=bins[::every])
    tall = 18 if layout.narrow else layout.step_px - 3
    bars = rows().mark_rect(
        color=token(colours.FASTER), yOffset=layout.mark_dy, height=alt.ExprRef(f"max(1, {tall} * datum.height)")
    )
    shape = bars.encode(
        x=alt.X("log2:O", axis=axis, scale=alt.Scale(domain=bins, paddingInner=0.08)),
        y=y_of(layout),
        tooltip=["variant:N", alt.Tooltip("bin:N", title="lasted"), "waits:Q", alt.Tooltip("share:Q", format=".1%")],
    )
    total = rows().transform_aggregate(total="sum(waits)", order="min(order)", groupby=["variant"])
    shown = total.transform_calculate(shown="format(datum.total, ',.0f')")
    return layered(layout, 60, [shape, drawing.figures(layout, shown), *names(layout)])


def memory(frame: Sequence[Record]) -> Chart | None:
    """The peak memory of a process in each benchmark."""
    says = (
        "Peak memory (RSS, MB of 10^6 bytes, logarithmic) of one process: a dot for each benchmark, a line from the "
        "least to the most, and the most as a figure."
    )
    return Chart("memory", "Memory", says, "memory", _memory) if frame else None


def _memory(layout: Layout) -> alt.LayerChart:
    scale = alt.Scale(type="log", nice=False, padding=8)
    axis = alt.Axis(orient="top", title="MB", format="~r", tickCount=layout.ticks, labelOverlap=True)
    span = rows().mark_rule(strokeWidth=2, color=token("band-edge"), yOffset=layout.mark_dy)
    dots = rows().mark_point(
        size=45, fill=token(PAPER), stroke=token(colours.FASTER), strokeWidth=1.5, opacity=1, yOffset=layout.mark_dy
    )
    most = rows().transform_aggregate(most="max(mb)", order="min(order)", groupby=["variant"])
    parts = [
        span.encode(x=alt.X("min(mb):Q", scale=scale, axis=axis), x2="max(mb):Q", y=y_of(layout)),
        dots.encode(
            x=alt.X("mb:Q", scale=scale, axis=axis),
            y=y_of(layout),
            tooltip=tips({"variant": "variant", "benchmark": "benchmark", "text": "peak memory"}),
        ),
        drawing.figures(layout, most.transform_calculate(shown="format(datum.most, '.3~r')")),
        *names(layout),
    ]
    return layered(layout, 48, parts)


def image_sizes(frame: Sequence[Record]) -> Chart | None:
    """The sizes of the images, their base apart."""
    says = (
        "Size of each image, unpacked, in MB of 10^6 bytes: its base, which all on the same base share, what is its "
        "own, and their sum as a figure."
    )
    has = any(one["size_mb"] for one in frame)
    return Chart("image-size", "Image size", says, "images", _image_sizes, needs="size_mb") if has else None


def _image_sizes(layout: Layout) -> alt.LayerChart:
    folded = rows().transform_fold(["base_mb", "own_mb"], as_=["key", "mb"])
    part = "datum.key === 'base_mb' ? 'base' : 'its own'"
    parts = folded.transform_calculate(part=part, rank="datum.key === 'base_mb' ? 0 : 1")
    paint = {"base": colours.OTHER_CALLS, "its own": colours.FASTER}
    bars = parts.mark_bar(stroke=token(PAPER), strokeWidth=0.5, **bar_height(layout)).encode(
        x=alt.X("mb:Q", stack="zero", axis=alt.Axis(orient="top", title="MB", tickCount=layout.ticks)),
        y=y_of(layout),
        color=alt.Color("part:N", scale=scaled(paint), legend=alt.Legend(symbolType="square")),
        order=alt.Order("rank:Q"),
        tooltip=[
            "variant:N",
            "part:N",
            alt.Tooltip("mb:Q", format=",.0f", title="MB"),
            alt.Tooltip("tag:N", title="image"),
        ],
    )
    shown = rows().transform_calculate(shown="format(datum.size_mb, ',.0f')")
    return layered(layout, 48, [bars, drawing.figures(layout, shown), *names(layout)])
