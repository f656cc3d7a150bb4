"""A swap of a Dockerfile changes what it should and nothing else, and is taken back byte for byte."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from interlock.errors import SwapError
from interlock.swap.dockerfile import read_dockerfile
from interlock.swap.files import reverted_file, swapped_dockerfile
from interlock.swap.image_names import NewImage
from tests.swap.samples import FREE, PLAIN, PYPY, python_dockerfiles

new_images = st.sampled_from([FREE, PLAIN, PYPY])


def text_after(text: str, to: NewImage = PLAIN, stage: str | None = None, *, paths: bool = False) -> str:
    return swapped_dockerfile(text, to, stage, paths=paths).text


def or_nothing(text: str, to: NewImage, paths: bool, stage: str | None = None) -> str:
    try:
        return text_after(text, to, stage, paths=paths)
    except SwapError:
        assume(False)
        raise


@given(python_dockerfiles, new_images, st.booleans())
def test_a_swap_taken_back_is_the_file_as_it_was(text: str, to: NewImage, paths: bool) -> None:
    assert reverted_file("D", or_nothing(text, to, paths)) == text


@given(python_dockerfiles, new_images)
def test_nothing_but_the_images_and_the_comments_is_new(text: str, to: NewImage) -> None:
    """Without the comments the new text is the old one with a word that names Python's image for each new image."""
    after = or_nothing(text, to, paths=False)
    parts = re.sub(r"(?m)^(\ufeff?)# interlock: was .*\n", r"\1", after).split(to.reference)
    word = r"((?:\S|[\\`][ \t]*\r?\n)+?)"
    match = re.fullmatch(word.join(map(re.escape, parts)), text)
    assert match is not None
    assert all("python" in found or "$" in found for found in match.groups())


@given(python_dockerfiles, new_images, new_images, st.booleans())
def test_a_second_swap_is_as_if_it_were_the_first(text: str, first: NewImage, second: NewImage, paths: bool) -> None:
    assert text_after(or_nothing(text, first, paths), second, paths=paths) == text_after(text, second, paths=paths)


@given(python_dockerfiles, new_images, new_images, st.booleans(), st.integers(0, 9), st.integers(0, 9))
def test_stages_swapped_one_by_one_and_taken_back_are_the_file_as_it_was(
    text: str, to: NewImage, other: NewImage, paths: bool, first: int, second: int
) -> None:
    stages = [str(stage.index) for stage in read_dockerfile(text).stages if stage.python]
    assume(stages)
    after = text_after(text, to, stages[first % len(stages)], paths=paths)
    again = text_after(after, other, stages[second % len(stages)], paths=not paths)
    assert reverted_file("D", again) == reverted_file("D", after) == text


@pytest.mark.parametrize(
    ("text", "comment"),
    [
        ("FROM python:3.12\r\n", "# interlock: was python:3.12\r\n"),
        ("FROM python:3.12", "# interlock: was python:3.12\n"),
        ("ARG A\r\nFROM python:3.12", "# interlock: was python:3.12\r\n"),
        ("ARG A\r\nFROM python:3.12\n", "# interlock: was python:3.12\n"),
    ],
)
def test_the_comment_ends_as_its_line_does(text: str, comment: str) -> None:
    assert comment in text_after(text)


def test_an_arg_that_says_something_to_another_stage_stays() -> None:
    text = "ARG B=python:3.12\nFROM $B AS a\nFROM $B AS b\n"
    assert text_after(text, stage="a") == (
        f"ARG B=python:3.12\n# interlock: was $B\nFROM {PLAIN.reference} AS a\nFROM $B AS b\n"
    )
    derived = "ARG B=python:3.12\nARG C=${B}-x\nFROM $B\nFROM node:$C\n"
    assert "ARG B=python:3.12\n" in text_after(derived)


@pytest.mark.parametrize("word", ["${B%-*}", "${B%%-slim}", "${B#docker.io/}", "${B/-slim/}", "${B:+python:3.12}"])
def test_an_arg_whose_value_a_from_line_changes_stays(word: str) -> None:
    text = f"ARG B=python:3.12-slim\nFROM {word}\n"
    result = swapped_dockerfile(text, PLAIN, None, paths=False)
    assert result.text == f"ARG B=python:3.12-slim\n# interlock: was {word}\nFROM {PLAIN.reference}\n"
    assert [one.line for one in result.warnings if one.text.endswith("depends on B")] == [2]
    assert reverted_file("D", result.text) == text


