"""Commands that make images of variants, check and describe them, and carry them to other machines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.table import Table as RichTable
from rich.text import Text

from interlock.analysis.pick.figures import recorded_figures
from interlock.catalog import project, published, selection
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.rendering import generated_files
from interlock.cli import announcing, progress
from interlock.cli.announcing import DryRun
from interlock.cli.choosing import choose_engine, lead_to
from interlock.cli.main import REFERENCE, reference_page
from interlock.cli.options import AsRoot, Engine, Variants, console, open_clone, open_project
from interlock.engine import protocol, publishing, pulling
from interlock.engine import registry as registries
from interlock.engine.build import contract
from interlock.engine.build.builds import build_command, write_record
from interlock.engine.build.contract import examine
from interlock.engine.build.image import ImagePlan
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.names import Registry, parse_registry
from interlock.engine.protocol import BuildOptions, OnStep
from interlock.engine.registry import Moved
from interlock.errors import BuildError, DriftError, InterlockError, TagError, UsageError, require, require_known
from interlock.report import variants_page
from interlock.results import generated, store
from interlock.results.experiments import Built, State, fallback_lines
from interlock.results.files import write_atomically
from interlock.results.json_documents import schema_texts

Item = TypeVar("Item", Built, list[ImagePlan])


def render(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file would change.")] = False,
) -> None:
    """Write the generated files: Dockerfiles, schemas, docs.

    They come from variants/*.toml, dockerfiles/*.j2 and the commands.
    """
    paths, known = open_clone()
    texts = {
        **generated_texts(paths, known),
        REFERENCE: reference_page(),
        **schema_texts(),
        **_of_references(paths),
    }
    stale = store.stale_figures(paths.reference)
    if not check:
        _write_texts(paths, texts)
        for folder, made_of in stale.items():
            _write_figures(folder, made_of)
        return
    drifted = generated.drift(paths.root, texts)
    drifted += [str((folder / store.FIGURES_FILE).relative_to(paths.root)) for folder in stale]
    for path in drifted:
        console.say(f"differs: {path}")
    if drifted:
        raise DriftError(file=drifted[0], found="is not what it is generated from", todo="Run `interlock render`.")


def _write_figures(folder: Path, made_of: str) -> None:
    """Write the figures that a pick reads from an experiment that comes with Interlock."""
    experiment = store.read_experiment(folder)
    figures = recorded_figures(experiment, store.read_cell_values(folder, experiment), made_of)
    write_atomically(folder / store.FIGURES_FILE, figures.model_dump_json(exclude_defaults=True) + "\n")
    console.say(f"render  {folder / store.FIGURES_FILE}")


def build(
    variants: Variants = None,
    force: Annotated[bool, typer.Option("--force", help="Build again, without any cache.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Build each variant twice and compare the results byte by byte.")
    ] = False,
    cache_from: Annotated[
        str | None,
        typer.Option(metavar="HOST/NAMESPACE", help="Pull from this registry; build only what it lacks."),
    ] = None,
    engine: Engine = None,
    as_root: AsRoot = False,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for builds.json: sizes and times, for docs/variants.md."),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Build variants into tested, tagged images.

    Skips variants whose image is up to date.
    """
    paths, known = open_project()
    names = selection.select_names(known.variants, variants, "variant")
    registry = parse_registry(cache_from, "--cache-from") if cache_from else None
    builder = choose_engine(paths, engine, as_root=as_root)
    for_images = "--verify" if verify else "--cache-from" if cache_from else ""
    if for_images and builder.cannot(protocol.Feature.IMAGES):
        problem = "unsupported, because '--engine host' has no images"
        raise UsageError(key=for_images, found=problem, todo=f"Leave out {for_images}.")
    options = replace(build_options(paths, force, registry), verifies=verify)
    began = time.monotonic()
    missing = names if force or verify else announcing.missing_of(builder, known, names, options)
    announcing.announce(announcing.building(paths, known, missing), dry_run=dry_run)
    # So that an edited variant is built as its file is now.
    write_generated(paths, known)
    built = build_variants(builder, known, names, options)
    if record is not None:
        command = build_command(variants, force=force)
        console.say(f"record  {write_record(builder, record, built, command, time.monotonic() - began)}")
    table = RichTable("variant", "version", "image", "MB", "s", "state", box=None, pad_edge=False)
    for image in built:
        state = _build_state(image)
        seconds, size = f"{image.duration_s:.0f}", f"{image.size_bytes / 1e6:.0f}"
        name = image.tag or image.image_id
        table.add_row(image.variant, image.version, name, size, seconds, Text(f"{state} {image.outcome.reason}"))
    console.print(table)
    fail_on_failed_builds(built, lead_to(builder.name, engine, as_root=as_root).words)


def _build_state(image: Built) -> str:
    """Return how the image came to be: built, pulled, unchanged, or why not."""
    if image.pulled_from:
        return f"pulled from {image.pulled_from}"
    state = "unchanged" if image.reused else image.outcome.state.value
    return f"{state}, trained here" if image.training == "here" else state


def check(variants: Variants = None, dry_run: DryRun = False) -> None:
    """Check that images can replace python:X-slim.

    Exits with 5 if an image differs in a way that its variant's file does not declare.
    """
    paths, known = open_project()
    names = selection.select_names(known.variants, variants, "variant")
    containers = connect()
    there = containers.look_up(known, names, build_options(paths))
    ready = [image.variant for image in there if image.outcome.state is State.OK]
    announcing.announce(f"starts {', '.join(ready) or 'nothing'}: seconds each; builds nothing", dry_run=dry_run)
    results, missing = {}, []
    for image in there:
        if image.outcome.state is State.OK:
            console.say(f"check   {image.variant}")
            variant = known.variants[image.variant].at(image.version)
            results[image.variant] = examine(containers.client, variant, image.image_id)
        else:
            missing.append(image)
            console.say(f"skip    {image.variant}: {image.outcome.state.value} ({image.outcome.reason})")
    console.print(contract.terminal(results))
    contract.require(results)
    if missing and variants:
        raise not_built(missing[0])
    if not results:
        raise BuildError(found="no variant is built", todo="Build one: interlock build VARIANT")


def sbom_command(
    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="Name of a built variant.")],
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="File (default: standard output).")] = None,
) -> None:
    """Write an image's bill of materials (CycloneDX, JSON)."""
    from interlock.engine.build import sbom  # noqa: PLC0415 - its extra is not always there

    paths, known = open_project()
    require_known(known.variants, variant, "variant")
    containers = connect()
    (image,) = containers.look_up(known, [variant], build_options(paths))
    if image.outcome.state is not State.OK:
        raise not_built(image)
    text = sbom.document(known.variants[variant].at(image.version), sbom.read_contents(containers.client, image.tag))
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)


def generated_texts(paths: ProjectPaths, known: Catalog) -> dict[str, str | bytes]:
    """Return what a build needs and the page of variants, generated from variants/, by their paths below the root."""
    builds = store.latest_builds(paths.reference)
    page = variants_page.page(known, builds, store.measured_variants(paths.reference))
    return {**generated_files(known, project.read_texts(paths.root)), variants_page.PATH: page}


def _of_references(paths: ProjectPaths) -> dict[str, str]:
    """Return the README's pictures and the pages made from the references; none in a project without references."""
    from interlock.cli.report import load_experiment, reference_texts  # noqa: PLC0415 - scipy takes half a second
    from interlock.report import overview  # noqa: PLC0415

    folder = paths.reference / overview.EXPERIMENT
    if not folder.is_dir():
        return {}
    return overview.pictures(*load_experiment(folder)[:2]) | reference_texts(paths)


def write_generated(paths: ProjectPaths, known: Catalog) -> None:
    """Write what is generated from variants/ and name each changed file; outside a clone name the user's own files."""
    if paths.is_clone:
        _write_texts(paths, generated_texts(paths, known))
    for file in paths.own:
        console.say(f"own     {file.words}")


def _write_texts(paths: ProjectPaths, texts: Mapping[str, str | bytes]) -> None:
    for path in generated.sync(paths.root, texts):
        console.say(f"render  {path}")


def build_options(
    paths: ProjectPaths, force: bool = False, registry: Registry | None = None, pulls_only: bool = False
) -> BuildOptions:
    """Return how to build: `force` uses no cache, and what a registry has is pulled."""
    rebuild = str(time.time_ns()) if force else ""
    return BuildOptions(paths.root, paths.cache, rebuild, registry, pulls_only)


def build_line(image: Built, where: Sequence[str] = ()) -> str:
    """Return the command that builds what is missing; `where` has the options that lead to its engine."""
    return " ".join([build_command([image.variant]), *where])


def not_built(image: Built) -> BuildError:
    """Return the error for an image that was named and does not exist."""
    return BuildError(key=image.variant, found=image.outcome.reason, todo=f"Run `{build_line(image)}`.")


def build_variants(engine: protocol.Engine, known: Catalog, names: list[str], options: BuildOptions) -> list[Built]:
    """Build the named variants and show the progress."""
    known_s = store.read_durations(options.cache)
    usual_s = {name: known_s[name] for name in names if name in known_s}
    with progress.Display(console) as display:
        on_step = progress.BuildProgress(display, len(names), usual_s)
        built = engine.build(known, names, options, on_step)
    for line in fallback_lines(built):
        console.say(f"version {line}")
    fresh = {image.variant: image.duration_s for image in built if not image.reused and image.image_id}
    store.write_durations(options.cache, {**known_s, **fresh})
    return built


def fail_on_unavailable(there: Sequence[Built]) -> None:
    """Raise BuildError for the first variant that cannot be had here, before the user waits for anything."""
    for image in there:
        if image.outcome.state is State.UNAVAILABLE:
            raise BuildError(key=image.variant, found=image.outcome.reason, todo="Name another variant.")


def fail_on_failed_builds(built: list[Built], where: Sequence[str] = ()) -> None:
    """Raise BuildError for the first variant that failed; an unavailable one did not fail.

    `where` has the options that lead to the engine of the build.
    """
    for image in built:
        if image.outcome.state is State.FAILED:
            raise BuildError(
                key=image.variant,
                found=image.outcome.reason,
                todo=f"Correct it, then run: {build_line(image, where)}",
            )


def push_command(
    registry: Annotated[str, typer.Option(metavar="HOST[:PORT]/NAMESPACE", help="Registry and the namespace in it.")],
    variants: Variants = None,
    force: Annotated[
        bool, typer.Option("--force", help="Push even if someone else moved the tag or pushed the same content.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Push by content hash alone, and write what `publish` needs into a folder."
        ),
    ] = None,
) -> None:
    """Push built variants to a registry.

    The engine pushes, with its logins.
    """
    if record is not None:
        require("sbom", "push --record")
        if force:
            raise UsageError(key="--force", found="is given with --record, which moves no tag", todo="Leave one out.")
    team = parse_registry(registry, "--registry")
    paths, known = open_project()
    names = selection.select_names(known.variants, variants, "variant")
    containers = connect()
    ready = _require_built(containers.look_up(known, names, build_options(paths)), named=bool(variants))
    with progress.Display(console) as display:
        transfers = progress.TransferProgress(display, "push", len(ready))
        with_own_base = {image.base.reference: image for image in ready if image.base}.values()
        bases = [registries.push_base(containers.client, image, team, transfers) for image in with_own_base]

        def move(image: Built) -> Moved:
            if record is not None:
                return registries.push_untagged(containers.client, image, team, transfers)
            return registries.push(containers.client, image, team, transfers, force=force)

        rows, failed = _move_each(ready, move, transfers)
    for said in filter(None, bases):
        console.say(said)
    if record is not None and not failed:
        publishing.record(containers.client, known, [row.built for row in rows], team, record)
        console.say(f"record  {record}: `interlock publish {record}` gives the images their tags")
    _show_moved(rows if record is None else [], failed)


def pull_command(
    registry: Annotated[
        str | None,
        typer.Option(metavar="HOST[:PORT]/NAMESPACE", help="Registry of a team (default: what the project published)."),
    ] = None,
    variants: Variants = None,
    verify: Annotated[
        str | None, typer.Option(metavar="KEY", help="Cosign's public key: refuse images that it has not signed.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Pull variants: what the project published, or what a team pushed.

    Only images that match this project's files are taken, and each is tested as if it had been built here.
    """
    team = parse_registry(registry, "--registry", verify) if registry else None
    if verify is not None:
        registries.require_cosign()
    paths, known = open_project()
    names = selection.select_names(known.variants, variants, "variant")
    if team is None:
        names = pulling.published_names(known, names, named=bool(variants))
    places = {name: team or parse_registry(known.published[name].registry, published.FILE, verify) for name in names}
    containers = connect()
    missing = announcing.missing_of(containers, known, names, build_options(paths))
    downloads = f"pulls {', '.join(missing) or 'nothing'}: {announcing.disk(paths, missing)}; builds nothing"
    announcing.announce(downloads, dry_run=dry_run)
    write_generated(paths, known)
    with progress.Display(console) as display:
        transfers = progress.TransferProgress(display, "pull", len(names))
        plans: list[list[ImagePlan]] = []
        for place in dict.fromkeys(places.values()):
            options = build_options(paths, registry=place, pulls_only=True)
            there = [name for name in names if places[name] == place]
            plans += _plans(containers, known, there, options, transfers, named=bool(variants))

        def move(versions: list[ImagePlan]) -> Moved | None:
            name = versions[0].variant.name
            if team is None:
                return pulling.pull_published(
                    containers.client, versions, places[name], transfers, known.published[name]
                )
            return pulling.pull_newest(containers.client, versions, team, transfers, named=bool(variants))

        rows, failed = _move_each(plans, move, transfers)
    where = ", ".join(dict.fromkeys(place.name for place in places.values()))
    if skipped := len(plans) - len(rows) - len(failed):
        line = f"skip    {skipped} of {len(names)} variants: {where} has no image of them as they are now"
        console.say(line)
    if not rows and not failed:
        raise TagError(
            key=where,
            found="has no image that was built from this project's files",
            todo="Run `interlock push` where they are built.",
        )
    _show_moved(rows, failed)


def _plans(
    containers: DockerEngine, known: Catalog, names: list[str], options: BuildOptions, on_step: OnStep, *, named: bool
) -> list[list[ImagePlan]]:
    """Return the plans of each variant's versions, which identify images; BuildError for a named one without any."""
    plans = containers.plans(known, names, options, on_step)
    _report_missing([plan for plan in plans if isinstance(plan, Built)], named)
    return [plan for plan in plans if not isinstance(plan, Built)]


def _move_each(
    items: Sequence[Item], move: Callable[[Item], Moved | None], transfers: progress.TransferProgress
) -> tuple[list[Moved], list[InterlockError]]:
    """Move each image; return a row for each that was moved, and an error for each that could not be moved.

    An error of the registry itself ends the command.
    """
    rows: list[Moved] = []
    failed: list[InterlockError] = []
    for item in items:
        name = item.variant if isinstance(item, Built) else item[0].variant.name
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
            transfers.end(name, row.state)
    return rows, failed


def _show_moved(rows: Sequence[Moved], failed: Sequence[InterlockError]) -> None:
    """Print each image with its FROM line, which can be copied; then raise the first error."""
    for image, state, note in rows:
        words = f"{state} ({note})" if note else state
        line = f"{image.variant}  {image.size_bytes / 1e6:.0f} MB  {words}\n  FROM {image.reference}"
        console.say(line)
    for error in failed:
        raise error


def _require_built(images: list[Built], *, named: bool) -> list[Built]:
    """Return the built images; BuildError if a named variant is not built, or if none is."""
    _report_missing([image for image in images if image.outcome.state is not State.OK], named)
    ready = [image for image in images if image.outcome.state is State.OK]
    if not ready:
        raise BuildError(found="no variant is built", todo="Build one: interlock build VARIANT")
    return ready


def _report_missing(missing: Sequence[Built], named: bool) -> None:
    """Print a line for each missing image; BuildError for the first if variants were named."""
    for image in missing:
        if named:
            raise not_built(image)
        console.say(f"skip    {image.variant}: {image.outcome.reason}")
