"""Swap, revert and check a file of any supported kind, which its name and content tell, or all of a folder's."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from interlock.catalog.variants import LOCAL_NAME
from interlock.errors import StoreError, SwapError
from interlock.swap import edits, manifests
from interlock.swap.caveats import Caveat
from interlock.swap.devcontainer import read_devcontainer
from interlock.swap.dockerfile import read_dockerfile
from interlock.swap.edits import WAS, Edit, SwapResult, apply_edits, changed_lines, line_before, swap_comments
from interlock.swap.image_names import ImageLine, Maker, NewImage, parse_name, python_image, require_image_line
from interlock.swap.manifests import ImageManifest, InlineDockerfile
from interlock.swap.paths import FoundVersion
from interlock.swap.writing import TEMPORARY, FileChange, read_file
from interlock.swap.yaml_files import read_manifest, values_of

# What local images were called before they were below localhost/.
ANYBODYS_NAME = LOCAL_NAME.removeprefix("localhost/")
YAML_ENDS = (".yml", ".yaml")
JSON_ENDS = (".json", ".jsonc")


def swapped_file(file: str, text: str, to: NewImage, stage: str | None, *, paths: bool) -> SwapResult:
    """Swap a Dockerfile, a compose file, a Kubernetes manifest or a devcontainer.json, as the file's name says."""
    manifest = _manifest_or_none(file, text)
    if manifest is None:
        return edits.swapped_dockerfile(text, to, stage, paths=paths, file=file)
    blocks = _chosen_blocks(manifest, stage)
    if not blocks or any(one.swappable for one in manifest.entries):
        result = _swapped_images(file, text, manifest, to, None if blocks and stage is None else stage)
    else:
        result = SwapResult(text, (), (), ())
    return _with_inline(
        file,
        text,
        result,
        [(one, edits.swapped_dockerfile(one.text, to, None, paths=paths, file=file)) for one in blocks],
    )


def _chosen_blocks(manifest: ImageManifest, stage: str | None) -> list[InlineDockerfile]:
    """Return the Dockerfiles in a compose file that start from Python, or that of the service with this name."""
    return [
        one
        for one in manifest.inline
        if (stage is None or one.service == stage)
        and any(found.swappable for found in read_dockerfile(one.text).stages)
    ]


def _with_inline(
    file: str, text: str, result: SwapResult, swapped: Sequence[tuple[InlineDockerfile, SwapResult]]
) -> SwapResult:
    """Put swapped Dockerfiles into a compose file whose own images are swapped already."""
    now = {one.service: one for one in _manifest(file, result.text).inline}
    warnings, found = [*result.warnings], [*result.paths]
    for block, new in swapped:
        warnings += [replace(one, line=one.line + block.line - 1 if one.line else 0) for one in new.warnings]
        found += [replace(one, line=one.line + block.line - 1) for one in new.paths]
    changes = [Edit(now[block.service].span, block.indented(new.text)) for block, new in swapped]
    after = apply_edits(result.text, changes)
    return SwapResult(after, changed_lines(text, after), tuple(dict.fromkeys(warnings)), tuple(found))


def _swapped_images(file: str, text: str, manifest: ImageManifest, to: NewImage, stage: str | None) -> SwapResult:
    original = _manifest(file, reverted_file(file, text))
    names = [one.index for one in manifests.choose_entries(original, stage, file)]
    back = manifests.revert_edits(manifest, names, file)
    before = _manifest(file, apply_edits(text, back))
    removed = [
        comment.line
        for above in swap_comments(text).values()
        for comment in above
        if comment.span in {one.span for one in back}
    ]
    result = manifests.swapped_entries(before, names, to)
    _check_values_unchanged(file, before, result.text, names)
    return replace(
        result,
        changed=changed_lines(text, result.text),
        warnings=tuple(replace(one, line=line_before(one.line, removed)) for one in result.warnings),
        paths=tuple(replace(one, line=line_before(one.line, removed)) for one in result.paths),
    )


