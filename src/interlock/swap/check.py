"""Is an image line still what was picked? Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from interlock.swap.image_line import ImageLine
from interlock.swap.images import Maker, parse_name, python_image


def tag_of(image: str, *, swapped: bool = False) -> str | None:
    """The tag that an image of Interlock's has in every registry: 'interlock/python:3.14t-trixie'; None of another.

    A team's `registry:5000/team/python` may be a mirror of the official image as well: there it is Interlock's only
    where a swap has left its comment.
    """
    python = python_image(image)
    if python is None or not python.name.tag:
        return None
    if python.maker is not Maker.INTERLOCK and not (swapped and python.name.repository.endswith("/python")):
        return None
    return f"interlock/python:{python.name.tag}"


def tagged(image: str) -> str:
    """The image's name with its tag and without its digest: what a registry is asked about."""
    name = parse_name(image)
    return f"{name.untagged}:{name.tag}" if name.tag else name.untagged


def differences(
    image_lines: Sequence[ImageLine],
    expected: str | None,
    digests: dict[str, str | None],
    swapped: Collection[int] = (),
) -> list[str]:
    """A sentence for each image line that is not as it should be, with its line's number before it.

    `expected` is the tag of the picked image, or None where any image of Interlock's will do; `digests` has, by name
    and tag, the digest that its registry or this engine has now; `swapped` are the lines with a swap's comment.
    """
    problems = ((one, _problem(one.image, expected, digests, one.line in swapped)) for one in image_lines)
    return [f"{one.line}: {problem}" for one, problem in problems if problem]


def _problem(image: str, expected: str | None, digests: dict[str, str | None], swapped: bool) -> str:
    tag = tag_of(image, swapped=swapped)
    if tag is None or (expected is not None and tag != expected):
        return f"names {image}, not {expected or 'an image of Interlock'}"
    pinned, now = parse_name(image).digest, digests[tagged(image)]
    if pinned == (now or ""):
        return ""
    if not pinned:
        return f"names {image} without its digest, which is {now} now"
    if now is None:
        return f"is pinned to {pinned}, and neither a registry nor this engine has a digest for {tagged(image)}"
    return f"is pinned to {pinned}, and {tagged(image)} is {now} now"
