"""What the report's charts have in common: places, axes, names and figures of rows, and colours. Pure.

Colours are CSS variables, so that one specification serves daylight, the dark and print; `pictures` fills them in.
Where it is narrow a row's name stands above its marks instead of beside them: names have up to 45 characters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import altair as alt

from interlock.html.colours import INK, MUTED, token
from interlock.html.figures import Frame, Record

TEXT_PX = 12
LIES = "lies"  # a chart's parameter: whether words in its columns have room to lie
# Where ticks of a logarithmic axis may stand within a decade, the most first.
LADDERS = ((1, 1.1, 1.2, 1.3, 1.5, 1.7, 2, 2.5, 3, 4, 5, 6, 7, 8, 9), (1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,))


@dataclass(frozen=True)
class Layout:
    """A place for charts."""

    narrow: bool
    step_px: int  # from row to row
    ticks: int  # on an axis, at most
    mark_dy: int = 0  # how far below the middle of a row its marks are, to leave room for the name
    text_dy: int = 0


WIDE = Layout(narrow=False, step_px=20, ticks=9)
NARROW = Layout(narrow=True, step_px=40, ticks=5, mark_dy=8, text_dy=-10)
# For a small chart in each row.
TALL = {WIDE: replace(WIDE, step_px=104), NARROW: replace(NARROW, step_px=124, mark_dy=8, text_dy=-44)}


@dataclass(frozen=True)
class Columns:
    """How many columns a chart has, and how wide each is at least, and where its words lie."""

    count: int
    least_px: int
    lying_px: int


@dataclass(frozen=True)
class Chart:
    """A chart: its file name's stem, what it shows in one sentence, which records it reads, and how it is drawn."""

    name: str
    title: str
    says: str
    frame: str
    draw: Callable[[Layout], alt.LayerChart]
    where: Mapping[str, str] = field(default_factory=dict)
    needs: str | None = None  # a record without this figure is not drawn
    row: str = "variant"  # what names a row
    best_first: bool = False  # whether rows stand by their ratio, whatever the reader chose
    columns: Columns | None = None
    tall: bool = False  # whether each row is a small chart

    def place(self, layout: Layout) -> Layout:
        """The layout with rows as high as this chart needs them."""
        return TALL[layout] if self.tall else layout

    def records(self, frame: Sequence[Record]) -> Frame:
        """The frame's records that this chart shows."""
        mine = [one for one in frame if all(one[key] == value for key, value in self.where.items())]
        return [one for one in mine if self.needs is None or one[self.needs] is not None]

    def specification(self, layout: Layout) -> dict[str, Any]:
        """Vega-Lite without data, which it expects in a data set 'rows', each with its `order`."""
        place = self.place(layout)
        chart = self.draw(place).properties(height=alt.Step(place.step_px), description=self.says)
        # Altair's check against its schema takes half of the page's time; tests/test_html_charts.py makes it.
        specification: dict[str, Any] = chart.configure(**_config()).to_dict(validate=False)
        return specification


def _config() -> dict[str, Any]:
    text: dict[str, Any] = {"labelColor": token(INK), "labelFontSize": TEXT_PX}
    text |= {"titleColor": token(MUTED), "titleFontSize": TEXT_PX}
    lines: dict[str, Any] = {"gridColor": token("grid"), "domainColor": token("line"), "tickColor": token("line")}
    return {
        "font": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', sans-serif",
        "background": "transparent",
        # The page describes a chart as one picture with a table behind it: thousands of labelled marks help nobody.
        "aria": False,
        "view": alt.ViewConfig(stroke=None),
        "axis": alt.AxisConfig(**text, **lines, titleFontWeight="normal"),
        "legend": alt.LegendConfig(**text, orient="top", title=None, labelLimit=0, columnPadding=14),
        "text": alt.MarkConfig(color=token(INK), fontSize=TEXT_PX),
        "scale": alt.ScaleConfig(bandPaddingInner=0.12, bandPaddingOuter=0.06),
    }


def rows() -> alt.Chart:
    """The records that the page or the picture hands in."""
    return alt.Chart(alt.NamedData("rows"))


