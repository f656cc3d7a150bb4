"""Figures have three digits and no exponent; a table is the same on a terminal and in Markdown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Group

from interlock.analysis.statistics import Interval
from interlock.report import tables
from interlock.report.tables import Section
from tests.reports import printed

SECTION = Section(
    "a title", ("variant", "RSS MB", "what | else", "state"), (("a", "9", "x | y", "ok"), ("b", "7", "z", "failed"))
)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (0, "0"),
        (0.00123456, "0.00123"),
        (0.5, "0.5"),
        (1.005, "1"),
        (99.94, "99.9"),
        (99.96, "100"),
        (123.4, "123"),
        (1234567, "1,234,567"),
        (-2.345, "-2.35"),
    ],
)
def test_a_figure_has_three_significant_digits(number: float, expected: str) -> None:
    assert tables.figure_text(number) == expected


@given(st.floats(1e-12, 1e12))
def test_a_figure_has_no_exponent(number: float) -> None:
    assert "e" not in tables.figure_text(number)


@given(st.floats(1e-3, 1e12))
def test_a_figure_is_within_half_a_percent_of_its_number(number: float) -> None:
    assert float(tables.figure_text(number).replace(",", "")) == pytest.approx(number, rel=0.0051)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Interval(1.23456, 1.0, 1.5), "1.235x [1.000, 1.500]"),
        (Interval(0.00384, 0.00332, 0.0043), "0.00384x [0.00332, 0.00430]"),
        (Interval(0.0004, 0.0, math.inf), "0.000400x [one round]"),
        (Interval(2.0, 0.0, math.inf), "2.000x [one round]"),
    ],
)
def test_a_ratio_has_three_decimals_or_digits_and_says_when_one_round_left_it_open(ratio: Interval, text: str) -> None:
    assert tables.ratio_text(ratio) == text


def test_in_markdown_a_section_has_its_heading_and_escapes_pipes() -> None:
    lines = tables.markdown_lines(SECTION)
    assert lines[0] == "## a title"
    assert lines[2] == "| variant | RSS MB | what \\| else | state |"
    assert lines[4] == "| a | 9 | x \\| y | ok |"
    assert tables.markdown_lines(SECTION, "Another")[0] == "## Another"


def test_on_a_terminal_it_has_its_title_and_no_column_of_memory() -> None:
    shown = printed(Group(*tables.rich_parts(SECTION)), 80)
    assert "a title" in shown
    assert "RSS MB" not in shown
    assert "x | y" in shown


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a <b>", "a \\<b>"),
        ("a \\<b>", "a \\\\\\<b>"),
        ("a \\\\<!-- b", "a \\\\\\\\\\<!-- b"),
        ("![a](b)", "!\\[a](b)"),
        ("1 < 2 \\d [a](b)", "1 < 2 \\d [a](b)"),
    ],
)
def test_a_tag_in_markdown_is_escaped_whatever_stands_before_it(text: str, written: str) -> None:
    assert tables.markdown_text([text]) == written


def test_text_of_several_lines_becomes_one() -> None:
    assert tables.one_line(" a\n  b\tc ") == "a b c"
