"""Commands that render, build, check and describe variants."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table as RichTable
from rich.text import Text

from interlock.catalog import project, rendering
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.rendering import generated_files
from interlock.cli import progress
from interlock.cli.main import REFERENCE, reference_page
from interlock.cli.options import Engine, Release, Variants, console, open_project, profile_name
from interlock.engine import protocol
from interlock.engine.build import contract, sbom
from interlock.engine.build.builds import BuildRun, build_command, write_record
from interlock.engine.build.contract import examine
from interlock.engine.build.sbom import read_contents
from interlock.engine.docker import connect
from interlock.engine.host.engine import HostEngine
from interlock.engine.protocol import BuildOptions
from interlock.engine.registry import names as registries
from interlock.engine.registry.names import Registry
from interlock.errors import BuildError, DriftError, EngineError
from interlock.report import variants_page
from interlock.results import store
from interlock.results.experiments import Built, EngineName, State


def render(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file would change.")] = False,
) -> None:
    """Write the generated files: Dockerfiles, schemas, docs.

    They come from variants/*.toml, dockerfiles/*.j2 and the commands.
    """
    paths, known = open_project()
    texts = {**generated_texts(paths, known), REFERENCE: reference_page()}
    if not check:
        _write_texts(paths, texts)
        return
    drifted = store.drift(paths.root, texts)
    for path in drifted:
        console.print(Text(f"differs: {path}"))
    if drifted:
        raise DriftError(file=drifted[0], found="is not what it is generated from", todo="Run `interlock render`.")


def build(
    variants: Variants = None,
    everything: Annotated[bool, typer.Option("--all", help="Build every variant, as without a name.")] = False,
    release: Release = False,
    force: Annotated[bool, typer.Option("--force", help="Build again, without any cache.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Build each variant twice and compare the results byte by byte.")
    ] = False,
    cache_from: Annotated[
        str | None,
        typer.Option(metavar="HOST/NAMESPACE", help="Pull images from this registry instead of building them."),
    ] = None,
    engine: Engine = None,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder to write builds.json into: sizes and times for docs/variants.md."),
    ] = None,
) -> None:
    """Build variants into tested, tagged images.

    Skips variants whose image is up to date.
    """
    paths, known = open_project()
    names = project.select_names(known.variants, None if everything else variants, "variant")
    everything = len(names) == len(known.variants)
    registry = registries.parse_registry(cache_from, "--cache-from") if cache_from else None
    builder = choose_engine(paths, engine)
    options = replace(build_options(paths, release, force, registry), verifies=verify)
    run = BuildRun(build_command(names, everything, options.profile, force), options.profile)
    # An edited variant is built as its file is now.
    write_generated(paths, known)
    built = build_variants(builder, known, names, options)
    if record is not None:
        console.print(Text(f"record  {write_record(builder, record, built, run)}"))
    table = RichTable("variant", "image", "MB", "s", "state", box=None, pad_edge=False)
    for image in built:
        state = _build_state(image)
        seconds, size = f"{image.duration_s:.0f}", f"{image.size_bytes / 1e6:.0f}"
        table.add_row(
            image.variant, image.tag or image.image_id, size, seconds, Text(f"{state} {image.outcome.reason}")
        )
    console.print(table)
    fail_on_failed_builds(built)


def _build_state(image: Built) -> str:
    """Return how the image came to be: built, pulled, unchanged, or why not."""
    if image.pulled_from:
        return f"pulled from {image.pulled_from}"
    return "unchanged" if image.reused else image.outcome.state.value


def check(variants: Variants = None, release: Release = False) -> None:
    """Check that images can replace python:X-slim.

    Exits with 5 if an image differs in a way that its variant's file does not declare.
    """
    paths, known = open_project()
    names = project.select_names(known.variants, variants, "variant")
    containers = connect()
    results, missing = {}, []
    for image in containers.look_up(known, names, build_options(paths, release)):
        if image.outcome.state is State.OK:
            console.print(Text(f"check   {image.variant}"))
            results[image.variant] = examine(containers.client, known.variants[image.variant], image.image_id)
        else:
            missing.append(image)
            console.print(Text(f"skip    {image.variant}: {image.outcome.state.value} ({image.outcome.reason})"))
    console.print(contract.terminal(results))
    contract.require(results)
    if missing and (variants or not results):
        raise _unchecked(missing, named=bool(variants))


def _unchecked(missing: list[Built], *, named: bool) -> BuildError:
    """Return the error of images that could not be checked: of the first that was named, or of all."""
    first = missing[0]
    if not named:
        return BuildError(found="no variant is built", todo="Build one: interlock build VARIANT")
    found = f"not checked: {first.outcome.reason}"
    return BuildError(key=first.variant, found=found, todo=f"Run `interlock build {first.variant}`.")


def sbom_command(
    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="Name of a built variant.")],
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="File (default: standard output).")] = None,
    release: Release = False,
) -> None:
    """Write an image's bill of materials (SPDX, JSON)."""
    paths, known = open_project()
    project.select_names(known.variants, [variant], "variant")
    containers = connect()
    (image,) = containers.look_up(known, [variant], build_options(paths, release))
    if image.outcome.state is not State.OK:
        raise BuildError(key=variant, found=image.outcome.reason, todo=f"Run `interlock build {variant}`.")
    contents = read_contents(containers.client, image.tag)
    text = json.dumps(sbom.document(known.variants[variant], project.read_texts(paths.root), contents), indent=1) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        store.write_atomically(output, text)


def generated_texts(paths: ProjectPaths, known: Catalog) -> dict[str, str]:
    """Return every file that is generated from variants/, by its path below the root."""
    builds = store.latest_builds(paths.results / "reference", "standard")
    page = variants_page.page(known, builds)
    files = generated_files(known, project.read_texts(paths.root))
    return {**files, rendering.BAKE_FILE: rendering.bake_file(known), variants_page.PATH: page}


def write_generated(paths: ProjectPaths, known: Catalog) -> None:
    """Write what is generated from variants/, and name each file that changed."""
    _write_texts(paths, generated_texts(paths, known))


def _write_texts(paths: ProjectPaths, texts: dict[str, str]) -> None:
    for path in store.sync(paths.root, texts):
        console.print(Text(f"render  {path}"))


def build_options(
    paths: ProjectPaths, release: bool, force: bool = False, registry: Registry | None = None, pulls_only: bool = False
) -> BuildOptions:
    """Return how to build: with `force` without any cache, with a registry by pulling what it has."""
    rebuild = str(time.time_ns()) if force else ""
    return BuildOptions(paths.root, paths.cache, profile_name(release), rebuild, registry, pulls_only)


def build_variants(engine: protocol.Engine, known: Catalog, names: list[str], options: BuildOptions) -> list[Built]:
    """Build the named variants and show the progress."""
    known_s = store.read_durations(options.cache, options.profile)
    usual_s = {name: known_s[name] for name in names if name in known_s}
    with progress.Display(console) as display:
        on_step = progress.BuildProgress(display, len(names), usual_s)
        built = engine.build(known, names, options, on_step)
    fresh = {image.variant: image.duration_s for image in built if not image.reused and image.image_id}
    store.write_durations(options.cache, options.profile, {**known_s, **fresh})
    return built


def choose_engine(paths: ProjectPaths, engine: EngineName | None) -> protocol.Engine:
    """Return the container engine, or this machine as the engine if it is named or no container engine answers.

    EngineError if the named engine, or that of DOCKER_HOST, does not answer.
    """
    if engine is EngineName.HOST:
        return HostEngine(paths.root, paths.cache)
    try:
        return connect(engine)
    except EngineError as error:
        if engine is not None or "DOCKER_HOST" in os.environ:
            raise
        console.print(Text(f"engine  host: {error.found}; what needs containers is unsupported: docs/engines.md"))
        return HostEngine(paths.root, paths.cache)


def fail_on_failed_builds(built: list[Built]) -> None:
    """Raise BuildError for the first variant that failed; an unavailable one did not fail."""
    for image in built:
        if image.outcome.state is State.FAILED:
            raise BuildError(
                key=image.variant,
                found=image.outcome.reason,
                todo=f"Correct it, then run: interlock build {image.variant}",
            )
