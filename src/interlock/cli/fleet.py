"""The command that measures a matrix on many hosts, and what it builds for them."""

from __future__ import annotations

import datetime
import json
import secrets
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from interlock import __version__
from interlock.analysis import cohorts
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli.archives import tags_to_send
from interlock.cli.images import build_options, build_variants, fail_on_failed_builds, write_generated
from interlock.cli.matrix import MatrixRequest, read_request, resumed_place, resumed_request
from interlock.cli.options import Key, MatrixOptions, Results, console, open_project, profile_name, takes
from interlock.cli.report import PAGE_FILE, load_experiment, write_page
from interlock.engine.docker import connect
from interlock.engine.host import prefixes
from interlock.engine.registry import archives
from interlock.engine.registry.keys import read_public_key
from interlock.errors import FleetError, InterlockError, UsageError
from interlock.fleet import ansible, dispatch
from interlock.fleet.ansible import Inventory
from interlock.fleet.record import (
    FLEET_FILE,
    FleetRecord,
    HostRecord,
    Shard,
    earlier_durations_s,
    merge_experiments,
    read_record,
    take_in_results,
)
from interlock.fleet.running import FleetRun, Limits, RunSettings
from interlock.measure import experiment
from interlock.report import comparisons
from interlock.report import experiment as report
from interlock.report.comparisons import read_extracts
from interlock.results import store
from interlock.results.commands import command_line, resuming
from interlock.results.experiments import Built, EngineName, Experiment, Outcome, State

# What hosts without a registry get: the playbooks' variables, and the kinds of the files that they name.
SENT = {"images_list": "json", "images_archive": "tar", "images_sum": "sha256"}


@dataclass(frozen=True)
class FleetBuilds:
    """What the hosts measure: the named engine, the built images or prefixes, and what identifies them, by name."""

    engine: EngineName | None
    built: list[Built]
    identities: dict[str, str]
    as_root: bool = False
    key: Path | None = None  # that must have signed what hosts pull

    def engine_variable(self) -> dict[str, str]:
        """Return the playbooks' variables for the engine, empty if none was named."""
        named = self.engine.value if self.engine else ""
        return {"interlock_engine": named, "interlock_as_root": "1" if self.as_root else ""}

    def variables(self, paths: ProjectPaths, record: FleetRecord, hosts: Inventory) -> Mapping[str, Any]:
        """Return the playbooks' variables: the engine, and what a host builds, pulls or loads."""
        named = self.engine_variable()
        # What is unavailable here is unavailable on a host, which records the reason.
        variants = [one.variant for one in self.built if one.outcome.state is State.OK]
        options = [*variants, *(["--release"] if record.settings.profile == "release" else [])]
        if self.engine is EngineName.HOST:
            return {**named, "prefixes_options": options}
        if hosts.registry:
            return {**named, "images_options": options, **({"images_key": str(self.key.resolve())} if self.key else {})}
        there = paths.cache / "fleet"
        return {**named, **{name: str(there / f"{record.token}.{kind}") for name, kind in SENT.items()}}

    def write_archive(self, variables: Mapping[str, Any]) -> list[Path]:
        """Write the images' list, archive and its sum, if hosts get them in that way, and return the paths."""
        if "images_archive" not in variables:
            return []
        listing, packed, named = (Path(variables[key]) for key in SENT)
        store.write_atomically(listing, json.dumps(self.identities))
        store.write_atomically(named, archives.save(connect(self.engine).client, list(self.identities), packed))
        console.print(Text(f"images  {len(self.identities)} in an archive of {packed.stat().st_size / 1e6:.0f} MB"))
        return [listing, packed, named]


def prepare_builds(
    paths: ProjectPaths, known: Catalog, variants: list[str], *, release: bool, engine: EngineName | None = None
) -> FleetBuilds:
    """Build the images; with the engine `host` build nothing here, because each host builds for itself."""
    if engine is EngineName.HOST:
        built = prefixes.expect(known, variants, build_options(paths, release))
        return FleetBuilds(engine, built, {one.variant: one.content_hash for one in built if one.content_hash})
    containers = connect(engine)
    built = build_variants(containers, known, variants, build_options(paths, release))
    fail_on_failed_builds(built)
    return FleetBuilds(engine, built, archives.ids_of(containers.client, tags_to_send(built)))


