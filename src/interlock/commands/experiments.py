"""Commands that measure, and show what was measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from interlock import catalog, claims, experiment, findings, progress, report, store
from interlock.commands.across import show_hosts
from interlock.commands.asked import Baseline, Conditions, Labels, Profiled, Quick, Rounds, Seed, asked
from interlock.commands.options import Engine, Folder, Names, Release, Results
from interlock.commands.readying import ready_machine
from interlock.engine.running import OnHost
from interlock.errors import UsageError
from interlock.model import EngineName
from interlock.places import Places
from interlock.routines import (
    build_options,
    build_variants,
    console,
    fail_on_failed_builds,
    fail_on_failed_cells,
    folder_of,
    load,
    project,
    write_charts,
    write_generated,
    write_page,
    write_report,
)


def matrix(
    variants: Labels = None,
    workloads: Names = None,
    conditions: Conditions = None,
    quick: Quick = False,
    rounds: Rounds = None,
    baseline: Baseline = None,
    seed: Seed = None,
    profile: Profiled = True,
    release: Release = False,
    engine: Engine = None,
    name: Annotated[str | None, typer.Option(help="The experiment's, and its folder's; the date by default.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Make this machine ready with playbooks/host.yml if it is not.")
    ] = False,
    results: Results = None,
) -> None:
    """Check the set-up, build, measure, profile and report: the main job."""
    places, known = project()
    wanted = asked(
        known,
        variants=variants,
        workloads=workloads,
        conditions=conditions,
        quick=quick,
        rounds=rounds,
        baseline=baseline,
        seed=seed,
        profile=profile,
        release=release,
    )
    wanted.require_possible(engine)
    with ready_machine(places, known, profile, agreed=yes, engine=engine) as client:
        write_generated(places, known)
        built = build_variants(client, known, wanted.variants, build_options(places, release))
        settings = wanted.settings(built)
        with progress.Display(console) as display:
            on_step = progress.MeasureProgress(display, len(settings.workloads))
            command = experiment.repeat_command(settings, wanted.everything, _named(client, engine))
            into = results or places.results
            assignment = experiment.Assignment(known, places.root, into, built, settings, command, name)
            folder = experiment.run(client, assignment, on_step)
    described = write_report(folder)
    fail_on_failed_builds(built)
    fail_on_failed_cells(folder, described)


def _named(client: Any, engine: EngineName | None) -> EngineName | None:
    """What a repetition has to name: the engine that was asked for, or this machine, if nothing else answered."""
    return EngineName.HOST if isinstance(client, OnHost) else engine


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
