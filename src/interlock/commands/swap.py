"""Puts a picked image into a file's FROM or image lines, takes it out, and checks it: swap."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from interlock import catalog, swap, user_files
from interlock.commands.options import Release
from interlock.engine import build as building
from interlock.engine.client import connect
from interlock.engine.local import find_tagged
from interlock.engine.registry import registry_digest
from interlock.errors import BuildError, EngineError, StoreError, SwapError, UsageError, nearest
from interlock.model import MOUNT, Built, Catalog, Mode, Outcome, State, split_label
from interlock.places import Places
from interlock.routines import build_options, profile_name
from interlock.swap import Caveat, NewImage, Swapped, check, files, new_image

# A diff goes to standard output alone, so that `patch` can read it.
notes = Console(stderr=True)
DEFAULT = Path("Dockerfile")
OTHERS = ("Containerfile", "compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")


def swap_command(
    file: Annotated[
        Path | None,
        typer.Argument(help="A Dockerfile, compose file, Kubernetes manifest or devcontainer.json; ./Dockerfile."),
    ] = None,
    to: Annotated[str | None, typer.Option(help="The variant, or variant+mode, to swap in.")] = None,
    stage: Annotated[
        str | None, typer.Option(help="The stage (or service, or container) to swap; all that agree without it.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Change the file; without it the change is shown.")] = False,
    revert: Annotated[bool, typer.Option("--revert", help="Back to what was there before the first swap.")] = False,
    check_only: Annotated[
        bool,
        typer.Option("--check", help="Exit with 1 if a line is not what was picked, or its digest is not current."),
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Edit versions in paths, commands and names of wheels as well.")
    ] = False,
    release: Release = False,
) -> None:
    """Put another Python into a file's FROM or image lines, or take it out again; shown as a diff, not written."""
    _check_options(to, write, revert, check_only, paths)
    path = _path(file)
    text = user_files.read(path)
    if revert:
        _apply(path, text, _reverted(path, text, stage), write, lambda: None)
    elif check_only:
        _check(path, text, to, stage, release)
    else:
        image, told = _resolve(str(to), release)
        swapped = files.swapped_file(str(path), text, image, stage, paths=paths)
        _apply(path, text, swapped.text, write, lambda: _tell(path, [*told, *swapped.warnings], swapped))


def _check_options(to: str | None, write: bool, revert: bool, check_only: bool, paths: bool) -> None:
    """UsageError for what does not go together."""
    if revert and (to or check_only or paths):
        raise UsageError(key="--revert", found="goes with no --to, --check or --paths", todo="Leave them out.")
    if check_only and (write or paths):
        raise UsageError(key="--check", found="goes with no --write or --paths: it changes nothing", todo="Choose one.")
    if to is None and not revert and not check_only:
        raise UsageError(
            key="--to", found="is missing", todo="Name a variant: --to cpython-3.14 (`interlock pick` says which)."
        )


def _path(file: Path | None) -> Path:
    path = file or DEFAULT
    if path.is_dir():
        raise StoreError(file=str(path), found="is a folder", todo=f"Name a file: {path / DEFAULT}.")
    if not path.exists():
        others = [name for name in OTHERS if file is None and Path(name).exists()]
        todo = f"Name the file: interlock swap {others[0]} ..." if others else "Name the file to swap."
        raise StoreError(file=str(path), found="there is no such file", todo=todo)
    return path


def _reverted(path: Path, text: str, stage: str | None) -> str:
    before = files.reverted_file(str(path), text, stage)
    if before == text:
        raise SwapError(
            file=str(path), found="nothing to take back: no line says 'interlock: was'", todo="It is as it was written."
        )
    return before


def _apply(path: Path, before: str, after: str, write: bool, tell: Callable[[], None]) -> None:
    """The diff, what to know of it, and the file if it shall be written."""
    if before == after:
        tell()
        notes.print(Text(f"{path}: is that already; nothing to change."), soft_wrap=True)
        return
    _show(path, before, after)
    tell()
    if not write:
        notes.print("Not written; --write applies it.", highlight=False)
        return
    user_files.replace(path, after)
    notes.print(Text(f"Written: {path}. `interlock swap {path} --revert --write` takes a swap back."), soft_wrap=True)


def _show(path: Path, before: str, after: str) -> None:
    """A unified diff in the file's own bytes."""
    lines = difflib.unified_diff(_lines(before), _lines(after), str(path), str(path))
    ended = [line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines]
    sys.stdout.flush()
    sys.stdout.buffer.write("".join(ended).encode("utf-8", "surrogateescape"))
    sys.stdout.flush()


