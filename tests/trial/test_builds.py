"""The copies of a user's Dockerfile that a trial builds."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock.catalog.variants import Proof
from interlock.catalog.variants import ThreadFlavour as Flavour
from interlock.errors import SwapError
from interlock.trial.builds import Copy, changes, copy_for, options_for
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


def test_the_image_and_the_paths_that_carry_its_version_are_edited() -> None:
    copy = copy_for("FROM python:3.13-slim\nCOPY x /usr/local/lib/python3.13/site-packages/\n", FREE, None, "D")
    assert f"FROM {TAG}\n" in copy.text
    assert "/usr/local/lib/python3.14t/site-packages/" in copy.text
    assert "-FROM python:3.13-slim" in copy.changes
    assert f"+FROM {TAG}" in copy.changes


def test_a_build_argument_that_is_the_image_is_left_out_because_it_would_undo_the_swap() -> None:
    copy = copy_for(STAGES, FREE, None, "Dockerfile")
    assert copy.set_here == {"PYTHON"}
    given = ("--build-arg", "PYTHON=python:3.12-slim", "--build-arg", "DEBUG", "--target", "build")
    assert options_for(given, copy) == ("--build-arg", "DEBUG", "--target", "build")


def test_other_arguments_are_kept() -> None:
    copy = copy_for("ARG A=1\nFROM python:3.13-slim\nARG B=2\n", FREE, None, "Dockerfile")
    assert copy.set_here == frozenset()
    assert options_for(("--build-arg", "A=2"), copy) == ("--build-arg", "A=2")


def test_what_is_not_drop_in_is_said_with_its_line() -> None:
    copy = copy_for("# one\nFROM python:3.13-slim\n", FREE, None, "Dockerfile")
    assert any(one.startswith("line 2: ") for one in copy.warnings)


def test_a_file_without_python_is_refused() -> None:
    with pytest.raises(SwapError, match=r"^Dockerfile: "):
        copy_for("FROM debian:trixie\n", FREE, None, "Dockerfile")


def test_the_diff_has_changed_lines_alone() -> None:
    assert changes("a\nb\nc\n", "a\nB\nc\n") == ["@@ -2 +2 @@", "-b", "+B"]
    assert changes("a\n", "a\n") == []


def test_options_are_pairs() -> None:
    with pytest.raises(ValueError, match="zip"):
        options_for(("--target",), Copy("", (), (), frozenset()))


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*/Dockerfile")), ids=lambda path: path.parent.name)
def test_the_examples_can_be_tried(path: Path) -> None:
    copy = copy_for(path.read_text(encoding="utf-8"), FREE, None, str(path))
    froms = [line for line in copy.text.splitlines() if line.startswith("FROM")]
    assert froms
    assert all(TAG in line for line in froms)
    assert "python3.13" not in "".join(line for line in copy.text.splitlines() if not line.startswith("#"))
    assert path.parent.name in (ROOT / "examples/README.md").read_text(encoding="utf-8")
