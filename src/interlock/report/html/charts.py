"""Charts of the page: ratios, claims, system calls, futex waits, memory, image sizes, throughput by workers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import altair as alt

from interlock.analysis.claims import ClaimVerdict
from interlock.analysis.comparison import Table
from interlock.analysis.verdicts import Verdict
from interlock.catalog.types import slug
from interlock.report.experiment import per_unit
from interlock.report.html import drawing
from interlock.report.html.drawing import (
    AT_BOTTOM,
    INK,
    LIES,
    MUTED,
    PAPER,
    Chart,
    Columns,
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
    LIMITED,
    MEASURED,
    OTHER,
    SHADES,
    Record,
    duration,
    key_of,
)
from interlock.report.tables import figure_text, ratio_text
from interlock.results.experiments import State


def calls_chart(table: Table, frame: Sequence[Record], named: Sequence[str]) -> Chart | None:
    """Return the chart of one benchmark's system calls; None if none were counted."""
    key, unit = key_of(table), per_unit(table.benchmark.profile_metric)
    kinds = {one["kind"] for one in frame if one["benchmark"] == key}
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


def waits_chart(table: Table, frame: Sequence[Record]) -> Chart | None:
    """Return the chart of one benchmark's futex waits by their duration; None if there were none."""
    key = key_of(table)
    bins = [one["log2"] for one in frame if one["benchmark"] == key]
    if not bins:
        return None
    says = (
        f"How long futex waits lasted in the work of {key}, in ns, us or ms: a histogram for each variant in bins of "
        "powers of two, scaled to its highest bin, with the number of waits."
    )
    draw = partial(_waits, bins=list(range(min(bins), max(bins) + 1)))
    return Chart(f"waits-{slug(key)}", f"{key}: futex waits", says, "waits", draw, {"benchmark": key})


def _waits(layout: Layout, *, bins: list[int]) -> Drawing:
    label = f"{[duration(2**one) for one in bins]}[datum.value - {bins[0]}]"
    every = 4 if layout.narrow else 2
    axis = alt.Axis(orient="top", title="a wait lasted at least", labelExpr=label, labelAngle=0, values=bins[::every])
    tall = 18 if layout.narrow else layout.step_px - 3
    bars = rows().mark_rect(
        color=token(drawing.FASTER), yOffset=layout.mark_dy, height=alt.ExprRef(f"max(1, {tall} * datum.height)")
    )
    shape = bars.encode(
        x=alt.X("log2:O", axis=axis, scale=alt.Scale(domain=bins, paddingInner=0.08)),
        y=y_of(layout),
        tooltip=[
            alt.Tooltip("variant:N"),
            alt.Tooltip("bin:N", title="lasted"),
            alt.Tooltip("waits:Q"),
            alt.Tooltip("share:Q", format=".1%"),
        ],
    )
    total = rows().transform_aggregate(total="sum(waits)", order="min(order)", groupby=["variant"])
    shown = total.transform_calculate(shown="format(datum.total, ',.0f')")
    return layered(layout, 60, [shape, drawing.figures(layout, shown), *names(layout)])


def memory_chart(frame: Sequence[Record]) -> Chart | None:
    """Return the chart of peak memory of a process in each benchmark; None if none is known."""
    says = (
        "Peak memory (RSS, MB of 10^6 bytes, logarithmic) of one process: a dot for each benchmark, a line from the "
        "lowest to the highest, and the highest as a number."
    )
    return Chart("memory", "Memory", says, "memory", _memory) if frame else None


