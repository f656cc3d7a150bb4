"""Text of numbers, ratios and tables, for a terminal and as Markdown. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from interlock.catalog.types import LIMIT, split_label
from interlock.results.experiments import State
from interlock.untrusted import printable

if TYPE_CHECKING:  # they load scipy, which a page of variants does not need
    from interlock.analysis.comparison import DetailFigure, Row, Table
    from interlock.analysis.statistics import Interval

RSS = "RSS MB"
SHARE = "share of the limit"
# How a cell with a figure begins; a lone dash stands for a missing figure.
NUMBER = re.compile(r"[-+±~<]?\d|-?$")
NOT_OK = tuple(state.value for state in State if state is not State.OK)


@dataclass(frozen=True)
class Section:
    """A table whose cells are text: title, column titles, rows."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def ratio_text(ratio: Interval | None) -> str:
    """Return a ratio with its 95 % interval: '1.230x [1.190, 1.270]', '0.00401x [0.00374, 0.00430]'; or a dash."""
    if ratio is None:
        return "-"
    digits = _digits(ratio.estimate)
    bounds = "one round" if math.isinf(ratio.high) else f"{ratio.low:{digits}}, {ratio.high:{digits}}"
    return f"{estimate_text(ratio.estimate)} [{bounds}]"


def estimate_text(estimate: float) -> str:
    """Return a ratio without its interval: '1.230x', '0.00401x'."""
    return f"{estimate:{_digits(estimate)}}x"


def _digits(estimate: float) -> str:
    return ".3f" if estimate >= 0.1 else "#.3g"


def short_ratio_text(ratio: Interval) -> str:
    """Return a ratio with its 95 % interval in as few digits as tell it from 1 in most cases: '1.23x [1.19, 1.27]'."""
    text = ratio_text(ratio)
    few = f"{ratio.estimate:.2f}x [{ratio.low:.2f}, {ratio.high:.2f}]"
    return text if math.isinf(ratio.high) or "1.00" in few or ratio.estimate < 0.1 else few


def label_text(label: str) -> str:
    """Return the name of a row: the label of a variant or mode; 'limit: NAME' for a limit."""
    variant, mode = split_label(label)
    return f"limit: {mode}" if variant == LIMIT else label


def share_text(share: Interval | None) -> str:
    """Return a share with its 95 % interval in per cent, or a dash."""
    if share is None:
        return "-"
    bounds = "one round" if math.isinf(share.high) else f"{100 * share.low:.0f}, {100 * share.high:.0f}"
    return f"{100 * share.estimate:.0f}% [{bounds}]"


def rounds_text(count: int) -> str:
    """Return a number of rounds in words."""
    return f"{count} round{'' if count == 1 else 's'}"


def figure_text(number: float) -> str:
    """Return a number with three significant digits and no exponent: '1,230', '0.0123'."""
    if number == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def markdown_lines(section: Section, title: str | None = None) -> list[str]:
    """Return the section as Markdown under its title, or under another one."""
    return [f"## {title or section.title}", "", *markdown_table(section.columns, section.rows), ""]


def rich_parts(section: Section) -> list[RenderableType]:
    """Return the section under its title, for a terminal."""
    return [Text(), Text(section.title, style="bold"), rich_table(section)]


def one_line(text: str) -> str:
    """Return the text with every run of white space as one space."""
    return " ".join(text.split())


def capitalized(text: str) -> str:
    """Return the text with a capital at its beginning, and all other capitals kept: 'Verdicts on 2 CPUs'."""
    return text[:1].upper() + text[1:]


def _longest_word(section: Section, index: int) -> int:
    """Return the smallest width of a column; only an image's tag and a variant's name may be broken over lines."""
    names = {row[0] for row in section.rows} if index else set()
    words = [word for row in section.rows for word in row[index].split() if "/" not in word and word not in names]
    return max((len(word) for word in words), default=1)


def is_of_numbers(section: Section, index: int) -> bool:
    """Return whether each cell of a column is a number, an interval, or empty."""
    return index > 0 and all(NUMBER.match(row[index]) for row in section.rows)


def rich_table(section: Section) -> RichTable:
    """Return the section without its memory column, which only the Markdown has, so that it fits a terminal."""
    table = RichTable(box=None, pad_edge=False, show_edge=False)
    shown = [index for index, column in enumerate(section.columns) if column != RSS]
    for index in shown:
        # People look rows up by name, so it is never broken.
        table.add_column(
            section.columns[index],
            justify="right" if index != shown[-1] and is_of_numbers(section, index) else "left",
            overflow="fold",
            no_wrap=index == 0,
            min_width=_longest_word(section, index),
        )
    for row in section.rows:
        style = "dim" if row[-1].startswith(NOT_OK) else ""
        table.add_row(*(Text(row[index]) for index in shown), style=style)
    return table


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, with pipes in cells escaped."""
    return [_markdown_line(columns), _markdown_line(["---"] * len(columns)), *map(_markdown_line, rows)]


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


FENCE = "```"
# The report's own HTML, of which each part is a whole line.
FOLDING = re.compile(r"<details><summary>[^<>]*</summary>|</details>")
# What begins a tag, a comment or a picture that is fetched from elsewhere, and the backslashes before a tag.
ACTIVE = re.compile(r"\\*<(?=[A-Za-z/!?])|(?<=!)\[")


def markdown_text(lines: Iterable[str]) -> str:
    """Return lines of Markdown as a text in which names and reasons from outside cannot begin a line or a tag."""
    is_fenced, texts = False, list[str]()
    for line in (" ".join(printable(line).splitlines()) for line in lines):
        is_fenced ^= line == FENCE
        texts.append(line if is_fenced or FOLDING.fullmatch(line) else ACTIVE.sub(_escaped, line))
    return "\n".join(texts)


def _escaped(sign: re.Match[str]) -> str:
    """Return a sign escaped by a backslash, with earlier backslashes escaped too, or they would escape ours."""
    return f"{sign[0][:-1] * 2}\\{sign[0][-1]}"


def error_text(error: float | None) -> str:
    """Return a standard error in whole per cent, rounded up; a figure of one round has none."""
    return "" if error is None else f" ±{math.ceil(100 * error)}%"


def value_text(table: Table, row: Row) -> str:
    """Return a row's value in the metric's unit with its standard error, or a dash."""
    if row.seconds is None:
        return "-"
    return f"{figure_text(table.benchmark.metric.shown(row.seconds))}{error_text(row.error)}"


def detail_text(figure: DetailFigure | None) -> str:
    """Return the median over the processes with its standard error in per cent, or with the maximum if it is 0."""
    if figure is None:
        return "-"
    if figure.value == 0:
        return "0" if figure.high == 0 else f"0 (to {figure_text(figure.high)})"
    return f"{figure_text(figure.value)}{error_text(figure.error)}"
