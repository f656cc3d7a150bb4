"""Image lines of files other than Dockerfiles, as data.

A real parser of the format gives each image's position (yaml_files.py, devcontainer.py); only those characters change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.swap.caveats import Caveat
from interlock.swap.dockerfile import Dockerfile
from interlock.swap.image_names import ImageLine, python_image
from interlock.swap.instructions import Span, line_of
from interlock.swap.uses import Use
from interlock.swap.variables import NoValue, Variable, expand, sole_variable

# The start of a GitHub expression.
EXPRESSION = "${{"


@dataclass(frozen=True)
class Scope:
    """A service, a container, or a whole file: its position, and what is run there."""

    span: Span
    uses: tuple[Use, ...] = ()
    platforms: tuple[str, ...] = ()  # of the nodes or runners that it is for


@dataclass(frozen=True)
class ImageEntry(ImageLine):
    """An image line of a manifest."""

    span: Span  # the image as written, without quotes
    scopes: tuple[Scope, ...]  # several if services share the image by an anchor
    default: Variable | None  # the image's variable, if its default is the image


@dataclass(frozen=True)
class ImageManifest:
    """A file that is not a Dockerfile, and its image lines."""

    text: str
    noun: str  # the thing with an image: service, container
    sign: str  # the start of a comment
    entries: tuple[ImageEntry, ...]
    stays: tuple[Caveat, ...] = ()  # about what names Python, or is built from it, outside of image lines
    built: tuple[Span, ...] = ()  # what is run and had in images that a Dockerfile builds, or may build

    @property
    def elsewhere(self) -> tuple[Caveat, ...]:
        """Return where Python is named in fields that are not swapped; what is built is in a file of its own."""
        return self.stays if self.noun in {"container", "job"} else ()

    @property
    def instead(self) -> str:
        """Return what to change in place of image lines; empty if nothing is known."""
        said = "; ".join(f"line {caveat.line}: {caveat.text}" for caveat in self.stays)
        return f"{said[:1].upper()}{said[1:]}." if said else ""


ParsedFile = Dockerfile | ImageManifest


def make_entry(text: str, index: int, name: str | None, span: Span, scopes: Sequence[Scope]) -> ImageEntry:
    """Return the entry of an image at this span; variables have only their own defaults, as in compose files."""
    raw = span.of(text)
    missing = EXPRESSION if EXPRESSION in raw else None
    image = raw
    try:
        image = raw if missing else expand(raw, {})
    except NoValue as lacking:
        missing = lacking.name
    variable = sole_variable(raw)
    return ImageEntry(
        index=index,
        name=name,
        line=line_of(text, span.start),
        image=image,
        missing=missing,
        python=None if missing else python_image(image),
        span=span,
        scopes=tuple(scopes),
        default=variable if variable is not None and variable.has_default else None,
    )
