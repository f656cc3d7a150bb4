"""Build Python interpreters into images, measure them side by side, and report what was found."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from interlock import (
    __version__,
    bake,
    catalog,
    claims,
    compare,
    contract,
    doctor,
    experiment,
    findings,
    progress,
    recording,
    report,
    sbom,
    store,
    variants_page,
)
from interlock.engine import build as building
from interlock.engine import verify as verifying
from interlock.engine.client import connect
from interlock.engine.contract import examine
from interlock.engine.image import Options
from interlock.engine.sbom import read_contents
from interlock.errors import BuildError, DriftError, EngineError, InterlockError, Interrupted, WorkloadError
from interlock.model import Built, Catalog, Experiment, Settings, State, split_label
from interlock.places import Places
from interlock.render import generated_files

app = typer.Typer(no_args_is_help=True, add_completion=False, help=__doc__, pretty_exceptions_enable=False)
# Where the width is unknown (a pipe, a log) lines are long rather than folded.
console = Console(width=None if Console().is_terminal or "COLUMNS" in os.environ else 160)
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
    places, known = _project()
    if not check:
        _render(places, known)
        return
    drifted = store.drift(places.root, _generated(places, known))
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
    places, known = _project()
    names = catalog.select_names(known.variants, None if everything else variants, "variant")
    everything = len(names) == len(known.variants)
    run = recording.Run(recording.build_command(names, everything, _profile(release), force), _profile(release))
    built = _build(places, known, names, _profile(release), force, verify)
    if record is not None:
        console.print(Text(f"record  {recording.write_record(connect(), record, built, run)}"))
    table = RichTable("variant", "image", "MB", "s", "state", box=None, pad_edge=False)
    for image in built:
        state = "unchanged" if image.reused else image.outcome.state.value
        seconds, size = f"{image.duration_s:.0f}", f"{image.size_bytes / 1e6:.0f}"
        table.add_row(image.variant, image.tag, size, seconds, Text(f"{state} {image.outcome.reason}"))
    console.print(table)
    _fail_on_failed_builds(built)


@app.command()
def check(variants: Variants = None, release: Release = False) -> None:
    """Hold built images to what people rely on in python:X-slim; exit with 5 if one differs undeclared."""
    places, known = _project()
    names = catalog.select_names(known.variants, variants, "variant")
    client, options = connect(), Options(places.root, places.cache, _profile(release))
    results = {}
    for image in building.look_up(client, known, names, options):
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
    places, known = _project()
    catalog.select_names(known.variants, [variant], "variant")
    client = connect()
    (image,) = building.look_up(client, known, [variant], Options(places.root, places.cache, _profile(release)))
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
    places, known = _project()
    labels = catalog.select_labels(known.variants, _split(variants))
    wanted = catalog.select_names(known.workloads, _split(workloads), "workload")
    under = _split(conditions) and catalog.select_names(known.conditions, _split(conditions), "condition")
    if baseline is not None:
        labels += catalog.select_names(known.variants, [baseline], "variant")
    _check_set_up(places, known, profile)
    names = list(dict.fromkeys(split_label(label)[0] for label in labels))
    built = _build(places, known, names, _profile(release), force=False)
    chosen = experiment.choose_baseline(baseline, built)
    plan = experiment.planned_rounds(quick, rounds)
    settings = Settings(
        quick=quick,
        rounds=plan.least,
        rounds_limit=plan.limit,
        half_width=plan.half_width,
        seed=random.SystemRandom().randrange(2**32) if seed is None else seed,
        baseline=chosen,
        profile=_profile(release),
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
    described = _report(folder)
    _fail_on_failed_builds(built)
    _fail_on_failed_cells(folder, described)


@app.command(name="report")
def report_command(
    folder: Folder = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of a terminal's tables.")] = False,
    results: Results = None,
) -> None:
    """Show an experiment's tables."""
    folder = _folder(folder, results)
    if markdown:
        sys.stdout.write(report.markdown(*_load(folder)))
    else:
        console.print(report.terminal(*_load(folder)))


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
    folder = _folder(folder, results)
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
    places, known = _project()
    checks = doctor.examine(places.root, next(iter(known.bases.values())), places.results)
    _show(checks)
    raise typer.Exit(1 if doctor.blocking(checks) else 0)


