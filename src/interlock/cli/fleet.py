"""The command that measures a matrix on many hosts."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli.images import build_options, build_variants, fail_on_failed_builds, write_generated
from interlock.cli.matrix import MatrixRequest, read_request, resumed_place, resumed_request
from interlock.cli.options import MatrixOptions, Results, console, open_project, takes
from interlock.cli.report import show_hosts
from interlock.engine import finding
from interlock.engine.docker import connect
from interlock.engine.host import prefixes
from interlock.engine.protocol import Feature
from interlock.errors import FleetError, UsageError
from interlock.fleet.ansible import read_inventory
from interlock.fleet.record import FLEET_FILE, FleetRecord
from interlock.fleet.running import FleetRun, images_of
from interlock.measure import experiment
from interlock.results import store
from interlock.results.commands import command_line, resuming
from interlock.results.experiments import Built, EngineName


@takes
def fleet_command(
    file: Annotated[Path, typer.Option("--inventory", "-i", metavar="FILE", dir_okay=False, help="Ansible inventory.")],
    options: MatrixOptions,
    forks: Annotated[int, typer.Option(min=1, metavar="N", help="Number of hosts that work in parallel.")] = 20,
    deadline: Annotated[
        int, typer.Option(min=1, metavar="S", help="Time limit for measuring on a host, in seconds.")
    ] = 14400,
    resume: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name or folder of an experiment of a fleet to complete.")
    ] = None,
    results: Results = None,
) -> None:
    """Measure a matrix on many hosts.

    Prepares the hosts, measures the whole matrix on each, then fetches and compares the results.
    """
    resume, results = resumed_place(resume, results, FLEET_FILE)
    store.require_name(resume, "--resume")
    paths, known = open_project()
    if not paths.is_clone:
        raise UsageError(
            file=str(Path.cwd()),
            found="is not in a clone, and the hosts get their files from one",
            todo="Run it in a clone of the project.",
        )
    into = results or paths.results
    hosts = read_inventory(file, paths.root)
    request, engine = read_request(known, options), options.engine
    record = store.read_json(into / resume / FLEET_FILE, FleetRecord) if resume else None
    if record is not None:
        request, engine = resumed_request(request, record.settings), engine or record.engine
    request.require_possible(engine)
    write_generated(paths, known)
    engine, built = _builds(paths, known, request, engine)
    builds = {one.variant: one.content_hash for one in built if one.content_hash}
    if record is None:
        settings = request.settings(experiment.choose_baseline(request.baseline, built))
        where = ["--engine", engine.value, *(["--as-root"] if options.as_root else [])]
        command = command_line("fleet", "-i", str(file), *experiment.repeat_options(settings, request.words, where))
        name = store.new_experiment(into, datetime.date.today().isoformat()).name
        record = FleetRecord(name=name, command=command, settings=settings, engine=engine, builds=builds)
    record.require_same(engine, builds)
    run = FleetRun(paths, into / record.name, file, record, images_of(built), options.as_root, forks, deadline)
    run.measure(hosts)
    _report(run.folder, run.record)


def _builds(
    paths: ProjectPaths, known: Catalog, request: MatrixRequest, engine: EngineName | None
) -> tuple[EngineName, list[Built]]:
    """Build what the hosts measure; with the engine `host` nothing here, because each host builds for itself."""
    how = build_options(paths, request.release)
    if engine and finding.cannot(engine, Feature.IMAGES):
        return engine, prefixes.expect(known, request.variants, how)
    containers = connect(engine)
    built = build_variants(containers, known, request.variants, how)
    fail_on_failed_builds(built)
    return containers.name, built


def _report(folder: Path, record: FleetRecord) -> None:
    """Print what the hosts of each kind say together and how it ended on each; FleetError if all is not well."""
    if any((folder / name / store.EXPERIMENT_FILE).is_file() for name in record.hosts):
        show_hosts(folder, markdown=False)
    for name, host in record.hosts.items():
        words = ": ".join(filter(None, ["measured" if host.complete else "not complete", host.problem]))
        console.print(Text(f"host    {name} {words}"), soft_wrap=True)
    problems = {name: host.problem for name, host in record.hosts.items() if host.problem}
    if problems:
        todo = f"What is not measured, or not restored: {resuming(record.command, record.name)}"
        raise FleetError(file=str(folder), key=", ".join(problems), found=next(iter(problems.values())), todo=todo)
