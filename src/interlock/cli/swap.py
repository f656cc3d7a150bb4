"""The command that changes the Python image in a file, changes it back and checks it: swap."""

from __future__ import annotations

import os
import re
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock.catalog.project import ProjectPaths
from interlock.cli.announcing import DryRun, announce
from interlock.cli.options import Json, PlainConsole, Quiet
from interlock.cli.options import notes as remarks
from interlock.cli.swap_target import resolve, target_of
from interlock.engine.docker import connect
from interlock.errors import StoreError, SwapError, UsageError, missing_option
from interlock.results.commands import command_line, option_words
from interlock.results.json_documents import CheckedLine, SwapCaveat, Swapped, SwappedFile, SwapVersion
from interlock.swap import checks, files
from interlock.swap.caveats import Caveat, Weight, by_weight
from interlock.swap.copied import beside
from interlock.swap.edits import SWAP_COMMENT
from interlock.swap.files import PlannedFile, SwapPlan, plan, remove_temporaries
from interlock.swap.writing import FileChange, replace_files
from interlock.trial.builds import build_and_start
from interlock.trial.named_images import digests_now
from interlock.trial.planning import find_recipe
from interlock.untrusted import printable, printable_name

# Only a diff goes to standard output, so that `patch` can read it.


class _Notes(PlainConsole):
    """Remarks beside a diff; with --json one document has all of them."""

    as_json = False


notes = _Notes(stderr=True)
TOLD_EVERY_S = 1.0
DEFAULT = Path(files.DOCKERFILES[0])
STYLES = {Weight.BREAKS: "red", Weight.MAY_BREAK: "yellow", Weight.KNOW: ""}
# Control characters except tabs and the ends of lines and pages, which `patch` has to find in the diff.
STEERING = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")


def swap_command(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE|FOLDER",
            help="Dockerfile, compose file, manifest, CI file or devcontainer.json, or a folder with such files "
            "(default: ./Dockerfile).",
        ),
    ] = None,
    to: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Variant to use, plain or in a mode (A+MODE).")
    ] = None,
    stage: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Stage, service or container to change (default: all with the same image)."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write the change instead of only showing it.")] = False,
    revert: Annotated[
        bool, typer.Option("--revert", help="Show, or with --write restore, the images from before the first swap.")
    ] = False,
    check_only: Annotated[
        bool, typer.Option("--check", help="Exit with 1 if a line has another image than --to, or an old digest.")
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Change versions in paths, commands and wheel names too.")
    ] = False,
    try_it: Annotated[
        bool, typer.Option("--try", help="Build and start the changed Dockerfile first; write it only if that works.")
    ] = False,
    build_arg: Annotated[
        list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Build argument of --try, as for `docker build`.")
    ] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="SECRET", help="Build secret of --try (BuildKit).")
    ] = None,
    local: Annotated[bool, typer.Option("--local", help="Use this machine's image, whatever registries have.")] = False,
    as_json: Json = False,
    dry_run: DryRun = False,
    _quiet: Quiet = False,
) -> None:
    """Change the Python image in a Dockerfile or manifest, and back.

    Shows the change as a diff; --write applies it, --revert takes it back, --check is for CI.
    """
    given = {"to": to, "stage": stage, "write": write, "revert": revert, "check": check_only, "paths": paths}
    given |= {"try": try_it, "local": local}
    _check_options(given)
    if dry_run and not try_it:
        problem = "is for --try: without it a swap builds nothing, and without --write it writes nothing"
        raise UsageError(key="--dry-run", found=problem, todo="Leave it out.")
    notes.as_json, notes.quiet = as_json, as_json or remarks.quiet  # with --json standard error has only errors
    place = _place(file, given)
    if place.is_dir() and stage is not None:
        raise UsageError(key="--stage", found=f"works on one file, but {place} is a folder", todo="Give the file.")
    if write:
        remove_temporaries(place)
    if revert:
        _revert(place, stage, write)
    elif check_only:
        _check(place, to, stage)
    else:
        image, caveats = resolve(str(to), local=local)

        def swapped(path: Path, text: str) -> PlannedFile:
            made = files.swapped_file(printable_name(path), text, image, stage, paths=paths, beside=beside(path))
            return PlannedFile(path, text, made.text, made.warnings, made.paths)

        def ready(made: SwapPlan) -> list[Caveat]:
            of_files = (caveat for file in made.files for caveat in file.warnings if not caveat.line)
            of_all = by_weight([*caveats, *of_files])
            _print_caveats(made, of_all)
            if write and not local and not image.pinned:
                raise SwapError(
                    key="--write",
                    found=f"{image.reference} is in no registry, so the file would build on this machine alone",
                    todo=f"Push it (`interlock push {image.variant} --registry HOST/NAMESPACE`), or add --local.",
                )
            if try_it:
                _try(made, build_arg or [], secret or [], dry_run=dry_run)
            return of_all

        back = command_line("swap", str(place), *option_words({"revert": True, "write": True, "stage": stage}))
        then = f"`{back}` reverts it."
        _apply(place, plan(place, swapped, on_file=_Looking()), write, ready, then)