def reverted_file(file: str, text: str, stage: str | None = None) -> str:
    """Return the text of a file of any kind as it was before any swap, in all its image lines or in one."""
    manifest = _manifest_or_none(file, text)
    if manifest is None:
        return edits.reverted(text, stage, file)
    chosen = range(len(manifest.entries))
    blocks = [one for one in manifest.inline if stage in {None, one.service}]
    inline = [Edit(one.span, one.indented(edits.reverted(one.text, None, file))) for one in blocks]
    if stage is not None and blocks:
        chosen = range(0)
    elif stage is not None:
        index = require_image_line(manifest.need(file), stage, manifest.noun, file).index
        chosen = range(index, index + 1)
    return apply_edits(text, [*manifests.revert_edits(manifest, chosen, file), *inline])


def lines_to_swap(file: str, text: str, stage: str | None) -> list[ImageLine]:
    """Return the stages or image lines that a swap of this file would change."""
    manifest = _manifest_or_none(file, text)
    original = reverted_file(file, text)
    if manifest is None:
        names = [one.index for one in edits.choose_stages(read_dockerfile(original), stage, file)]
        return [read_dockerfile(text).stages[index] for index in names]
    blocks = _chosen_blocks(_manifest(file, original), stage)
    inline: list[ImageLine] = [
        replace(stages[one.index], line=stages[one.index].line + now.line - 1)
        for block in blocks
        for now in manifest.inline
        if now.service == block.service
        for stages in [read_dockerfile(now.text).stages]
        for one in edits.choose_stages(read_dockerfile(block.text), None, file)
    ]
    if blocks and not any(one.swappable for one in manifest.entries):
        return inline
    own = manifests.choose_entries(_manifest(file, original), None if blocks else stage, file)
    return [*(manifest.entries[one.index] for one in own), *inline]


def swapped_lines(file: str, text: str) -> list[ImageLine]:
    """Return the stages or image lines that are swapped: those below a comment with their original."""
    manifest = _manifest_or_none(file, text)
    lines = {line for line, above in swap_comments(text).items() if any(comment.kind == WAS for comment in above)}
    if manifest is not None:
        inline = [
            replace(one, line=one.line + block.line - 1)
            for block in manifest.inline
            for one in swapped_lines("Dockerfile", block.text)
        ]
        return [*(entry for entry in manifest.entries if entry.line in lines), *inline]
    return [
        stage
        for stage in read_dockerfile(text).stages
        if stage.line in lines or (stage.argument is not None and stage.argument.instruction.line in lines)
    ]


def _manifest_or_none(file: str, text: str) -> ImageManifest | None:
    """Return the image lines of a compose file, manifest or devcontainer.json; None for a Dockerfile."""
    name = PurePath(file).name.lower()
    if name.endswith(YAML_ENDS):
        return read_manifest(text, file)
    if name.endswith(JSON_ENDS):
        return read_devcontainer(text, file)
    return None


def _manifest(file: str, text: str) -> ImageManifest:
    manifest = _manifest_or_none(file, text)
    if manifest is None:
        raise AssertionError(file)
    return manifest


def _check_values_unchanged(file: str, before: ImageManifest, after: str, names: list[int]) -> None:
    """Raise SwapError if the edits change any other value: a comment within a string of several lines is part of it."""
    if not PurePath(file).name.lower().endswith(YAML_ENDS):
        return
    entries_after = _manifest(file, after).entries
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
            found="the line is within a text of several lines, so no comment fits above it",
            todo="Write the image on a line of its own.",
        )


def interlock_tag(image: str, *, swapped: bool = False) -> str | None:
    """Return an Interlock image's tag on the machine that built it; None for any other image.

    A team's `registry:5000/team/python` may also be a mirror of the official image: it is Interlock's only with a swap
    comment above it.
    """
    python = python_image(image)
    if python is None or not python.name.tag:
        return None
    if python.maker is not Maker.INTERLOCK and not (swapped and python.name.repository.endswith("/python")):
        return None
    return f"{LOCAL_NAME}:{python.name.tag}"


def name_with_tag(image: str) -> str:
    """Return the image's name with its tag and without its digest, to look up in a registry."""
    name = parse_name(image)
    return f"{name.untagged}:{name.tag}" if name.tag else name.untagged


def line_problems(
    image_lines: Sequence[ImageLine],
    expected: str | None,
    digests: dict[str, str | None],
    swapped: Collection[int] = (),
) -> list[tuple[ImageLine, str]]:
    """Return each image line and how it is not the picked image with its current digest, empty if it is.

    `expected` is the tag of the picked image, None for any image of Interlock; `digests` has the current digest in the
    registry or this engine by name and tag; `swapped` are the lines with a swap comment.
    """
    return [(one, _problem(one.image, expected, digests, one.line in swapped)) for one in image_lines]


