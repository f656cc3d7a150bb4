"""A file of any of the kinds that name images: which kind it is, swapped, taken back, and what it names now. Pure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from interlock.errors import SwapError
from interlock.swap import choose as stages_chosen
from interlock.swap import edits, entries, revert
from interlock.swap.devcontainer import read_devcontainer
from interlock.swap.edits import Swapped, as_given, changed_lines
from interlock.swap.entries import Listing
from interlock.swap.image_line import ImageLine, must_find
from interlock.swap.images import NewImage
from interlock.swap.manifests import read_manifest, values_of
from interlock.swap.marks import WAS, apply, marks
from interlock.swap.stages import read

YAML_ENDS = (".yml", ".yaml")
JSON_ENDS = (".json", ".jsonc")


def swapped_file(file: str, text: str, to: NewImage, stage: str | None, *, paths: bool) -> Swapped:
    """`swapped` for a Dockerfile, a compose file, a Kubernetes manifest or a devcontainer.json, by the file's name."""
    listing = _listing(file, text)
    if listing is None:
        return edits.swapped(text, to, stage, paths=paths, file=file)
    original = _again(file, reverted_file(file, text))
    names = [one.index for one in entries.choose(original, stage, file)]
    back = entries.taking_back(listing, names, file)
    before = _again(file, apply(text, back))
    removed = [mark.line for above in marks(text).values() for mark in above if mark.span in {one.span for one in back}]
    result = entries.swapped_entries(before, names, to)
    _must_say_the_same(file, before, result.text, names)
    return replace(
        result,
        changed=changed_lines(text, result.text),
        warnings=tuple(replace(one, line=as_given(one.line, removed)) for one in result.warnings),
        paths=tuple(replace(one, line=as_given(one.line, removed)) for one in result.paths),
    )


def reverted_file(file: str, text: str, stage: str | None = None) -> str:
    """`reverted` for a file of any kind."""
    listing = _listing(file, text)
    if listing is None:
        return revert.reverted(text, stage, file)
    chosen = range(len(listing.entries))
    if stage is not None:
        index = must_find(listing.need(file), stage, listing.noun, file).index
        chosen = range(index, index + 1)
    return apply(text, entries.taking_back(listing, chosen, file))


def picked(file: str, text: str, stage: str | None) -> list[ImageLine]:
    """What a swap of this file would be for, as it is now."""
    listing = _listing(file, text)
    original = reverted_file(file, text)
    if listing is None:
        names = [one.index for one in stages_chosen.choose(read(original), stage, file)]
        return [read(text).stages[index] for index in names]
    return [listing.entries[one.index] for one in entries.choose(_again(file, original), stage, file)]


def swapped_before(file: str, text: str) -> list[ImageLine]:
    """What of this file is swapped: the stages or image lines with a comment that says what they were."""
    listing = _listing(file, text)
    lines = {line for line, above in marks(text).items() if any(mark.kind == WAS for mark in above)}
    if listing is not None:
        return [entry for entry in listing.entries if entry.line in lines]
    return [
        stage
        for stage in read(text).stages
        if stage.line in lines or (stage.argument is not None and stage.argument.instruction.line in lines)
    ]


def _listing(file: str, text: str) -> Listing | None:
    """The image lines of a file that is no Dockerfile; None for a Dockerfile."""
    name = PurePath(file).name.lower()
    if name.endswith(YAML_ENDS):
        return read_manifest(text, file)
    if name.endswith(JSON_ENDS):
        return read_devcontainer(text, file)
    return None


def _again(file: str, text: str) -> Listing:
    listing = _listing(file, text)
    if listing is None:
        raise AssertionError(file)
    return listing


def _must_say_the_same(file: str, before: Listing, after: str, names: list[int]) -> None:
    """A comment stands above any line but one that a string of several lines goes through: then nothing is changed."""
    if not PurePath(file).name.lower().endswith(YAML_ENDS):
        return
    entries_after = _again(file, after).entries
    old, new = values_of(before.text, file), values_of(after, file)
    swapped = {
        (before.entries[index].span.of(before.text), entry.span.of(after))
        for index, entry in enumerate(entries_after)
        if index in names
    }
    same = all(one == other or (one, other) in swapped for one, other in zip(old, new, strict=False))
    if len(old) != len(new) or len(entries_after) != len(before.entries) or not same:
        line = before.entries[names[0]].line
        raise SwapError(
            file=f"{file}:{line}",
            found="no comment can stand above this line",
            todo="Write the image on a line of its own.",
        )
