"""Text from elsewhere loses what would steer a terminal, and nothing else."""

from __future__ import annotations

import io
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text

from interlock.cli.options import PlainConsole
from interlock.errors import WorkloadError
from interlock.printable import printable

ESC = "\x1b"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain, with ä, 漢 and 🐍\tand a tab\n", "plain, with ä, 漢 and 🐍\tand a tab\n"),
        (f"{ESC}[1;31mred{ESC}[0m", "red"),
        ("\x9b2Jcleared", "cleared"),
        (f"{ESC}]0;a title\x07text", "text"),
        (f"{ESC}]8;;https://x.invalid{ESC}\\link{ESC}]8;;{ESC}\\", "link"),
        (f"{ESC}]52;c;aGk=", "52;c;aGk="),
        (f"{ESC}Pq#0;2;0;0;0{ESC}\\picture", "picture"),
        (f"{ESC}c{ESC}(0reset", "reset"),
        (f"{ESC}{ESC}[[31mnested", "31mnested"),
        ("50 %\r100 %\r\ndone\n", "50 %\n100 %\ndone\n"),
        ("a\x00b\x08c\x7fd\x85e", "abcde"),
        ("\u202etxt.exe\u202c \u2066x\u2069", "txt.exe x"),
        ("half \udc9b", "half \ufffd"),
    ],
)
def test_what_steers_a_terminal_is_removed_and_the_rest_stays(text: str, left: str) -> None:
    assert printable(text) == left


@given(st.text(st.characters() | st.sampled_from("\x1b\x9b[]0;mPX\\\x07")))
def test_nothing_is_left_but_characters_that_are_shown(text: str) -> None:
    cleaned = printable(text)
    assert {unicodedata.category(one) for one in cleaned if one not in "\n\t"}.isdisjoint({"Cc", "Cs"})
    assert printable(cleaned) == cleaned
    cleaned.encode()


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    for introducer in ("\x1b]", "\x9d", "\x1b[", "\x1b ", "\x9d" + "a" * 4000, "\x9b" + "0" * 4000):
        text = introducer * (200_000 // len(introducer))
        assert "\x1b" not in printable(text)


def test_a_console_prints_no_escape_and_reads_no_markup() -> None:
    table = Table(f"{ESC}[2Jcolumn [/bold]")
    table.add_row(f"[red]row{ESC}[0m")
    for terminal in (True, False):
        stream = io.StringIO()
        console = PlainConsole(
            file=stream, force_terminal=terminal, color_system="standard" if terminal else None, width=60
        )
        console.print(f"x{ESC}[2J[/y]", highlight=False)
        console.print(Text(f"{ESC}]0;owned{ESC}\\styled", style="red"))
        console.print(table)
        shown = stream.getvalue()
        assert f"{ESC}[2J" not in shown
        assert "owned" not in shown
        assert "\x07" not in shown
        assert (f"{ESC}[31mstyled" in shown) is terminal
        assert {"x[/y]", "[red]row", "[/bold]"} <= {word for word in shown.split() if "[" in word} | {"[/bold]"}


def test_an_error_has_no_control_character_wherever_it_is_written() -> None:
    error = WorkloadError(key="a\x1b[31m", found="it said \x1b]0;x\x07no", todo="Look.\r\n")
    assert [error.key, error.found, str(error)] == ["a", "it said no", "key 'a': it said no. Look.\n"]
