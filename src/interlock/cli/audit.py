"""The command `audit`, which tests whether dependencies install and import on variants."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import Annotated

import typer

from interlock import untrusted
from interlock.catalog.project import Catalog
from interlock.catalog.selection import select_names
from interlock.catalog.types import DEFAULT_BASELINE
from interlock.catalog.variants import Gil
from interlock.cli import progress
from interlock.cli.announcing import DryRun, announce
from interlock.cli.images import build_options, not_built
from interlock.cli.options import Json, Quiet, console, open_project, split_names
from interlock.engine.docker import connect
from interlock.engine.packages import audit, dependency_files
from interlock.engine.packages.lock_files import Selection
from interlock.errors import BuildError, missing_option
from interlock.report import audit as audits
from interlock.results.answers import Audit
from interlock.results.experiments import Built, State


def audit_command(
    requirement: Annotated[
        list[str] | None,
        typer.Option(
            "--requirement",
            "-r",
            metavar="FILE",
            help="Requirements file, pyproject.toml, pylock.toml, uv.lock or poetry.lock; may be repeated.",
        ),
    ] = None,
    extra: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Extra of the project to audit too; may be repeated.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Dependency group to audit too; may be repeated.")
    ] = None,
    variants: Annotated[
        str | None, typer.Option(metavar="A,B", help="Names of variants (default: the built ones without a GIL).")
    ] = None,
    imports: Annotated[
        str | None,
        typer.Option("--import", metavar="M,N", help="Further modules to import."),
    ] = None,
    as_json: Json = False,
    dry_run: DryRun = False,
    _quiet: Quiet = False,
) -> None:
    """Test whether your dependencies install and import.

    Exits with 1 if a requirement cannot be installed or imported, or if a module switches the GIL back on.
    """
    if not requirement:
        todo = "Give a file (interlock audit -r requirements.txt), or let `interlock init` find it."
        raise missing_option("--requirement", todo)
    selection = Selection.of(extra or [], group or [])
    files = dependency_files.read(requirement, untrusted.read_text, os.path.exists, selection)
    requested = replace(files, modules=split_names(imports) or [])
    paths, known = open_project()
    chosen = split_names(variants) and select_names(known.variants, split_names(variants), "variant", "--variants")
    containers = connect()
    options = build_options(paths)
    images = built_images(containers.look_up(known, variants_to_audit(known, chosen), options), chosen)
    tested = f"installs and imports {', '.join(requested.files)} on {', '.join(image.variant for image in images)}"
    more = "minutes for each package without a wheel, which is compiled, and for each builder that is not there yet"
    announce(f"{tested}: the time of the downloads, and {more}", dry_run=dry_run, as_json=as_json)
    with progress.open_display(as_json) as display:
        steps = progress.StepProgress(display, "audit")
        variant_audits = audit.audit(containers.client, known, paths.root, images, requested, steps)
    control = DEFAULT_BASELINE if images[0].variant == DEFAULT_BASELINE else None
    result = Audit(requirements=requested.files, control=control, variants=variant_audits)
    if as_json:
        sys.stdout.write(result.model_dump_json(indent=1) + "\n")
    else:
        console.print(audits.terminal(result))
    audits.require(result)


def variants_to_audit(known: Catalog, chosen: list[str] | None) -> list[str]:
    """Return the control and the chosen variants (default: every variant whose GIL is off)."""
    names = chosen or [name for name, variant in known.variants.items() if variant.proof.gil is Gil.OFF]
    return [name for name in dict.fromkeys([DEFAULT_BASELINE, *names]) if name in known.variants]


def built_images(there: list[Built], chosen: list[str] | None) -> list[Built]:
    """Return the images that are built.

    BuildError if a chosen variant is not built, or if nothing was chosen and only the control is built.
    """
    for image in there:
        if image.outcome.state is not State.OK and image.variant in (chosen or []):
            raise not_built(image)
    built = [image for image in there if image.outcome.state is State.OK]
    if not chosen and all(image.variant == DEFAULT_BASELINE for image in built):
        todo = "Build one (interlock build cpython-3.14t), or name others with --variants."
        raise BuildError(found="no free-threaded variant is built", todo=todo)
    return built