# What a benchmark takes on two cores, for a workload that no fleet has measured.
BENCHMARK_S = 20.0


@takes
def fleet_command(
    file: Annotated[Path, typer.Option("--inventory", "-i", metavar="FILE", dir_okay=False, help="Ansible inventory.")],
    options: MatrixOptions,
    each: Annotated[
        bool, typer.Option("--each", help="Measure every workload on every host (default: hosts of a kind share them).")
    ] = False,
    forks: Annotated[int, typer.Option(min=1, metavar="N", help="Number of hosts that work in parallel.")] = 20,
    deadline: Annotated[
        float, typer.Option(min=1, metavar="S", help="Time limit of each step on a host, in seconds.")
    ] = 7200,
    bandwidth: Annotated[
        float | None, typer.Option(metavar="MB", help="Limit of the transfer to each host, MB/s (default: none).")
    ] = None,
    key: Key = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show which host would measure what; change nothing.")] = False,
    resume: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name or folder of an experiment of a fleet to complete.")
    ] = None,
    results: Results = None,
) -> None:
    """Measure a matrix on many hosts.

    Prepares the hosts, shares the workloads among hosts of a kind, then fetches and compares the results.
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
    hosts = ansible.read_inventory(file, paths.root)
    before = read_record(into / resume) if resume else None
    request, engine = read_request(known, options), options.engine
    if before is not None:
        request, engine = resumed_request(request, before.settings), _resumed_engine(before, engine)
    request.require_possible(engine)
    if key is not None:
        _require_pulled(hosts, engine)
        read_public_key(key)
    limits = Limits(forks, deadline, bandwidth)
    if plan:
        _show_plan(paths, into, hosts, request, known, limits, before, engine, each)
        return
    write_generated(paths, known)
    builds = prepare_builds(paths, known, request.variants, release=request.release, engine=engine)
    builds = replace(builds, as_root=options.as_root, key=key)
    folder = into / (resume or before.name) if before else store.new_experiment(into, datetime.date.today().isoformat())
    record = _record(before, folder.name, into, request, builds, hosts, known, each)
    variables = _variables(paths, record, hosts, limits, builds)
    _measure(FleetRun(_run_settings(paths, folder, hosts, record, limits, variables), record), builds)


def _require_pulled(hosts: Inventory, engine: EngineName | None) -> None:
    """Raise UsageError if the hosts pull nothing that a key could have signed."""
    if engine is EngineName.HOST or not hosts.registry:
        found = "is given, but with --engine host nothing is pulled"
        if engine is not EngineName.HOST:
            found = f"is given, but {hosts.path} names no registry: images are copied to the hosts, checked by SHA-256"
        raise UsageError(key="--key", found=found, todo="Leave out --key.")


def _variables(
    paths: ProjectPaths, record: FleetRecord, hosts: Inventory, limits: Limits, builds: FleetBuilds
) -> dict[str, object]:
    """Return the variables of every playbook, and write the archive of Interlock that they name."""
    packed, version = ansible.write_project_archive(paths.root, paths.cache)
    return {
        "interlock_version": version,
        "project_archive": str(packed),
        "prefixes_deadline_s": round(limits.deadline_s),
        **builds.variables(paths, record, hosts),
    }


def _show_plan(
    paths: ProjectPaths,
    results: Path,
    hosts: Inventory,
    request: MatrixRequest,
    known: Catalog,
    limits: Limits,
    before: FleetRecord | None,
    engine: EngineName | None,
    each: bool,
) -> None:
    """Print which host would measure what, as if every variant could be built; FleetError if no host could."""
    ok = Outcome(state=State.OK)
    built = [Built(variant=name, profile=profile_name(request.release), outcome=ok) for name in request.variants]
    builds = FleetBuilds(engine, built, {})
    # Ansible's logs and the hosts' facts need a folder, which is of no use afterwards.
    with tempfile.TemporaryDirectory(prefix="interlock-plan-") as folder:
        record = _record(before, "plan", results, request, builds, hosts, known, each)
        variables = {"interlock_version": "plan", **builds.engine_variable()}
        run = FleetRun(_run_settings(paths, Path(folder), hosts, record, limits, variables), record)
        run.examine_hosts()
        _print_plan(run)
        orphans = run.unplanned()
        if orphans:
            raise _no_host(hosts, run, orphans)


def _print_plan(run: FleetRun) -> None:
    for line in dispatch.plan_lines(run.plan(), run.kinds):
        console.print(Text(f"plan    {line}"), soft_wrap=True)


def _no_host(hosts: Inventory, run: FleetRun, orphans: Sequence[Shard]) -> FleetError:
    """Return the error for workloads that no host can measure, with the reason of each host that is left out."""
    reasons = [
        f"{name}: {host.refused or host.given_up}"
        for name, host in run.record.hosts.items()
        if host.refused or host.given_up
    ]
    return FleetError(
        file=str(hosts.path),
        found=f"no host can measure {', '.join(shard.title for shard in orphans)} ({'; '.join(reasons)})",
        todo="Make the hosts reachable or correct their kind, then run the command again.",
    )  # fmt: skip


def _resumed_engine(before: FleetRecord, asked_for: EngineName | None) -> EngineName | None:
    """Return the engine with which the fleet began; UsageError if another one is named."""
    began = before.engine or EngineName.DOCKER
    if asked_for not in {None, began}:
        raise UsageError(
            key="--engine",
            found=f"{before.name} was started with {began}, not with {asked_for}",
            todo=f"Use --engine {began}, or start a new fleet: ratios of two engines are not comparable.",
        )
    return before.engine


def _record(
    before: FleetRecord | None,
    name: str,
    results: Path,
    request: MatrixRequest,
    builds: FleetBuilds,
    hosts: Inventory,
    known: Catalog,
    each: bool,
) -> FleetRecord:
    """Return the record of a fleet that is resumed, or of one that begins: with nothing measured."""
    if before is not None:
        return _resumed_record(before, builds, hosts)
    settings = request.settings(experiment.choose_baseline(request.baseline, builds.built))
    kinds = {host: kind.name for host, kind in hosts.kinds.items()}
    where = [*_engine_options(builds.engine), *(["--as-root"] if builds.as_root else [])]
    options = experiment.repeat_options(settings, request.words, [*where, *(["--each"] if each else [])])
    guesses_s = {name: BENCHMARK_S * len(known.workloads[name].benchmarks) for name in settings.workloads}
    expected_s = dispatch.expectations(guesses_s, earlier_durations_s(results, settings))
    return FleetRecord(
        name=name,
        token=secrets.token_hex(3),
        tool_version=__version__,
        command=command_line("fleet", "-i", str(hosts.path), *options),
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        duration_s=0,
        settings=settings,
        each=each,
        engine=builds.engine,
        images=builds.identities,
        hosts={host: HostRecord(kind=kind) for host, kind in hosts.kinds.items()},
        shards=dispatch.shards(kinds, settings.workloads, expected_s, each),
    )


def _resumed_record(before: FleetRecord, builds: FleetBuilds, inventory: Inventory) -> FleetRecord:
    """Return the record with the inventory's hosts as they are now; UsageError if the images or kinds changed."""
    now = builds.identities
    changed = sorted(name for name, identity in before.images.items() if now.get(name, identity) != identity)
    if changed:
        found = f"built again since {before.name} was started: {', '.join(changed)}"
        raise UsageError(
            key="--resume", found=found, todo="Start a new fleet: ratios of two builds are not comparable."
        )
    known = {shard.kind for shard in before.shards}
    lost = known - {kind.name for kind in inventory.kinds.values()}
    if lost:
        found = f"the inventory has no host of the kind {', '.join(sorted(lost))} any more"
        raise UsageError(key="--resume", found=found, todo="Add such a host, or start a new fleet.")
    hosts = {
        host: before.hosts.get(host, HostRecord(kind=kind)).model_copy(update={"kind": kind})
        for host, kind in inventory.kinds.items()
        if kind.name in known
    }
    return before.model_copy(update={"hosts": {**before.hosts, **hosts}})


