"""The command that explains where a benchmark waits: why."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from interlock.catalog import project, selection
from interlock.catalog.types import split_label
from interlock.cli import progress
from interlock.cli.announcing import DryRun, announce, building, missing_of, require_writable
from interlock.cli.choosing import lead_to
from interlock.cli.images import build_options, build_variants, fail_on_failed_builds, fail_on_unavailable
from interlock.cli.options import (
    AsRoot,
    Engine,
    Json,
    Quiet,
    Results,
    console,
    named_folder,
    notes,
    open_project,
    quiet,
)
from interlock.cli.preparing import ready_machine
from interlock.engine.protocol import Feature
from interlock.errors import UsageError
from interlock.measure.assignment import Assignment
from interlock.measure.explaining import explain
from interlock.report import why
from interlock.report.tables import rich_parts
from interlock.results import store
from interlock.results.files import write_atomically
from interlock.results.json_documents import Explained
from interlock.results.profiles import LockSites
from interlock.results.settings import Settings


def why_command(
    variant: Annotated[str, typer.Argument(metavar="VARIANT", help="Variant, plain or in a mode (A+MODE).")],
    benchmark: Annotated[
        str, typer.Argument(metavar="WORKLOAD/BENCHMARK", help="What to run, for instance locks/queue.")
    ],
    against: Annotated[
        str | None, typer.Option(metavar="VARIANT", help="Variant to compare with, plain or in a mode.")
    ] = None,
    flame: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a flame graph of the first variant (SVG).")
    ] = None,
    acquires: Annotated[
        bool,
        typer.Option(
            "--acquires",
            help="Also probe each lock acquire, in a further run: spinning, hold times, pauses of all threads.",
        ),
    ] = False,
    of: Annotated[
        str | None,
        typer.Option(metavar="EXPERIMENT", help="Run nothing: show what this experiment recorded (`matrix --why`)."),
    ] = None,
    as_json: Json = False,
    engine: Engine = None,
    as_root: AsRoot = False,
    results: Results = None,
    dry_run: DryRun = False,
    _quiet: Quiet = False,
) -> None:
    """Say where a benchmark waits, for which lock and for whom.

    Records the stacks of all calls that wait or wake, with BPF; images may be stripped. Does not measure times.
    """
    paths, known = open_project()
    workload, name = selection.named_benchmark(known.workloads, benchmark)
    if known.workloads[workload].is_adapted:
        problem = f"{workload} is of the kind '{known.workloads[workload].kind}', whose programs do not mark their work"
        raise UsageError(found=problem, todo="Name a benchmark of another kind.")
    labels = selection.select_labels(known.variants, [variant, *([against] if against else [])])
    unit = known.workloads[workload].unit
    if of is not None:
        if acquires:
            todo = "Leave one of the two out: experiments record no acquires."
            raise UsageError(key="--acquires", found="probes a run, and --of runs nothing", todo=todo)
        _answer(_recorded(named_folder(of, results), labels, workload, name), benchmark, unit, flame, as_json)
        return
    project.require_programs(paths.root, [known.workloads[workload]])
    require_writable(results or paths.results)
    variants = list(dict.fromkeys(split_label(label)[0] for label in labels))
    with (
        quiet(as_json or notes.quiet),
        ready_machine(paths, known, True, agreed=False, engine=engine, as_root=as_root, dry_run=dry_run) as machine,
    ):
        if refused := machine.cannot(Feature.STACKS):  # before anything is built
            raise refused
        options = build_options(paths)
        missing = missing_of(machine, known, variants, options)
        runs = f"runs {benchmark} on {', '.join(labels)} {'twice' if acquires else 'once'}, traced: about a minute each"
        announce(building(paths, known, missing), runs, dry_run=dry_run, as_json=as_json)
        built = build_variants(machine, known, variants, options)
        fail_on_failed_builds(built, lead_to(machine.name, engine, as_root=as_root).words)
        fail_on_unavailable(built)
        settings = Settings(
            quick=False,
            rounds=2,
            seed=0,
            baseline=variants[0],
            variants=labels,
            workloads=[workload],
            benchmarks={workload: [name]},
            profiled=True,
            why=True,
        )
        assignment = Assignment(known, paths.root, results or paths.results, built, settings, "interlock why")
        with progress.open_display(as_json) as display:
            sites = explain(machine, assignment, progress.MeasureProgress(display, 1), acquires=acquires)
    for label, locks in sites.items():
        store.write_json((results or paths.results) / "why" / label / f"{workload}.{name}.json", locks)
    _answer(sites, benchmark, unit, flame, as_json)


def _recorded(folder: Path, labels: list[str], workload: str, name: str) -> dict[str, LockSites]:
    """Return the lock sites that an experiment has for each variant; UsageError says which one has none, and why."""
    _, profiles = store.read_cells(folder, store.read_experiment(folder))
    sites = {}
    for label in labels:
        profile = profiles.get((label, workload), {}).get(name)
        if profile is None or profile.why is None:
            reason = f": {profile.no_why}" if profile and profile.no_why else ""
            raise UsageError(
                key="--of",
                found=f"{folder.name} has no stacks of {workload}/{name} on {label}{reason}",
                todo="Leave --of out, or measure it with `interlock matrix --why`.",
            )
        sites[label] = profile.why
    return sites


def _answer(sites: dict[str, LockSites], benchmark: str, unit: str, flame: Path | None, as_json: bool) -> None:
    if as_json:
        typer.echo(Explained(variants=sites).model_dump_json(indent=1))
    else:
        _show(sites, unit)
    if flame:
        first = next(iter(sites))
        write_atomically(flame, why.flame_svg(f"{first}, {benchmark}: time in calls that wait or wake", sites[first]))


def _show(sites: dict[str, LockSites], unit: str) -> None:
    for label, locks in sites.items():
        console.say(f"{label}: {why.summary_text(locks)}", style="bold")
        console.print(Group(*(part for section in why.sections_of(label, locks, unit) for part in rich_parts(section))))
    first, *others = sites
    if others:
        section = why.difference_section(first, others[0], sites[first], sites[others[0]], unit)
        console.print(Group(*rich_parts(section)))
