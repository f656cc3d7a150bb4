"""The command that measures a matrix on many hosts."""

from __future__ import annotations

import datetime
import json
import secrets
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from interlock import __version__, experiment, report, store
from interlock.across import hosts, reading, text
from interlock.commands.archives import wanted_tags
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
from interlock.commands.options import Names, Release, Results
from interlock.engine import archives
from interlock.engine.client import connect
from interlock.errors import FleetError, UsageError
from interlock.fleet import archive, files, inventory, merging, planning
from interlock.fleet.inventory import Inventory
from interlock.fleet.record import FleetRecord, HostRecord
from interlock.fleet.running import Limits, Orders, Run
from interlock.model import Built, Catalog, Experiment, Settings, State
from interlock.places import Places
from interlock.routines import (
    PAGE_FILE,
    build_options,
    build_variants,
    console,
    fail_on_failed_builds,
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
    wanted = wanted if before is None else _as_before(wanted, before.settings)
    write_generated(places, known)
    built = build_variants(connect(), known, wanted.variants, build_options(places, wanted.release))
    fail_on_failed_builds(built)
    images = archives.ids_of(connect(), wanted_tags(places, known, built))
    folder = into / before.name if before else store.new_experiment(into, datetime.date.today().isoformat())
    record = _again(before, images, listed) if before else _new(folder, wanted, built, images, listed, known, each)
    variables = _image_variables(places, record, listed, built)
    run = Run(_orders(places, folder, listed, record, Limits(forks, deadline, bandwidth), variables), record)
    _carry_out(run, places, only_plan=plan)


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


def _new(
    folder: Path,
    wanted: Asked,
    built: list[Built],
    images: dict[str, str],
    listed: Inventory,
    known: Catalog,
    each: bool,
) -> FleetRecord:
    settings = wanted.settings(built)
    kinds = {host: kind.name for host, kind in listed.kinds.items()}
    guesses_s = {name: BENCHMARK_S * len(known.workloads[name].benchmarks) for name in settings.workloads}
    expected_s = planning.expectations(guesses_s, files.measured_s(folder.parent, settings))
    return FleetRecord(
        name=folder.name,
        token=secrets.token_hex(3),
        tool_version=__version__,
        command=experiment.repeat_command(settings, wanted.everything).replace("-s matrix", "-s fleet"),
        started=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        duration_s=0,
        settings=settings,
        each=each,
        images=images,
        hosts={host: HostRecord(kind=kind) for host, kind in listed.kinds.items()},
        shards=planning.shards(kinds, settings.workloads, expected_s, each),
    )


def _again(before: FleetRecord, images: dict[str, str], listed: Inventory) -> FleetRecord:
    """The record with the inventory's hosts as they are now; UsageError if what is measured would be another."""
    changed = sorted(tag for tag, image_id in before.images.items() if images.get(tag, image_id) != image_id)
    if changed:
        found = f"images are others than when {before.name} began: {', '.join(changed)}"
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
    image_variables: Mapping[str, Any],
) -> Orders:
    packed, version = archive.write(places.root, places.cache)
    variables = {"interlock_version": version, "project_archive": str(packed)}

    def take_in(fetched: Path, host: str, workload: str) -> None:
        def joined(before: Experiment | None, new: Experiment) -> Experiment:
            return merging.merged(before, new, record.name, host, experiment.repeat_command)

        merging.take_in(fetched, folder / host, workload, joined)

    return Orders(
        root=places.root,
        folder=folder,
        inventory=listed,
        limits=limits,
        variables={**variables, **image_variables},
        options_of=lambda workload: _matrix_options(record.settings, workload),
        take_in=take_in,
        say=lambda line: console.print(Text(line), soft_wrap=True),
    )


def _matrix_options(settings: Settings, workload: str) -> list[str]:
    """What a host is to add to `interlock matrix` for one workload."""
    words = shlex.split(experiment.repeat_command(settings.model_copy(update={"workloads": [workload]})))
    return words[words.index("--") + 1 :]


def _image_variables(places: Places, record: FleetRecord, listed: Inventory, built: list[Built]) -> Mapping[str, Any]:
    """How a host comes to the images: from the inventory's registry, or from an archive of the controller's."""
    if listed.registry:
        # What could not be built here is in no registry either; the host says why, once more.
        variants = [one.variant for one in built if one.outcome.state is State.OK]
        options = [*variants, *(["--release"] if record.settings.profile == "release" else [])]
        return {"images_options": options}
    there = places.cache / "fleet"
    return {"images_list": str(there / f"{record.token}.json"), "images_archive": str(there / f"{record.token}.tar")}


def _carry_out(run: Run, places: Places, *, only_plan: bool) -> None:
    orders = run.orders
    run.look()
    for line in planning.lines(run.plan(), run.kinds):
        console.print(Text(f"plan    {line}"), soft_wrap=True)
    if only_plan:
        if not any(shard.attempts for shard in run.record.shards):
            store.remove_folder(orders.folder)
        return
    sent = _archive(orders, run.record)
    try:
        run.carry_out()
    finally:
        for path in sent:
            path.unlink(missing_ok=True)
    _report(orders.folder, run.record)


def _archive(orders: Orders, record: FleetRecord) -> list[Path]:
    """Writes the list and the archive of the images, unless a registry has them."""
    if orders.inventory.registry:
        return []
    listing, packed = (Path(orders.variables[key]) for key in ("images_list", "images_archive"))
    store.write_whole(listing, json.dumps(record.images))
    archives.save(connect(), list(record.images), packed)
    console.print(Text(f"images  {len(record.images)} in an archive of {packed.stat().st_size / 1e6:.0f} MB"))
    return [listing, packed]


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
