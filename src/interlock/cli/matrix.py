"""The command that measures a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from interlock.analysis import durations
from interlock.catalog import project
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.selection import CORE
from interlock.catalog.types import split_label
from interlock.cli import announcing
from interlock.cli.announcing import DryRun, announce, disk
from interlock.cli.choosing import lead_to
from interlock.cli.images import build_variants, fail_on_failed_builds, write_generated
from interlock.cli.options import MatrixOptions, Results, console, given_versions, open_clone, open_project, takes
from interlock.cli.preparing import ready_machine
from interlock.cli.progress import DecidedRows, Display, MeasureProgress
from interlock.cli.report import refresh_report, write_report
from interlock.cli.settings import require_no_contradiction, resumed_place, say_resumed, settings_from, unfinished
from interlock.engine.protocol import INSTRUMENTS, BuildOptions, CoreSet, Engine, Feature
from interlock.errors import UsageError, WorkloadError
from interlock.measure import noise
from interlock.measure.assignment import Assignment
from interlock.measure.ending import Ending
from interlock.measure.experiment import helpers_of
from interlock.measure.forecast import Forecast, usual_budget_s
from interlock.measure.programs import programs_of
from interlock.measure.resumable import remaining, require_same_catalog
from interlock.measure.stages import StagedRun
from interlock.measure.watching import Observers
from interlock.report import overview
from interlock.report.experiment import failed_cells
from interlock.results import store
from interlock.results.answers import RecordedFigures
from interlock.results.commands import command_line
from interlock.results.experiments import Built, Experiment, Outcome, State
from interlock.results.settings import Settings


@takes
def matrix(
    options: MatrixOptions,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the experiment and its folder (default: from the date).")
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time limit for measuring: 90s, 10m, 1h (default: none; 16m for the core set with --quick).",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Unfinished experiment to continue, by name or folder."),
    ] = None,
    for_reference: Annotated[
        bool,
        typer.Option("--for-reference", help="Measure into results/reference/, if this machine is quiet enough."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Agree to the plan; prepare this machine first (playbooks/host.yml).")
    ] = False,
    results: Results = None,
    dry_run: DryRun = False,
) -> None:
    """Build variants, measure workloads on them and report: the main job.

    Checks this machine first. Cells that fail do not stop the others. Ctrl-C ends the run and reports what is
    known so far; a second Ctrl-C stops at once.
    """
    place = place_of_references(results, resume, dry_run=dry_run) if for_reference else results
    resume, place = resumed_place(resume, place, name=name)
    paths, known = open_project()
    into, began = place or paths.results, None
    asked = settings = settings_from(known, options, results, budget)
    if resume:
        began = unfinished(into, resume, is_trial=False)
        require_same_catalog(began, known, programs_of(paths.root))
        require_no_contradiction(options, asked, began)
        settings = began.settings.model_copy(update={"workloads": remaining(began)})
        say_resumed(began, settings.workloads)
    project.require_programs(paths.root, (known.workloads[each] for each in settings.workloads))
    announcing.require_writable(into, name)
    engine = began.engine if began else options.engine
    print_known(paths, settings)
    # A resumed experiment has already ended in time once.
    ending = Ending(asked.budget_s or (None if began else usual_budget_s(asked)))
    places = dict.fromkeys(each for of in (paths.reference, paths.results) for each in store.experiments_below(of))
    earlier = store.readable_experiments(places)
    forecast = Forecast(paths, known, settings, earlier, ending)
    rest = forecast.of_all(settings.to_build)
    with ready_machine(
        paths,
        known,
        settings.profiled,
        agreed=yes,
        engine=engine,
        as_root=options.as_root,
        rest=rest,
        dry_run=dry_run,
    ) as machine:
        # Ratios of different builds do not compare, so it goes on with the versions that it began with.
        declared, known = known, known.at(began.versions if began else given_versions(known))
        where, left_out = lead_to(machine.name, engine, as_root=options.as_root), list[Built]()
        if began is None:
            placed = where.model_copy(update={"results": asked.where.results, "for_reference": for_reference})
            settings = settings.model_copy(update={"budget_s": ending.budget_s, "where": placed})
            settings, left_out = what_can_be(machine, known, settings)
        forecast = replace(forecast, settings=settings)
        helpers = [INSTRUMENTS, *helpers_of(known.workloads[each] for each in settings.workloads)]
        how = BuildOptions(paths.root, paths.cache, helpers=helpers)
        there = machine.look_up(known, settings.to_build, how)
        missing = announcing.missing_in(there)
        first = forecast.first(known, missing) if began is None else []
        expected, *soon = forecast.lines(missing, first)
        takes_disk = f"; {disk(paths, missing)}" if missing else ""
        announce(f"{expected}{takes_disk}", *soon, *announcing.left_out_of(there), dry_run=dry_run)
        write_generated(paths, declared)
        assignment = Assignment(
            known,
            paths.root,
            into,
            left_out,
            began.settings if began else settings,
            name=name,
            resumes=began,
            order=durations.shortest_first(settings, forecast.earlier),
        )
        watch = ExperimentDisplay(ending).watching
        build = partial(build_variants, machine, known, options=how)
        folder, built = StagedRun(machine, assignment, how, ending, build, watch).run(first, there)
    described = write_report(folder, keeps_page=not for_reference)  # a reference's page is made from its files
    if for_reference:
        console.say(f"next    {command_line('render')}, and docs/contribute-a-reference.md")
    if ending.exit_code:
        raise typer.Exit(ending.exit_code)
    fail_on_failed_builds(built, where.words)
    fail_on_failed_cells(folder, described)


def place_of_references(results: Path | None, resume: str | None = None, *, dry_run: bool = False) -> Path:
    """Return a clone's folder of references; raise outside a clone, or if this machine is too noisy for a reference.

    UsageError too for an experiment to resume that is elsewhere.

    Measuring the noise takes a second on each CPU, which is too much for a dry run.
    """
    paths, _ = open_clone("and references are files of one")
    if results is not None:
        raise UsageError(key="--results", found="is given with --for-reference", todo="Leave one of them out.")
    _, place = resumed_place(resume, paths.reference)
    if place is not None and place.resolve() != paths.reference.resolve():
        problem = f"'{resume}' is not in {paths.reference}"
        raise UsageError(key="--resume", found=problem, todo="Leave out --for-reference.")
    if dry_run:
        return paths.reference
    noise_by_cpu = noise.of_this_machine()
    said = ", ".join(f"{share:.1%} on CPU {cpu}" for cpu, share in noise_by_cpu.items())
    console.say(f"noise   of one value of an equal loop: {said}")
    noise.require_quiet(noise_by_cpu)
    return paths.reference


def print_known(paths: ProjectPaths, settings: Settings) -> None:
    """Print what the first of the project's references says that has figures of what these settings measure."""
    folders = (paths.reference / name for name in overview.KNOWN)
    known = (
        overview.known_lines(store.read_experiment(folder), store.read_json(file, RecordedFigures), settings)
        for folder in folders
        if (file := folder / store.FIGURES_FILE).is_file()
    )
    for line in next(filter(None, known), []):
        console.say(line)


