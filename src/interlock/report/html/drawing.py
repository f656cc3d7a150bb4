"""What the report's charts have in common: layouts, axes, rows with their names and figures, and colours. Pure.

Colours are CSS variables, so that one specification serves the light theme, the dark theme and print. Slower is orange
and faster is blue, which people who confuse red and green can tell apart. Text has a contrast of at least 4.5 on its
background and a mark at least 3, as WCAG 2.2 AA demands (1.4.3, 1.4.11).
In a narrow layout a row's name is above its marks instead of left of them: names have up to 45 characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import altair as alt

from interlock.report.html.frames import NAMED_CALLS


@dataclass(frozen=True)
class Colour:
    """One colour in the light and in the dark theme, as #rrggbb."""

    light: str
    dark: str


PAPER, INK, MUTED = "paper", "ink", "muted"
FASTER, SLOWER, SAME, BASELINE = "faster", "slower", "same", "baseline"
GOOD, BAD = "good", "bad"
CALLS = tuple(f"call-{number}" for number in range(1, NAMED_CALLS + 1))
OTHER_CALLS = "call-other"

COLOURS = {
    PAPER: Colour("#ffffff", "#14171b"),
    "raised": Colour("#f4f6f8", "#1d2127"),
    INK: Colour("#1a1d21", "#e8eaed"),
    MUTED: Colour("#545b64", "#a9b1bb"),
    "line": Colour("#c9ced4", "#3f464f"),
    "grid": Colour("#e4e7ea", "#2a2f36"),
    "link": Colour("#0b57a4", "#8ec1f2"),
    "band": Colour("#e3e9f0", "#272e37"),
    "band-edge": Colour("#7d8894", "#75808c"),
    FASTER: Colour("#1f5f9e", "#7db8ee"),
    SLOWER: Colour("#b04c0c", "#f0995a"),
    SAME: Colour("#68707a", "#98a1ab"),
    BASELINE: Colour("#1a1d21", "#e8eaed"),
    GOOD: Colour("#1a7048", "#63c394"),
    BAD: Colour("#b3261e", "#ff8f85"),
    "shade-faster-3": Colour("#1f5f9e", "#8cc4f5"),
    "shade-faster-3-ink": Colour("#ffffff", "#071a2b"),
    "shade-faster-2": Colour("#79b0e3", "#2f6ea8"),
    "shade-faster-2-ink": Colour("#0b2239", "#ffffff"),
    "shade-faster-1": Colour("#c9e0f6", "#1c3a57"),
    "shade-faster-1-ink": Colour("#12395c", "#cfe4f7"),
    "shade-same": Colour("#e9ebee", "#272c33"),
    "shade-same-ink": Colour("#545b64", "#a9b1bb"),
    "shade-undecided": Colour("#ffffff", "#14171b"),
    "shade-undecided-ink": Colour("#68707a", "#98a1ab"),
    "shade-baseline": Colour("#ffffff", "#14171b"),
    "shade-baseline-ink": Colour("#1a1d21", "#e8eaed"),
    "shade-slower-1": Colour("#fde2c9", "#4b3019"),
    "shade-slower-1-ink": Colour("#5c2b00", "#fbd9b8"),
    "shade-slower-2": Colour("#f7b27a", "#8d4813"),
    "shade-slower-2-ink": Colour("#3f1d00", "#ffffff"),
    "shade-slower-3": Colour("#b8520f", "#e0823a"),
    "shade-slower-3-ink": Colour("#ffffff", "#1d0d00"),
    "shade-slower-4": Colour("#702a05", "#ffc08a"),
    "shade-slower-4-ink": Colour("#ffffff", "#2a1400"),
    "shade-none": Colour("#ffffff", "#14171b"),
    "shade-none-ink": Colour("#68707a", "#98a1ab"),
    "call-1": Colour("#c0571b", "#f0955a"),
    "call-2": Colour("#3b6fb6", "#7fa9e6"),
    "call-3": Colour("#2a8555", "#67c596"),
    "call-4": Colour("#a23b72", "#e07bb3"),
    "call-5": Colour("#7a5cc4", "#b59cf0"),
    "call-6": Colour("#8a6d1d", "#d3b44f"),
    "call-7": Colour("#19818b", "#4fc3cd"),
    "call-8": Colour("#c8445a", "#ff8a97"),
    "call-9": Colour("#2b3a4b", "#dfe6ee"),
    OTHER_CALLS: Colour("#868e97", "#7b838c"),
}


