"""Requirements files are cut into lines as pip cuts them, which is asked itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pip._internal.req.req_file import preprocess

from interlock.requirement_lines import logical_lines


def test_comments_blank_lines_and_continued_lines_are_read_as_pip_reads_them() -> None:
    text = "# first\n\nflask \\\n  >= 3  # why\nidna#not-a-comment\nrequests\\\n # ends it\nsix"
    assert list(logical_lines(text)) == [
        (3, "flask   >= 3"),
        (5, "idna#not-a-comment"),
        (6, "requests"),
        (8, "six"),
    ]


@given(st.text(alphabet="ab \t\\#\n\r\x0b", max_size=40))
def test_any_text_is_cut_into_the_lines_that_pip_cuts_it_into(text: str) -> None:
    assert [line for _, line in logical_lines(text)] == [line.strip() for _, line in pips_own(text)]


@given(st.text(alphabet="ab \\#\n", max_size=40))
def test_lines_have_the_numbers_that_pip_gives_them(text: str) -> None:
    assert list(logical_lines(text)) == [(number, line.strip()) for number, line in pips_own(text)]


def pips_own(text: str) -> list[tuple[int, str]]:
    return [(number, line) for number, line in preprocess(text) if line.strip()]
