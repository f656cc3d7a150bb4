"""Forest plots as SVG: ratios with their 95 % intervals on a logarithmic axis, a line for each subject. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from interlock.report.html.colours import COLOURS
from interlock.report.html.dots import Axis, log_ticks

WIDTH, RIGHT, TOP, FOOT = 860, 90, 84, 30
CAPTION_STEP, LEGEND_STEP = 18, 130
# The distance between two marks of one line, and the space above and below them.
MARK_STEP, LINE_SPACE = 16, 14
MOST_TICKS = 6
# How far the shortest and the longest axis reach from 1, and the space beside the outermost marks, as ratios.
NARROWEST, WIDEST, MARGIN = 1.4, 10, 1.08


@dataclass(frozen=True)
class Mark:
    """A ratio of a series with the ends of its interval, and what is written beside it."""

    series: str
    value: float
    low: float
    high: float
    text: str


@dataclass(frozen=True)
class Plot:
    """A title, lines with a text and marks, the colour of each series by the page's names, and lines below the axis.

    A mark beyond the widest axis is a triangle that points there.
    """

    title: str
    lines: Sequence[tuple[str, Sequence[Mark]]]
    series: Mapping[str, str]
    caption: Sequence[str]
    left: int  # where the axis begins, in px


def picture(plot: Plot, theme: str) -> str:
    """Return the SVG in a theme, 'light' or 'dark'."""
    colours = {name: getattr(colour, theme) for name, colour in COLOURS.items()}
    marks = [mark for _, marks_of in plot.lines for mark in marks_of]
    shown = {mark.series for mark in marks}
    of_series = {name: colours[colour] for name, colour in plot.series.items() if name in shown}
    low = max(1 / WIDEST, min(1 / NARROWEST, *(mark.low for mark in marks))) / MARGIN
    high = min(WIDEST, max(NARROWEST, *(mark.high for mark in marks))) * MARGIN
    heights = [LINE_SPACE + MARK_STEP * len(marks_of) for _, marks_of in plot.lines]
    bottom = TOP + sum(heights)
    height = bottom + FOOT + CAPTION_STEP * len(plot.caption)

    def x_of(value: float) -> float:
        return round(plot.left + Axis(low, high).place(value) / 100 * (WIDTH - plot.left - RIGHT), 1)

    said = (f"{text}: {', '.join(f'{mark.series} {mark.text}' for mark in marks_of)}" for text, marks_of in plot.lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" font-family="system-ui, sans-serif" font-size="14">',
        f"<title>{escape(f'{plot.title}. ' + '; '.join(said))}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="6" fill="{colours["paper"]}"/>',
        _text(16, 30, plot.title, colours["ink"], size=16),
        *_legend(of_series),
    ]
    for tick in log_ticks(low, high, MOST_TICKS):
        parts += _tick(x_of(tick), tick, bottom, colours)
    y = TOP
    for (text, marks_of), line_height in zip(plot.lines, heights, strict=True):
        parts.append(_text(16, y + MARK_STEP * (len(marks_of) - 1) // 2 + 12, text, colours["ink"]))
        parts += _marks(y + 9, marks_of, x_of, of_series)
        y += line_height
    parts += [
        _text(16, height - 12 - CAPTION_STEP * number, line, colours["muted"], size=12)
        for number, line in enumerate(reversed(plot.caption))
    ]
    return "\n".join([*parts, "</svg>", ""])


def _legend(of_series: Mapping[str, str]) -> Iterator[str]:
    for number, (name, colour) in enumerate(of_series.items()):
        x = 16 + LEGEND_STEP * number
        yield f'<circle cx="{x + 6}" cy="52" r="5" fill="{colour}"/>'
        yield _text(x + 18, 57, name, colour)


def _tick(x: float, value: float, bottom: int, colours: Mapping[str, str]) -> Iterator[str]:
    width, stroke = (2, colours["muted"]) if value == 1 else (1, colours["line"])
    yield f'<line x1="{x}" x2="{x}" y1="{TOP - 12}" y2="{bottom}" stroke="{stroke}" stroke-width="{width}"/>'
    yield _text(x, bottom + 16, f"{value:g}x", colours["muted"], anchor="middle", size=12)


def _marks(
    y: int, marks: Sequence[Mark], x_of: Callable[[float], float], of_series: Mapping[str, str]
) -> Iterator[str]:
    for number, mark in enumerate(marks):
        middle, colour = y + MARK_STEP * number, of_series[mark.series]
        if mark.low < mark.high:
            yield (
                f'<line x1="{x_of(mark.low)}" x2="{x_of(mark.high)}" y1="{middle}" y2="{middle}" '
                f'stroke="{colour}" stroke-width="3" stroke-linecap="round"/>'
            )
        x = x_of(mark.value)
        if 1 / WIDEST / MARGIN <= mark.value <= WIDEST * MARGIN:
            yield f'<circle cx="{x}" cy="{middle}" r="5" fill="{colour}"/>'
        else:
            tip = math.copysign(7, math.log(mark.value))
            yield f'<polygon points="{x},{middle - 6} {x},{middle + 6} {x + tip},{middle}" fill="{colour}"/>'
        yield _text(WIDTH - 16, middle + 5, mark.text, colour, anchor="end")


def _text(  # noqa: PLR0913 - as SVG has it
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 14
) -> str:
    return f'<text x="{x}" y="{y}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