@app.command()
def version() -> None:
    """Show the version of Interlock."""
    console.print(f"interlock {__version__}", highlight=False)


def _project() -> tuple[Places, Catalog]:
    places = Places.here()
    return places, catalog.load(places.root)


def _folder(folder: Path | None, results: Path | None) -> Path:
    return folder or store.latest_experiment(results or _project()[0].results)


def _split(names: str | None) -> list[str] | None:
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def _profile(release: bool) -> str:
    return "release" if release else "standard"


def _check_set_up(places: Places, known: Catalog, profiled: bool) -> None:
    checks = doctor.examine(places.root, next(iter(known.bases.values())), places.results, profiled=profiled)
    _show([check for check in checks if check.verdict is not doctor.Verdict.OK])
    for check in doctor.blocking(checks):
        raise EngineError(key=check.subject, found=check.found, todo=check.mend)


def _show(checks: list[doctor.Check]) -> None:
    for check in checks:
        mend = f"  -> {check.mend}" if check.mend else ""
        console.print(Text(f"{check.verdict.value:8} {check.subject}: {check.found}{mend}"), soft_wrap=True)


def _generated(places: Places, known: Catalog) -> dict[str, str]:
    builds = store.latest_builds(places.results / "reference", "standard")
    page = variants_page.page(known, builds)
    files = generated_files(known, catalog.texts(places.root))
    return {**files, bake.PATH: bake.bake_file(known), variants_page.PATH: page}


def _render(places: Places, known: Catalog) -> None:
    for path in store.sync(places.root, _generated(places, known)):
        console.print(Text(f"render  {path}"))


def _build(
    places: Places, known: Catalog, names: list[str], profile: str, force: bool, verify: bool = False
) -> list[Built]:
    client = connect()
    # A variant that was edited a moment ago is built as it is now.
    _render(places, known)
    options = Options(places.root, places.cache, profile, rebuild=str(time.time_ns()) if force else "")
    known_s = store.read_durations(places.cache, profile)
    usual_s = {name: known_s[name] for name in names if name in known_s}
    with progress.Display(console) as display:
        say = progress.BuildProgress(display, len(names), usual_s)
        built = building.build(client, known, names, options, say)
        if verify:
            built = [verifying.verify(client, known, name, options, say) for name in names]
    fresh = {image.variant: image.duration_s for image in built if not image.reused and image.tag}
    store.write_durations(places.cache, profile, {**known_s, **fresh})
    return built


def _fail_on_failed_builds(built: list[Built]) -> None:
    for image in built:
        if image.outcome.state is State.FAILED:
            raise BuildError(found=image.outcome.reason, todo="The other variants are not affected.")


def _fail_on_failed_cells(folder: Path, described: Experiment) -> None:
    for cell in compare.failures(described.cells):
        raise WorkloadError(
            file=str(folder),
            key=f"{cell.label} / {cell.workload}",
            found=cell.outcome.reason,
            todo="The other cells are not affected.",
        )


def _load(folder: Path) -> tuple[Experiment, list[compare.Table]]:
    described = store.read_experiment(folder)
    values, profiles = store.read_cells(folder, described)
    return described, compare.tables(described, values, profiles)


def _report(folder: Path) -> Experiment:
    loaded = _load(folder)
    store.write_whole(folder / "report.md", report.markdown(*loaded))
    console.print(report.terminal(*loaded))
    console.print(f"\nFull report: {folder / 'report.md'}", highlight=False, soft_wrap=True)
    return loaded[0]


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
