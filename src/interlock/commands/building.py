"""Commands that render, build, check and describe variants."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable
from rich.text import Text

from interlock import catalog, contract, recording, registries, sbom, store
from interlock.commands.options import Engine, Release, Variants
from interlock.engine import build as building
from interlock.engine.client import connect
from interlock.engine.contract import examine
from interlock.engine.running import OnHost
from interlock.engine.sbom import read_contents
from interlock.errors import BuildError, DriftError, UsageError
from interlock.model import Built, State
from interlock.routines import (
    build_options,
    build_variants,
    console,
    fail_on_failed_builds,
    generated,
    ground,
    project,
    write_generated,
)


def render(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file differs.")] = False,
) -> None:
    """Write dockerfiles/<variant>/ and the JSON Schema from variants/*.toml."""
    places, known = project()
    if not check:
        write_generated(places, known)
        return
    drifted = store.drift(places.root, generated(places, known))
    for path in drifted:
        console.print(Text(f"differs: {path}"))
    if drifted:
        raise DriftError(
            file=drifted[0], found="generated files differ from variants/*.toml", todo="Run `interlock render`."
        )


def build(
    variants: Variants = None,
    everything: Annotated[bool, typer.Option("--all", help="Every variant, as without any name.")] = False,
    release: Release = False,
    force: Annotated[bool, typer.Option("--force", help="Build again what is unchanged, from nothing.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Build each twice and compare the interpreter's layer, bit by bit.")
    ] = False,
    cache_from: Annotated[
        str | None,
        typer.Option(metavar="HOST/NAMESPACE", help="A registry whose images are pulled instead of built."),
    ] = None,
    engine: Engine = None,
    record: Annotated[
        Path | None,
        typer.Option(help="Folder to write builds.json into: sizes, times and states, for docs/variants.md."),
    ] = None,
) -> None:
    """Build variants into proved, tagged images; what is unchanged is left alone."""
    places, known = project()
    names = catalog.select_names(known.variants, None if everything else variants, "variant")
    everything = len(names) == len(known.variants)
    registry = registries.parse_registry(cache_from, "--cache-from") if cache_from else None
    client, options = ground(places, engine), build_options(places, release, force, registry)
    if isinstance(client, OnHost) and (verify or registry):
        which = "--verify" if verify else "--cache-from"
        raise UsageError(key=which, found="is of images, and '--engine host' has none", todo="Leave one out.")
    run = recording.Run(recording.build_command(names, everything, options.profile, force), options.profile)
    # A variant that was edited a moment ago is built as it is now.
    write_generated(places, known)
    built = build_variants(client, known, names, options, verify)
    if record is not None:
        console.print(Text(f"record  {recording.write_record(client, record, built, run)}"))
    table = RichTable("variant", "image", "MB", "s", "state", box=None, pad_edge=False)
    for image in built:
        state = how_it_came(image)
        seconds, size = f"{image.duration_s:.0f}", f"{image.size_bytes / 1e6:.0f}"
        table.add_row(
            image.variant, image.tag or image.image_id, size, seconds, Text(f"{state} {image.outcome.reason}")
        )
    console.print(table)
    fail_on_failed_builds(built)


def how_it_came(image: Built) -> str:
    if image.pulled_from:
        return f"pulled from {image.pulled_from}"
    return "unchanged" if image.reused else image.outcome.state.value


def check(variants: Variants = None, release: Release = False) -> None:
    """Hold built images to what people rely on in python:X-slim; exit with 5 if one differs undeclared."""
    places, known = project()
    names = catalog.select_names(known.variants, variants, "variant")
    client = connect()
    results = {}
    for image in building.look_up(client, known, names, build_options(places, release)):
        if image.outcome.state is State.OK:
            console.print(Text(f"check   {image.variant}"))
            results[image.variant] = examine(client, known.variants[image.variant], image.image_id)
        else:
            console.print(Text(f"skip    {image.variant}: {image.outcome.state.value} ({image.outcome.reason})"))
    console.print(contract.terminal(results))
    contract.require(results)


def sbom_command(
    variant: Annotated[str, typer.Argument(help="A variant that is built.")],
    output: Annotated[Path | None, typer.Option(help="File to write; standard output without it.")] = None,
    release: Release = False,
) -> None:
    """Write the SPDX document (JSON) of all that is in a variant's image."""
    places, known = project()
    catalog.select_names(known.variants, [variant], "variant")
    client = connect()
    (image,) = building.look_up(client, known, [variant], build_options(places, release))
    if image.outcome.state is not State.OK:
        raise BuildError(key=variant, found=image.outcome.reason, todo=f"Run `interlock build {variant}`.")
    contents = read_contents(client, image.tag)
    text = json.dumps(sbom.document(known.variants[variant], catalog.texts(places.root), contents), indent=1) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        store.write_whole(output, text)
