"""Where a file names images, by a stage or by a manifest's image line, and which of them a swap is for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from interlock.errors import SwapError, meant
from interlock.swap.images import Flavour, Maker, PythonImage


@dataclass(frozen=True)
class ImageLine:
    """One place of a file that names an image."""

    index: int
    name: str | None
    line: int
    image: str  # with variables put in; as written where one has no value
    missing: str | None  # the variable without a value
    python: PythonImage | None

    @property
    def label(self) -> str:
        """How people find it: its name, or its number as `docker build --target` takes it."""
        return f"'{self.name}'" if self.name else str(self.index)

    @property
    def option(self) -> str:
        """What --stage is given to name it."""
        return f"--stage {self.name or self.index}"

    @property
    def swappable(self) -> bool:
        """Whether its image is Python and nothing else."""
        return self.python is not None and self.python.maker is not Maker.OTHER


Some = TypeVar("Some", bound=ImageLine)


def find(image_lines: Sequence[Some], name: str) -> Some | None:
    """The one of this name, whatever its case, the last one if there are several; else the one of this number."""
    named = [one for one in image_lines if one.name is not None and one.name.lower() == name.lower()]
    if named:
        return named[-1]
    return image_lines[int(name)] if name.isdecimal() and name.isascii() and int(name) < len(image_lines) else None


def must_find(image_lines: Sequence[Some], name: str, noun: str, file: str) -> Some:
    """The same, or a SwapError with what there is, what comes nearest first."""
    found = find(image_lines, name)
    if found is not None:
        return found
    known = [one.name or str(one.index) for one in image_lines]
    choice = f"Choose from: {', '.join(known)}."
    raise SwapError(file=file, found=f"there is no {noun} '{name}'", todo=f"{meant(name, known)} {choice}".lstrip())


def agreeing(image_lines: Sequence[Some], noun: str, file: str) -> list[Some]:
    """All whose image is Python and nothing else; none if there is none. SwapError if they are different Pythons."""
    chosen = [one for one in image_lines if one.swappable]
    if len({one.python.agrees_on for one in chosen if one.python}) > 1:
        each = ", ".join(f"{one.label} (line {one.line}) is {one.image}" for one in chosen)
        raise SwapError(
            file=file,
            found=f"its {noun}s with Python disagree: {each}",
            todo=f"Make them agree, or name the {noun} to swap with --stage.",
        )
    return chosen


def no_python(image_lines: Sequence[ImageLine], noun: str, file: str) -> SwapError:
    """Why nothing is chosen."""
    for one in image_lines:
        if one.python is not None and one.python.maker is Maker.OTHER:
            return SwapError(
                file=f"{file}:{one.line}",
                found=f"{one.image} has more than Python in it, which a swap would lose",
                todo=f"Name its {noun} if that is what you want: {one.option}.",
            )
    images = ", ".join(dict.fromkeys(one.image for one in image_lines))
    return SwapError(
        file=file,
        found=f"no {noun} starts from a Python image (there is {images})",
        todo=f"If one of them has Python in it all the same, name its {noun} with --stage.",
    )


def refuse_windows(chosen: Sequence[ImageLine], file: str) -> None:
    """SwapError for an image that no image for Linux can replace."""
    for one in chosen:
        if one.python is not None and one.python.flavour is Flavour.WINDOWS:
            raise SwapError(
                file=f"{file}:{one.line}",
                found=f"{one.image} is an image of Windows",
                todo="Interlock's images are for Linux; leave this one.",
            )