def _memory(layout: Layout) -> Drawing:
    scale = alt.Scale(type="log", nice=False, padding=8)
    axis = alt.Axis(orient="top", title="MB", format="~r", tickCount=layout.ticks, labelOverlap=True)
    span = rows().mark_rule(strokeWidth=2, color=token("band-edge"), yOffset=layout.mark_dy)
    dots = rows().mark_point(
        size=45, fill=token(PAPER), stroke=token(drawing.FASTER), strokeWidth=1.5, opacity=1, yOffset=layout.mark_dy
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


def image_size_chart(frame: Sequence[Record]) -> Chart | None:
    """Return the chart of image sizes, with the base as a part of its own; None if no size is known."""
    says = (
        "Size of each image, unpacked, in MB of 10^6 bytes: its base, which images on the same base share, its own "
        "part, and the sum as a number."
    )
    has = any(one["size_mb"] for one in frame)
    return Chart("image-size", "Image size", says, "images", _image_sizes, needs="size_mb") if has else None


def _image_sizes(layout: Layout) -> Drawing:
    folded = rows().transform_fold(["base_mb", "own_mb"], as_=["key", "mb"])
    part = "datum.key === 'base_mb' ? 'base' : 'its own'"
    parts = folded.transform_calculate(part=part, rank="datum.key === 'base_mb' ? 0 : 1")
    paint = {"base": drawing.OTHER_CALLS, "its own": drawing.FASTER}
    bars = parts.mark_bar(stroke=token(PAPER), strokeWidth=0.5, **bar_height(layout)).encode(
        x=alt.X("mb:Q", stack="zero", axis=alt.Axis(orient="top", title="MB", tickCount=layout.ticks)),
        y=y_of(layout),
        color=alt.Color("part:N", scale=scaled(paint), legend=alt.Legend(symbolType="square")),
        order=alt.Order("rank:Q"),
        tooltip=[
            alt.Tooltip("variant:N"),
            alt.Tooltip("part:N"),
            alt.Tooltip("mb:Q", format=",.0f", title="MB"),
            alt.Tooltip("tag:N", title="image"),
        ],
    )
    shown = rows().transform_calculate(shown="format(datum.size_mb, ',.0f')")
    return layered(layout, 48, [bars, drawing.figures(layout, shown), *names(layout)])


CURVE_COLOURS = {MEASURED: drawing.FASTER, LIMITED: drawing.GOOD}
DASHES = {MEASURED: [1, 0], LIMITED: [2, 2]}
# Height of a curve in its row.
CURVE_PX = 78


def scaling_chart(about: Record, frame: Sequence[Record]) -> Chart:
    """Return the chart of a group of curves, one for each variant."""
    title, cores = about["curve"], about["cores"]
    present = {one["kind"] for one in frame if one["curve"] == title}
    more = f", hollow with more workers than the {cores} cores" if about["workers"][-1] > cores else ""
    limit = "; the dotted line is the limit" if LIMITED in present else ""
    if about["limit"] is not None and LIMITED not in present:
        limit = f"; the limit, up to {figure_text(about['limit'])}, is far above"
    says = (
        f"Throughput ({about['unit']}) by number of workers (logarithmic), scaled in each row to the highest that "
        f"was measured, {figure_text(about['most'])}: dots have 95 % intervals{more}{limit}; the "
        "number is the best gain over one worker."
    )
    draw = partial(_curve, about=about, kinds={kind: name for kind, name in CURVE_COLOURS.items() if kind in present})
    return Chart(f"scaling-{slug(title)}", f"{title}: scaling", says, "points", draw, {"curve": title}, tall=True)


def _curve(layout: Layout, *, about: Record, kinds: Mapping[str, str]) -> Drawing:
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
        floor.mark_rule(color=token("line"), yOffset=layout.mark_dy + CURVE_PX / 2).encode(y=y_of(layout, lines=False)),
        *_cores_line(cores, x, about),
        *(_curve_line(layout, kind, place) for kind in DASHES if kind in kinds),
        _marks_of(MEASURED)
        .mark_rect(
            width=2,
            yOffset=_from_top(layout, "(datum.low + datum.high) / 2"),
            height=alt.ExprRef(f"max(1, {CURVE_PX} * (datum.high - datum.low))"),
        )
        .encode(**place),
        _curve_dots(layout, over=False).encode(**place),
        _curve_dots(layout, over=True).encode(**place),
        drawing.figures(layout, _best_figures(), lines=False),
        *names(layout),
    ]
    return layered(layout, 78, parts)


def _best_figures() -> alt.Chart:
    """Return the number of each row, once."""
    shown: alt.Chart = rows().transform_aggregate(order="min(order)", shown="min(shown)", groupby=["variant"])
    return shown


def _marks_of(kind: str) -> alt.Chart:
    chart: alt.Chart = rows().transform_filter(f"datum.kind === '{kind}'")
    return chart


def _from_top(layout: Layout, part: str) -> alt.ExprRef:
    """Return the distance of a part of the full height from the middle of its row, in pixels."""
    return alt.ExprRef(f"{layout.mark_dy + CURVE_PX / 2} - {CURVE_PX} * {part}")


def _curve_line(layout: Layout, kind: str, place: Mapping[str, Any]) -> alt.Chart:
    mark = _marks_of(kind).mark_line(strokeWidth=1.5, strokeDash=DASHES[kind], yOffset=_from_top(layout, "datum.part"))
    line: alt.Chart = mark.encode(**place, detail=alt.Detail("variant:N"), order=alt.Order("workers:Q"))
    return line


