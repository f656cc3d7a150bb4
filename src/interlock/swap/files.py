"""Swaps, reverts and checks a file of any supported kind, told by name and content, or all files of a folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from interlock.errors import LeftError, StoreError, SwapError
from interlock.swap.caveats import Caveat, Weight
from interlock.swap.choosing import STAGE_NOUN, choose_lines, require_image_line
from interlock.swap.copied import Beside, nothing
from interlock.swap.devcontainer import read_devcontainer
from interlock.swap.dockerfile import Dockerfile, Stage, read_dockerfile
from interlock.swap.edits import WAS, Edits, swap_comments, swap_edits, undo_edits
from interlock.swap.gathering import gather_uses
from interlock.swap.image_caveats import between_caveats, image_caveats, publisher_caveats
from interlock.swap.image_names import ImageLine, NewImage
from interlock.swap.manifests import ImageManifest, ParsedFile
from interlock.swap.needs import differences, needs_caveats
from interlock.swap.other_pythons import other_pythons
from interlock.swap.paths import ANY_STAGE, FoundVersion, broken_versions
from interlock.swap.uses import Use, Uses
from interlock.swap.writing import TEMPORARY, FileChange, read_file
from interlock.swap.yaml_files import read_manifest, require_values_unchanged

YAML_ENDS = (".yml", ".yaml")
JSON_ENDS = (".json", ".jsonc")


@dataclass(frozen=True)
class SwapResult:
    """A file after a swap, with warnings and versions; their lines are those of the file before the swap."""

    text: str
    warnings: tuple[Caveat, ...]
    paths: tuple[FoundVersion, ...]
    arguments: frozenset[str] = frozenset()  # ARGs whose default is now the new image
    only_images_of: tuple[int, ...] = ()  # the numbers of the stages, from 0, if only images are edited


def swapped_file(  # noqa: PLR0913  the file, its folder, and what is asked
    file: str, text: str, to: NewImage, stage: str | None, *, paths: bool, beside: Beside = nothing
) -> SwapResult:
    """Swap a Dockerfile, a compose file, a Kubernetes manifest or a devcontainer.json, as the file's name says."""
    if not _is_manifest(file):
        return swapped_dockerfile(text, to, stage, paths=paths, file=file, beside=beside)
    manifest = _manifest(file, text)
    try:
        return _swapped(manifest, file, to, stage, paths=paths, beside=beside)
    except SwapError as error:
        broken, _ = broken_versions(manifest, (), to, built=stage is None)
        if not broken:
            raise
        versions = "; ".join(f"line {version.line}: {version.old} -> {version.new}" for version in broken)
        raise LeftError(
            file=error.file if isinstance(error, LeftError) else f"{file}:{broken[0].line}",
            found=error.found,
            todo=f"{error.todo} Edit by hand what fits only the image of before: {versions}.",
        ) from None


def swapped_dockerfile(  # noqa: PLR0913  the file, its folder, and what is asked
    text: str, to: NewImage, stage: str | None, *, paths: bool, file: str = "Dockerfile", beside: Beside = nothing
) -> SwapResult:
    """Swap the image of all stages that start from the same Python, or of the stage with this name or number (from 0).

    An earlier swap is reverted first, so that the comments keep the first original. SwapError if nothing can be
    swapped.
    """
    return _swapped(read_dockerfile(text, file, grown=1), file, to, stage, paths=paths, beside=beside)


def _swapped(  # noqa: PLR0913  the file, its folder, and what is asked
    now: ParsedFile, file: str, to: NewImage, stage: str | None, *, paths: bool, beside: Beside
) -> SwapResult:
    before, chosen, back = _before_swap(now, stage, file)
    broken, instructions = broken_versions(before, chosen, to, built=stage is None)
    changes = swap_edits(before, chosen, to, instructions if paths else ())
    made = Edits(before.text, changes.edits)
    if isinstance(before, ImageManifest) and file.lower().endswith(YAML_ENDS):
        require_values_unchanged(before, made.applied, chosen, file)
    uses = gather_uses(before, chosen, beside)
    told = [*dict.fromkeys([*_caveats(uses, to), *changes.told])]
    if isinstance(before, Dockerfile):
        told.sort(key=lambda caveat: caveat.line)
    return SwapResult(
        text=made.applied,
        warnings=tuple(replace(caveat, line=back.line_before(caveat.line)) for caveat in told),
        paths=tuple(
            replace(version, line=back.line_before(version.line), edited=version.edited and paths) for version in broken
        ),
        arguments=changes.arguments,
        only_images_of=tuple(chosen) if changes.only_images and not back.edits else (),
    )


