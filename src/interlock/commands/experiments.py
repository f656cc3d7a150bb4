"""Commands that measure, and show what was measured."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock import catalog, claims, experiment, findings, progress, report, store
from interlock.commands.across import show_hosts
from interlock.commands.options import Folder, Names, Release, Results
from interlock.engine.client import connect
from interlock.errors import UsageError
from interlock.model import Settings, split_label
from interlock.places import Places
from interlock.routines import (
    build_options,
    build_variants,
    check_set_up,
    console,
    fail_on_failed_builds,
    fail_on_failed_cells,
    folder_of,
    load,
    profile_name,
    project,
    split_names,
    write_charts,
    write_generated,
    write_page,
    write_report,
)


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
    everything = labels == catalog.select_labels(known.variants, None)
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
        command = experiment.repeat_command(settings, everything)
        assignment = experiment.Assignment(known, places.root, results or places.results, built, settings, command)
        folder = experiment.run(connect(), assignment, on_step)
    described = write_report(folder)
    fail_on_failed_builds(built)
    fail_on_failed_cells(folder, described)


def report_command(
    folder: Folder = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Markdown instead of a terminal's tables.")] = False,
    html: Annotated[bool, typer.Option("--html", help="One page with charts, report.html in the folder.")] = False,
    output: Annotated[Path | None, typer.Option(dir_okay=False, help="Another file for the page of --html.")] = None,
    charts: Annotated[Path | None, typer.Option(file_okay=False, help="Folder for each chart as SVG and PNG.")] = None,
    results: Results = None,
) -> None:
    """Show an experiment's tables; of a folder of experiments what the hosts of each kind say together."""
    folder = folder_of(folder, results)
    if output and not html:
        raise UsageError(key="--output", found="names the file of a page that was not asked for", todo="Add --html.")
    if store.holds_several(folder):
        if html or charts:
            raise UsageError(
                file=str(folder), found="holds several experiments", todo="Name the folder of one of them."
            )
        show_hosts(folder, markdown)
        return
    written = [write_page(folder, output)] if html else []
    written += write_charts(folder, charts) if charts else []
    for path in written:
        console.print(Text(str(path)), soft_wrap=True)
    if markdown:
        sys.stdout.write(report.markdown(*load(folder)))
    elif not written:
        console.print(report.terminal(*load(folder)))


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
