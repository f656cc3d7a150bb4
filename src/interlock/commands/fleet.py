"""The command that measures a matrix on many hosts."""

from __future__ import annotations

import datetime
import secrets
import shlex
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock import __version__, experiment, report, store
from interlock.across import hosts, reading, text
from interlock.commands.asked import (
    Asked,
    Baseline,
    Conditions,
    Labels,
    Profiled,
    Quick,
    Rounds,
    Seed,
    asked,
)
from interlock.commands.options import Engine, Names, Release, Results
from interlock.commands.supply import Supply, supply
from interlock.errors import FleetError, UsageError
from interlock.fleet import archive, files, inventory, merging, planning
from interlock.fleet.inventory import Inventory
from interlock.fleet.record import FleetRecord, HostRecord
from interlock.fleet.running import Limits, Orders, Run
from interlock.model import Catalog, EngineName, Experiment, Settings
from interlock.places import Places
from interlock.routines import (
    PAGE_FILE,
    console,
    load,
    project,
    write_generated,
    write_page,
)

# What a benchmark takes on two cores when nothing is known of it.
BENCHMARK_S = 20.0


def fleet_command(
    file: Annotated[Path, typer.Option("--inventory", "-i", dir_okay=False, help="Ansible's list of the hosts.")],
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
    each: Annotated[
        bool, typer.Option("--each", help="Every host measures every workload; else the hosts of a kind share them.")
    ] = False,
    forks: Annotated[int, typer.Option(min=1, help="Hosts that are worked on at the same time.")] = 20,
    deadline: Annotated[float, typer.Option(min=1, help="Seconds for each step on a host.")] = 7200,
    bandwidth: Annotated[float | None, typer.Option(help="MB/s, at most, to each host.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Show who would measure what, and change nothing.")] = False,
    resume: Annotated[str | None, typer.Option(help="A fleet's experiment that is to be completed.")] = None,
    results: Results = None,
) -> None:
    """Measure on many hosts: make them ready, share the workloads, fetch and compare what they measured."""
    places, known = project()
    into = results or places.results
    listed = inventory.read(file, places.root)
    before = files.read(into / resume) if resume else None
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
    if before is not None:
        wanted, engine = _as_before(wanted, before.settings), _engine_of(before, engine)
    wanted.require_possible(engine)
    write_generated(places, known)
    supplied = supply(places, known, wanted.variants, release=wanted.release, engine=engine)
    folder = into / before.name if before else store.new_experiment(into, datetime.date.today().isoformat())
    record = _again(before, supplied, listed) if before else _new(folder, wanted, supplied, listed, known, each)
    orders = _orders(places, folder, listed, record, Limits(forks, deadline, bandwidth), supplied)
    _carry_out(Run(orders, record), supplied, only_plan=plan)


def _as_before(wanted: Asked, settings: Settings) -> Asked:
    """A resumed fleet measures what it was asked for when it began."""
    return replace(
        wanted,
        labels=settings.variants,
        everything=False,
        workloads=settings.workloads,
        conditions=settings.conditions,
        quick=settings.quick,
        rounds=settings.rounds if settings.rounds_limit is None else None,
        baseline=settings.baseline,
        seed=settings.seed,
        profiled=settings.profiled,
        release=settings.profile == "release",
    )


def _engine_of(before: FleetRecord, asked_for: EngineName | None) -> EngineName | None:
    """A resumed fleet goes on with the engine with which it began; UsageError if another one is asked for."""
    began = before.engine or EngineName.DOCKER
    if asked_for not in {None, began}:
        raise UsageError(
            key="--engine",
            found=f"{before.name} began with {began}, not with {asked_for}",
            todo=f"Say --engine {began}, or begin a new one: its ratios would be of two engines.",
        )
    return before.engine


def _new(folder: Path, wanted: Asked, supplied: Supply, listed: Inventory, known: Catalog, each: bool) -> FleetRecord:
    settings = wanted.settings(supplied.built)
    kinds = {host: kind.name for host, kind in listed.kinds.items()}
    guesses_s = {name: BENCHMARK_S * len(known.workloads[name].benchmarks) for name in settings.workloads}
    expected_s = planning.expectations(guesses_s, files.measured_s(folder.parent, settings))
    return FleetRecord(
        name=folder.name,
        token=secrets.token_hex(3),
        tool_version=__version__,
        command=experiment.repeat_command(settings, wanted.everything, supplied.engine).replace(
            "-s matrix", "-s fleet"
        ),
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        duration_s=0,
        settings=settings,
        each=each,
        engine=supplied.engine,
        images=supplied.identities,
        hosts={host: HostRecord(kind=kind) for host, kind in listed.kinds.items()},
        shards=planning.shards(kinds, settings.workloads, expected_s, each),
    )


