"""The command that measures a matrix on many hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli.images import build_variants, fail_on_failed_builds, write_generated
from interlock.cli.options import MatrixOptions, Results, console, open_clone, takes
from interlock.cli.report import show_hosts
from interlock.cli.settings import require_begun, require_no_contradiction, resumed_place, settings_from
from interlock.engine import finding
from interlock.engine.docker import connect
from interlock.engine.host import prefixes
from interlock.engine.protocol import BuildOptions, Feature
from interlock.errors import Interrupted
from interlock.fleet.ansible import read_inventory
from interlock.fleet.record import FLEET_FILE, FleetRecord
from interlock.fleet.running import FleetRun, begun, builds_of, images_of
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Built, EngineName
from interlock.results.settings import Settings


@takes
def fleet_command(
    file: Annotated[Path, typer.Option("--inventory", "-i", metavar="FILE", dir_okay=False, help="Ansible inventory.")],
    options: MatrixOptions,
    deadline: Annotated[
        int, typer.Option(min=1, metavar="S", help="Time limit for measuring on a host, in seconds.")
    ] = 14400,
    resume: Annotated[
        str | None, typer.Option(metavar="NAME", help="Fleet's experiment to complete, by name or folder.")
    ] = None,
    results: Results = None,
) -> None:
    """Measure a matrix on many hosts.

    Prepares the hosts, measures the whole matrix on each, then fetches and compares the results.
    """
    resume, results = resumed_place(resume, results, FLEET_FILE)
    paths, known = open_clone("and the hosts get their files from one")
    into = results or paths.results
    if resume:
        require_begun(into, resume, FLEET_FILE)
    hosts = read_inventory(file, paths.root)
    asked = settings_from(known, options, results)
    record = store.read_json(into / resume / FLEET_FILE, FleetRecord) if resume else None
    settings = record.settings if record else asked
    if record is not None:
        require_no_contradiction(options, asked, record)
    write_generated(paths, known)
    if record is not None:
        known = known.at(record.versions)
    engine, built = _builds(paths, known, settings, options.engine or settings.where.engine)
    if record is None:
        where = settings.where.model_copy(update={"engine": engine})
        record = begun(into, file, settings.model_copy(update={"where": where}), built)
    record.require_same(engine, builds_of(built))
    run = FleetRun(paths, into / record.name, file, record, images_of(built), options.as_root, deadline)
    try:
        run.measure(hosts)
    except Interrupted:
        _say_hosts(run.record)
        console.say(f"next    {run.record.resuming}")
        raise
    _report(run.folder, run.record)


def _builds(
    paths: ProjectPaths, known: Catalog, settings: Settings, engine: EngineName | None
) -> tuple[EngineName, list[Built]]:
    """Build what the hosts measure. With the engine `host` nothing is built here: each host builds for itself."""
    how = BuildOptions(paths.root, paths.cache)
    if engine and finding.cannot(engine, Feature.IMAGES):
        return engine, prefixes.expect(known, settings.to_build, how)
    containers = connect(engine)
    built = build_variants(containers, known, settings.to_build, how)
    fail_on_failed_builds(built)
    return containers.name, built


def _report(folder: Path, record: FleetRecord) -> None:
    """Print the summary of each kind of host and how each host ended; FleetError unless all is well."""
    if any((folder / name / EXPERIMENT_FILE).is_file() for name in record.hosts):
        show_hosts(folder, markdown=False)
    _say_hosts(record)
    record.require_well(folder)


def _say_hosts(record: FleetRecord) -> None:
    for name, host in record.hosts.items():
        words = ": ".join(filter(None, ["measured" if host.complete else "not complete", host.problem]))
        console.say(f"host    {name} {words}")
