"""Image lines of files that are no Dockerfiles: found, swapped and taken back.

A real parser of the format says where each image stands (yaml_files.py, devcontainer.py); only those characters change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from interlock.errors import LeftError, SwapError
from interlock.swap.caveats import Caveat, Use, Weight, image_caveats, other_platform
from interlock.swap.edits import (
    WAS,
    Edit,
    comment_edit,
    damaged_comment_error,
    encode_original,
    restoring_edits,
    swap_comments,
)
from interlock.swap.image_names import (
    NAMES_PYTHON,
    ImageLine,
    NewImage,
    agreeing_image_lines,
    python_image,
    refuse_windows,
    require_image_line,
)
from interlock.swap.instructions import BOM, Span, line_of
from interlock.swap.other_bases import no_python_error
from interlock.swap.other_pythons import other_pythons
from interlock.swap.paths import VERSION_TOKEN, FoundVersion, plain_version, renamed
from interlock.swap.system import use_caveats
from interlock.swap.variables import NoValue, Variable, expand, sole_variable

# The platform that a service is for, or that a devcontainer is started for.
PLATFORM = re.compile(r"platform[\"']?\s*[:=]\s*[\"']?(linux/[\w/]+)")
# The start of an expression of GitHub's.
EXPRESSION = "${{"


@dataclass(frozen=True)
class Scope:
    """A service, a container, or a whole file: where it stands, and what is run there."""

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
    stays: tuple[Caveat, ...] = ()  # what names Python, or is built from it, elsewhere than in image lines

    @property
    def elsewhere(self) -> tuple[Caveat, ...]:
        """Return where Python is named in fields that are not swapped; what is built is in a file of its own."""
        return self.stays if self.noun in {"container", "job"} else ()

    @property
    def instead(self) -> str:
        """Return what to change in place of image lines; empty if nothing is known."""
        said = "; ".join(f"line {caveat.line}: {caveat.text}" for caveat in self.stays)
        return f"{said[:1].upper()}{said[1:]}." if said else ""


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


def choose_entries(manifest: ImageManifest, name: str | None, file: str) -> list[ImageEntry]:
    """Return the entries to swap: all, which must be of one Python, or the one of this name or number."""
    entries, noun = manifest.entries, manifest.noun
    if not entries and not manifest.elsewhere:
        raise SwapError(file=file, found="names no image", todo=manifest.instead or "Name a file that does.")
    if entries and name is not None:
        chosen = [require_image_line(entries, name, noun, file)]
    else:
        chosen = agreeing_image_lines(entries, noun, file)
    for entry in chosen or entries:
        if entry.missing is not None:
            found, todo = _no_image(entry, noun, entry.missing)
            raise SwapError(file=f"{file}:{entry.line}", found=found, todo=todo)
    if not chosen and manifest.elsewhere:
        there = f"no {noun} starts from a Python image, but the file names one"
        raise LeftError(file=f"{file}:{manifest.stays[0].line}", found=there, todo=manifest.instead)
    if not chosen and manifest.instead:
        there = ", ".join(dict.fromkeys(entry.image for entry in entries))
        raise SwapError(
            file=file, found=f"no {noun} starts from a Python image (there is {there})", todo=manifest.instead
        )
    if not chosen:
        raise no_python_error(entries, noun, file)
    refuse_windows(chosen, file)
    for entry in chosen:
        if sum(other.line == entry.line for other in entries) > 1:
            raise SwapError(
                file=f"{file}:{entry.line}",
                found="several images on one line, and a comment can keep only one",
                todo="Write each on a line of its own.",
            )
    return chosen


def _no_image(entry: ImageEntry, noun: str, missing: str) -> tuple[str, str]:
    """Return what chooses an image that is not known, and what to do."""
    if missing == EXPRESSION:
        return (
            f"an expression of the workflow chooses the image ({entry.image})",
            "Change the values that it takes by hand, or write the image's name there.",
        )
    if noun == "job":  # where no default may stand behind the name
        return (
            f"the variable {missing} chooses the image ({entry.image}), in each job perhaps another",
            "Write the image's name there; then it is swapped.",
        )
    return (
        f"{missing} has no default here, so the image of '{entry.image}' is not known",
        f"Write a default: ${{{missing}:-...}}.",
    )


def entry_caveats(manifest: ImageManifest, chosen: Sequence[ImageEntry], to: NewImage) -> list[Caveat]:
    """Return what a person must know about a swap of these entries."""
    scoped = (caveat for entry in chosen for caveat in _scope_caveats(manifest.text, entry, to))
    return [*image_caveats(chosen, to), *scoped, *_left_to_the_workflow(manifest), *manifest.stays]


def _scope_caveats(text: str, entry: ImageEntry, to: NewImage) -> Iterator[Caveat]:
    """Yield what a service or a container asks for and runs that the new image is not for or does not have."""
    asked = [
        platform for scope in entry.scopes for platform in [*PLATFORM.findall(scope.span.of(text)), *scope.platforms]
    ]
    yield from other_platform(entry, asked, to)
    uses = [use for scope in entry.scopes for use in scope.uses]
    yield from use_caveats(uses, entry.python, to)
    yield from other_pythons(uses, entry.python, to)


def _left_to_the_workflow(manifest: ImageManifest) -> Iterator[Caveat]:
    """Yield the images that an expression or a variable chooses: `python:${{ matrix.python }}`, `python:$PY-slim`."""
    for entry in manifest.entries:
        if entry.missing is not None and NAMES_PYTHON.search(entry.image):
            chooser = (
                "an expression of the workflow" if entry.missing == EXPRESSION else f"the variable {entry.missing}"
            )
            text = f"{entry.image} stays: {chooser} chooses it"
            yield Caveat(entry.line, text, Weight.KNOW)


def entry_edits(manifest: ImageManifest, entry: ImageEntry, to: NewImage) -> list[Edit]:
    """Return the edits of an entry: a comment above the line with its indentation, and the image."""
    raw = entry.span.of(manifest.text)
    variable = entry.default
    new = f"${{{variable.name}{variable.operator}{to.reference}}}" if variable else to.reference
    start = line_start(manifest.text, entry.span.start)
    line = manifest.text[start : entry.span.start]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return [
        comment_edit(manifest.text, start, f"{WAS} {encode_original(raw)}", indent + manifest.sign),
        Edit(entry.span, new),
    ]


def line_start(text: str, at: int) -> int:
    """Return the start of the line with this position, after any byte order mark."""
    start = text.rfind("\n", 0, at) + 1
    return start + 1 if text.startswith(BOM, start) else start


def versions_in_scope(text: str, entry: ImageEntry, to: NewImage) -> list[FoundVersion]:
    """Return the versions in an entry's scopes: their commands, volumes and environments. They are not edited."""
    old = entry.python.python if entry.python else None
    reason = "edit it by hand: only a Dockerfile's are edited"
    versions = []
    for span in (scope.span for scope in entry.scopes):
        for match in VERSION_TOKEN.finditer(text, span.start, span.end):
            inside = entry.span.start <= match.start() < entry.span.end
            version, new = plain_version(match), renamed(match, to)
            if not inside and version is not None and old in {None, version} and new != match[0]:
                versions.append(FoundVersion(line_of(text, match.start()), match[0], new, edited=False, reason=reason))
    return versions


def revert_edits(manifest: ImageManifest, chosen: Collection[int] | None, file: str) -> list[Edit]:
    """Return the edits that take back the swap of the entries of these numbers, or of all."""
    edits: list[Edit] = []
    for line, above in swap_comments(manifest.text).items():
        entries = [entry for entry in manifest.entries if entry.line == line]
        if len(above) > 1 or len(entries) != 1 or above[0].kind != WAS:
            raise damaged_comment_error(file, above[-1], "is not above a line that names one image")
        if chosen is None or entries[0].index in chosen:
            edits += restoring_edits(entries[0].span, above[0].content, above[0], file)
    return edits