def _problem(image: str, expected: str | None, digests: dict[str, str | None], swapped: bool) -> str:
    tag = interlock_tag(image, swapped=swapped)
    if tag is None or (expected is not None and tag != expected):
        return f"names {image}, not {expected or 'an image of Interlock'}"
    pinned, now = parse_name(image).digest, digests[name_with_tag(image)]
    if not pinned and parse_name(image).untagged == ANYBODYS_NAME:
        return f"names {image}, which the owner of {ANYBODYS_NAME} on a public registry can replace"
    if pinned == (now or ""):
        return ""
    if not pinned:
        return f"names {image} without its digest, which is now {now}"
    if now is None:
        return f"is pinned to {pinned}, but neither a registry nor this engine has a digest for {name_with_tag(image)}"
    return f"is pinned to {pinned}, but {name_with_tag(image)} is now {now}"


DOCKERFILE = re.compile(r"(?:.+\.)?(?:Dockerfile|Containerfile)(?:\.(?!dockerignore$).+)?", re.IGNORECASE)
DEVCONTAINERS = frozenset({"devcontainer.json", ".devcontainer.json"})
# Hidden folders whose files are a project's own; in others are what tools keep.
OWN_HIDDEN = frozenset({".github", ".gitlab", ".devcontainer", ".ci", ".docker"})
OTHERS_FOLDERS = frozenset({"node_modules", "venv", "site-packages", "vendor", "__pycache__"})
# A line that would be swapped if the file could be: what a person wants to hear of.
MEANT = re.compile(
    r"^\s*(?:FROM\s|-?\s*(?:image|container|\"image\")\s*:).*\b(?:python|pypy)\b", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True)
class PlannedFile(FileChange):
    """A file before and after, with what a person must know about the change."""

    warnings: tuple[Caveat, ...] = ()
    paths: tuple[FoundVersion, ...] = ()

    @property
    def is_dockerfile(self) -> bool:
        return DOCKERFILE.fullmatch(self.path.name) is not None


@dataclass
class SwapPlan:
    """What is done to one file, or to all of a folder, and why others of it are left."""

    files: list[PlannedFile] = field(default_factory=list)
    left: list[SwapError] = field(default_factory=list)

    @property
    def changed(self) -> list[PlannedFile]:
        return [one for one in self.files if one.before != one.after]


def plan(place: Path, action: Callable[[Path, str], PlannedFile], meant: re.Pattern[str] = MEANT) -> SwapPlan:
    """Return what an action makes of a file, or of each file below a folder that may name a Python image.

    The SwapError of a single file is raised; of a folder's files it is kept if they have what is meant: by default a
    line that names Python.
    """
    if not place.is_dir():
        return SwapPlan([action(place, read_file(place))])
    made = SwapPlan()
    for path in find_files(place):
        try:
            text = read_file(path)
        except StoreError:  # it cannot be text that names an image
            continue
        try:
            made.files.append(action(path, text))
        except SwapError as error:
            if meant.search(text):
                made.left.append(error)
    return made


def find_files(folder: Path) -> Iterator[Path]:
    """Yield the Dockerfiles, YAML files and devcontainer.json below a folder, but for what tools keep there."""
    for path in _walk(folder):
        name = path.name
        if TEMPORARY.fullmatch(name):
            continue
        if DOCKERFILE.fullmatch(name) or name.lower().endswith(YAML_ENDS) or name in DEVCONTAINERS:
            yield path


def remove_temporaries(place: Path) -> None:
    """Remove what a killed swap has left below a folder, or beside a file."""
    for path in _walk(place) if place.is_dir() else place.resolve().parent.iterdir():
        of_this = place.is_dir() or path.name.startswith(f".{place.resolve().name}.")
        if of_this and TEMPORARY.fullmatch(path.name):
            with suppress(OSError):  # whose folder may not be written
                path.unlink()


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, but for what tools keep there."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            one for one in folders if one not in OTHERS_FOLDERS and (not one.startswith(".") or one in OWN_HIDDEN)
        )
        paths = (Path(place, name) for name in sorted(names))
        yield from (path for path in paths if path.is_file() and not path.is_symlink())
