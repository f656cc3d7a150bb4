"""What a trial builds in place of a user's own Dockerfile."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from interlock.catalog.variants import Proof
from interlock.catalog.variants import ThreadFlavour as Flavour
from interlock.engine.run.user_images import CLASSIC, Recipe, UserBuilder
from interlock.errors import BuildError, SwapError
from interlock.swap.image_names import new_image
from interlock.trial.builds import Copy, changes, copy_for, require_builder
from tests.builders import ROOT, make_variant

FREE = make_variant(
    "cpython-3.14t",
    version="3.14.1",
    proof=Proof(thread_flavour=Flavour.FREE_THREADED, gil="off", thread_library="libc.so.6"),
)
TAG = "localhost/interlock/python:3.14t-trixie"
STAGES = """\
ARG PYTHON=python:3.13-slim
FROM ${PYTHON} AS build
RUN pip install flask
FROM ${PYTHON}
COPY --from=build /usr/local/lib/python3.13/site-packages /usr/local/lib/python3.13/site-packages
"""


def copied(text: str, *, takes_contexts: bool = False, **arguments: str) -> Copy:
    recipe = Recipe(Path(), Path("Dockerfile"), arguments, ("--target", "build"))
    return copy_for(recipe, text, new_image(FREE, FREE.image_tag), None, takes_contexts=takes_contexts)


@pytest.mark.parametrize("takes_contexts", [False, True])
def test_the_image_and_the_paths_that_carry_its_version_are_edited(takes_contexts: bool) -> None:
    text = "FROM python:3.13-slim\nCOPY x /usr/local/lib/python3.13/site-packages/\n"
    copy = copied(text, takes_contexts=takes_contexts)
    assert copy.recipe.text is not None
    assert f"FROM {TAG}\n" in copy.recipe.text
    assert "/usr/local/lib/python3.14t/site-packages/" in copy.recipe.text
    assert "-FROM python:3.13-slim" in copy.changes
    assert f"+FROM {TAG}" in copy.changes


def test_a_builder_that_takes_an_image_for_another_one_builds_the_users_file_as_it_is() -> None:
    text = "ARG V=3.13\nFROM python:${V}-slim AS build\nFROM python:${V}-slim\nCOPY --from=build /a /a\n"
    copy = copied(text, takes_contexts=True, V="3.12")
    assert copy.recipe.text is None
    assert copy.changes == (f"--build-context=python:3.12-slim=docker-image://{TAG}",)
    assert copy.recipe.options == ("--target", "build", *copy.changes)
    assert copy.recipe.arguments == {"V": "3.12"}


def test_a_build_argument_that_is_the_image_is_left_out_because_it_would_undo_the_swap() -> None:
    copy = copied(STAGES, PYTHON="python:3.12-slim", DEBUG="1")
    assert copy.recipe.arguments == {"DEBUG": "1"}
    assert copy.recipe.options == ("--target", "build")
    assert copied("ARG A=1\nFROM python:3.13-slim\nARG B=2\n", A="2").recipe.arguments == {"A": "2"}


def test_what_is_not_drop_in_is_said_with_its_line() -> None:
    for takes_contexts in (False, True):
        copy = copied("# one\nFROM python:3.13-slim\n", takes_contexts=takes_contexts)
        assert any(one.startswith("line 2: ") for one in copy.warnings)


def test_a_file_without_python_is_refused() -> None:
    with pytest.raises(SwapError, match=r"^Dockerfile: "):
        copied("FROM debian:trixie\n")


def test_the_diff_has_changed_lines_alone() -> None:
    assert changes("a\nb\nc\n", "a\nB\nc\n") == ["@@ -2 +2 @@", "-b", "+B"]
    assert changes("a\n", "a\n") == []


@pytest.mark.parametrize("path", sorted((ROOT / "examples").rglob("Dockerfile")), ids=lambda path: path.parent.name)
def test_the_examples_can_be_tried(path: Path) -> None:
    text = str(copied(path.read_text(encoding="utf-8")).recipe.text)
    froms = [line for line in text.splitlines() if line.startswith("FROM")]
    assert froms
    assert all(TAG in line for line in froms)
    assert "python3.13" not in "".join(line for line in text.splitlines() if not line.startswith("#"))
    assert path.parent.name in (ROOT / "examples/README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("FROM x\nRUN --mount=type=cache,target=/c true\n", 2),
        ("FROM x\nRUN a\nRUN <<E\nb\nE\n", 3),
        ("FROM x\nRUN a << b\nCOPY --from=a b c\n", 0),
    ],
)
def test_what_only_buildkit_builds_is_refused_before_anything_is_built(tmp_path: Path, text: str, line: int) -> None:
    recipe = Recipe(tmp_path, tmp_path / "Dockerfile", text=text)
    require_builder(UserBuilder("BuildKit", is_buildkit=True), recipe)
    with pytest.raises(BuildError, match=f":{line}") if line else contextlib.nullcontext():
        require_builder(CLASSIC, recipe)