def _before_swap(now: ParsedFile, stage: str | None, file: str) -> tuple[ParsedFile, list[int], Edits]:
    """Return a file as it was before any swap of the chosen lines, their numbers, and the edits that reverted it.

    Lines are chosen by their images before all swaps. A file that was never swapped is not read again.
    """

    def read(text: str, given: Mapping[str, str] | None = None) -> ParsedFile:
        return read_dockerfile(text, file, given=given) if isinstance(now, Dockerfile) else _manifest(file, text)

    everything = undo_edits(now, None, file)
    original = read(Edits(now.text, everything).applied) if everything else now
    chosen = choose_lines(original, stage, file)
    back = Edits(now.text, undo_edits(now, {ANY_STAGE, *chosen}, file))
    if back.edits == everything:
        return original, chosen, back
    # An ARG stays swapped if other stages use it too; for the chosen ones it has its value from before.
    arguments = original.arguments if isinstance(original, Dockerfile) else {}
    return read(back.applied, {name: argument.value for name, argument in arguments.items()}), chosen, back


def _caveats(uses: Uses, to: NewImage) -> list[Caveat]:
    told = image_caveats([used.line for used in uses.lines], to)
    of_publishers = [caveat for used in uses.lines for caveat in publisher_caveats(used)]
    between = [*between_caveats(uses, to)]
    for instruction in (taken.instruction for _, taken in uses.leaving):
        use = Use(instruction.line, instruction.said, instruction.keyword)
        told += [Caveat(use.line, said, Weight.BREAKS) for said in differences(use, to)]
    lines = {caveat.line for caveat in (*between, *told)}
    told += [
        Caveat(line, f"still takes files from {name}: a swap edits the images of FROM lines alone")
        for line, name in uses.named
        if line not in lines
    ]
    for used in uses.lines:
        told += needs_caveats(used, to)
        told += other_pythons(used, to)
    return [*told, *between, *of_publishers, *uses.stays]


def reverted_file(file: str, text: str, stage: str | None = None) -> str:
    """Return the text of a file of any kind as before any swap, for all its image lines or for one.

    One whose image does not come back alone, because an ARG that others share still has the new one, stays as it is.
    SwapError if a comment of a swap does not fit the line below it.
    """
    now = _read(file, text)
    original = Edits(text, undo_edits(now, None, file)).applied
    if stage is None:
        return original
    alone = Edits(text, undo_edits(now, [_line(now, stage, file).index], file)).applied
    came, was = (_line(_read(file, each), stage, file).image for each in (alone, original))
    return alone if came == was else text


def is_swapped(file: str, text: str, stage: str) -> bool:
    """Return whether an image line has another image than before all swaps."""
    now, original = _read(file, text), _read(file, reverted_file(file, text))
    return _line(now, stage, file).image != _line(original, stage, file).image


def _line(parsed: ParsedFile, name: str, file: str) -> ImageLine:
    """Return the image line of this name or number; SwapError if there is none."""
    return require_image_line(_lines(parsed), name, STAGE_NOUN if isinstance(parsed, Dockerfile) else parsed.noun, file)


def lines_to_swap(file: str, text: str, stage: str | None) -> list[ImageLine]:
    """Return the stages or image lines that a swap of this file would change."""
    now = _read(file, text)
    original = _read(file, reverted_file(file, text))
    return [_lines(now)[index] for index in choose_lines(original, stage, file)]


def swapped_lines(file: str, text: str) -> list[ImageLine]:
    """Return the stages or image lines that are swapped: those below a comment with their original."""
    below = {line for line, above in swap_comments(text).items() if any(comment.kind == WAS for comment in above)}
    return [
        line
        for line in _lines(_read(file, text))
        if line.line in below
        or (isinstance(line, Stage) and line.argument is not None and line.argument.instruction.line in below)
    ]


def _lines(parsed: ParsedFile) -> Sequence[ImageLine]:
    return parsed.stages if isinstance(parsed, Dockerfile) else parsed.entries