def _curve_dots(layout: Layout, *, over: bool) -> alt.Chart:
    """Return the dots up to the number of cores, filled; or with `over` those beyond it, hollow."""
    kept = _marks_of(MEASURED).transform_filter("datum.over" if over else "!datum.over")
    mark: dict[str, Any] = {"fill": token(PAPER), "strokeWidth": 1.5} if over else {"filled": True}
    dots: alt.Chart = kept.mark_point(
        shape="circle", size=50, opacity=1, yOffset=_from_top(layout, "datum.part"), **mark
    )
    return dots


def _cores_line(cores: int, x: alt.X, about: Record) -> list[alt.Chart]:
    """Return a line at the number of cores; none if no more workers than that were measured."""
    if not about["workers"][0] <= cores < about["workers"][-1]:
        return []
    lone = alt.Chart(alt.InlineData([{"workers": cores}]))
    return [
        lone.mark_rule(color=token("band-edge"), strokeDash=[3, 3]).encode(x=x),
        lone.mark_text(color=token(MUTED), align="left", dx=4, dy=-6, fontSize=11, text=f"{cores} cores").encode(
            x=x, y=AT_BOTTOM
        ),
    ]


FIELD_PX = 30  # the narrowest field of a heat map that holds a ratio
PX_A_LETTER = 7
LONGEST_STATE = max((state.value for state in State), key=len)
VERDICT_COLOURS = {
    Verdict.FASTER: drawing.FASTER,
    Verdict.SLOWER: drawing.SLOWER,
    Verdict.SAME: drawing.GOOD,
    Verdict.UNDECIDED: drawing.SAME,
    BASELINE: drawing.BASELINE,
}
SIDE_COLOURS = {"less time": drawing.FASTER, "more time": drawing.SLOWER, "not clear": drawing.SAME}
CLAIM_COLOURS = {
    ClaimVerdict.CONFIRMED: drawing.GOOD,
    ClaimVerdict.STRONGER: drawing.GOOD,
    ClaimVerdict.WEAKER: drawing.BASELINE,
    ClaimVerdict.NO_EFFECT: drawing.BAD,
    ClaimVerdict.OPPOSITE: drawing.BAD,
    ClaimVerdict.UNDECIDED: drawing.SAME,
    ClaimVerdict.NOT_TESTABLE: drawing.SAME,
    ClaimVerdict.NO_DATA: drawing.SAME,
}


@dataclass(frozen=True)
class _Dots:
    """Dots with intervals, one in each row, over the band in which two are the same."""

    frame: Sequence[Record]
    by: str  # the field that gives the colour, and the colour of each of its words
    colours: Mapping[str, str]
    title: str
    tips: Mapping[str, str]
    band: float = 1.0

    @property
    def scale(self) -> alt.Scale:
        known = [one[key] for one in self.frame for key in ("ratio", "low", "high")]
        return log_scale([*known, self.band, 1 / self.band])


def _dots(layout: Layout, *, what: _Dots) -> Drawing:
    scale, band = what.scale, what.band
    x = partial(alt.X, scale=scale)
    # In one line the legend would be wider than a phone.
    colour = alt.Color(what.by, scale=scaled(what.colours), legend=alt.Legend(columns=3 if layout.narrow else 0))
    place: dict[str, Any] = {"y": y_of(layout), "color": colour, "tooltip": tips(what.tips)}
    lone = alt.Chart(alt.InlineData([{"from": 1 / band, "one": 1, "to": band}]))
    edge = lone.mark_rule(color=token("band-edge"), strokeDash=[3, 3])
    shaded = [
        lone.mark_rect(color=token("band")).encode(x=x("from:Q"), x2=alt.X2("to:Q")),
        edge.encode(x=x("from:Q")),
        edge.encode(x=x("to:Q")),
    ]
    interval = (
        rows().mark_rule(strokeWidth=2, yOffset=layout.mark_dy).encode(x=x("low:Q"), x2=alt.X2("high:Q"), **place)
    )
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
        by="side:N",
        colours=SIDE_COLOURS,
        title=f"time as a multiple of {baseline}'s",
        tips={**said, "same": "same", "undecided": "undecided"},
    )
    draw = partial(_dots, what=what)
    says = (
        f"Time per unit of work as a multiple of {baseline}'s (x, logarithmic): the geometric mean over up to "
        f"{len(tables)} benchmarks with its 95 % interval; left of 1 takes less time."
    )
    return Chart("summary", "All benchmarks in one figure", says, "summary", draw, needs="ratio", best_first=True)