def _run_settings(
    paths: ProjectPaths,
    folder: Path,
    hosts: Inventory,
    record: FleetRecord,
    limits: Limits,
    variables: Mapping[str, object],
) -> RunSettings:
    repeat = partial(experiment.repeat_command, where=_engine_options(record.engine))

    def take_in(fetched: Path, host: str, workload: str) -> None:
        def merged(before: Experiment | None, new: Experiment) -> Experiment:
            return merge_experiments(before, new, record.name, host, repeat)

        take_in_results(fetched, folder / host, workload, merged, record.settings)

    return RunSettings(
        root=paths.root,
        folder=folder,
        inventory=hosts,
        limits=limits,
        variables=variables,
        options_of=lambda workload: _matrix_options(record, workload),
        take_in=take_in,
        print_line=lambda line: console.print(Text(line), soft_wrap=True),
    )


def _matrix_options(record: FleetRecord, workload: str) -> list[str]:
    """Return the options of `interlock matrix` on a host, for one workload."""
    settings = record.settings.model_copy(update={"workloads": [workload]})
    return experiment.repeat_options(settings, where=_engine_options(record.engine))


def _engine_options(named: EngineName | None) -> list[str]:
    return ["--engine", named.value] if named else []


def _measure(run: FleetRun, builds: FleetBuilds) -> None:
    """Examine the hosts, send them what they measure, let them measure, and report; FleetError if none takes part."""
    run.examine_hosts()
    _print_plan(run)
    if not run.kinds and run.unplanned():
        raise _no_host(run.settings.inventory, run, run.unplanned())
    sent = builds.write_archive(run.settings.variables)
    try:
        run.carry_out()
    finally:
        for path in sent:
            path.unlink(missing_ok=True)
    _report(run.settings.folder, run.record)