def y_of(layout: Layout, name: str = "variant", *, lines: bool = True) -> alt.Y:
    """A row for each name; with `lines` a faint one leads from it to its figure."""
    below = {"labelLimit": 0, "labelPadding": 6, "domain": False, "ticks": False, "grid": lines, "zindex": 0}
    axis = None if layout.narrow else alt.Axis.from_dict(below)
    return alt.Y(f"{name}:N", title=None, axis=axis, sort=alt.EncodingSortField("order", op="min"))


def names(layout: Layout, name: str = "variant") -> list[alt.Chart]:
    """The names above their rows, where it is narrow; one that would run into its row's figure is cut."""
    if not layout.narrow:
        return []
    first = rows().transform_aggregate(order="min(order)", groupby=[name])
    text = first.mark_text(align="left", dy=layout.text_dy, limit=alt.ExprRef("width - 48"))
    return [text.encode(y=y_of(layout, name), x=alt.value(0), text=f"{name}:N")]


def figures(layout: Layout, chart: alt.Chart, *, lines: bool = True) -> alt.Chart:
    """The field `shown` at the end of each row: right of the plot, or where it is narrow above the marks."""
    place: dict[str, Any] = {"align": "right"} if layout.narrow else {"align": "left", "dx": 8}
    marked = chart.mark_text(dy=layout.text_dy, **place)
    figure: alt.Chart = marked.encode(y=y_of(layout, lines=lines), x=alt.value("width"), text="shown:N")
    return figure


def tips(fields: Mapping[str, str]) -> list[alt.Tooltip]:
    """What a mark says when it is pointed at: field and title."""
    return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields.items()]


def bar_height(layout: Layout) -> dict[str, Any]:
    """As high as its row has room below the name."""
    return {"height": 16, "yOffset": layout.mark_dy} if layout.narrow else {}


def layered(layout: Layout, right_px: int, parts: Sequence[alt.Chart]) -> alt.LayerChart:
    """Parts upon each other, with room for the figures on the right: what is outside the axes does not count when a
    chart is fitted to its place.
    """
    padding = {"left": 2, "top": 2, "bottom": 2, "right": 6 if layout.narrow else right_px}
    return alt.LayerChart(layer=list(parts), padding=padding)


def scaled(colour_of: Mapping[str, str]) -> alt.Scale:
    """Words by the names of their colours."""
    return alt.Scale(domain=list(colour_of), range=[token(name) for name in colour_of.values()])


def log_scale(known: Iterable[float | None]) -> alt.Scale:
    """A logarithmic scale that holds all figures and 1."""
    held = [1.0, *(one for one in known if one)]
    return alt.Scale(type="log", domain=[min(held) / 1.05, max(held) * 1.05], nice=False, clamp=True)


def ratio_axis(layout: Layout, scale: alt.Scale, title: str) -> alt.Axis:
    """An axis of ratios: its ticks stand at round numbers, and one of them is 1."""
    low, high = scale.domain
    ticks = log_ticks(low, high, layout.ticks)
    return alt.Axis(orient="top", title=title, values=ticks, labelExpr="format(datum.value, '~g') + 'x'")


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two, at most so many if decades allow it."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for ladder in LADDERS:
        found = [float(f"{step * 10**decade:.6g}") for decade in decades for step in ladder]
        # 0.9 belongs to 1.1: below 1 the finest ladder's neighbours would touch.
        found = [one for one in found if low <= one <= high and (one >= 1 or _apart(one))]
        if len(found) <= most:
            return found
    return found


def _apart(tick: float) -> bool:
    """Whether a tick below 1 has one digit, as 0.7 or 0.02."""
    return len(f"{tick:g}".lstrip("0.")) == 1


def ordered(records: Sequence[Record], row: str, standing: Sequence[str], *, best_first: bool) -> Frame:
    """The records with their `order`: as the names stand, or least ratio first."""
    place = {name: index for index, name in enumerate(standing)}
    found = sorted(dict.fromkeys(one[row] for one in records), key=lambda name: place.get(name, len(place)))
    if best_first:
        ratio = {one[row]: one["ratio"] for one in records if one["ratio"] is not None}
        found.sort(key=lambda name: ratio.get(name, math.inf))
    order = {name: index for index, name in enumerate(found)}
    return [{**one, "order": order[one[row]]} for one in records]