class _Looking:
    """Says how many files of a folder were looked at, once that takes more than a second."""

    def __init__(self) -> None:
        self._next_s = time.monotonic() + TOLD_EVERY_S

    def __call__(self, number: int, path: Path) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + TOLD_EVERY_S
            notes.say(f"looking   file {number}: {printable_name(path)}")


# The options with which each of these cannot be combined.
EXCLUDED = {
    "try": ("revert", "check"),
    "revert": ("to", "check", "paths"),
    "check": ("write", "paths", "local"),
}


def _check_options(given: Mapping[str, object]) -> None:
    for option, others in EXCLUDED.items():
        if given[option] and any(given[other] for other in others):
            *most, last = (f"--{other}" for other in others)
            problem = f"cannot be combined with {', '.join(most)} or {last}"
            raise UsageError(key=f"--{option}", found=problem, todo="Leave those out.")
    if given["to"] is None and not given["revert"] and not given["check"]:
        raise missing_option("--to", "Name a variant: --to cpython-3.14 (`interlock pick` recommends one).")


def _place(file: Path | None, given: Mapping[str, object]) -> Path:
    """Return the file or folder to change; StoreError if it is not there, or cannot be entered."""
    path = file or DEFAULT
    try:
        if stat.S_ISDIR(path.stat().st_mode):
            os.scandir(path).close()
    except OSError as error:
        usual = (*files.DOCKERFILES, *files.COMPOSE_FILES)
        there = [name for name in usual if file is None and os.path.exists(name)]  # noqa: PTH110  Path's raises
        todo = "Give a file or a folder that is there and may be read."
        if there:
            todo = f"Give the file: {command_line('swap', there[0], *option_words(given))}"
        raise StoreError(file=printable_name(path), found=(error.strerror or str(error)).lower(), todo=todo) from None
    return path


def _revert(place: Path, stage: str | None, write: bool) -> None:
    """Revert the swaps of a file or of a folder's files; SwapError if one cannot be reverted, after all others are."""

    def reverted(path: Path, text: str) -> PlannedFile:
        return PlannedFile(path, text, files.reverted_file(printable_name(path), text, stage))

    made = plan(place, reverted, SWAP_COMMENT)
    if not made.changed and not made.left:
        name, problem, todo = printable_name(place), "nothing was swapped here, so there is nothing to take back", ""
        if stage is not None and files.is_swapped(name, made.files[0].before, stage):
            problem = f"'{stage}' shares an ARG with other stages, so it is not reverted alone"
            todo = "Leave out --stage to revert all of them."
        raise SwapError(file=name, found=problem, todo=todo)
    _apply(place, made, write, lambda _: [])
    if made.left:
        raise SwapError(
            file=printable_name(place),
            found=f"{len(made.left)} files with a swap's comments cannot be reverted",
            todo="Fix the errors above, then run the command again.",
        )


def _apply(
    place: Path, made: SwapPlan, write: bool, ready: Callable[[SwapPlan], Sequence[Caveat]], then: str = ""
) -> None:
    """Show the diff of all files and the caveats of `ready`, and write the files with --write; `then` is the next step.

    `ready` returns the caveats of the change as a whole.
    """
    for file in made.changed if not notes.as_json else ():
        _print_diff(file)
    of_all = ready(made)
    written = write and bool(made.changed)
    if written:
        replace_files(made.changed)
    if notes.as_json:
        changes = [_file_data(file) for file in made.changed]
        caveats = [SwapCaveat(**vars(told)) for told in of_all]
        left = [str(error) for error in made.left]
        _print_json(Swapped(file=_json_name(place), written=written, changes=changes, caveats=caveats, left=left))
        return
    for said in (*map(str, made.left), *(f"{printable_name(path)}: is not a plain file" for path in made.skipped)):
        notes.say(f"left      {said}")
    if written:
        many = f" ({len(made.changed)} files)" if place.is_dir() else ""
        notes.say(f"Written: {printable_name(place)}{many}. {then}".rstrip())
    elif made.changed:
        notes.say("Not written; --write applies it.")
    elif not made.left:
        what = "has that image already" if made.files else "names no Python image that could be swapped"
        notes.say(f"{printable_name(place)}: {what}.")