def token(name: str) -> str:
    """Return the CSS variable of a colour, which has its value from the reader's theme."""
    if name not in COLOURS:
        raise KeyError(name)
    return f"var(--{name})"


def variables(theme: str) -> str:
    """Return the CSS declarations of all colours in a theme, 'light' or 'dark'."""
    return " ".join(f"--{name}: {getattr(colour, theme)};" for name, colour in COLOURS.items())


TEXT_PX = 12
# Ready-made: Altair takes long to find out what a plain value is for.
AT_LEFT, AT_RIGHT = alt.XValue(0), alt.XValue("width")  # type: ignore[no-untyped-call]
# Ticks of a logarithmic axis within a decade, from many to few.
LADDERS = ((1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))


# A chart as Vega-Lite, but for what all charts have.
Drawing = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """How a chart is laid out in a wide or a narrow place."""

    narrow: bool
    step_px: int  # from one row to the next
    ticks: int  # on an axis, at most
    mark_dy: int = 0  # how far below the middle of a row its marks are, to leave room for the name
    text_dy: int = 0


WIDE = Layout(narrow=False, step_px=20, ticks=9)
NARROW = Layout(narrow=True, step_px=40, ticks=5, mark_dy=8, text_dy=-10)


@dataclass(frozen=True)
class Chart:
    """A chart: the stem of its file name, a sentence about what it shows, the records it reads, and how it is drawn."""

    name: str
    title: str
    says: str
    frame: str
    draw: Callable[[Layout], Drawing]
    where: Mapping[str, str] = field(default_factory=dict)
    needs: str | None = None  # a record without this figure is not drawn

    def specification(self, layout: Layout) -> dict[str, Any]:
        """Return the chart as Vega-Lite; its data are to be the data set 'rows', each record with its `order`."""
        # Altair's checks against its schema take most of the page's time; tests/report/html/test_charts.py makes them.
        with alt.utils.schemapi.debug_mode(False):
            drawn = self.draw(layout)
        return {
            "$schema": alt.SCHEMA_URL,
            "config": CONFIG,
            "height": {"step": layout.step_px},
            "description": self.says,
            **drawn,
        }


_TEXT = {"labelColor": token(INK), "labelFontSize": TEXT_PX, "titleColor": token(MUTED), "titleFontSize": TEXT_PX}
CONFIG = {
    "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
    "background": "transparent",
    # For screen readers a chart is one picture with a table behind it, not thousands of labelled marks.
    "aria": False,
    "view": {"stroke": None, "continuousWidth": 300, "continuousHeight": 300},
    "axis": {
        **_TEXT,
        "gridColor": token("grid"),
        "domainColor": token("line"),
        "tickColor": token("line"),
        "titleFontWeight": "normal",
    },
    "legend": {**_TEXT, "orient": "top", "title": None, "labelLimit": 0, "columnPadding": 14},
    "text": {"color": token(INK), "fontSize": TEXT_PX},
    "scale": {"bandPaddingInner": 0.12, "bandPaddingOuter": 0.06},
}


def rows() -> alt.Chart:
    """Return a chart of the data set 'rows', which the page or the picture supplies."""
    return alt.Chart(alt.NamedData("rows"))