def _again(before: FleetRecord, supplied: Supply, listed: Inventory) -> FleetRecord:
    """The record with the inventory's hosts as they are now; UsageError if what is measured would be another."""
    now = supplied.identities
    changed = sorted(name for name, identity in before.images.items() if now.get(name, identity) != identity)
    if changed:
        found = f"what was built is not what it was when {before.name} began: {', '.join(changed)}"
        raise UsageError(key="--resume", found=found, todo="Begin a new one: its ratios would be of two builds.")
    known = {shard.kind for shard in before.shards}
    lost = known - {kind.name for kind in listed.kinds.values()}
    if lost:
        found = f"no host of the kind {', '.join(sorted(lost))} is in the inventory any more"
        raise UsageError(key="--resume", found=found, todo="Bring it back, or begin a new one.")
    hosts = {
        host: before.hosts.get(host, HostRecord(kind=kind)).model_copy(update={"kind": kind})
        for host, kind in listed.kinds.items()
        if kind.name in known
    }
    return before.model_copy(update={"hosts": {**before.hosts, **hosts}})


def _orders(
    places: Places,
    folder: Path,
    listed: Inventory,
    record: FleetRecord,
    limits: Limits,
    supplied: Supply,
) -> Orders:
    packed, version = archive.write(places.root, places.cache)
    repeat = partial(experiment.repeat_command, engine=record.engine)

    def take_in(fetched: Path, host: str, workload: str) -> None:
        def joined(before: Experiment | None, new: Experiment) -> Experiment:
            return merging.merged(before, new, record.name, host, repeat)

        merging.take_in(fetched, folder / host, workload, joined)

    return Orders(
        root=places.root,
        folder=folder,
        inventory=listed,
        limits=limits,
        variables={
            "interlock_version": version,
            "project_archive": str(packed),
            "prefixes_deadline_s": round(limits.deadline_s),
            **supplied.variables(places, record, listed),
        },
        options_of=lambda workload: _matrix_options(record.settings, workload, repeat),
        take_in=take_in,
        say=lambda line: console.print(Text(line), soft_wrap=True),
    )


def _matrix_options(settings: Settings, workload: str, repeat: Callable[[Settings], str]) -> list[str]:
    """What a host is to add to `interlock matrix` for one workload."""
    words = shlex.split(repeat(settings.model_copy(update={"workloads": [workload]})))
    return words[words.index("--") + 1 :]


def _carry_out(run: Run, supplied: Supply, *, only_plan: bool) -> None:
    orders = run.orders
    run.look()
    for line in planning.lines(run.plan(), run.kinds):
        console.print(Text(f"plan    {line}"), soft_wrap=True)
    if only_plan:
        if not any(shard.attempts for shard in run.record.shards):
            store.remove_folder(orders.folder)
        return
    sent = supplied.pack(orders.variables)
    try:
        run.carry_out()
    finally:
        for path in sent:
            path.unlink(missing_ok=True)
    _report(orders.folder, run.record)


def _report(folder: Path, record: FleetRecord) -> None:
    """Each host's report beside its values, and what the hosts of each kind say together."""
    measured = store.experiments_in(folder) if any(shard.done_by for shard in record.shards) else []
    for one in measured:
        store.write_whole(one / "report.md", report.markdown(*load(one)))
        write_page(one, one / PAGE_FILE)
    if measured:
        documents = [text.of_hosts(one) for one in hosts.summaries(reading.read_all(measured))]
        store.write_whole(folder / "report.md", text.markdown(documents))
        console.print(text.terminal(documents))
    _say_what_is_missing(folder, record)


def _say_what_is_missing(folder: Path, record: FleetRecord) -> None:
    for name, host in record.hosts.items():
        for what, reason in (
            ("left out", host.refused),
            ("given up", host.given_up),
            ("not restored", host.not_restored),
        ):
            if reason:
                console.print(Text(f"host    {name} {what}: {reason}"), soft_wrap=True)
    console.print(f"\nFull report: {folder / 'report.md'}", highlight=False, soft_wrap=True)
    missing = [shard for shard in record.shards if not shard.done_by]
    if missing:
        reasons = [shard.attempts[-1].reason for shard in missing if shard.attempts] or ["no host of its kind was left"]
        raise FleetError(
            file=str(folder),
            key=", ".join(shard.title for shard in missing),
            found=f"was measured by no host: {reasons[0]}",
            todo=f"The rest is complete; `interlock fleet -i INVENTORY --resume {record.name}` goes on.",
        )
