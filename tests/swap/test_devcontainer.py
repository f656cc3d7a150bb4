"""JSON with comments: where the image stands, and what is refused."""

from __future__ import annotations

import pytest

from interlock.errors import SwapError
from interlock.swap.devcontainer import read_devcontainer


@pytest.mark.parametrize(
    "text",
    [
        '{"image": "python:3.12"}',
        '{\n\t// "image": "a"\n\t"image"\t: "python:3.12", /* why\n */ }\r\n',
        '{"a": "x // no /* comment */", "l": [1, 2,], "image": "python:3.12",}',
        '{"a": {"image": "a"}, "b": "\\"//", "image": "python:3.12"}',
        '\ufeff{"name": "Größe", "image": "python:3.12"}',
        '{"n": ' + "1" * 6000 + ', "image": "python:3.12"}',
    ],
)
def test_the_image_is_found_where_it_stands(text: str) -> None:
    (image,) = read_devcontainer(text, "devcontainer.json").entries
    assert (image.span.of(text), text[image.span.start - 1]) == ("python:3.12", '"')


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{\n", 2),
        ('{"image": "x" "b": 1}', 1),
        ('{\n"image": "x"} more', 2),
        ('{\n\n"a": 1 /* open', 3),
        ('{"a": "un\nterminated"}', 1),
        ("[" * 100_000, 1),
        # Each of these is looked at once: looked at from every character it would take minutes.
        ('"\\' * 100_000, 1),
        ("/*" * 100_000, 1),
        ('"' * 100_001, 1),
    ],
)
def test_what_is_no_json_is_refused_with_its_line(text: str, line: int) -> None:
    with pytest.raises(SwapError) as refused:
        read_devcontainer(text, "devcontainer.json")
    assert refused.value.file == f"devcontainer.json:{line}"
