"""Whether an image line names the image that it should."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.errors import SwapError
from interlock.swap.checks import PlacedLine, name_with_tag, placed_lines
from interlock.swap.dockerfile import read_dockerfile

TAG = "localhost/interlock/python:3.14t-trixie"


def placed(image: str, *, swapped: bool = False) -> PlacedLine:
    return PlacedLine(Path("D"), read_dockerfile(f"ARG A\nFROM {image}\n").stages[0], swapped)


def problem(image: str, expected: str | None = TAG, now: str | None = None, *, swapped: bool = False) -> str:
    return placed(image, swapped=swapped).problem(expected, {name_with_tag(image): now})


@pytest.mark.parametrize(
    ("image", "now"),
    [
        (TAG, None),
        (f"{TAG}@sha256:1", "sha256:1"),
        ("registry:5000/interlock/python:3.14t-trixie@sha256:1", "sha256:1"),
        ("registry:5000/interlock/python:3.14t-trixie", None),
        ("interlock/python:3.14t-trixie@sha256:1", "sha256:1"),
    ],
)
def test_the_picked_tag_with_its_digest_is_right(image: str, now: str | None) -> None:
    assert problem(image, now=now) == problem(image, None, now) == ""


@pytest.mark.parametrize(
    ("image", "now", "named"),
    [
        ("python:3.14", None, ("python:3.14", TAG)),
        (f"{TAG}-release", None, (f"{TAG}-release", f"not {TAG}")),
        ("localhost/interlock/python@sha256:1", "sha256:1", ("localhost/interlock/python@sha256:1", TAG)),
        ("interlock/python:3.14t-trixie", None, ("public registry",)),
        (TAG, "sha256:2", (TAG, "sha256:2")),
        (f"{TAG}@sha256:1", "sha256:2", ("sha256:1", TAG, "sha256:2")),
        (f"{TAG}@sha256:1", None, ("sha256:1", TAG)),
    ],
)
def test_anything_else_is_a_problem_of_its_line(image: str, now: str | None, named: tuple[str, ...]) -> None:
    assert all(name in problem(image, now=now) for name in named)


def test_without_a_pick_any_image_of_ours_will_do_and_no_other() -> None:
    assert not problem("localhost/interlock/python:3.13-trixie", None)
    assert "python:3.13" in problem("python:3.13", None)


def test_a_tag_is_the_same_in_every_registry() -> None:
    image = "localhost:5000/team/interlock/python:3.13-trixie@sha256:1"
    assert placed(image).tag == "localhost/interlock/python:3.13-trixie"
    assert placed("python:3.13").tag is None
    assert name_with_tag(f"a.example/{TAG}@sha256:1") == f"a.example/{TAG}"


def test_in_a_namespace_of_a_teams_own_an_image_is_known_by_the_comment_of_a_swap() -> None:
    """Without it the name may be a mirror of the official image."""
    image = "registry:5000/team/python:3.14t-trixie@sha256:1"
    assert placed(image).tag is None
    assert placed(image, swapped=True).tag == TAG
    assert placed("registry:5000/team/other:3.14t-trixie", swapped=True).tag is None
    assert problem(image, TAG, "sha256:1", swapped=True) == problem(image, None, "sha256:1", swapped=True) == ""
    assert image in problem(image, TAG, "sha256:1")


def refusal(folder: Path, *, every: bool) -> SwapError:
    with pytest.raises(SwapError) as refused:
        placed_lines(folder, None, every=every)
    return refused.value


def test_where_no_line_can_be_checked_the_reason_is_told(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM node:22\n")
    assert refusal(tmp_path, every=True).file == refusal(tmp_path, every=False).file == str(tmp_path)
    assert "--to" in refusal(tmp_path, every=False).todo
    assert "--to" not in str(refusal(tmp_path, every=True))
    (tmp_path / "values.yaml").write_text("a:\n  image: python:3.12\n")
    assert refusal(tmp_path, every=True).file == f"{tmp_path}/values.yaml:2"
    assert refusal(tmp_path, every=False).file == str(tmp_path)