UV = "FROM ghcr.io/astral-sh/uv:python3.12-bookworm "


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("\nRUN uv sync\n", 2),
        ("\\\n AS a\n", 3),
        ("", None),
        ("\\\n", None),
        ("\\ \n# c\n\n", None),
        ("\\\n\\\n", None),
    ],
)
def test_uv_is_added_below_a_from_line_that_ends(text: str, added: int | None) -> None:
    after = text_after(UV + text)
    lines = [number for number, line in enumerate(after.split("\n")) if line.startswith("COPY --from=ghcr")]
    assert lines == ([added + 1] if added else [])
    assert reverted_file("D", after) == UV + text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("FROM python:3.\\\n12-slim AS a\n", "FROM {} AS a"),
        ("ARG B=python:3.12\\\n-slim C=1\nFROM ${B}\n", "ARG B={} C=1"),
        ("ARG B='python:3.12\\\n# c\n-slim'\nFROM ${B}\n", "ARG B='{}'"),
    ],
)
def test_an_image_over_several_lines_comes_back_as_it_was(text: str, line: str) -> None:
    after = text_after(text)
    assert f"\n{line.format(PLAIN.reference)}\n" in after
    assert reverted_file("D", after) == text


def test_all_stages_of_one_python_are_swapped_and_others_stay() -> None:
    text = text_after("FROM python:3.12\nFROM node:22\nFROM registry:5000/python:3.12-slim\nFROM scratch\n")
    assert text.count(PLAIN.reference) == 2
    assert "FROM node:22\n" in text


def test_stages_of_different_pythons_need_a_choice() -> None:
    text = "FROM python:3.11 AS old\nFROM python:3.12 AS new\n"
    with pytest.raises(SwapError, match=r"'old' .*\b1\b.*python:3\.11.*'new' .*\b2\b.*python:3\.12"):
        text_after(text)
    assert text_after(text, stage="NEW").startswith("FROM python:3.11 AS old\n# interlock: was python:3.12\n")
    assert text_after(text, stage="0").endswith("FROM python:3.12 AS new\n")


def test_stages_are_compared_as_they_were_before_a_swap() -> None:
    half = text_after("FROM python:3.12 AS a\nFROM python:3.12 AS b\n", stage="a")
    assert text_after(half, FREE).count(FREE.reference) == 2


def test_one_stage_can_be_swapped_again_while_another_keeps_its_swap() -> None:
    text = "FROM python:3.12 AS a\nFROM python:3.12 AS b\nCOPY --from=a /lib/python3.12 /lib/python3.12\n"
    both = text_after(text, PLAIN, paths=True)
    one = text_after(both, FREE, "b", paths=True)
    assert one.splitlines() == [
        "# interlock: was python:3.12",
        f"FROM {PLAIN.reference} AS a",
        "# interlock: was python:3.12",
        f"FROM {FREE.reference} AS b",
        "# interlock: paths were python3.12 python3.12",
        "COPY --from=a /lib/python3.13 /lib/python3.14t",
    ]
    assert reverted_file("D", one) == text


@pytest.mark.parametrize(
    ("text", "stage", "file", "todo"),
    [
        ("", None, "D", "devcontainer.json"),
        ("RUN a\n", None, "D", "devcontainer.json"),
        ("FROM node:22\n", None, "D", "--stage"),
        ("FROM bitnami/python:3.12\n", None, "D:1", "--stage 0"),
        ("ARG B\nFROM $B\n", None, "D:1", "ARG B=python:3.13-slim"),
        ("FROM python:$V\n", None, "D:1", "`ARG V=...`"),
        ("FROM python:3.12\nFROM $B AS x\n", "x", "D:2", "`ARG B=...`"),
        ("FROM python:3.12 AS build\n", "biuld", "D", "'build'"),
        ("FROM python:3.12 AS a\nFROM a AS b\n", "b", "D:2", "--stage a"),
        ("FROM scratch AS s\n", "s", "D:1", "Python"),
        ("FROM python:3.12-nanoserver\n", None, "D:1", "--stage"),
    ],
)
def test_what_cannot_be_swapped_is_refused_with_the_line_and_what_to_do(
    text: str, stage: str | None, file: str, todo: str
) -> None:
    with pytest.raises(SwapError) as raised:
        swapped_dockerfile(text, PLAIN, stage, paths=False, file="D")
    assert raised.value.file == file
    assert todo in raised.value.todo


@pytest.mark.parametrize("image", ["node:22", "bitnami/python:3.12", "company/base:7"])
def test_a_stage_that_is_named_is_swapped_whatever_it_starts_from(image: str) -> None:
    assert text_after(f"FROM {image} AS x\n", stage="x") == (f"# interlock: was {image}\nFROM {PLAIN.reference} AS x\n")


TEXT = "FROM python:3.12 AS a\nRUN python3.12\nFROM python:3.12 AS b\nCMD python3.12\n"


