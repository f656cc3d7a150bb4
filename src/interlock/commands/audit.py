"""The command that installs requirements into variants and imports them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from interlock import audit as audits
from interlock import catalog, progress, requirements
from interlock.commands.options import Release
from interlock.engine import audit as auditing
from interlock.engine import build as building
from interlock.engine.client import connect
from interlock.errors import BuildError, UsageError
from interlock.model import DEFAULT_BASELINE, Audit, Built, Catalog, Gil, State
from interlock.routines import build_options, console, project, split_names


def audit_command(
    requirement: Annotated[
        list[str] | None, typer.Option("--requirement", "-r", help="A requirements file; may be given several times.")
    ] = None,
    variants: Annotated[
        str | None,
        typer.Option(help="Comma-separated names; the free-threaded ones that are built without this option."),
    ] = None,
    imports: Annotated[
        str | None, typer.Option("--import", help="Modules to import besides the packages' own, comma-separated.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a terminal's table.")] = False,
    release: Release = False,
) -> None:
    """Install requirements into variants and import them; exit with 1 if one cannot be had or the GIL comes back."""
    if not requirement:
        raise UsageError(found="no requirements file is named", todo="Say `interlock audit -r requirements.txt`.")
    files = requirements.read(requirement, lambda path: path.read_text(encoding="utf-8"), Path.exists)
    wanted = replace(files, modules=split_names(imports) or [])
    places, known = project()
    chosen = split_names(variants) and catalog.select_names(known.variants, split_names(variants), "variant")
    client = connect()
    options = build_options(places, release)
    images = ready(building.look_up(client, known, named(known, chosen), options), chosen)
    with progress.Display(Console(stderr=True) if as_json else console) as display:
        say = _Steps(display)
        found = auditing.audit(client, known, places.root, images, wanted, say)
    control = DEFAULT_BASELINE if images[0].variant == DEFAULT_BASELINE else None
    done = Audit(requirements=wanted.files, control=control, variants=found)
    if as_json:
        sys.stdout.write(audits.as_json(done) + "\n")
    else:
        console.print(audits.terminal(done))
    audits.require(done)


def named(known: Catalog, chosen: list[str] | None) -> list[str]:
    """The control, and what was chosen; without a choice every variant whose GIL is off."""
    names = chosen or [name for name, one in known.variants.items() if one.proof.gil is Gil.OFF]
    return [name for name in dict.fromkeys([DEFAULT_BASELINE, *names]) if name in known.variants]


def ready(there: list[Built], chosen: list[str] | None) -> list[Built]:
    """Those that are built. BuildError if one that was chosen is not, or without a choice none but the control."""
    for image in there:
        if image.outcome.state is not State.OK and image.variant in (chosen or []):
            todo = f"Run `interlock build {image.variant}`."
            raise BuildError(key=image.variant, found=image.outcome.reason, todo=todo)
    found = [image for image in there if image.outcome.state is State.OK]
    if not chosen and all(image.variant == DEFAULT_BASELINE for image in found):
        todo = "Build one, for instance `interlock build cpython-3.14t`, or name others with --variants."
        raise BuildError(found="no free-threaded variant is built", todo=todo)
    return found


class _Steps:
    """Called for each step of each variant: shown in place on a terminal, a line each elsewhere."""

    def __init__(self, display: progress.Display) -> None:
        self._display, self._start = display, time.monotonic()

    def __call__(self, variant: str, step: str) -> None:
        line = f"audit   {variant}  {step} | {progress.clock(time.monotonic() - self._start)} elapsed"
        self._display.show(line)
        if not self._display.redraws:
            self._display.log(line)
