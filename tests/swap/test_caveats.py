"""What a swap is not drop-in for is said, with its line; what is drop-in is not talked about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from interlock.swap.edits import swapped_dockerfile
from interlock.swap.image_names import NewImage
from tests.swap.samples import FREE, PLAIN, PYPY


def said(text: str, to: NewImage = PLAIN, stage: str | None = None) -> list[tuple[int, str]]:
    return [(one.line, one.text) for one in swapped_dockerfile(text, to, stage, paths=False).warnings]


def says(text: str, part: str, to: NewImage = PLAIN, stage: str | None = None) -> list[int]:
    return [line for line, sentence in said(text, to, stage) if part in sentence]


@pytest.mark.parametrize(
    "image", ["python:3.13-slim", "python:3.13-slim-trixie", "mirror:5000/library/python:3.13-slim"]
)
def test_the_same_python_on_the_same_system_needs_no_word(image: str) -> None:
    assert said(f"FROM {image}\nRUN apt-get update && apt-get install -y git && git --version && pip install x\n") == []


@pytest.mark.parametrize(
    ("image", "part"),
    [
        ("python:3.13", "the new image is slim"),
        ("python:3.13-alpine", "is Alpine"),
        ("python:3.13-slim-bookworm", "is Debian bookworm, the new image trixie"),
        ("python:3.12-slim", "python3.12 becomes python3.13"),
        ("interlock/python:3.13t-trixie", "python3.13t becomes python3.13"),
        ("pypy:3.11-slim", "pypy3.11 becomes python3.13"),
        ("python:3-slim", "the Python of python:3-slim becomes python3.13"),
    ],
)
def test_what_the_old_image_had_is_said(image: str, part: str) -> None:
    assert says(f"ARG A\nFROM {image}\n", part) == [2]


def test_the_same_is_said_once_however_many_stages_there_are() -> None:
    assert says("FROM python:3.12-slim\nFROM python:3.12-slim\n", "becomes") == [1]


@pytest.mark.parametrize(
    ("to", "part"),
    [
        (replace(PLAIN, reference="interlock/python:3.13-trixie"), "is in no registry"),
        (replace(PLAIN, unoptimised=True), "--profile standard"),
        (replace(PLAIN, unoptimised=True, profiles=("standard",)), "has no other"),
        (FREE, "switches the GIL back on"),
    ],
)
def test_what_the_new_image_is_not_is_said(to: NewImage, part: str) -> None:
    assert says("FROM python:3.13-slim\n", part, to) == [0]


@pytest.mark.parametrize(
    ("line", "needed"),
    [
        ("RUN git clone x", "install git"),
        ("RUN apt-get update && \\\n  gcc x.c", "install build-essential"),
        ("RUN if true; then make; fi", "install build-essential"),
        ('RUN ["curl", "x"]', "install curl"),
        ("HEALTHCHECK --interval=3s CMD curl -f http://localhost", "install curl"),
        ("RUN <<E\nset -e\nunzip a\nE", "install unzip"),
        ("RUN a | xz -d", "install xz-utils"),
    ],
)
def test_a_command_of_the_full_image_is_found_where_it_runs(line: str, needed: str) -> None:
    assert says(f"FROM python:3.13\n{line}\n", needed) == [2]
    assert says(f"FROM python:3.13-slim\n{line}\n", needed) == []


@pytest.mark.parametrize(
    "lines",
    [
        "RUN apt-get install -y git\nRUN git clone x",
        "RUN apt-get update && apt-get install -y --no-install-recommends \\\n gcc git\nRUN git x && gcc y && make",
        "RUN echo git",
        "RUN pip install git+https://x",
        "COPY git /git",
    ],
)
def test_what_is_installed_or_does_not_run_is_not_missed(lines: str) -> None:
    assert says(f"FROM python:3.13\n{lines}\n", "runs ") == []


def test_stages_below_run_on_the_swapped_image_too() -> None:
    text = "FROM python:3.13 AS a\nRUN apt-get install -y git\nFROM a\nRUN git x\nRUN curl x\nFROM node\nRUN curl x\n"
    assert says(text, "runs ") == [5]


def test_alpines_own_commands_are_found() -> None:
    text = "FROM python:3.13-alpine\nRUN apk add --no-cache gcc\nRUN adduser -D x\nRUN wget x\nRUN adduser x\n"
    assert says(text, "written for Alpine") == [2, 3]
    assert says(text, "install wget") == [4]


def test_a_missing_pip_is_told_where_it_runs() -> None:
    assert says("FROM pypy:3.11-slim\nRUN true\nRUN pip install x\n", "until `python -m ensurepip`", PYPY) == [3]


def test_files_of_a_python_that_stays_are_told() -> None:
    text = (
        "FROM ghcr.io/astral-sh/uv:python3.12-bookworm AS uv\nFROM node AS web\nFROM python:3.12-slim\n"
        "COPY --from=uv /app/.venv /app/.venv\nCOPY --from=web /dist /dist\nCOPY --from=python:3.11 /a /a\n"
        "RUN --mount=from=uv,target=/x true\n"
    )
    assert says(text, "does not load in python3.13") == [4, 6, 7]
    assert says(text, "stage 'uv', which stays ghcr.io/astral-sh/uv:python3.12-bookworm") == [4, 7]


def test_files_of_a_python_that_is_swapped_too_are_not() -> None:
    assert says("FROM python:3.12 AS a\nFROM python:3.12-slim\nCOPY --from=a /x /x\n", "takes files") == []


def test_a_stage_that_could_not_be_looked_at_is_told() -> None:
    assert says("FROM $A AS x\nFROM python:3.12\n", "A has no default: stage 'x' was not checked") == [1]


def test_who_chooses_the_image_from_outside_is_told() -> None:
    assert says("ARG B=python:3.13-slim\nFROM $B\n", "--build-arg B=... from outside still chooses") == [1]
    assert says("ARG V=3.13\nARG R=x\nFROM $R/library/python:$V-slim\n", "no longer depends on R and V") == [3]
    assert says("FROM ${B:-python:3.13-slim}\n", "no longer depends") == []


def test_an_image_that_is_no_python_is_swapped_with_a_word() -> None:
    assert says("FROM company/base AS a\n", "company/base does not look like a Python image", stage="a") == [1]
    assert says("FROM bitnami/python:3.13 AS a\n", "what its publisher added", stage="a") == [1]
