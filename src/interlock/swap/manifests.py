"""Image lines of files that are no Dockerfiles: found, swapped and taken back.

A real parser of the format says where each image stands (yaml_files.py, devcontainer.py); only those characters change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from interlock.errors import SwapError
from interlock.swap.caveats import Caveat, Use, Weight, image_caveats, other_platform, use_caveats
from interlock.swap.dockerfile import BOM, Span, line_of
from interlock.swap.edits import (
    WAS,
    Edit,
    SwapComment,
    SwapResult,
    apply_edits,
    changed_lines,
    comment_edit,
    damaged_comment_error,
    decode_original,
    encode_original,
    swap_comments,
)
from interlock.swap.image_names import (
    NAMES_PYTHON,
    ImageLine,
    NewImage,
    UnsetVariable,
    Variable,
    agreeing_image_lines,
    expand,
    python_image,
    refuse_windows,
    require_image_line,
    sole_variable,
)
from interlock.swap.other_bases import no_python_error
from interlock.swap.other_pythons import other_pythons
from interlock.swap.paths import VERSION_TOKEN, FoundVersion, renamed

LINE = re.compile(r"[^\n]*\n|[^\n]+")
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
class InlineDockerfile:
    """The Dockerfile in a compose file: a text of several lines with one indentation."""

    service: str
    line: int  # of its first line
    span: Span
    indent: str
    text: str  # without the indentation

    def indented(self, text: str) -> str:
        """Return a text as it stands in the file: empty lines stay empty."""
        return "".join(self.indent + line if line.strip("\r\n") else line for line in LINE.findall(text))


@dataclass(frozen=True)
class ImageManifest:
    """A file that is not a Dockerfile, and its image lines."""

    text: str
    noun: str  # the thing with an image: service, container
    sign: str  # the start of a comment
    entries: tuple[ImageEntry, ...]
    stays: tuple[Caveat, ...] = ()  # what names Python, or is built from it, elsewhere than in image lines
    inline: tuple[InlineDockerfile, ...] = ()

    def need(self, file: str) -> Sequence[ImageEntry]:
        """Return the entries; raise SwapError if there is none."""
        if not self.entries:
            raise SwapError(file=file, found="names no image", todo=self.instead or "Name a file that does.")
        return self.entries

    @property
    def instead(self) -> str:
        """Return what to change in place of image lines; empty if nothing is known."""
        said = "; ".join(f"line {one.line}: {one.text}" for one in self.stays)
        return f"{said[:1].upper()}{said[1:]}." if said else ""


def make_entry(text: str, index: int, name: str | None, span: Span, scopes: Sequence[Scope]) -> ImageEntry:
    """Return the entry of an image at this span; variables have only their own defaults, as in compose files."""
    raw = span.of(text)
    missing = EXPRESSION if EXPRESSION in raw else None
    image = raw
    try:
        image = raw if missing else expand(raw, {})
    except UnsetVariable as unset:
        missing = unset.name
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
    entries = manifest.need(file)
    chosen = (
        agreeing_image_lines(entries, manifest.noun, file)
        if name is None
        else [require_image_line(entries, name, manifest.noun, file)]
    )
    for one in chosen or entries:
        if one.missing == EXPRESSION:
            raise SwapError(
                file=f"{file}:{one.line}",
                found=f"an expression of the workflow chooses the image ({one.image})",
                todo="Change the values that it takes by hand, or write the image's name there.",
            )
        if one.missing is not None and manifest.noun == "job":  # where no default may stand behind the name
            raise SwapError(
                file=f"{file}:{one.line}",
                found=f"the variable {one.missing} chooses the image ({one.image}), in each job perhaps another",
                todo="Write the image's name there; then it is swapped.",
            )
        if one.missing is not None:
            raise SwapError(
                file=f"{file}:{one.line}",
                found=f"{one.missing} has no default here, so the image of '{one.image}' is not known",
                todo=f"Write a default: ${{{one.missing}:-...}}.",
            )
    if not chosen and manifest.instead:
        there = ", ".join(dict.fromkeys(one.image for one in entries))
        raise SwapError(
            file=file, found=f"no {manifest.noun} starts from a Python image (there is {there})", todo=manifest.instead
        )
    if not chosen:
        raise no_python_error(entries, manifest.noun, file)
    refuse_windows(chosen, file)
    for one in chosen:
        if sum(other.line == one.line for other in entries) > 1:
            raise SwapError(
                file=f"{file}:{one.line}",
                found="several images on one line, and a comment can keep only one",
                todo="Write each on a line of its own.",
            )
    return chosen


def swapped_entries(manifest: ImageManifest, chosen: Iterable[int], to: NewImage) -> SwapResult:
    """Swap the images of the chosen entries; versions in paths are reported, not edited."""
    picked = [manifest.entries[index] for index in chosen]
    after = apply_edits(manifest.text, [edit for entry in picked for edit in _entry_edits(manifest, entry, to)])
    return SwapResult(
        text=after,
        changed=changed_lines(manifest.text, after),
        warnings=(
            *image_caveats(picked, to),
            *(one for entry in picked for one in _scope_caveats(manifest.text, entry, to)),
            *_left_to_the_workflow(manifest),
            *manifest.stays,
        ),
        paths=tuple(dict.fromkeys(path for entry in picked for path in _versions_in_scope(manifest.text, entry, to))),
    )


def _scope_caveats(text: str, entry: ImageEntry, to: NewImage) -> Iterator[Caveat]:
    """Yield what a service or a container asks for and runs that the new image is not for or does not have."""
    asked = [one for scope in entry.scopes for one in (*PLATFORM.findall(scope.span.of(text)), *scope.platforms)]
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


def _entry_edits(manifest: ImageManifest, entry: ImageEntry, to: NewImage) -> list[Edit]:
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


def _versions_in_scope(text: str, entry: ImageEntry, to: NewImage) -> list[FoundVersion]:
    """Return the versions in an entry's scopes: their commands, volumes and environments."""
    old = entry.python.python if entry.python else None
    found = []
    spans = [scope.span for scope in entry.scopes]
    for match in (one for span in spans for one in VERSION_TOKEN.finditer(text, span.start, span.end)):
        inside = entry.span.start <= match.start() < entry.span.end
        version = match["version"] or match["script_version"] or match["option"]
        if not inside and version is not None and old in {None, version}:
            line = line_of(text, match.start())
            reason = "edit it by hand: only a Dockerfile's are edited"
            found.append(FoundVersion(line, match[0], renamed(match, to), edited=False, reason=reason))
    return [path for path in found if path.new != path.old]


