"""Checks whether the image lines of users' files name the image that they should, with its present digest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog.variants import LOCAL_NAME
from interlock.errors import SwapError
from interlock.swap.files import PlannedFile, lines_to_swap, plan, swapped_lines
from interlock.swap.image_names import ImageLine, Maker, parse_name, python_image
from interlock.untrusted import printable_name

# The name of local images before they were below localhost/.
ANYBODYS_NAME = LOCAL_NAME.removeprefix("localhost/")


@dataclass(frozen=True)
class PlacedLine:
    """An image line of a file, and whether a swap's comment is above it."""

    path: Path
    line: ImageLine
    swapped: bool = False

    @property
    def tag(self) -> str | None:
        """Return an Interlock image's tag on the machine that built it; None for any other image.

        A team's `registry:5000/team/python` may also be a mirror of the official image: it is Interlock's only with a
        swap comment above it.
        """
        python = python_image(self.line.image)
        if python is None or not python.name.tag:
            return None
        of_a_team = self.swapped and python.name.repository.endswith("/python")
        return f"{LOCAL_NAME}:{python.name.tag}" if python.maker is Maker.INTERLOCK or of_a_team else None

    def problem(self, expected: str | None, digests: Mapping[str, str | None]) -> str:
        """Return how it differs from the image of the tag `expected` (None: any of ours) with its present digest.

        `digests` has present digests by name and tag, from the registry or this engine. Empty if it does not differ.
        """
        image = self.line.image
        if self.tag is None or (expected is not None and self.tag != expected):
            return f"names {image}, not {expected or 'an image of Interlock'}"
        pinned, now = parse_name(image).digest, digests[name_with_tag(image)]
        if not pinned and parse_name(image).untagged == ANYBODYS_NAME:
            return f"names {image}, which the owner of {ANYBODYS_NAME} on a public registry can replace"
        if pinned == (now or ""):
            return ""
        if not pinned:
            return f"names {image} without its digest, which is now {now}"
        if now is None:
            other = f"neither a registry nor this engine has a digest for {name_with_tag(image)}"
            return f"is pinned to {pinned}, but {other}"
        return f"is pinned to {pinned}, but {name_with_tag(image)} is now {now}"


def name_with_tag(image: str) -> str:
    """Return the image's name with its tag and without its digest, to look up in a registry."""
    name = parse_name(image)
    return f"{name.untagged}:{name.tag}" if name.tag else name.untagged


def placed_lines(place: Path, stage: str | None, *, every: bool) -> tuple[list[PlacedLine], list[SwapError]]:
    """Return a file's or folder's swapped image lines, or every one that a swap would change, and what was left out.

    SwapError if there is none.
    """
    placed: list[PlacedLine] = []

    def look(path: Path, text: str) -> PlannedFile:
        file = printable_name(path)
        swapped = swapped_lines(file, text)
        numbers = {image_line.line for image_line in swapped}
        chosen = lines_to_swap(file, text, stage) if every else swapped
        placed.extend(PlacedLine(path, image_line, image_line.line in numbers) for image_line in chosen)
        return PlannedFile(path, text, text)

    left = plan(place, look).left
    if not placed:
        if every and left:
            raise left[0]
        nothing, todo = "no line of it was swapped", "Give the expected variant with --to VARIANT."
        if every:
            nothing, todo = "names no Python image that can be swapped", ""
        raise SwapError(file=printable_name(place), found=nothing, todo=todo)
    return placed, left