def _lines(text: str) -> list[str]:
    """Line feeds alone end a line, as everywhere else here."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _tell(path: Path, told: Sequence[Caveat], swapped: Swapped) -> None:
    for one in told:
        where = f"{path}:{one.line}: " if one.line else ""
        notes.print(Text(f"warning  {where}{one.text}", style="yellow"), soft_wrap=True)
    for found in swapped.paths:
        state = "edited" if found.edited else f"stays: {found.reason}" if found.reason else "stays without --paths"
        notes.print(Text(f"path     {path}:{found.line}: {found.old} -> {found.new} ({state})"), soft_wrap=True)


@dataclass(frozen=True)
class _Wanted:
    """What --to names."""

    known: Catalog
    places: Places
    name: str
    mode: Mode | None
    profile: str

    @property
    def tag(self) -> str:
        return self.known.variants[self.name].image_tag(self.profile)


def _wanted(to: str, release: bool) -> _Wanted:
    places = Places.for_service()
    known = catalog.load(places.root)
    name, mode_name = split_label(to)
    if name not in known.variants:
        raise UsageError(key="--to", found=f"there is no variant '{name}'", todo=nearest(name, known.variants))
    variant, profile = known.variants[name], profile_name(release)
    modes = {mode.name: mode for mode in variant.modes}
    if mode_name is not None and mode_name not in modes:
        raise UsageError(key="--to", found=f"{name} has no mode '{mode_name}'", todo=nearest(mode_name, modes))
    if profile not in variant.profiles:
        raise BuildError(key=name, found=f"has no profile '{profile}'", todo="Leave out --release.")
    return _Wanted(known, places, name, modes.get(mode_name or ""), profile)


def _resolve(to: str, release: bool) -> tuple[NewImage, list[Caveat]]:
    """The image to swap in, as exactly as can be known here, and what keeps it from being known better."""
    wanted = _wanted(to, release)
    built, told = _built(wanted, release)
    reference = built.reference if built else wanted.tag
    mode = [Caveat(0, text) for text in _of_mode(wanted.mode)]
    return new_image(wanted.known.variants[wanted.name], wanted.profile, reference), [*mode, *told]


def _of_mode(mode: Mode | None) -> list[str]:
    """A mode is no image: what it needs is said, not written."""
    if mode is None:
        return []
    if any(MOUNT in value for value in mode.environment.values()):
        return [f"the mode {mode.name} needs a library of the measuring instruments, which no image has"]
    environment = [f"ENV {name}={value}" for name, value in mode.environment.items()]
    options = [f"the interpreter started with {' '.join(mode.options)}"] if mode.options else []
    return [f"the mode {mode.name} is no image of its own: it needs {' and '.join([*environment, *options])}"]


def _built(wanted: _Wanted, release: bool) -> tuple[Built | None, list[Caveat]]:
    """The variant's image in this engine; without an engine, or an image, the tag has to do."""
    try:
        client = connect()
    except EngineError as error:
        return None, [Caveat(0, f"{error.found}: whether {wanted.tag} is built, and its digest, are unknown")]
    outcome = Outcome(state=State.OK)
    here = find_tagged(client, Built(variant=wanted.name, profile=wanted.profile, outcome=outcome, tag=wanted.tag))
    if here is None:
        todo = f"interlock build {wanted.name}{' --release' if release else ''}"
        return None, [Caveat(0, f"{wanted.tag} is not built here: `{todo}`")]
    (current,) = building.look_up(client, wanted.known, [wanted.name], build_options(wanted.places, release))
    told = []
    if current.outcome.state is not State.OK:
        told.append(f"{wanted.tag} here is older than variants/{wanted.name}.toml: `interlock build {wanted.name}`")
    if here.digest is not None and registry_digest(client, here.digest) is None:
        told.append(f"no registry answers for {here.digest}: builds on other machines may not find it")
    return here, [Caveat(0, text) for text in told]


def _check(path: Path, text: str, to: str | None, stage: str | None, release: bool) -> None:
    """SwapError for the first line that is not as it should be; all of them are named."""
    expected = _wanted(to, release).tag if to else None
    image_lines = files.picked(str(path), text, stage) if to or stage else files.swapped_before(str(path), text)
    if not image_lines:
        raise SwapError(file=str(path), found="nothing in it was swapped", todo="Name what it should be: --to VARIANT.")
    swapped = {one.line for one in files.swapped_before(str(path), text)}
    ours = [one.image for one in image_lines if check.tag_of(one.image, swapped=one.line in swapped)]
    problems = check.differences(image_lines, expected, _digests(ours), swapped)
    for problem in problems:
        notes.print(Text(f"{path}:{problem}"), soft_wrap=True)
    if problems:
        variant = to or "VARIANT"
        raise SwapError(
            file=str(path),
            found=f"{len(problems)} of {len(image_lines)} image lines are not what was picked",
            todo=f"`interlock swap {path} --to {variant} --write` brings them up to date.",
        )
    notes.print(
        Text(f"{path}: {', '.join(dict.fromkeys(one.image for one in image_lines))}: as picked."), soft_wrap=True
    )


def _digests(images: Sequence[str]) -> dict[str, str | None]:
    """The digest of each name and tag now: of its registry, else of this engine."""
    names = dict.fromkeys(map(check.tagged, images))
    try:
        client = connect()
    except EngineError:
        if any(swap.parse_name(image).digest for image in images):
            raise
        notes.print("warning  no engine answers: names and tags were compared, digests were not", style="yellow")
        return dict.fromkeys(names)
    return {name: _digest(client, name) for name in names}


def _digest(client: Any, name: str) -> str | None:
    parts = swap.parse_name(name)
    asked = registry_digest(client, name) if parts.registry else None
    if asked is not None:
        return asked
    named = Built(variant="", profile="", outcome=Outcome(state=State.OK), tag=name)
    here = find_tagged(client, named)
    return here.digest.partition("@")[2] if here and here.digest else None