def test_a_file_that_was_never_swapped_stays() -> None:
    assert reverted_file("D", TEXT) == TEXT


def test_one_stage_comes_back_alone() -> None:
    after = text_after(TEXT, FREE, paths=True)
    back = reverted_file("D", after, "a")
    assert back.startswith(
        "FROM python:3.12 AS a\nRUN python3.12\n# interlock: was python:3.12\nFROM localhost/interlock/"
    )
    assert reverted_file("D", back) == TEXT


def test_a_version_comes_back_although_nothing_of_its_name_is_there_now() -> None:
    text = f"# interlock: was python:3.12\nFROM {FREE.reference} AS a\nFROM debian\n"
    copy = "# interlock: paths were python3.12\nCOPY --from={} /lib/python3.14t /x\n"
    assert reverted_file("D", text + copy.format("b")).endswith("\nCOPY --from=b /lib/python3.12 /x\n")


def test_a_shared_arg_comes_back_with_all_of_its_stages() -> None:
    text = "ARG B=python:3.12\nFROM $B AS a\nFROM $B AS b\n"
    after = text_after(text)
    assert reverted_file("D", after, "a") == after
    assert reverted_file("D", after) == text
    with_paths = "ARG B=python:3.12 P=python3.12\nFROM $B AS a\nRUN python3.12\nFROM $B AS b\nRUN python3.12\n"
    both = text_after(with_paths, FREE, paths=True)
    assert reverted_file("D", both, "a") == both
    assert reverted_file("D", both) == with_paths
    own = text_after(both, PLAIN, "a", paths=True)
    assert own.splitlines() == [
        "# interlock: was B=python:3.12",
        "# interlock: paths were python3.12",
        f"ARG B={FREE.reference} P=python3.13",
        "# interlock: was $B",
        f"FROM {PLAIN.reference} AS a",
        "# interlock: paths were python3.12",
        "RUN python3.13",
        "FROM $B AS b",
        "# interlock: paths were python3.12",
        "RUN python3.14t",
    ]
    assert reverted_file("D", own) == with_paths


def test_a_stage_is_not_reverted_to_an_arg_that_stays_swapped() -> None:
    text = "ARG B=python:3.12-slim\nFROM $B AS a\nFROM ${B%-*} AS b\nRUN python3.12\n"
    after = text_after(text, FREE, paths=True)
    assert reverted_file("D", after, "b") == after
    first = reverted_file("D", after, "a")
    assert first.startswith("ARG B=python:3.12-slim\nFROM $B AS a\n# interlock: was ${B%-*}\n")
    assert reverted_file("D", first, "b") == reverted_file("D", after) == text


def test_a_stage_whose_arg_stays_swapped_is_swapped_again_from_its_original() -> None:
    text = "ARG B=python:3.12\nFROM $B AS a\nRUN python3.12\nFROM $B AS b\n"
    after = text_after(text_after(text, FREE, "a", paths=True), FREE, "b", paths=True)
    assert f"ARG B={FREE.reference}\n" in after
    again = text_after(after, PLAIN, "a", paths=True)
    assert f"FROM {PLAIN.reference} AS a\n# interlock: paths were python3.12\nRUN python3.13\n" in again
    assert reverted_file("D", again) == text


def test_what_was_added_since_the_swap_stays() -> None:
    def edited(text: str) -> str:
        return text.replace(" AS a", " AS base").replace("RUN python3.12", "RUN python3 -V\nRUN true")

    assert reverted_file("D", edited(text_after(TEXT))) == edited(TEXT)


def test_the_heredoc_of_an_instruction_is_no_comment() -> None:
    text = "FROM python:3.12\nRUN <<E\n# interlock: was x\nFROM y\nE\n"
    assert reverted_file("D", text) == text
    assert reverted_file("D", text_after(text)) == text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("# interlock: was x\n", 1),
        ("FROM a\n# interlock: was x\n\nFROM b\n", 2),
        ("# interlock: was x\nRUN a\n", 1),
        ("# interlock: was B=x\nARG C=1\nFROM a\n", 1),
        ("# interlock: was a\n# interlock: was b\nFROM c\n", 2),
        ('# interlock: was json:"a\nFROM c\n', 1),
        ("# interlock: was json:1\nFROM c\n", 1),
        ("FROM a\n# interlock: paths were python3.12\nRUN a\n", 2),
    ],
)
def test_a_comment_that_does_not_fit_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(SwapError) as raised:
        reverted_file("D", text)
    assert raised.value.file == f"D:{line}"


def test_a_stage_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SwapError, match="'c'"):
        reverted_file("D", TEXT, "c")
