"""Instructions of Dockerfiles, with the position of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings

from interlock.swap.instructions import parse_instructions
from tests.swap.differential import buildkits, ours
from tests.swap.samples import corpus, dockerfiles, text_of


@pytest.mark.parametrize("path", corpus("*.Dockerfile"), ids=lambda path: path.stem)
def test_a_real_dockerfile_is_read_as_buildkit_reads_it(path: Path) -> None:
    text = text_of(path).encode("utf-8", "replace").decode()
    assert ours(text) == buildkits(text)


@given(dockerfiles)
@settings(max_examples=4 * settings().max_examples)
def test_any_text_that_buildkit_takes_is_read_as_it_does(text: str) -> None:
    expected = buildkits(text)
    assert expected is None or ours(text) == expected


@given(dockerfiles)
def test_each_character_of_an_instruction_stands_where_it_says(text: str) -> None:
    for instruction in parse_instructions(text):
        assert "".join(text[at] for at in instruction.offsets) == instruction.text
        for word in [*instruction.flags, *instruction.arguments]:
            assert word.text.startswith(text[word.span.start]) or not word.text


def test_a_heredocs_lines_belong_to_the_instruction_that_announces_it() -> None:
    run, copy = parse_instructions("RUN <<-A <<'B' cat\n\tFROM x\n\tA\nFROM y\n  B\nB\nCOPY a b")
    assert run.heredoc == "\tFROM x\nFROM y\n  B"
    assert (copy.keyword, copy.line) == ("COPY", 7)


def test_a_comment_of_another_kind_ends_the_directives() -> None:
    assert [one.line for one in parse_instructions("# a comment\n# escape=`\nRUN a `\nb")] == [3, 4]
    assert [one.line for one in parse_instructions("# check=skip=all\n# escape=`\nRUN a `\nb")] == [3]


def test_flags_with_quotes_are_no_arguments() -> None:
    (instruction,) = parse_instructions("FROM --platform=\"linux/amd64\" --x='a b' python:3 AS --y")
    assert [word.text for word in instruction.arguments] == ["python:3", "AS", "--y"]
