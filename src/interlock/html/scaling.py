"""Charts of throughput by number of workers: a small curve for each variant, all on one scale. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import altair as alt

from interlock.html import colours, drawing
from interlock.html.colours import MUTED, PAPER, token
from interlock.html.curve_frames import EXTRAPOLATED, FITTED, LIMITED, MEASURED
from interlock.html.drawing import Chart, Layout, layered, names, rows, scaled, tips, y_of
from interlock.html.figures import Record
from interlock.model import slug
from interlock.sections import figure

KINDS = {MEASURED: colours.FASTER, FITTED: colours.BASELINE, EXTRAPOLATED: colours.SAME, LIMITED: colours.GOOD}
DASHES = {FITTED: [1, 0], EXTRAPOLATED: [5, 4], LIMITED: [2, 2]}
# Of a row, which the curve fills from bottom to top.
HIGH_PX = 78


def curve(about: Record, frame: Sequence[Record]) -> Chart:
    """One curve of each variant."""
    title, cores, known_to = about["curve"], about["cores"], about["known_to"]
    present = {one["kind"] for one in frame if one["curve"] == title}
    beyond = ", dashed where it is extrapolated" if EXTRAPOLATED in present else ""
    more = f", hollow with more workers than the {cores} cores" if about["workers"][-1] > cores else ""
    limit = "; the dotted line is the limit" if LIMITED in present else ""
    if about["limit"] is not None and LIMITED not in present:
        limit = f"; the limit, up to {figure(about['limit'])}, is far above"
    says = (
        f"Throughput ({about['unit']}) by number of workers (logarithmic), as high in each row as the most that was "
        f"measured, {figure(about['most'])}: dots are measured, with 95 % intervals{more}; the line is the Universal "
        f"Scalability Law fitted up to {known_to} workers{beyond}{limit}; the figure is the best beside one worker."
    )
    draw = partial(_curve, about=about, kinds={kind: name for kind, name in KINDS.items() if kind in present})
    return Chart(f"scaling-{slug(title)}", f"{title}: scaling", says, "points", draw, {"curve": title}, tall=True)


def _curve(layout: Layout, *, about: Record, kinds: Mapping[str, str]) -> alt.LayerChart:
    workers, cores = about["workers"], about["cores"]
    scale = alt.Scale(type="log", base=2, domain=[workers[0] / 1.15, workers[-1] * 1.15], nice=False)
    axis = alt.Axis(orient="top", title="workers", values=workers, format="d", grid=False)
    x = alt.X("workers:Q", scale=scale, axis=axis)
    legend = alt.Legend(symbolType="square", columns=2 if layout.narrow else 4)
    place: dict[str, Any] = {
        "x": x,
        "y": y_of(layout, lines=False),
        "color": alt.Color("kind:N", scale=scaled(kinds), legend=legend),
        "tooltip": tips({"variant": "variant", "workers": "workers", "text": "throughput"}),
    }
    floor = rows().transform_aggregate(order="min(order)", groupby=["variant"])
    parts = [
        floor.mark_rule(color=token("line"), yOffset=layout.mark_dy + HIGH_PX / 2).encode(y=y_of(layout, lines=False)),
        *_cores(cores, x, about),
        *(_line(layout, kind, place) for kind in DASHES if kind in kinds),
        _of(MEASURED).mark_rect(width=2, yOffset=_middle(layout), height=_height()).encode(**place),
        _dots(layout, over=False).encode(**place),
        _dots(layout, over=True).encode(**place),
        drawing.figures(layout, _shown(), lines=False),
        *names(layout),
    ]
    return layered(layout, 78, parts)


def _shown() -> alt.Chart:
    """The figure of each row, once."""
    shown: alt.Chart = rows().transform_aggregate(order="min(order)", shown="min(shown)", groupby=["variant"])
    return shown


def _of(kind: str) -> alt.Chart:
    chart: alt.Chart = rows().transform_filter(f"datum.kind === '{kind}'")
    return chart


def _from_top(layout: Layout, part: str) -> alt.ExprRef:
    """How far from the middle of its row a part of the full height is."""
    return alt.ExprRef(f"{layout.mark_dy + HIGH_PX / 2} - {HIGH_PX} * {part}")


def _middle(layout: Layout) -> alt.ExprRef:
    return _from_top(layout, "(datum.low + datum.high) / 2")


def _height() -> alt.ExprRef:
    return alt.ExprRef(f"max(1, {HIGH_PX} * (datum.high - datum.low))")


def _line(layout: Layout, kind: str, place: Mapping[str, Any]) -> alt.Chart:
    mark = _of(kind).mark_line(strokeWidth=1.5, strokeDash=DASHES[kind], yOffset=_from_top(layout, "datum.part"))
    line: alt.Chart = mark.encode(**place, detail="variant:N", order="workers:Q")
    return line


def _dots(layout: Layout, *, over: bool) -> alt.Chart:
    """Filled, or hollow where there are more workers than cores."""
    kept = _of(MEASURED).transform_filter("datum.over" if over else "!datum.over")
    mark: dict[str, Any] = {"fill": token(PAPER), "strokeWidth": 1.5} if over else {"filled": True}
    dots: alt.Chart = kept.mark_point(
        shape="circle", size=50, opacity=1, yOffset=_from_top(layout, "datum.part"), **mark
    )
    return dots


def _cores(cores: int, x: alt.X, about: Record) -> list[alt.Chart]:
    """A line where the machine's cores end; none if no more workers than these were measured."""
    if not about["workers"][0] <= cores < about["workers"][-1]:
        return []
    lone = alt.Chart(alt.InlineData([{"workers": cores}]))
    words = f"{cores} cores" + (", beyond: extrapolated" if about["known_to"] <= cores else "")
    return [
        lone.mark_rule(color=token("band-edge"), strokeDash=[3, 3]).encode(x=x),
        lone.mark_text(color=token(MUTED), align="left", dx=4, dy=-6, fontSize=11, text=words).encode(
            x=x, y=alt.value("height")
        ),
    ]
