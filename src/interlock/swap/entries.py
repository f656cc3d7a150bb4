"""Image lines of files that are no Dockerfiles: swapped and taken back, whatever the format. Pure.

A format's own module reads the file with a real parser and says where each image stands; only those characters change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interlock.errors import SwapError
from interlock.swap.caveats import of_images
from interlock.swap.dockerfile import BOM, Span, line_of
from interlock.swap.edits import Swapped, changed_lines
from interlock.swap.image_line import ImageLine, agreeing, must_find, no_python, refuse_windows
from interlock.swap.images import NewImage, python_image
from interlock.swap.marks import WAS, Edit, Mark, apply, comment, decode, encode, marks
from interlock.swap.paths import TOKEN, FoundPath, renamed
from interlock.swap.revert import unfit
from interlock.swap.variables import Unset, Variable, expand, sole_variable


@dataclass(frozen=True)
class Entry(ImageLine):
    """One image line."""

    span: Span  # of the image as it is written, without quotes
    scope: Span  # of all that belongs to it: its service, its container, the file
    default: Variable | None  # the variable that it is, if its own default is the image


@dataclass(frozen=True)
class Listing:
    """The image lines of a file."""

    text: str
    noun: str  # what people call what an image line belongs to: service, container
    sign: str  # what starts a comment
    entries: tuple[Entry, ...]
    instead: str  # what to swap where there is no image line

    def need(self, file: str) -> Sequence[Entry]:
        """The entries; SwapError if there is none."""
        if not self.entries:
            raise SwapError(file=file, found="names no image", todo=self.instead or "Name a file that does.")
        return self.entries


def make_entry(text: str, index: int, name: str | None, span: Span, scope: Span) -> Entry:
    """The entry of an image that stands at this place; compose's variables have the defaults that it gives itself."""
    raw = span.of(text)
    missing = None
    image = raw
    try:
        image = expand(raw, {})
    except Unset as unset:
        missing = unset.name
    variable = sole_variable(raw)
    return Entry(
        index=index,
        name=name,
        line=line_of(text, span.start),
        image=image,
        missing=missing,
        python=None if missing else python_image(image),
        span=span,
        scope=scope,
        default=variable if variable is not None and variable.has_default else None,
    )


def choose(listing: Listing, name: str | None, file: str) -> list[Entry]:
    """The entries that a swap is for: all of one Python, or the one of this name or number."""
    entries = listing.need(file)
    chosen = agreeing(entries, listing.noun, file) if name is None else [must_find(entries, name, listing.noun, file)]
    for one in chosen or entries:
        if one.missing is not None:
            raise SwapError(
                file=f"{file}:{one.line}",
                found=f"{one.missing} has no default here, so what '{one.image}' means is unknown",
                todo=f"Write a default: ${{{one.missing}:-...}}.",
            )
    if not chosen:
        raise no_python(entries, listing.noun, file)
    refuse_windows(chosen, file)
    for one in chosen:
        if sum(other.line == one.line for other in entries) > 1:
            raise SwapError(
                file=f"{file}:{one.line}",
                found="several images on one line, and a comment can speak of one",
                todo="Write each on a line of its own.",
            )
    return chosen


def swapped_entries(listing: Listing, chosen: Iterable[int], to: NewImage) -> Swapped:
    """The file with the chosen entries on another image; versions in paths are found and left to the person."""
    picked = [listing.entries[index] for index in chosen]
    after = apply(listing.text, [edit for entry in picked for edit in _edits(listing, entry, to)])
    return Swapped(
        text=after,
        changed=changed_lines(listing.text, after),
        warnings=tuple(of_images(picked, to)),
        paths=tuple(path for entry in picked for path in _paths(listing.text, entry, to)),
    )


def _edits(listing: Listing, entry: Entry, to: NewImage) -> list[Edit]:
    """A comment above the line, as far to the right as the line, and the image itself."""
    raw = entry.span.of(listing.text)
    variable = entry.default
    new = f"${{{variable.name}{variable.operator}{to.reference}}}" if variable else to.reference
    start = line_start(listing.text, entry.span.start)
    line = listing.text[start : entry.span.start]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    return [comment(listing.text, start, f"{WAS} {encode(raw)}", indent + listing.sign), Edit(entry.span, new)]


def line_start(text: str, at: int) -> int:
    """Where the line begins that this place is in, behind a byte order mark."""
    start = text.rfind("\n", 0, at) + 1
    return start + 1 if text.startswith(BOM, start) else start


def _paths(text: str, entry: Entry, to: NewImage) -> list[FoundPath]:
    """Versions in what belongs to an image: its command, its volumes, its environment."""
    old = entry.python.python if entry.python else None
    found = []
    for match in TOKEN.finditer(text, entry.scope.start, entry.scope.end):
        inside = entry.span.start <= match.start() < entry.span.end
        version = match["version"] or match["script_version"] or match["option"]
        if not inside and version is not None and old in {None, version}:
            line = line_of(text, match.start())
            reason = "edit it by hand: only a Dockerfile's are edited"
            found.append(FoundPath(line, match[0], renamed(match, to), edited=False, reason=reason))
    return [path for path in found if path.new != path.old]


def taking_back(listing: Listing, chosen: Iterable[int], file: str) -> list[Edit]:
    """The edits that take back what was swapped of the chosen entries."""
    by_line: dict[int, list[Entry]] = {}
    for entry in listing.entries:
        by_line.setdefault(entry.line, []).append(entry)
    wanted = set(chosen)
    edits: list[Edit] = []
    for line, above in marks(listing.text).items():
        entries = by_line.get(line, [])
        if len(above) > 1 or len(entries) != 1 or above[0].kind != WAS:
            raise unfit(file, above[-1], "does not stand above a line that names one image")
        if entries[0].index in wanted:
            edits += _restored(entries[0], above[0], file)
    return edits


def _restored(entry: Entry, mark: Mark, file: str) -> list[Edit]:
    raw = decode(mark.content)
    if raw is None:
        raise unfit(file, mark, "cannot be read any more")
    return [Edit(mark.span, ""), Edit(entry.span, raw)]