def _report(folder: Path, record: FleetRecord) -> None:
    """Write a report for each host and a summary of each kind of host, and print the summary."""
    measured = store.experiments_in(folder) if any(shard.done_by for shard in record.shards) else []
    for one in list(measured):
        try:
            store.write_atomically(one / "report.md", report.markdown(*load_experiment(one)))
            write_page(one, one / PAGE_FILE)
        except (InterlockError, ValueError, LookupError, TypeError, ArithmeticError) as error:
            console.print(Text(f"host    {one.name} has no report: {error}"), soft_wrap=True)
            measured.remove(one)
    if measured:
        documents = [comparisons.hosts_document(one) for one in cohorts.kind_summaries(read_extracts(measured))]
        store.write_atomically(folder / "report.md", comparisons.markdown(documents))
        console.print(comparisons.terminal(documents))
    _print_missing(folder, record)


def _print_missing(folder: Path, record: FleetRecord) -> None:
    """Print which hosts dropped out; FleetError if a workload was measured by no host."""
    for name, host in record.hosts.items():
        for what, reason in (
            ("left out", host.refused),
            ("given up", host.given_up),
            ("not restored", host.not_restored),
        ):
            if reason:
                console.print(Text(f"host    {name} {what}: {reason}"), soft_wrap=True)
    if (folder / "report.md").is_file():
        console.print(f"\nFull report: {folder / 'report.md'}", highlight=False, soft_wrap=True)
    missing = [shard for shard in record.shards if not shard.done_by]
    if missing:
        reasons = [shard.attempts[-1].reason for shard in missing if shard.attempts] or [
            "no host of its kind is in the fleet"
        ]
        raise FleetError(
            file=str(folder),
            key=", ".join(shard.title for shard in missing),
            found=f"not measured: {reasons[0]}",
            todo=f"Measure it: {resuming(record.command, record.name)}",
        )
