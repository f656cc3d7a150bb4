"""Build Python interpreters into images, measure them side by side, and report what was found."""

from __future__ import annotations

import json
import random
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from interlock import (
    __version__,
    catalog,
    claims,
    contract,
    doctor,
    experiment,
    findings,
    progress,
    recording,
    report,
    sbom,
    store,
)
from interlock.engine import build as building
from interlock.engine.client import connect
from interlock.engine.contract import examine
from interlock.engine.sbom import read_contents
from interlock.errors import BuildError, DriftError, InterlockError, Interrupted
from interlock.model import Settings, State, split_label
from interlock.places import Places
from interlock.routines import (
    build_options,
    build_variants,
    check_set_up,
    console,
    fail_on_failed_builds,
    fail_on_failed_cells,
    folder_of,
    generated,
    load,
    profile_name,
    project,
    show,
    split_names,
    write_generated,
    write_report,
)

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
errors = Console(stderr=True)

INTERRUPTED = 130

Names = Annotated[str | None, typer.Option(help="Comma-separated names; all of them without this option.")]
Release = Annotated[bool, typer.Option("--release", help="The profile 'release' (PGO and LTO) instead of 'standard'.")]
Variants = Annotated[list[str] | None, typer.Argument(help="Variants; all of them by default.")]
Folder = Annotated[Path | None, typer.Argument(help="An experiment's folder; the latest by default.")]
Results = Annotated[Path | None, typer.Option(help="Folder of the experiments; the project's results/ by default.")]


@app.command()
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


@app.command()
def build(
    variants: Variants = None,
    everything: Annotated[bool, typer.Option("--all", help="Every variant, as without any name.")] = False,
    release: Release = False,
    force: Annotated[bool, typer.Option("--force", help="Build again what is unchanged, from nothing.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Build each twice and compare the interpreter's layer, bit by bit.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(help="Folder to write builds.json into: sizes, times and states, for docs/variants.md."),
    ] = None,
) -> None:
    """Build variants into proved, tagged images; what is unchanged is left alone."""
    places, known = project()
    names = catalog.select_names(known.variants, None if everything else variants, "variant")
    everything = len(names) == len(known.variants)
    client, options = connect(), build_options(places, release, force)
    run = recording.Run(recording.build_command(names, everything, options.profile, force), options.profile)
    # A variant that was edited a moment ago is built as it is now.
    write_generated(places, known)
    built = build_variants(known, names, options, verify)
    if record is not None:
        console.print(Text(f"record  {recording.write_record(client, record, built, run)}"))
    table = RichTable("variant", "image", "MB", "s", "state", box=None, pad_edge=False)
    for image in built:
        state = "unchanged" if image.reused else image.outcome.state.value
        seconds, size = f"{image.duration_s:.0f}", f"{image.size_bytes / 1e6:.0f}"
        table.add_row(image.variant, image.tag, size, seconds, Text(f"{state} {image.outcome.reason}"))
    console.print(table)
    fail_on_failed_builds(built)


@app.command()
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


@app.command(name="sbom")
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


@app.command()
def matrix(
    variants: Annotated[
        str | None, typer.Option(help="Comma-separated, each `variant` or `variant+mode`; all without this option.")
    ] = None,
    workloads: Names = None,
    conditions: Annotated[
        str | None, typer.Option(help="Conditions to measure the baseline under besides; none without this option.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer rounds and values: minutes, wider spreads.")] = False,
    rounds: Annotated[
        int | None,
        typer.Option(min=2, help="Exactly so many; by default 10 to 40 until ±1 %, if quick 5 to 20 until ±2.5 %."),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="What the report compares with (cpython-3.13).")] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order of the rounds; a new one by default.")] = None,
    profile: Annotated[bool, typer.Option(help="Count syscalls in a pass of its own.")] = True,
    release: Release = False,
    results: Results = None,
) -> None:
    """Check the set-up, build, measure, profile and report: the main job."""
    places, known = project()
    labels = catalog.select_labels(known.variants, split_names(variants))
    wanted = catalog.select_names(known.workloads, split_names(workloads), "workload")
    under = split_names(conditions) and catalog.select_names(known.conditions, split_names(conditions), "condition")
    if baseline is not None:
        labels += catalog.select_names(known.variants, [baseline], "variant")
    check_set_up(places, known, profile)
    names = list(dict.fromkeys(split_label(label)[0] for label in labels))
    write_generated(places, known)
    built = build_variants(known, names, build_options(places, release))
    chosen = experiment.choose_baseline(baseline, built)
    plan = experiment.planned_rounds(quick, rounds)
    settings = Settings(
        quick=quick,
        rounds=plan.least,
        rounds_limit=plan.limit,
        half_width=plan.half_width,
        seed=random.SystemRandom().randrange(2**32) if seed is None else seed,
        baseline=chosen,
        profile=profile_name(release),
        # The baseline is measured plain, whichever of its modes were chosen.
        variants=list(dict.fromkeys([*labels, chosen])),
        workloads=wanted,
        conditions=under or [],
        profiled=profile,
    )
    with progress.Display(console) as display:
        on_step = progress.MeasureProgress(display, len(wanted))
        assignment = experiment.Assignment(
            known, places.root, results or places.results, built, settings, experiment.repeat_command(settings)
        )
        folder = experiment.run(connect(), assignment, on_step)
    described = write_report(folder)
    fail_on_failed_builds(built)
    fail_on_failed_cells(folder, described)


@app.command(name="report")
def report_command(
    folder: Folder = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of a terminal's tables.")] = False,
    results: Results = None,
) -> None:
    """Show an experiment's tables."""
    folder = folder_of(folder, results)
    if markdown:
        sys.stdout.write(report.markdown(*load(folder)))
    else:
        console.print(report.terminal(*load(folder)))


@app.command(name="claims")
def claims_command(
    folder: Folder = None,
    file: Annotated[
        Path | None,
        typer.Option("--claims", exists=True, dir_okay=False, help="Their file; workloads/claims.toml by default."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a terminal's table.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of a terminal's table.")] = False,
    results: Results = None,
) -> None:
    """Say which published claims an experiment confirms or refutes; exit with 1 if a required one is refuted."""
    published = catalog.load_claims(Path.cwd() if file else Places.here().root, file)
    folder = folder_of(folder, results)
    described = store.read_experiment(folder)
    found = claims.evaluate(published, described, *store.read_cells(folder, described))
    if as_json:
        sys.stdout.write(findings.as_json(described, found) + "\n")
    elif markdown:
        sys.stdout.write(findings.markdown(described, found))
    else:
        console.print(Text(report.headline(described)[0], style="dim"), findings.terminal(found), sep="\n")
    findings.check_required(folder, found)


@app.command(name="doctor")
def doctor_command() -> None:
    """Say what this machine can and cannot do, and how to mend each."""
    places, known = project()
    checks = doctor.examine(places.root, next(iter(known.bases.values())), places.results)
    show(checks)
    raise typer.Exit(1 if doctor.blocking(checks) else 0)


@app.command()
def version() -> None:
    """Show the version of Interlock."""
    console.print(f"interlock {__version__}", highlight=False)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


def main() -> None:
    """The entry point: one line for an error, and its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        app()
    except InterlockError as error:
        errors.print(Text(f"error: {error}"), soft_wrap=True)
        sys.exit(error.exit_code)
    except Interrupted:
        errors.print("error: interrupted; what this run had started is stopped and removed.")
        sys.exit(INTERRUPTED)
