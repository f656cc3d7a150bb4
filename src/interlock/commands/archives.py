"""Commands that carry built images to machines without a registry."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from interlock import catalog
from interlock.commands.options import Release, Variants
from interlock.engine import archives
from interlock.engine.client import connect
from interlock.engine.helpers import ensure_helper, tag_of
from interlock.errors import StoreError, UsageError
from interlock.model import Built, Catalog, State
from interlock.places import Places
from interlock.routines import build_options, build_variants, console, fail_on_failed_builds, project, write_generated

# Helper images by what of a workload needs them; the instruments are always needed.
HELPERS = {"server": "server", "limits": "limits", "load": "load"}

Archive = Annotated[Path, typer.Argument(help="The archive.", dir_okay=False)]


def save_command(file: Archive, variants: Variants = None, release: Release = False) -> None:
    """Write built variants into one archive, with their base and what measures them; `load` takes it in."""
    places, known = project()
    names = catalog.select_names(known.variants, variants, "variant")
    write_generated(places, known)
    client = connect()
    built = build_variants(client, known, names, build_options(places, release))
    fail_on_failed_builds(built)
    tags = wanted_tags(client, places, known, built)
    archives.save(client, tags, file)
    console.print(Text(f"save    {len(tags)} images, {file.stat().st_size / 1e6:.0f} MB: {file}"), soft_wrap=True)


def load_command(
    file: Annotated[Path | None, typer.Argument(help="An archive of `interlock save`.", dir_okay=False)] = None,
    missing: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="A JSON file, ids by tags: only say which of them are not here."),
    ] = None,
) -> None:
    """Take images in from an archive that `interlock save` wrote."""
    if (file is None) == (missing is None):
        raise UsageError(found="one of an archive and --missing is needed", todo="Name either.")
    if missing is not None:
        for tag in archives.missing(connect(), _ids(missing)):
            sys.stdout.write(f"{tag}\n")
    elif file is not None:
        for tag in archives.load(connect(), file):
            console.print(Text(f"load    {tag}"), soft_wrap=True)


def wanted_tags(client: Any, places: Places, known: Catalog, built: list[Built]) -> list[str]:
    """What another engine needs to measure these variants without building anything."""
    ready = [one for one in built if one.outcome.state is State.OK]
    if not ready:
        raise UsageError(found="no variant is built", todo="See `interlock build`.")
    base = next(one.base for one in ready if one.base)
    needed = [name for name, key in HELPERS.items() if any(getattr(one, key) for one in known.workloads.values())]
    for name in ("instruments", *needed):
        ensure_helper(client, places.root, name, base)
    helpers = [tag_of(name) for name in ("instruments", *needed)]
    # A base that came from a registry comes from there again: an archive does not keep its digest.
    bases = [base.reference] if base.origin == "debootstrap" else []
    return list(dict.fromkeys([*bases, *helpers, *(one.tag for one in ready)]))


def _ids(path: Path) -> dict[str, str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(tag): str(image_id) for tag, image_id in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise StoreError(
            file=str(path), found=f"is no list of images ({error})", todo="Give ids by tags, as JSON."
        ) from None