def y_of(layout: Layout, *, lines: bool = True) -> alt.Y:
    """Return an axis with a row for each variant; with `lines` a faint line leads from the name to its figure."""
    below = alt.Axis(labelLimit=0, labelPadding=6, domain=False, ticks=False, grid=lines, zindex=0)
    axis = None if layout.narrow else below
    return alt.Y("variant:N", title=None, axis=axis, sort=alt.EncodingSortField("order", op="min"))


def names(layout: Layout) -> list[alt.Chart]:
    """Return the names above their rows in a narrow layout; a name that reaches its row's figure is cut."""
    if not layout.narrow:
        return []
    first = rows().transform_aggregate(order="min(order)", groupby=["variant"])
    text = first.mark_text(align="left", dy=layout.text_dy, limit=alt.ExprRef("width - 48"))
    return [text.encode(y=y_of(layout), x=AT_LEFT, text=alt.Text("variant:N"))]


def figures(layout: Layout, chart: alt.Chart, *, lines: bool = True) -> alt.Chart:
    """Return the field `shown` of each row: right of the plot, or above the marks in a narrow layout."""
    place: dict[str, Any] = {"align": "right"} if layout.narrow else {"align": "left", "dx": 8}
    marked = chart.mark_text(dy=layout.text_dy, **place)
    figure: alt.Chart = marked.encode(y=y_of(layout, lines=lines), x=AT_RIGHT, text=alt.Text("shown:N"))
    return figure


def tips(fields: Mapping[str, str]) -> list[alt.Tooltip]:
    """Return the tooltip of a mark, from fields and their titles."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields.items()]


def bar_height(layout: Layout) -> dict[str, Any]:
    """Return the height of a bar that leaves room for the name above it in a narrow layout."""
    return {"height": 16, "yOffset": layout.mark_dy} if layout.narrow else {}


def layered(layout: Layout, right_px: int, parts: Sequence[alt.Chart]) -> Drawing:
    """Return a chart of layers with padding for the figures right of the axes, which fitting to a width ignores.

    Altair's own LayerChart copies every layer four times, which took half of the page's time.
    """
    datasets: dict[str, Any] = {}
    context = {"top_level": False, "datasets": datasets}
    layers = [part.to_dict(validate=False, context=context) for part in parts]
    padding = {"left": 2, "top": 2, "bottom": 2, "right": 6 if layout.narrow else right_px}
    return {"layer": layers, "padding": padding, **({"datasets": datasets} if datasets else {})}


def scaled(colour_of: Mapping[str, str]) -> alt.Scale:
    """Return a scale that gives each word its colour."""
    return alt.Scale(domain=list(colour_of), range=[token(name) for name in colour_of.values()])


def log_scale(known: Iterable[float | None]) -> alt.Scale:
    """Return a logarithmic scale over all figures and 1."""
    held = [1.0, *(figure for figure in known if figure)]
    return alt.Scale(type="log", domain=[min(held) / 1.05, max(held) * 1.05], nice=False, clamp=True)


def ratio_axis(layout: Layout, scale: alt.Scale, title: str) -> alt.Axis:
    """Return an axis of ratios with ticks at round numbers, one of them 1."""
    low, high = scale.domain
    ticks = log_ticks(low, high, layout.ticks)
    return alt.Axis(orient="top", title=title, values=ticks, labelExpr="format(datum.value, '~g') + 'x'")


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from `low` to `high`, at most `most` of them if that is possible."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for ladder in LADDERS:
        ticks = [float(f"{step * 10**decade:.6g}") for decade in decades for step in ladder]
        # Below 1 only numbers of one digit: labels as 0.91 and 0.95 would touch.
        ticks = [tick for tick in ticks if low <= tick <= high and (tick >= 1 or _apart(tick))]
        if len(ticks) <= most:
            return ticks
    return ticks


def _apart(tick: float) -> bool:
    """Return whether a tick below 1 has one significant digit, as 0.7 or 0.02."""
    return len(f"{tick:g}".lstrip("0.")) == 1
