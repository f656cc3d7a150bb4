"""Whatever a builder takes is swapped so that builders read it as before but for the images, and comes back."""

from __future__ import annotations

import difflib

from hypothesis import assume, event, given
from hypothesis import strategies as st

from interlock.errors import SwapError
from interlock.swap.dockerfile import read_dockerfile
from interlock.swap.files import reverted_file, swapped_dockerfile
from interlock.swap.image_names import NewImage
from interlock.swap.instructions import parse_instructions
from tests.swap.differential import buildkits, counted, ours
from tests.swap.grammar import grammatical
from tests.swap.samples import FREE, PLAIN

new_images = st.sampled_from([FREE, PLAIN])


def swapped(text: str, to: NewImage, *, paths: bool) -> str:
    try:
        return swapped_dockerfile(text, to, None, paths=paths).text
    except SwapError as refused:
        event(f"refused: {refused.found[:20]}")
        return text


@given(grammatical(), new_images, st.booleans())
def test_buildkit_agrees_about_every_instruction_before_and_after(text: str, to: NewImage, paths: bool) -> None:
    after = swapped(text, to, paths=paths)
    assert ours(text) == buildkits(text)
    assert ours(after) == buildkits(after)
    assert [one[1] for one in ours(after)].count("FROM") == [one[1] for one in ours(text)].count("FROM") > 0


@given(grammatical(), new_images, new_images, st.booleans())
def test_a_swap_and_a_second_one_come_back_byte_for_byte(
    text: str, first: NewImage, second: NewImage, paths: bool
) -> None:
    once = swapped(text, first, paths=paths)
    assert reverted_file("D", once) == text
    assert swapped(once, second, paths=paths) == swapped(text, second, paths=paths)


@given(grammatical(), new_images, st.booleans())
def test_only_images_and_what_a_comment_marks_change(text: str, to: NewImage, paths: bool) -> None:
    after = swapped(text, to, paths=paths)
    assume(after != text)
    marked = set[int]()
    lines = after.split("\n")
    for instruction in parse_instructions(after):
        start = instruction.line
        end = after.count("\n", 0, instruction.pieces[-1].start) + 1
        above = start - 2
        while above >= 0 and lines[above].lstrip("\ufeff").startswith("# interlock: "):
            marked |= {above, *range(start - 1, end)}
            above -= 1
    for kind, _, _, low, high in difflib.SequenceMatcher(None, text.split("\n"), lines, autojunk=False).get_opcodes():
        assert kind == "equal" or set(range(low, high)) <= marked
    for stage in read_dockerfile(after).stages:
        assert (
            stage.missing
            or stage.parent is not None
            or "python:3.12" not in stage.image
            or stage.index not in {one.index for one in read_dockerfile(text).stages if one.swappable}
        )


def test_buildkit_agrees_about_every_instruction_of_odd_texts_and_all_come_back() -> None:
    counts, wrong = counted(1000)
    assert wrong == []
    assert min(counts["BuildKit takes"], counts["swapped"]) > 200
