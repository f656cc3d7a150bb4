"""Commands that bring built images to a registry and fetch them from one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

import typer
from rich.text import Text

from interlock import catalog, progress
from interlock.commands.options import Release, Variants
from interlock.engine import build as building
from interlock.engine import registry_pull, registry_push
from interlock.engine.client import connect
from interlock.engine.finished import id_of
from interlock.engine.image import Options, Plan, Say
from interlock.errors import BuildError, InterlockError, TagError
from interlock.model import Built, Catalog, State
from interlock.registries import Registry, parse_registry
from interlock.routines import build_options, console, project, write_generated

Place = Annotated[
    str, typer.Option("--registry", metavar="HOST[:PORT]/NAMESPACE", help="The registry, and where in it.")
]
# A row of the table: the image, how it got there, and what else to know.
Row = tuple[Built, str, str]
Item = TypeVar("Item", Built, Plan)


def push_command(
    registry: Place,
    variants: Variants = None,
    release: Release = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Push over a tag that somebody moved, and over an image of the same content."),
    ] = False,
) -> None:
    """Push built variants to a registry, where several platforms' images of a variant share its tag."""
    team = parse_registry(registry, "--registry")
    places, known = project()
    names = catalog.select_names(known.variants, variants, "variant")
    client = connect()
    found = building.look_up(client, known, names, build_options(places, release))
    ready = _ready(found, named=bool(variants))
    with progress.Display(console) as display:
        say = progress.TransferProgress(display, "push", len(ready))
        notes = {registry_push.push_base(client, one, team, say) for one in _with_own_base(ready)}

        def move(one: Built) -> Row:
            pushed = registry_push.push(client, one, team, say, force=force)
            return pushed.built, pushed.state, pushed.note

        rows, failed = _each(ready, move, say)
    for note in sorted(notes - {""}):
        console.print(Text(f"note    {note}"), soft_wrap=True)
    _show(rows, failed)


def _with_own_base(built: list[Built]) -> list[Built]:
    """One image for each base."""
    return list({one.base.reference: one for one in built if one.base}.values())


def pull_command(registry: Place, variants: Variants = None, release: Release = False) -> None:
    """Pull what a registry has of the variants as this project has them, proved as if they had been built here."""
    team = parse_registry(registry, "--registry")
    places, known = project()
    names = catalog.select_names(known.variants, variants, "variant")
    client = connect()
    write_generated(places, known)
    options = build_options(places, release, registry=team, pulls_only=True)
    with progress.Display(console) as display:
        say = progress.TransferProgress(display, "pull", len(names))
        plans = _plans(client, known, names, options, say, named=bool(variants))

        def move(plan: Plan) -> Row | None:
            return _pull(client, plan, team, say, named=bool(variants))

        rows, failed = _each(plans, move, say)
    if not rows and not failed:
        raise TagError(
            key=team.name, found="the registry has none of the variants", todo="Push them: `interlock push`."
        )
    _show(rows, failed)


def _plans(client: Any, known: Catalog, names: list[str], options: Options, say: Say, *, named: bool) -> list[Plan]:
    """What identifies the images; BuildError for a variant that was named and cannot be identified here."""
    found = [building.plan_or_end(client, known, known.variants[name], options, say) for name in names]
    _skip([one for one in found if isinstance(one, Built)], named)
    return [one for one in found if isinstance(one, Plan)]


def _pull(client: Any, plan: Plan, team: Registry, say: Say, *, named: bool) -> Row | None:
    """None if the registry has none, and it was not asked for by name."""
    before = id_of(client, plan.tag)
    pulled = registry_pull.pull(client, plan, team, say)
    if pulled is not None:
        return pulled, "unchanged" if pulled.image_id == before else "pulled", ""
    other = registry_pull.why_missing(client, plan, team)
    if other is not None:
        raise other
    if named:
        found = f"{team.name} has no image of it"
        raise TagError(key=plan.variant.name, found=found, todo="Push it from where it is built.")
    return None


def _each(
    items: Sequence[Item], move: Callable[[Item], Row | None], say: progress.TransferProgress
) -> tuple[list[Row], list[InterlockError]]:
    """What came of each: an image that cannot be moved does not hold up the others, a registry that fails does."""
    rows: list[Row] = []
    failed: list[InterlockError] = []
    for item in items:
        name = item.variant if isinstance(item, Built) else item.variant.name
        say(name, "asking the registry")
        try:
            row = move(item)
        except (BuildError, TagError) as error:
            failed.append(error)
            say.end(name, f"failed ({error.found})")
            continue
        if row is None:
            say.end(name, "skipped: the registry has none")
        else:
            rows.append(row)
            say.end(name, row[1])
    return rows, failed


def _show(rows: Sequence[Row], failed: Sequence[InterlockError]) -> None:
    """Each image as a FROM line names it, in one piece, so that it can be copied; then the first error."""
    for image, state, note in rows:
        words = f"{state} ({note})" if note else state
        line = f"{image.variant}  {image.size_bytes / 1e6:.0f} MB  {words}\n  FROM {image.reference}"
        console.print(Text(line), soft_wrap=True)
    for error in failed:
        raise error


def _ready(found: list[Built], *, named: bool) -> list[Built]:
    """What is built; BuildError for a variant that was named and is not, and if there is none."""
    _skip([one for one in found if one.outcome.state is not State.OK], named)
    ready = [one for one in found if one.outcome.state is State.OK]
    if not ready:
        raise BuildError(found="no variant is built", todo="Run `interlock build`.")
    return ready


def _skip(missing: Sequence[Built], named: bool) -> None:
    """BuildError for the first of those that were named; a line for each if they were not."""
    for one in missing:
        if named:
            raise BuildError(key=one.variant, found=one.outcome.reason, todo=f"Run `interlock build {one.variant}`.")
        console.print(Text(f"skip    {one.variant}: {one.outcome.reason}"), soft_wrap=True)