def _try(made: SwapPlan, build_args: list[str], secrets: list[str], *, dry_run: bool) -> None:
    """Build and start each Dockerfile as it would be written; an InterlockError ends the command before the writing."""
    tried = [file for file in made.changed if file.is_dockerfile]
    recipes = [
        replace(find_recipe(file.path.parent, file.path, build_args, secrets, None), text=file.after) for file in tried
    ]
    named = ", ".join(printable_name(file.path) for file in tried)
    announce(f"builds and starts {named or 'nothing'} once, as `docker build` does", dry_run=dry_run, where=notes)
    containers = connect()
    cache = ProjectPaths.find().cache
    for recipe in recipes:
        notes.say(f"try       {printable_name(recipe.dockerfile)}: building")
        went = build_and_start(containers, recipe, cache, lambda _: None)
        notes.say(f"try       {printable_name(recipe.dockerfile)}: {went}")


def _print_diff(change: FileChange) -> None:
    """Print a diff with the file's own bytes, but without control characters, which a pager may pass to a terminal."""
    sys.stdout.flush()
    diff = change.diff
    shown = printable(diff) if sys.stdout.isatty() else STEERING.sub(lambda sign: ascii(sign[0])[1:-1], diff)
    sys.stdout.buffer.write(shown.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()


def _print_json(document: Swapped) -> None:
    sys.stdout.write(document.model_dump_json(indent=1) + "\n")


def _file_data(file: PlannedFile) -> SwappedFile:
    # JSON has no bytes, so those that are not UTF-8 are replaced.
    diff = file.diff.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    caveats = [SwapCaveat(**vars(told)) for told in by_weight(told for told in file.warnings if told.line)]
    versions = [SwapVersion(**vars(version)) for version in file.paths]
    return SwappedFile(file=_json_name(file.path), diff=diff, caveats=caveats, versions=versions)


def _json_name(path: Path) -> str:
    """Return a file's name with escapes for bytes that are not UTF-8, which JSON cannot have."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def _print_caveats(made: SwapPlan, of_all: Sequence[Caveat]) -> None:
    """Print what each file's change may break, and then once the caveats of all of them."""
    for file in made.files:
        for caveat in by_weight(caveat for caveat in file.warnings if caveat.line):
            _print_caveat(caveat, f"{printable_name(file.path)}:{caveat.line}: ")
        for version in dict.fromkeys(file.paths):
            state = "edited" if version.edited else f"stays: {version.reason or 'without --paths'}"
            line = f"path      {printable_name(file.path)}:{version.line}: {version.old} -> {version.new} ({state})"
            notes.say(line)
    for caveat in of_all:
        _print_caveat(caveat, "")


def _print_caveat(caveat: Caveat, where: str) -> None:
    said = Text(f"{caveat.weight:<9} {where}{caveat.text}", style=STYLES[caveat.weight])
    notes.print(said, soft_wrap=not notes.is_terminal)


def _check(place: Path, to: str | None, stage: str | None) -> None:
    """Print every line whose image is not the expected one; SwapError if there is one."""
    expected = target_of(to).tag if to else None
    placed, left = checks.placed_lines(place, stage, every=bool(to or stage))
    digests = digests_now(
        [spot.line.image for spot in placed if spot.tag],
        lambda said: notes.say(f"warning  {said}", "yellow"),
    )
    problems = [spot.problem(expected, digests) for spot in placed]
    checked = [
        CheckedLine(file=_json_name(spot.path), line=spot.line.line, image=spot.line.image, problem=problem)
        for spot, problem in zip(placed, problems, strict=True)
    ]
    _print_checked(place, checked, left if to else [])
    if any(problems):
        asked = {"to": to or "VARIANT", "stage": stage, "write": True}
        raise SwapError(
            file=printable_name(place),
            found=f"{sum(map(bool, problems))} of {len(placed)} image lines have another image",
            todo=f"Update them: {command_line('swap', str(place), *option_words(asked))}",
        )


def _print_checked(place: Path, checked: Sequence[CheckedLine], left: Sequence[SwapError]) -> None:
    """Print the lines with a problem and the files that were left out, or that all is up to date."""
    if notes.as_json:
        _print_json(Swapped(file=_json_name(place), lines=list(checked), left=[str(error) for error in left]))
        return
    wrong = [f"{printable_name(line.file)}:{line.line}: {line.problem}" for line in checked if line.problem]
    for said in (*wrong, *map(str, left)):
        notes.say(said)
    if not wrong:
        images = ", ".join(dict.fromkeys(line.image for line in checked))
        notes.say(f"{printable_name(place)}: {images}: up to date.")
