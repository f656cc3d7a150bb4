"""The copies of a user's Dockerfile that a trial builds: FROM swapped, what changed, which options hold. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from interlock.model import Variant
from interlock.swap import new_image, swapped

ARGUMENT = re.compile(r"^\s*ARG\s+([A-Za-z_][A-Za-z0-9_]*)\s*=", re.IGNORECASE)
BUILD_ARG = "--build-arg"


@dataclass(frozen=True)
class Copy:
    """A Dockerfile to build in the place of the user's."""

    text: str
    changes: tuple[str, ...]  # a diff's lines
    warnings: tuple[str, ...]
    set_here: frozenset[str]  # build arguments whose default is the image: the user's own value would undo the swap


def copy_for(text: str, variant: Variant, profile: str, stage: str | None, file: str) -> Copy:
    """The Dockerfile on a variant's image, paths that carry a version edited; SwapError says why there is none."""
    image = new_image(variant, profile, variant.image_tag(profile))
    new = swapped(text, image, stage, paths=True, file=file)
    lines = new.text.splitlines()
    named = [ARGUMENT.match(lines[number - 1]) for number in new.changed if number <= len(lines)]
    kept = [f"line {one.line}: {one.old} stays: {one.reason}" for one in new.paths if not one.edited]
    return Copy(
        text=new.text,
        changes=tuple(changes(text, new.text)),
        warnings=(*(f"line {one.line}: {one.text}" if one.line else one.text for one in new.warnings), *kept),
        set_here=frozenset(match[1] for match in named if match),
    )


def changes(before: str, after: str) -> list[str]:
    """The lines that differ, as `diff` shows them, without its head."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++"))]


def options_for(options: Sequence[str], copy: Copy) -> tuple[str, ...]:
    """The options of `docker build` without the build arguments that would undo the swap."""
    pairs = zip(options[::2], options[1::2], strict=True)
    kept = [(name, value) for name, value in pairs if not (name == BUILD_ARG and _name(value) in copy.set_here)]
    return tuple(word for pair in kept for word in pair)


def _name(setting: str) -> str:
    return setting.partition("=")[0]
