"""Turns options into the settings of an experiment; a resumed experiment has those of its record."""

from __future__ import annotations

import os
import random
from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from interlock import __version__
from interlock.catalog import selection
from interlock.catalog.project import Catalog
from interlock.catalog.selection import CORE
from interlock.cli.options import ENGINE, MatrixOptions, console, notes, parse_duration, split_names
from interlock.engine import finding
from interlock.engine.machine import facts
from interlock.engine.protocol import Feature
from interlock.errors import UsageError, nearest, require_known
from interlock.measure import resumable
from interlock.measure.assignment import planned_rounds
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Experiment
from interlock.results.journal import of_versions
from interlock.results.settings import Settings, Where

if TYPE_CHECKING:
    from interlock.fleet.record import FleetRecord


def settings_from(
    known: Catalog, options: MatrixOptions, results: Path | None = None, budget: str | None = None
) -> Settings:
    """Return the settings that the options alone ask for; UsageError for a name that does not exist."""

    def labels_of(rows: list[str]) -> list[str]:
        return selection.select_labels(known.variants, rows, "--variants")

    def workloads_of(names: list[str]) -> list[str]:
        return selection.select_names(known.workloads, names, "workload", "--workloads")

    rows, wanted = split_names(options.variants) or [CORE], split_names(options.workloads) or [CORE]
    labels, benchmarks = labels_of(rows), selection.select_benchmarks(known.workloads, wanted, "--workloads")
    workloads = workloads_of([name.partition("/")[0] for name in wanted])
    least, limit = planned_rounds(options.quick, options.rounds)
    asked = Settings(
        quick=options.quick,
        rounds=least,
        rounds_limit=limit,
        seed=new_seed(options.seed),
        baseline="",
        variants=labels,
        workloads=workloads,
        benchmarks=benchmarks,
        profiled=options.profile,
        why=options.why,
        budget_s=parse_duration(budget, "--budget") if budget else None,
        # Named one by one, as for a fleet's hosts, they are measured as they are named, whatever word stands for them.
        variants_word=selection.word_for(labels, labels_of) if rows[0] in selection.WORDS else "",
        workloads_word="" if benchmarks else selection.word_for(workloads, workloads_of),
        where=Where(engine=options.engine, as_root=options.as_root, results=str(results.absolute()) if results else ""),
    )
    if options.baseline is None:
        return asked
    require_known(known.variants, options.baseline, "variant", "--baseline")
    return asked.with_baseline(options.baseline)


def new_seed(wanted: int | None) -> int:
    """Return the seed that was given, else a random one."""
    return random.SystemRandom().randrange(2**32) if wanted is None else wanted


# The fields that an option sets, if it is not the one of its own name, and how options are typed.
SETS = {"profile": ("profiled",), "rounds": ("rounds", "rounds_limit"), "workloads": ("workloads", "benchmarks")}
TYPED = {"profile": "--no-profile"}


def require_no_contradiction(options: MatrixOptions, asked: Settings, began: Experiment | FleetRecord) -> None:
    """Raise UsageError for an option that is given with another value than when the experiment began."""
    before, engine = began.settings, began.engine
    asked = asked.with_baseline(before.baseline) if options.baseline is None else asked
    # Without containers the core set is only the part that was there.
    is_cut = asked.variants_word == CORE and finding.cannot(engine, Feature.WHOLE_CORE) is not None
    may_differ = {"as_root", "variants"} if is_cut else {"as_root"}
    for option in fields(options):
        given = getattr(options, option.name)
        if given in {option.default, "", None} or option.name in may_differ:
            continue
        names = SETS.get(option.name, (option.name,))
        same = given is engine if option.name == "engine" else all(are_same(asked, before, name) for name in names)
        if not same:
            typed = TYPED.get(option.name, f"--{option.name}")
            problem = f"{began.name} was started with other options: {began.command}"
            is_set = option.name == "engine" and os.environ.get(ENGINE) == given
            todo = f"Unset {ENGINE}" if is_set else f"Leave out {typed}"
            raise UsageError(key=typed, found=problem, todo=f"{todo}, or start a new experiment.")


def are_same(asked: object, before: object, name: str) -> bool:
    """Return whether what is asked for agrees with what is recorded on a field; the order of names does not count."""
    values = (getattr(settings, name) for settings in (asked, before))
    wanted, other = (set(value) if isinstance(value, list) else value for value in values)
    return bool(wanted == other)


def resumed_place(
    named: str | None, results: Path | None, record: str = EXPERIMENT_FILE, *, name: str | None = None
) -> tuple[str | None, Path | None]:
    """Return the name of the experiment to go on with and the folder of results, from its name or its folder.

    `record` is the file that marks its folder. UsageError for a folder without it, or --resume with --name.
    """
    store.require_name(name)
    if named is not None and (Path(named) / record).is_file():
        folder = Path(named).resolve()
        named, results = folder.name, folder.parent
    if named is not None and Path(named).name != named:
        raise UsageError(key="--resume", found=f"there is no {record} in {named}", todo="Name a folder that has one.")
    store.require_name(named, "--resume")
    if named and name:
        raise UsageError(key="--name", found="is not for --resume", todo="Leave out one of them.")
    return named, results


def require_begun(results: Path, name: str, record: str = EXPERIMENT_FILE) -> None:
    """Raise UsageError if no experiment of this name has begun in this folder; one further below has to be named."""
    if not (results / name / record).is_file():
        below = {path.parent.name: path.parent for depth in ("*/*", "*") for path in results.glob(f"{depth}/{record}")}
        todo = f"Name its folder: {below[name]}" if name in below else nearest(name, below)
        raise UsageError(key="--resume", found=f"there is no experiment '{name}' in {results}", todo=todo)


def unfinished(results: Path, name: str, *, is_trial: bool) -> Experiment:
    """Return the experiment of this name, with all that its journal has.

    UsageError if it is missing, still running, complete, or was begun by another command, release or machine. Another
    development version is said.
    """
    require_begun(results, name)
    if not store.recover(results / name):
        raise UsageError(key="--resume", found=f"{name} is being measured", todo="Wait for its end.")
    began = store.read_experiment(results / name).model_copy(update={"name": name})
    if (began.trial is not None) is not is_trial:
        problem = f"{name} is {'no' if is_trial else 'a'} trial"
        raise UsageError(key="--resume", found=problem, todo=f"Continue it: {began.resume_command}")
    resumable.require_same_host(began, facts())
    resumable.require_same_release(began, __version__)
    resumable.remaining(began)
    for warning in of_versions(began, __version__):
        notes.say(f"resume  {name}: {warning}")
    return began


def say_resumed(began: Experiment, names: Collection[str]) -> None:
    """Print which workloads of an experiment are complete, and how the others go on."""
    kept = [workload for workload in began.settings.workloads if workload not in names]
    again = [workload for workload in names if workload in began.unfinished]
    anew = [workload for workload in names if workload not in again]
    parts = {"kept": kept, "further rounds of": again, "anew": anew}
    said = "; ".join(f"{word} {', '.join(workloads)}" for word, workloads in parts.items() if workloads)
    console.say(f"resume  {began.name}: {said}")