def revert_edits(manifest: ImageManifest, chosen: Iterable[int], file: str) -> list[Edit]:
    """Return the edits that take back the swap of the chosen entries."""
    by_line: dict[int, list[ImageEntry]] = {}
    for entry in manifest.entries:
        by_line.setdefault(entry.line, []).append(entry)
    wanted = set(chosen)
    edits: list[Edit] = []
    for line, comments in swap_comments(manifest.text).items():
        above = [one for one in comments if not any(_holds(block, one) for block in manifest.inline)]
        if not above:
            continue
        entries = by_line.get(line, [])
        if len(above) > 1 or len(entries) != 1 or above[0].kind != WAS:
            raise damaged_comment_error(file, above[-1], "is not above a line that names one image")
        if entries[0].index in wanted:
            edits += _restoring_edits(entries[0], above[0], file)
    return edits


def _holds(block: InlineDockerfile, comment: SwapComment) -> bool:
    return block.span.start <= comment.span.start < block.span.end


def _restoring_edits(entry: ImageEntry, comment: SwapComment, file: str) -> list[Edit]:
    raw = decode_original(comment.content)
    if raw is None:
        raise damaged_comment_error(file, comment, "cannot be decoded")
    return [Edit(comment.span, ""), Edit(entry.span, raw)]
