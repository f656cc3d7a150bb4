"""Figures and tables as text, for a terminal and as Markdown: what all reports are made of. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rich.console import RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from interlock import markdown as md
from interlock.model import LIMIT, State, split_label
from interlock.statistics import Interval

RSS = "RSS MB"
SHARE = "share of the limit"
NOT_OK = tuple(state.value for state in State if state is not State.OK)


@dataclass(frozen=True)
class Section:
    """One table as text."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def interval(ratio: Interval) -> str:
    bounds = "one round" if math.isinf(ratio.high) else f"{ratio.low:.3f}, {ratio.high:.3f}"
    return f"{ratio.estimate:.3f}x [{bounds}]"


def label_text(label: str) -> str:
    """A row's name: a limit is none of a variant's modes."""
    variant, mode = split_label(label)
    return f"limit: {mode}" if variant == LIMIT else label


def share_text(share: Interval | None) -> str:
    """A share with its interval in per cent, or a dash."""
    if share is None:
        return "-"
    bounds = "one round" if math.isinf(share.high) else f"{100 * share.low:.0f}, {100 * share.high:.0f}"
    return f"{100 * share.estimate:.0f}% [{bounds}]"


def figure(number: float) -> str:
    """Three significant digits, without an exponent."""
    if number == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(number))))
    text = f"{number:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def markdown_lines(section: Section, title: str | None = None) -> list[str]:
    """The section under its heading, or another one."""
    return [f"## {title or section.title}", "", *md.table(section.columns, section.rows), ""]


def rich_parts(section: Section) -> list[RenderableType]:
    """The section under its title, for a terminal."""
    return [Text(), Text(section.title, style="bold"), rich_table(section)]


def one_line(text: str) -> str:
    return " ".join(text.split())


def _longest_word(section: Section, index: int) -> int:
    """How narrow a column may get; an image's tag and a control's name may be broken, a word of ours not."""
    names = {row[0] for row in section.rows} if index else set()
    words = [word for row in section.rows for word in row[index].split() if "/" not in word and word not in names]
    return max((len(word) for word in words), default=1)


def rich_table(section: Section) -> RichTable:
    """The section without its memory column (the Markdown has it), so that it fits a terminal."""
    table = RichTable(box=None, pad_edge=False, show_edge=False)
    shown = [index for index, column in enumerate(section.columns) if column != RSS]
    for index in shown:
        # The name is what a row is looked up by: it is never broken.
        outer = index in {0, shown[-1]}
        table.add_column(
            section.columns[index],
            justify="left" if outer else "right",
            overflow="fold",
            no_wrap=index == 0,
            min_width=_longest_word(section, index),
        )
    for row in section.rows:
        style = "dim" if row[-1].startswith(NOT_OK) else ""
        table.add_row(*(Text(row[index]) for index in shown), style=style)
    return table
