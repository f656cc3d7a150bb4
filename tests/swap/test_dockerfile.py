"""Stages of Dockerfiles, with their images and their variables."""

from __future__ import annotations

import pytest

from interlock.swap.dockerfile import read_dockerfile


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("FROM python:3.12", "python:3.12"),
        ('FROM "python:3.12"', "python:3.12"),
        ("ARG A=python:3.12\nFROM $A", "python:3.12"),
        ("ARG A='python:3.12'\nFROM ${A}-slim", "python:3.12-slim"),
        ("ARG A=3.11\nARG A=3.12\nFROM python:$A", "python:3.12"),
        ("ARG A=3.12\nARG A\nFROM python:$A", "python:3.12"),
        ("ARG A=3.12 B=python:$A\nFROM $B", "python:3.12"),
        ("FROM ${A:-python:${B:-3.12}}", "python:3.12"),
        ("ARG A=\nFROM ${A:-python:3.12}", "python:3.12"),
        ("ARG A=x\nFROM ${A:+python:3.12}", "python:3.12"),
        ("ARG A=\nFROM python:3.12${A:+-slim}", "python:3.12"),
    ],
)
def test_variables_of_a_from_line_are_put_in(text: str, image: str) -> None:
    (stage,) = read_dockerfile(text).stages
    assert (stage.image, stage.missing) == (image, None)


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("FROM $A", "A"),
        ("ARG A\nFROM python:$A", "A"),
        ("ARG B=python:$A\nFROM $B", "A"),
        ("FROM x\nARG A=python:3.12\nFROM $A", "A"),
        ("ARG A=x\nFROM ${A%*x*}", "A"),
        ("FROM python:3.12-$TARGETARCH", "TARGETARCH"),
    ],
)
def test_a_variable_without_a_value_is_named(text: str, missing: str) -> None:
    assert read_dockerfile(text).stages[-1].missing == missing


def test_a_stages_name_hides_an_image_of_that_name_below_it() -> None:
    dockerfile = read_dockerfile("FROM python:3.12 AS Python\nFROM python\nFROM pythoN as x\nFROM x")
    assert [stage.parent and stage.parent.index for stage in dockerfile.stages] == [None, 0, 0, 2]
    assert dockerfile.stages[3].root is dockerfile.stages[0]


def test_a_stage_does_not_start_from_one_below_it() -> None:
    assert [stage.parent for stage in read_dockerfile("FROM python\nFROM a AS python").stages] == [None, None]


def test_a_stage_for_each_platform_stands_for_all_of_them() -> None:
    text = "FROM python:3.12 AS base-amd64\nFROM python:3.12 AS base-arm64\nFROM base-${TARGETARCH}"
    assert read_dockerfile(text).stages[2].root.index == 1


def test_only_python_counts_as_a_python_stage() -> None:
    text = "FROM python:3.12 AS a\nFROM node AS b\nFROM a\nFROM scratch\nFROM bitnami/python:3.12 AS c"
    assert [(stage.name, stage.swappable) for stage in read_dockerfile(text).stages if stage.python] == [
        ("a", True),
        ("c", False),
    ]


def test_a_text_without_a_from_line_has_no_stage() -> None:
    assert read_dockerfile("").stages == read_dockerfile("RUN a\nFROM\n").stages == ()