def what_can_be(machine: Engine, known: Catalog, settings: Settings) -> tuple[Settings, list[Built]]:
    """Return the part of the settings that this engine can measure, and the variants that it leaves out."""
    left_out: list[Built] = []
    if settings.variants_word == CORE:
        core = machine.core(known)
        settings, left_out = with_core(settings, core), unavailable_in(core)
    refused = machine.cannot(Feature.SYSTEM_CALLS) if settings.profiled else None
    if refused is not None:
        console.say(f"profile {refused.found}")
        settings = settings.model_copy(update={"profiled": False})
    return settings, left_out


def with_core(settings: Settings, core: CoreSet) -> Settings:
    """Return the settings with the part of the core set that the engine has, and say what is left out and why."""
    for label, reason in core.left_out:
        console.say(f"without {label}: {reason}")
    if not core.labels:
        raise UsageError(
            key="--variants",
            found="nothing of the core set can be measured on this machine",
            todo="Run `interlock doctor --engine host`: it names what is missing.",
        )
    named = [label for label in settings.variants if settings.baseline and split_label(label)[0] == settings.baseline]
    return settings.model_copy(update={"variants": list(dict.fromkeys([*core.labels, *named]))})


def unavailable_in(core: CoreSet) -> list[Built]:
    """Return the variants that a core set leaves out, with the reasons, which the report has too."""
    there = {split_label(label)[0] for label in core.labels}
    reasons = {split_label(label)[0]: reason for label, reason in core.left_out}
    return [
        Built(variant=name, outcome=Outcome(state=State.UNAVAILABLE, reason=reason))
        for name, reason in reasons.items()
        if name not in there
    ]


@dataclass
class ExperimentDisplay:
    """Shows an experiment while it is measured; if that has two parts, each row is shown once."""

    ending: Ending
    _rows: DecidedRows | None = None

    @contextmanager
    def watching(self, assignment: Assignment) -> Iterator[Observers]:
        """Give the block the observers that show how an assignment is measured."""
        with Display(console) as display:
            rows = self._rows = self._rows or DecidedRows(display, assignment.settings.baseline)
            rows.display = display
            on_progress = MeasureProgress(display, len(assignment.to_measure), lambda: rows.counts, self.ending.left_s)
            yield Observers(on_progress, rows, self.ending, refresh_report, rows.on_disturbed)


def fail_on_failed_cells(folder: Path, described: Experiment) -> None:
    """Raise WorkloadError for the first cell that failed."""
    for cell in failed_cells([*described.cells, *described.limits]):
        raise WorkloadError(
            file=str(folder),
            key=f"{cell.label} / {cell.workload}",
            found=cell.outcome.reason,
            todo=f"Every other cell is in {folder}; run it again with --workloads {cell.workload}.",
        )
