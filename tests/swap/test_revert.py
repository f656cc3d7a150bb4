"""What was swapped comes back; a file that was edited since is not guessed at."""

from __future__ import annotations

import pytest

from interlock.errors import SwapError
from interlock.swap import reverted, swapped
from tests.swap.samples import FREE, PLAIN

TEXT = "FROM python:3.12 AS a\nRUN python3.12\nFROM python:3.12 AS b\nCMD python3.12\n"


def test_a_file_that_was_never_swapped_stays() -> None:
    assert reverted(TEXT) == TEXT


def test_one_stage_comes_back_alone() -> None:
    after = swapped(TEXT, FREE, None, paths=True).text
    back = reverted(after, "a")
    assert back.startswith("FROM python:3.12 AS a\nRUN python3.12\n# interlock: was python:3.12\nFROM interlock/")
    assert reverted(back) == TEXT


def test_a_shared_arg_comes_back_with_all_of_its_stages() -> None:
    text = "ARG B=python:3.12\nFROM $B AS a\nFROM $B AS b\n"
    after = swapped(text, PLAIN, None, paths=False).text
    assert reverted(after, "a") == after
    assert reverted(after) == text


def test_what_was_added_since_the_swap_stays() -> None:
    after = swapped(TEXT, PLAIN, None, paths=False).text
    edited = after.replace(" AS a", " AS base").replace("RUN python3.12", "RUN python3 -V\nRUN true")
    assert reverted(edited) == TEXT.replace(" AS a", " AS base").replace("RUN python3.12", "RUN python3 -V\nRUN true")


def test_the_heredoc_of_an_instruction_is_no_comment() -> None:
    text = "FROM python:3.12\nRUN <<E\n# interlock: was x\nFROM y\nE\n"
    assert reverted(text) == text
    assert reverted(swapped(text, PLAIN, None, paths=False).text) == text


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("# interlock: was x\n", 1, "none stands below it"),
        ("FROM a\n# interlock: was x\n\nFROM b\n", 2, "none stands below it"),
        ("# interlock: was x\nRUN a\n", 1, "the line below names none"),
        ("# interlock: was B=x\nARG C=1\nFROM a\n", 1, "the line below names none"),
        ("# interlock: was a\n# interlock: was b\nFROM c\n", 2, "a second time"),
        ('# interlock: was json:"a\nFROM c\n', 1, "cannot be read"),
        ("# interlock: was json:1\nFROM c\n", 1, "cannot be read"),
        ("FROM a\n# interlock: paths were python3.12\nRUN a\n", 2, "1 versions were, and the instruction below has 0"),
    ],
)
def test_a_comment_that_does_not_fit_is_refused_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(SwapError, match=problem) as raised:
        reverted(text, file="D")
    assert raised.value.file == f"D:{line}"


def test_a_stage_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SwapError, match="there is no stage 'c'"):
        reverted(TEXT, "c")