def benchmark_chart(table: Table, frame: Sequence[Record]) -> Chart | None:
    """Return the chart of one benchmark's ratios to the baseline; None if there is none."""
    key, margin = key_of(table), table.workload.margin
    has = [one for one in frame if one["benchmark"] == key and one["ratio"] is not None]
    if not has:
        return None
    said = {"variant": "variant", "value_text": table.benchmark.metric.label, "text": "ratio", "said": "verdict"}
    what = _Dots(
        frame=has,
        by="verdict:N",
        colours=VERDICT_COLOURS,
        title=f"time as a multiple of {table.baseline}'s",
        tips={**said, "control_text": "to its control", "state": "state"},
        band=1 + margin,
    )
    draw = partial(_dots, what=what)
    twin = f"; the twin, which is the same image, shows {ratio_text(table.twin)}" if table.twin else ""
    says = (
        f"Time per {table.workload.unit} as a multiple of {table.baseline}'s (x, logarithmic) with 95 % intervals over "
        f"{table.rounds} round{'' if table.rounds == 1 else 's'}; left of 1 is faster; {100 * margin:g} % "
        f"to either side are shaded{twin}."
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
        f"slower, blue is faster, grey is the same within a margin, white is undecided{without}."
    )
    draw = partial(_heat_map, keys=keys, shades=shades)
    title = "Variants and benchmarks"
    longest = max((word for key in keys for word in [*key.split(), LONGEST_STATE]), key=len)
    columns = Columns(len(keys), FIELD_PX, lying_px=PX_A_LETTER * len(longest))
    return Chart("heat-map", title, says, "ratios", draw, columns=columns)


def _heat_map(layout: Layout, *, keys: list[str], shades: Mapping[str, str]) -> Drawing:
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
    apart = {"resolve": {"scale": {"color": "independent"}}, "params": [{"name": LIES, "value": False}]}
    return layered(layout, 6, [fields, words, *names(layout)], **apart)


def claims_chart(frame: Sequence[Record]) -> Chart | None:
    """Return the chart of published ratios and ours; None if no claim is of a ratio."""
    if not frame:
        return None
    says = (
        "Published ratios and ours (x, logarithmic): the bar is what a claim allows, the tick what was published, the "
        "dot our ratio with its 95 % interval."
    )
    return Chart("claims", "Published and measured", says, "claims", partial(_claims, frame=frame), row="claim")


def _claims(layout: Layout, *, frame: Sequence[Record]) -> Drawing:
    scale = log_scale([one[key] for one in frame for key in ("ratio", "low", "high", "published", "from", "to")])
    low, high = scale.domain
    x, y = partial(alt.X, scale=scale), y_of(layout, "claim")
    found = {one["verdict"] for one in frame}
    colours = {verdict.value: colour for verdict, colour in CLAIM_COLOURS.items() if verdict in found}
    colour = alt.Color("verdict:N", scale=scaled(colours), legend=alt.Legend(columns=2 if layout.narrow else 0))
    said = tips({"claim": "claim", "published": "published", "text": "ours", "verdict": "verdict"})
    mine: dict[str, Any] = {"y": y, "color": colour, "tooltip": said}
    drop: dict[str, Any] = {"yOffset": layout.mark_dy}
    # A claim with one bound ends where the axis does.
    allowed = rows().transform_calculate(start=f"datum.from || {low}", end=f"datum.to || {high}")
    bar = allowed.mark_bar(height=12, color=token("band"), stroke=token("band-edge"), strokeWidth=0.5, **drop)
    tick = rows().mark_tick(color=token(INK), thickness=2, size=14, orient="vertical", **drop)
    axis = ratio_axis(layout, scale, "ratio, as the claim puts it")
    parts = [
        bar.encode(x=x("start:Q"), x2=alt.X2("end:Q"), y=y, tooltip=said),
        tick.encode(x=x("published:Q"), y=y, tooltip=said),
        rows().mark_rule(strokeWidth=2, **drop).encode(x=x("low:Q"), x2=alt.X2("high:Q"), **mine),
        rows().mark_circle(size=75, opacity=1, **drop).encode(x=x("ratio:Q", axis=axis), **mine),
        *names(layout, "claim"),
    ]
    return layered(layout, 8, parts)
