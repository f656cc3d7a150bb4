"""For which images a builder can be given another one, with the Dockerfile as it is."""

from __future__ import annotations

import pytest

from interlock.swap.contexts import context_names
from interlock.swap.files import swapped_dockerfile
from tests.swap.samples import PLAIN

DIGEST = f"sha256:{'1' * 64}"
ARGS = "ARG V=3.13\nARG BASE=python:${V}-slim\nFROM ${BASE} AS build\nFROM build\n"


def names(text: str, stage: str | None = None, **arguments: str) -> list[str]:
    made = swapped_dockerfile(text, PLAIN, stage, paths=True)
    return context_names(text, made.only_images_of, arguments)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("FROM python:3.12\n", ["python:3.12"]),
        (
            "FROM docker.io/library/python:3.12 AS a\nFROM python:3.12\n",
            ["docker.io/library/python:3.12", "python:3.12"],
        ),
        (f"FROM --platform=linux/amd64 python:3.12@{DIGEST} AS x\n", [f"python:3.12@{DIGEST}"]),
        ("FROM python:3.12 AS a\nFROM debian\nCOPY --from=a /x /x\n", ["python:3.12"]),
        (ARGS, ["python:3.13-slim"]),
    ],
)
def test_each_image_of_a_swapped_stage_is_named_as_the_file_names_it(text: str, found: list[str]) -> None:
    assert names(text) == found


@pytest.mark.parametrize(
    ("given", "found"), [({"V": "3.12"}, "python:3.12-slim"), ({"BASE": "r.io/python", "V": "3.9"}, "r.io/python")]
)
def test_build_arguments_count_in_place_of_defaults(given: dict[str, str], found: str) -> None:
    assert names(ARGS, **given) == [found]


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ("FROM python:3.12 AS a\nFROM python:3.12\n", "a"),
        ("FROM python:3.12\nCOPY --from=docker.io/library/python:3.12 /a /a\n", None),
        ("FROM python:3.12\nRUN --mount=type=bind,from=python:3.12,target=/a true\n", None),
        ("FROM python:latest AS Python\n", None),
        ("FROM python:3.12\nFROM debian:$X\n", None),
    ],
)
def test_an_image_whose_name_something_else_has_would_be_replaced_there_too(text: str, stage: str | None) -> None:
    assert names(text, stage) == []


@pytest.mark.parametrize(
    "text",
    [
        "FROM python:3.12\nCOPY a /usr/local/lib/python3.12/site-packages\n",
        "FROM ghcr.io/astral-sh/uv:python3.12-bookworm-slim\nRUN a\n",
        "# interlock: was python:3.12\nFROM python:3.13\n",
    ],
)
def test_a_file_that_needs_more_than_another_image_has_no_such_name(text: str) -> None:
    assert names(text) == []
