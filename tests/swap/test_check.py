"""An image line is the picked one if it names its tag and the digest that this tag has now."""

from __future__ import annotations

import pytest

from interlock.swap.check import differences, tag_of, tagged
from interlock.swap.stages import read

TAG = "interlock/python:3.14t-trixie"


def problems(image: str, expected: str | None = TAG, now: str | None = None) -> list[str]:
    return differences(read(f"ARG A\nFROM {image}\n").stages, expected, {tagged(image): now})


@pytest.mark.parametrize(
    ("image", "now"),
    [
        (TAG, None),
        (f"{TAG}@sha256:1", "sha256:1"),
        (f"registry:5000/{TAG}@sha256:1", "sha256:1"),
        (f"registry:5000/{TAG}", None),
    ],
)
def test_the_picked_tag_with_its_digest_is_right(image: str, now: str | None) -> None:
    assert problems(image, now=now) == problems(image, None, now) == []


@pytest.mark.parametrize(
    ("image", "now", "problem"),
    [
        ("python:3.14", None, "names python:3.14, not interlock/python:3.14t-trixie"),
        (f"{TAG}-release", None, "-release, not interlock/python:3.14t-trixie"),
        ("interlock/python@sha256:1", "sha256:1", "not interlock/python:3.14t-trixie"),
        (TAG, "sha256:2", "without its digest, which is sha256:2 now"),
        (f"{TAG}@sha256:1", "sha256:2", "is pinned to sha256:1, and interlock/python:3.14t-trixie is sha256:2 now"),
        (f"{TAG}@sha256:1", None, "is pinned to sha256:1, and neither a registry nor this engine"),
    ],
)
def test_anything_else_is_a_problem_of_its_line(image: str, now: str | None, problem: str) -> None:
    (sentence,) = problems(image, now=now)
    assert sentence.startswith("2: ")
    assert problem in sentence


def test_without_a_pick_any_image_of_ours_will_do_and_no_other() -> None:
    assert problems("interlock/python:3.13-trixie", None) == []
    assert problems("python:3.13", None) == ["2: names python:3.13, not an image of Interlock"]


def test_a_tag_is_the_same_in_every_registry() -> None:
    assert tag_of("localhost:5000/team/interlock/python:3.13-trixie@sha256:1") == "interlock/python:3.13-trixie"
    assert tag_of("python:3.13") is None
    assert tagged(f"a.example/{TAG}@sha256:1") == f"a.example/{TAG}"


def test_in_a_namespace_of_a_teams_own_an_image_is_known_by_the_comment_of_a_swap() -> None:
    """Without it the name may be a mirror of the official image."""
    image = "registry:5000/team/python:3.14t-trixie@sha256:1"
    assert tag_of(image) is None
    assert tag_of(image, swapped=True) == "interlock/python:3.14t-trixie"
    assert tag_of("registry:5000/team/other:3.14t-trixie", swapped=True) is None
    lines = read(f"FROM node\nFROM {image}\n").stages[1:]
    now: dict[str, str | None] = {tagged(image): "sha256:1"}
    assert differences(lines, "interlock/python:3.14t-trixie", now, {2}) == []
    assert differences(lines, None, now, {2}) == []
    (problem,) = differences(lines, "interlock/python:3.14t-trixie", now, {1})
    assert problem.startswith(f"2: names {image}, not interlock/python:3.14t-trixie")
