"""Commands that carry built images to other machines, by a registry or by an archive."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from interlock.catalog import project
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli import progress
from interlock.cli.build import build_options, build_variants, fail_on_failed_builds, write_generated
from interlock.cli.options import Release, Variants, console, open_project
from interlock.engine.build.builds import helper_tag
from interlock.engine.build.image import ImagePlan, id_of_tag
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.protocol import BuildOptions, OnStep
from interlock.engine.registry import transfer
from interlock.engine.registry.names import Registry, parse_registry
from interlock.errors import BuildError, InterlockError, StoreError, TagError, UsageError
from interlock.results.experiments import Built, State

RegistryOption = Annotated[
    str, typer.Option("--registry", metavar="HOST[:PORT]/NAMESPACE", help="Registry and the namespace in it.")
]
# A row of the table: the image, its state, and a note.
Row = tuple[Built, str, str]
Item = TypeVar("Item", Built, ImagePlan)


def push_command(
    registry: RegistryOption,
    variants: Variants = None,
    release: Release = False,
    force: Annotated[
        bool, typer.Option("--force", help="Push even if someone else moved the tag or pushed the same content.")
    ] = False,
) -> None:
    """Push built variants to a registry.

    Images of a variant for several platforms share its tag.
    """
    team = parse_registry(registry, "--registry")
    paths, known = open_project()
    names = project.select_names(known.variants, variants, "variant")
    containers = connect()
    found = containers.look_up(known, names, build_options(paths, release))
    ready = _require_built(found, named=bool(variants))
    with progress.Display(console) as display:
        transfers = progress.TransferProgress(display, "push", len(ready))
        with_own_base = {one.base.reference: one for one in ready if one.base}.values()
        notes = {transfer.push_base(containers.client, one, team, transfers) for one in with_own_base}

        def move(one: Built) -> Row:
            pushed = transfer.push(containers.client, one, team, transfers, force=force)
            return pushed.built, pushed.state, pushed.note

        rows, failed = _move_each(ready, move, transfers)
    for note in sorted(notes - {""}):
        console.print(Text(f"note    {note}"), soft_wrap=True)
    _show_moved(rows, failed)


def pull_command(registry: RegistryOption, variants: Variants = None, release: Release = False) -> None:
    """Pull variants from a registry.

    Only images that match this project's files are taken, and each is tested as if it had been built here.
    """
    team = parse_registry(registry, "--registry")
    paths, known = open_project()
    names = project.select_names(known.variants, variants, "variant")
    containers = connect()
    write_generated(paths, known)
    options = build_options(paths, release, registry=team, pulls_only=True)
    with progress.Display(console) as display:
        transfers = progress.TransferProgress(display, "pull", len(names))
        plans = _plans(containers, known, names, options, transfers, named=bool(variants))

        def move(plan: ImagePlan) -> Row | None:
            return _pull(containers, plan, team, transfers, named=bool(variants))

        rows, failed = _move_each(plans, move, transfers)
    _tell_skipped(team, len(plans) - len(rows) - len(failed), len(names))
    if not rows and not failed:
        raise TagError(
            key=team.name,
            found="has no image that was built from this project's files",
            todo="Run `interlock push` where they are built.",
        )
    _show_moved(rows, failed)


def _plans(
    containers: DockerEngine, known: Catalog, names: list[str], options: BuildOptions, on_step: OnStep, *, named: bool
) -> list[ImagePlan]:
    """Return what identifies the images; BuildError for a named variant that cannot be identified here."""
    found = containers.plans(known, names, options, on_step)
    _report_missing([one for one in found if isinstance(one, Built)], named)
    return [one for one in found if isinstance(one, ImagePlan)]


def _pull(containers: DockerEngine, plan: ImagePlan, team: Registry, on_step: OnStep, *, named: bool) -> Row | None:
    """Pull an image; None if the registry does not have it and it was not named.

    TagError if it was named.
    """
    before = id_of_tag(containers.client, plan.tag)
    pulled = transfer.pull(containers.client, plan, team, on_step)
    if pulled is not None:
        return pulled, "unchanged" if pulled.image_id == before else "pulled", ""
    other = transfer.why_missing(containers.client, plan, team)
    if other is not None:
        raise other
    if named:
        found = f"{team.name} has no image of it that was built from its current file"
        raise TagError(
            key=plan.variant.name,
            found=found,
            todo=f"Push it where it is built: interlock push --registry {team.name} {plan.variant.name}",
        )
    return None


def _move_each(
    items: Sequence[Item], move: Callable[[Item], Row | None], transfers: progress.TransferProgress
) -> tuple[list[Row], list[InterlockError]]:
    """Move each image; return a row for each that was moved, and the errors of those that could not be.

    An error of the registry itself ends the command.
    """
    rows: list[Row] = []
    failed: list[InterlockError] = []
    for item in items:
        name = item.variant if isinstance(item, Built) else item.variant.name
        transfers(name, "asking the registry")
        try:
            row = move(item)
        except (BuildError, TagError) as error:
            failed.append(error)
            transfers.end(name, f"failed ({error.found})")
            continue
        if row is None:
            transfers.skip(name)
        else:
            rows.append(row)
            transfers.end(name, row[1])
    return rows, failed


def _tell_skipped(team: Registry, number: int, total: int) -> None:
    if number:
        line = f"skip    {number} of {total} variants: {team.name} has no image of them as they are now"
        console.print(Text(line), soft_wrap=True)


def _show_moved(rows: Sequence[Row], failed: Sequence[InterlockError]) -> None:
    """Print each image with its FROM line, which can be copied; then raise the first error."""
    for image, state, note in rows:
        words = f"{state} ({note})" if note else state
        line = f"{image.variant}  {image.size_bytes / 1e6:.0f} MB  {words}\n  FROM {image.reference}"
        console.print(Text(line), soft_wrap=True)
    for error in failed:
        raise error


def _require_built(found: list[Built], *, named: bool) -> list[Built]:
    """Return the built images; BuildError if a named variant is not built, or if none is."""
    _report_missing([one for one in found if one.outcome.state is not State.OK], named)
    ready = [one for one in found if one.outcome.state is State.OK]
    if not ready:
        raise BuildError(found="no variant is built", todo="Build one: interlock build VARIANT")
    return ready


def _report_missing(missing: Sequence[Built], named: bool) -> None:
    """Print a line for each missing image; BuildError for the first if variants were named."""
    for one in missing:
        if named:
            raise BuildError(key=one.variant, found=one.outcome.reason, todo=f"Run `interlock build {one.variant}`.")
        console.print(Text(f"skip    {one.variant}: {one.outcome.reason}"), soft_wrap=True)


# Helper images, by the key of a workload that needs them; the instruments are always needed.
HELPERS = {"server": "server", "limits": "limits", "load": "load"}

ArchiveFile = Annotated[Path, typer.Argument(metavar="FILE", help="Archive to write.", dir_okay=False)]


def save_command(file: ArchiveFile, variants: Variants = None, release: Release = False) -> None:
    """Save built variants in one archive.

    The archive also has the base and what measuring needs. `interlock load` reads it.
    """
    paths, known = open_project()
    names = project.select_names(known.variants, variants, "variant")
    write_generated(paths, known)
    containers = connect()
    built = build_variants(containers, known, names, build_options(paths, release))
    fail_on_failed_builds(built)
    tags = tags_to_send(containers, paths, known, built)
    transfer.save(containers.client, tags, file)
    console.print(Text(f"save    {len(tags)} images, {file.stat().st_size / 1e6:.0f} MB: {file}"), soft_wrap=True)


def load_command(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="Archive that `interlock save` wrote.", dir_okay=False)
    ] = None,
    missing: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", dir_okay=False, help="JSON of image ids by tag: only print the tags that are missing here."
        ),
    ] = None,
) -> None:
    """Load images from an archive."""
    if (file is None) == (missing is None):
        given = "neither" if file is None else "both"
        raise UsageError(key="--missing", found=f"{given} given", todo="Give exactly one of FILE and --missing FILE.")
    if missing is not None:
        for tag in transfer.missing(connect().client, _read_image_ids(missing)):
            sys.stdout.write(f"{tag}\n")
    elif file is not None:
        for tag in transfer.load(connect().client, file):
            console.print(Text(f"load    {tag}"), soft_wrap=True)


def tags_to_send(containers: DockerEngine, paths: ProjectPaths, known: Catalog, built: list[Built]) -> list[str]:
    """Return the tags of the images that another engine needs to measure these variants without building.

    UsageError if no variant is built.
    """
    ready = [one for one in built if one.outcome.state is State.OK]
    if not ready:
        reasons = "; ".join(f"{one.variant}: {one.outcome.reason}" for one in built)
        raise UsageError(
            found=f"no variant could be built ({reasons})", todo="Correct the reasons, or name other variants."
        )
    base = next(one.base for one in ready if one.base)
    needed = [name for name, key in HELPERS.items() if any(getattr(one, key) for one in known.workloads.values())]
    for name in ("instruments", *needed):
        containers.ensure_helper(paths.root, name, base)
    helpers = [helper_tag(name) for name in ("instruments", *needed)]
    # A base from a registry is pulled again, because an archive does not keep its digest.
    bases = [base.reference] if base.origin == "mmdebstrap" else []
    return list(dict.fromkeys([*bases, *helpers, *(one.tag for one in ready)]))


def _read_image_ids(path: Path) -> dict[str, str]:
    """Read the file of --missing; StoreError if it is not JSON of ids by tag."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(tag): str(image_id) for tag, image_id in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(
            file=str(path),
            found=f"is not JSON of image ids by tag ({error})",
            todo='Write it as {"TAG": "sha256:..."}.',
        ) from None
