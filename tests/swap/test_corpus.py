"""Realistic files, each swapped: what changes is what a person looked at once, and all of it comes back."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.errors import SwapError
from interlock.swap import files
from interlock.swap.caveats import Weight, by_weight
from tests.swap.samples import CORPUS, FREE, corpus, text_of

EXPECTED = CORPUS / "expected.txt"
FILES = [path for path in corpus("*") if path.suffix in {".Dockerfile", ".yaml", ".yml", ".json"}]


def outcome(path: Path) -> Iterator[str]:
    """What a swap of the file changes, with --paths, and the lines that it warns of; or why there is none."""
    yield f"== {path.name}"
    text = text_of(path)
    try:
        result = files.swapped_file(path.name, text, FREE, None, paths=True)
    except SwapError as error:
        yield f"error: {error.file}"
        return
    for line in difflib.unified_diff(text.split("\n"), result.text.split("\n"), n=0, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            yield line if line.isascii() and line.isprintable() else ascii(line)[1:-1]
    for weight in Weight:
        lines = [one.line for one in by_weight(result.warnings) if one.weight is weight]
        if lines:
            yield f"{weight}: {', '.join(map(str, lines))}"
    for found in result.paths:
        if not found.edited:
            yield f"stays: line {found.line}: {found.old} ({found.reason})"


def expected() -> dict[str, list[str]]:
    parts = EXPECTED.read_text(encoding="utf-8").split("== ")[1:]
    return {part.split("\n", 1)[0]: f"== {part}".splitlines() for part in parts}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_swapped_as_expected(path: Path) -> None:
    """`python -m tests.swap.test_corpus > tests/corpus/expected.txt` writes it; read it before you commit it."""
    assert list(outcome(path)) == expected()[path.name]


@pytest.mark.parametrize("paths", [False, True], ids=["from", "paths"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_swap_taken_back_leaves_every_byte_as_it_was(path: Path, paths: bool) -> None:
    text = text_of(path)
    try:
        after = files.swapped_file(path.name, text, FREE, None, paths=paths).text
    except SwapError:
        return
    original = files.reverted_file(path.name, text)
    assert files.reverted_file(path.name, after).encode("utf-8", "surrogateescape") == original.encode(
        "utf-8", "surrogateescape"
    )
    assert original == text or "interlock: was" in text
    assert files.swapped_file(path.name, after, FREE, None, paths=paths).text == after


ABOVE_A_SWAP = re.compile("^(\ufeff?)([ \\t]*)(#|//)(?= interlock: (?:was|added))", re.MULTILINE)
BY_HAND = re.compile("[ \\t]*(?:#|//) by hand\n")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_lines_written_by_hand_after_a_swap_stay_when_it_is_taken_back(path: Path) -> None:
    text = text_of(path)
    try:
        after = files.swapped_file(path.name, text, FREE, None, paths=True).text
    except SwapError:
        return
    edited, places = ABOVE_A_SWAP.subn(r"\1\2\3 by hand\n\2\3", after)
    back = files.reverted_file(path.name, edited)
    assert len(BY_HAND.findall(back)) == places
    assert BY_HAND.sub("", back) == files.reverted_file(path.name, text)


def test_there_are_a_hundred_dockerfiles() -> None:
    assert len(corpus("*.Dockerfile")) >= 100


if __name__ == "__main__":
    sys.stdout.write("".join(f"{line}\n" for path in FILES for line in outcome(path)))