def _read(file: str, text: str) -> ParsedFile:
    return _manifest(file, text) if _is_manifest(file) else read_dockerfile(text, file)


def _is_manifest(file: str) -> bool:
    """Return whether a file is YAML or JSON by its name; any other is a Dockerfile."""
    return file.lower().endswith((*YAML_ENDS, *JSON_ENDS))


def _manifest(file: str, text: str) -> ImageManifest:
    return read_manifest(text, file) if file.lower().endswith(YAML_ENDS) else read_devcontainer(text, file)


# What builders look for if no file is named, in this order.
DOCKERFILES = ("Dockerfile", "Containerfile")
COMPOSE_FILES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
DOCKERFILE = re.compile(r"(?:.+\.)?(?:Dockerfile|Containerfile)(?:[._-](?!dockerignore$).+)?", re.IGNORECASE)
DEVCONTAINERS = frozenset({"devcontainer.json", ".devcontainer.json"})
# Hidden folders with files of the project; others have files that tools keep.
OWN_HIDDEN = frozenset(
    {
        ".github",
        ".gitlab",
        ".gitea",
        ".forgejo",
        ".circleci",
        ".woodpecker",
        ".tekton",
        ".devcontainer",
        ".ci",
        ".docker",
    }
)
OTHERS_FOLDERS = frozenset({"node_modules", "venv", "site-packages", "vendor", "__pycache__"})
# A line that would be swapped if the file could be, which a person wants to hear of.
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
        return not _is_manifest(self.path.name)


@dataclass
class SwapPlan:
    """The changes to one file or to all files of a folder, and why other files of it are left out."""

    files: list[PlannedFile] = field(default_factory=list)
    left: list[SwapError] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)  # FIFOs and the like, which are no regular files

    @property
    def changed(self) -> list[PlannedFile]:
        return [file for file in self.files if file.before != file.after]


def plan(
    place: Path,
    action: Callable[[Path, str], PlannedFile],
    meant: re.Pattern[str] = MEANT,
    on_file: Callable[[int, Path], None] = lambda _, __: None,
) -> SwapPlan:
    """Return the results of an action on a file, or on each file below a folder that may name a Python image.

    `on_file` is called with the number and the name before each file of a folder.

    The SwapError of a single file is raised. That of a folder's file is kept if the file matches `meant`, by default a
    line that names Python, or if it brings a Python.
    """
    if not place.is_dir():
        return SwapPlan([action(place, read_file(place))])
    made = SwapPlan()
    for number, path in enumerate(find_files(place), 1):
        on_file(number, path)
        if not path.is_file():
            made.skipped.append(path)
            continue
        try:
            text = read_file(path)
        except StoreError:  # a file that cannot be read as text cannot name an image
            continue
        try:
            made.files.append(action(path, text))
        except SwapError as error:
            if isinstance(error, LeftError) or meant.search(text):
                made.left.append(error)
    return made


def find_files(folder: Path) -> Iterator[Path]:
    """Yield the Dockerfiles, YAML files and devcontainer.json below a folder, except those that tools keep there."""
    for path in _walk(folder):
        name = path.name
        if TEMPORARY.fullmatch(name):
            continue
        if DOCKERFILE.fullmatch(name) or name.lower().endswith(YAML_ENDS) or name in DEVCONTAINERS:
            yield path


def remove_temporaries(place: Path) -> None:
    """Remove what a killed swap has left below a folder, or beside a file."""
    # Unlike iterdir, glob passes over a folder whose names may not be read.
    for path in _walk(place) if place.is_dir() else place.resolve().parent.glob("*"):
        of_this = place.is_dir() or path.name.startswith(f".{place.resolve().name}.")
        if of_this and TEMPORARY.fullmatch(path.name) and path.is_file():
            with suppress(OSError):  # its folder may be read-only
                path.unlink()


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, except those that tools keep there and those that may not be looked at."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name for name in folders if name not in OTHERS_FOLDERS and (not name.startswith(".") or name in OWN_HIDDEN)
        )
        paths = (Path(place, name) for name in sorted(names))
        yield from (path for path in paths if not _is_passed_over(path))


def _is_passed_over(path: Path) -> bool:
    """Return whether a path is a symbolic link, or in a folder that may be listed but not entered."""
    try:
        return stat.S_ISLNK(path.lstat().st_mode)
    except OSError:
        return True
