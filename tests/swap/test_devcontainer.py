"""JSON with comments: where the image stands, and what is refused."""

from __future__ import annotations

import pytest

from interlock.errors import SwapError
from interlock.swap.caveats import Weight
from interlock.swap.devcontainer import read_devcontainer
from tests.swap.samples import weighed


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


@pytest.mark.parametrize(
    ("feature", "told"),
    [
        ('"ghcr.io/devcontainers/features/python:1": {"version": "3.12",}', True),
        ('"ghcr.io/devcontainers/features/python:1": "latest"', True),
        ('"ghcr.io/devcontainers/features/python@sha256:0a": {"version": "3.12"}', True),
        ('"ghcr.io/devcontainers/features/conda:1": {}', True),
        ('"ghcr.io/devcontainers/features/c\\u006fnda": {}', True),
        ('"ghcr.io/devcontainers/features/python:1": {}', False),  # the system's
        ('"ghcr.io/devcontainers/features/python:1": {"version": "none"}', False),
        ('"ghcr.io/devcontainers/features/node:1": {"version": "3.12"}', False),
        ('// "ghcr.io/devcontainers/features/conda:1": {}', False),
    ],
)
def test_a_feature_whose_python_comes_first_in_path_is_told(feature: str, told: bool) -> None:
    text = f'{{\n"image": "python:3.13-slim",\n"features": {{\n{feature}\n}}}}'
    assert weighed("devcontainer.json", text) == ([(4, Weight.BREAKS)] if told else [])


@pytest.mark.parametrize("features", ["[]", '"x"', "null", "{}", '{"a": null, "b": [1]}'])
def test_features_of_another_form_say_nothing(features: str) -> None:
    text = f'{{"features": {features}, "image": "python:3.13-slim"}}'
    assert weighed("devcontainer.json", text) == []
