"""The command that measures a matrix, and the options that it shares with the command for fleets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock.analysis import durations
from interlock.catalog import project
from interlock.catalog.project import CORE, EVERYTHING, Catalog, ProjectPaths
from interlock.catalog.types import DEFAULT_BASELINE, split_label
from interlock.cli import progress
from interlock.cli.choosing import lead_to
from interlock.cli.images import build_options, build_variants, fail_on_failed_builds, write_generated
from interlock.cli.options import (
    MatrixOptions,
    Results,
    console,
    open_project,
    parse_duration,
    profile_name,
    split_names,
    takes,
)
from interlock.cli.preparing import ready_machine
from interlock.cli.progress import DecidedRows
from interlock.cli.report import refresh_report, write_report
from interlock.engine.host import profiler
from interlock.engine.machine import facts
from interlock.engine.protocol import INSTRUMENTS, BuildOptions, CoreSet, Engine
from interlock.errors import UsageError, WorkloadError, nearest
from interlock.measure import experiment, resumable, stages
from interlock.measure.ending import Ending
from interlock.measure.experiment import Assignment, Wildcards
from interlock.report import overview
from interlock.report.experiment import failed_cells
from interlock.results import store
from interlock.results.answers import RecordedFigures
from interlock.results.experiments import Built, EngineName, Experiment, Outcome, Settings, State, require_built

# README's first command, the core set with --quick, is to end in half an hour, builds included.
QUICK_CORE_S = 12 * 60.0


@dataclass(frozen=True)
class MatrixRequest:
    """What the options of `matrix` or `fleet` ask for; all names in it exist."""

    labels: list[str]
    words: Wildcards
    workloads: list[str]
    conditions: list[str]
    quick: bool
    rounds: int | None
    baseline: str | None
    seed: int | None
    profiled: bool
    release: bool
    why: bool = False

    @property
    def variants(self) -> list[str]:
        """Return the variants that have to be built."""
        return list(dict.fromkeys(split_label(label)[0] for label in self.labels))

    @property
    def usual_budget_s(self) -> float | None:
        """Return the budget that the core set has with --quick unless another one, or rounds, are asked for."""
        is_core = self.words == Wildcards(CORE, CORE)
        return QUICK_CORE_S if self.quick and is_core and self.rounds is None else None

    @property
    def rounds_alike(self) -> dict[str, bool]:
        """Return what an earlier experiment must have in common for its times to tell this one's."""
        return {"quick": self.quick, "fixed": self.rounds is not None}

    def require_possible(self, engine: EngineName | None) -> None:
        """Raise UsageError for an option that the named engine does not support."""
        if engine is EngineName.HOST and self.conditions:
            found = "needs containers, which --engine host does not have"
            raise UsageError(key="--conditions", found=found, todo="Leave out --conditions or --engine host.")

    def first_variants(self, known: Catalog, missing: Sequence[str]) -> list[str]:
        """Return the variants to build and measure first; none where all are built and measured at once.

        A fixed number of rounds is every row's: none has some before the others.
        """
        if self.rounds is not None:
            return []
        return stages.first_variants(known.variants, self.variants, missing, self.baseline)

    def settings(self, baseline: str) -> Settings:
        """Return the experiment's settings with this baseline."""
        plan = experiment.planned_rounds(self.quick, self.rounds)
        return Settings(
            quick=self.quick,
            rounds=plan.least,
            rounds_limit=plan.limit,
            seed=random.SystemRandom().randrange(2**32) if self.seed is None else self.seed,
            baseline=baseline,
            profile=profile_name(self.release),
            # The baseline is measured plain, whichever of its modes were chosen.
            variants=list(dict.fromkeys([*self.labels, baseline])),
            workloads=self.workloads,
            conditions=self.conditions,
            profiled=self.profiled,
            why=self.why,
        )


def read_request(known: Catalog, options: MatrixOptions) -> MatrixRequest:
    """Return the request that the options make; UsageError for a name that does not exist."""
    labels = project.select_labels(known.variants, split_names(options.variants) or [CORE])
    workloads = project.select_workloads(known.workloads, split_names(options.workloads) or [CORE])
    words = _words(known, labels, workloads)
    if options.baseline is not None:
        labels += project.select_names(known.variants, [options.baseline], "variant")
    under = split_names(options.conditions)
    return MatrixRequest(
        labels=labels,
        words=words,
        workloads=workloads,
        conditions=project.select_names(known.conditions, under, "condition") if under else [],
        quick=options.quick,
        rounds=options.rounds,
        baseline=options.baseline,
        seed=options.seed,
        profiled=options.profile,
        why=options.why,
        release=options.release,
    )


def with_core(request: MatrixRequest, core: CoreSet) -> MatrixRequest:
    """Return the request with the core set as far as the engine has it, and name what is left out and why."""
    for label, reason in core.left_out:
        console.print(Text(f"without {label}: {reason}"), soft_wrap=True)
    if not core.labels:
        raise UsageError(
            key="--variants",
            found="nothing of the core set can be measured on this machine",
            todo="Run `interlock doctor --engine host`: it names what is missing.",
        )
    chosen = [label for label in request.labels if request.baseline and split_label(label)[0] == request.baseline]
    return replace(request, labels=[*core.labels, *(one for one in chosen if one not in core.labels)])


def unavailable_in(core: CoreSet, profile: str) -> list[Built]:
    """Return the variants that a core set leaves out, with the reason, which the report says too."""
    there = {split_label(label)[0] for label in core.labels}
    reasons = {split_label(label)[0]: reason for label, reason in core.left_out}
    return [
        Built(variant=name, profile=profile, outcome=Outcome(state=State.UNAVAILABLE, reason=reason))
        for name, reason in reasons.items()
        if name not in there
    ]


def with_probe(request: MatrixRequest) -> MatrixRequest:
    """Return the request without a profile where this machine counts no system calls, and say so."""
    if not request.profiled or profiler.counts_calls():
        return request
    said = "neither strace nor BPF is here: no system call is counted"
    console.print(Text(f"profile {said}"), soft_wrap=True)
    return replace(request, profiled=False)


def _words(known: Catalog, labels: list[str], workloads: list[str]) -> Wildcards:
    """Return the words that stand for these names, so that the command to repeat an experiment is short."""
    every, core = (project.select_labels(known.variants, [word]) for word in (EVERYTHING, CORE))
    every_workload, core_workloads = (project.select_workloads(known.workloads, [word]) for word in (EVERYTHING, CORE))
    return Wildcards(project.word_for(labels, every, core), project.word_for(workloads, every_workload, core_workloads))


def resumed_request(request: MatrixRequest, settings: Settings) -> MatrixRequest:
    """Return what was asked for when an experiment, or a fleet, was begun."""
    return replace(
        request,
        labels=settings.variants,
        words=Wildcards(),
        workloads=settings.workloads,
        conditions=settings.conditions,
        quick=settings.quick,
        rounds=settings.rounds if settings.rounds_limit is None else None,
        baseline=settings.baseline,
        seed=settings.seed,
        profiled=settings.profiled,
        why=settings.why,
        release=settings.profile == "release",
    )


def require_no_contradiction(options: MatrixOptions, asked: MatrixRequest, began: Experiment) -> None:
    """Raise UsageError for an option that is given and is not as when the experiment was begun."""
    before = resumed_request(asked, began.settings)
    # Without containers the core set is what of it was there.
    is_core_here = asked.words.variants == CORE and engine_of(began) is EngineName.HOST
    contradictions = {
        "--variants": options.variants
        and not is_core_here
        and {*asked.labels, began.settings.baseline} != set(before.labels),
        "--workloads": options.workloads and set(asked.workloads) != set(before.workloads),
        "--conditions": options.conditions and set(asked.conditions) != set(before.conditions),
        "--quick": options.quick and not before.quick,
        "--rounds": options.rounds is not None and options.rounds != before.rounds,
        "--baseline": options.baseline and options.baseline != before.baseline,
        "--seed": options.seed is not None and options.seed != before.seed,
        "--no-profile": not options.profile and before.profiled,
        "--why": options.why and not before.why,
        "--release": options.release and not before.release,
        "--engine": options.engine and options.engine is not engine_of(began),
    }
    for option, contradicts in contradictions.items():
        if contradicts:
            found = f"{began.name} was started with other options: {began.command}"
            raise UsageError(key=option, found=found, todo=f"Leave out {option}, or start a new experiment.")


def engine_of(experiment: Experiment) -> EngineName:
    """Return the engine that an experiment was measured with."""
    return EngineName(experiment.host["engine"]["name"])


def resumed_place(
    named: str | None, results: Path | None, record: str = store.EXPERIMENT_FILE
) -> tuple[str | None, Path | None]:
    """Return the name of the experiment to go on with and the folder of results, from its name or its folder.

    `record` is the file that its folder has.
    """
    if named is not None and (Path(named) / record).is_file():
        folder = Path(named).resolve()
        return folder.name, folder.parent
    return named, results


def unfinished(results: Path, name: str) -> Experiment:
    """Return the experiment of this name with all that its journal has; UsageError if it is not there, or at work."""
    if not (results / name / store.EXPERIMENT_FILE).is_file():
        todo = nearest(name, [one.name for one in store.experiments_below(results)])
        raise UsageError(key="--resume", found=f"there is no experiment '{name}' in {results}", todo=todo)
    if not store.recover(results / name):
        raise UsageError(key="--resume", found=f"{name} is being measured", todo="Wait for its end.")
    return store.read_experiment(results / name).model_copy(update={"name": name})


def read_resumed(results: Path, name: str, options: MatrixOptions, asked: MatrixRequest) -> Experiment:
    """Return the experiment to go on with; UsageError if it cannot go on here, or not as the options ask."""
    began = unfinished(results, name)
    if began.trial is not None:
        raise UsageError(key="--resume", found=f"{name} is a trial", todo=f"Continue it: {began.resume_command}")
    require_no_contradiction(options, asked, began)
    resumable.require_same_host(began, facts())
    names = resumable.remaining(began)
    kept = [one for one in began.settings.workloads if one not in names]
    again = [one for one in names if one in began.unfinished]
    parts = {"kept": kept, "further rounds of": again, "anew": [one for one in names if one not in again]}
    said = "; ".join(f"{word} {', '.join(some)}" for word, some in parts.items() if some)
    console.print(Text(f"resume  {name}: {said}"), soft_wrap=True)
    return began


@dataclass
class MatrixRun:
    """Builds and measures what a request asks for, at once or the first rows before the others."""

    machine: Engine
    known: Catalog
    into: Path
    request: MatrixRequest
    how: BuildOptions
    ending: Ending
    order: Sequence[str]
    where: Sequence[str]  # words that lead a command to the same engine and results
    name: str | None
    began: Experiment | None
    left_out: Sequence[Built] = ()  # of the core set, with the reason
    rows: DecidedRows | None = None  # that were shown: of two stages each once

    def at_once(self) -> tuple[Path, list[Built]]:
        """Build all and measure it; return the experiment's folder and what was built."""
        built = self._build(self.request.variants)
        return self._measure(built, self.began), built

    def in_stages(self, first: Sequence[str]) -> tuple[Path, list[Built]]:
        """Build the first variants and look at their rows while nothing compiles; then the others, which join them."""
        later = [name for name in self.request.variants if name not in first]
        built = self._build(first)
        if self.ending.signals or not stages.are_enough(built, self.request.baseline):
            built += stages.waiting(later, self.how.profile) if self.ending.signals else self._build(later)
            return self._measure(built, None), built
        folder = self._measure([*built, *stages.waiting(later, self.how.profile)], None, first_look_alone=True)
        if not self.ending.signals:
            built += self._build(later)
            self._measure(built, store.read_experiment(folder))
        return folder, built

    def _build(self, names: Sequence[str]) -> list[Built]:
        """Build variants; if a signal ends it, what is there by then is kept."""
        built: list[Built] = []
        with self.ending.listening(), self.ending.kept():
            built = build_variants(self.machine, self.known, list(names), self.how)
        if not self.ending.signals:
            return built
        reason = Outcome(state=State.NOT_MEASURED, reason=f"{self.ending.reason} came before it was built")
        there = self.machine.look_up(self.known, names, self.how)
        return [one if one.outcome.state is State.OK else one.model_copy(update={"outcome": reason}) for one in there]

    def _measure(self, built: list[Built], began: Experiment | None, *, first_look_alone: bool = False) -> Path:
        """Measure, show verdicts as they fall, and return the experiment's folder."""
        assignment = self._resumed(built, began) if began else self._new(built)
        assignment = replace(assignment, order=self.order, first_look_alone=first_look_alone)
        with progress.Display(console) as display:
            rows = self.rows = self.rows or DecidedRows(display, assignment.settings.baseline)
            rows.display = display
            on_progress = progress.MeasureProgress(display, len(assignment.to_measure), lambda: rows.counts)
            watching = experiment.Observers(on_progress, rows, self.ending, refresh_report)
            run = experiment.record_builds if self.ending.signals else experiment.run
            folder = run(self.machine, assignment, watching)
            rows.end()
        return folder

    def _new(self, built: list[Built]) -> Assignment:
        request = self.request
        if self.ending.signals:
            baseline = self._intended_baseline(built)
        else:
            baseline = experiment.choose_baseline(request.baseline, built)
        settings = request.settings(baseline).model_copy(update={"budget_s": self.ending.budget_s})
        command = experiment.repeat_command(settings, request.words, self.where)
        return Assignment(self.known, self.how.root, self.into, [*built, *self.left_out], settings, command, self.name)

    def _intended_baseline(self, built: list[Built]) -> str:
        """Return the baseline of builds that a signal ended; without any that is there, all is said by one line."""
        ready = [one.variant for one in built if one.outcome.state is State.OK]
        if not ready:
            console.print(Text(f"build   {self.ending.reason} came before the first variant was built"))
            raise typer.Exit(self.ending.exit_code)
        usual = DEFAULT_BASELINE if DEFAULT_BASELINE in self.request.variants else ready[0]
        return self.request.baseline or usual

    def _resumed(self, built: list[Built], began: Experiment) -> Assignment:
        """Return the rest of an experiment; UsageError if it is of other images or workloads now."""
        images = resumable.images_now(began, built)
        if not self.ending.signals:
            require_built([one for one in images if one.variant == began.settings.baseline])
        resumable.require_same_workloads(began, self.known.workloads)
        root, settings = self.how.root, began.settings
        return Assignment(self.known, root, self.into, images, settings, began.command, resumes=began)


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
            help="Time limit for measuring: 90s, 10m, 1h (default: none; 12m for the core set with --quick).",
        ),
    ] = None,
    resume: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name or folder of an unfinished experiment to continue."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Prepare this machine first, with playbooks/host.yml.")] = False,
    results: Results = None,
) -> None:
    """Build variants, measure workloads on them and report: the main job.

    Checks this machine first. Cells that fail do not stop the others. Ctrl-C ends the run and reports what is
    known so far; a second Ctrl-C stops at once.
    """
    store.require_name(name)
    resume, results = resumed_place(resume, results)
    store.require_name(resume, "--resume")
    paths, known = open_project()
    into, budget_s = results or paths.results, parse_duration(budget, "--budget") if budget else None
    request, engine, began = read_request(known, options), options.engine, None
    if resume:
        if name:
            raise UsageError(key="--name", found="is not for --resume", todo="Leave out one of them.")
        began = read_resumed(into, resume, options, request)
        request, engine = resumed_request(request, began.settings), engine_of(began)
        request = replace(request, workloads=resumable.remaining(began))
    request.require_possible(engine)
    print_known(paths, request)
    # An experiment that is resumed has ended in time once.
    ending = Ending(budget_s or (None if began else request.usual_budget_s))
    earlier = store.readable_experiments(store.experiments_below(paths.results))
    rest = expected(paths, request, earlier, request.variants, ending.budget_s)
    with ready_machine(
        paths, known, request.profiled, agreed=yes, engine=engine, as_root=options.as_root, rest=rest
    ) as machine:
        write_generated(paths, known)
        left_out: list[Built] = []
        if request.words.variants == CORE and not began:
            core = machine.core(known)
            request, left_out = with_core(request, core), unavailable_in(core, profile_name(request.release))
        if machine.name is EngineName.HOST and not began:
            request = with_probe(request)
        first = print_estimate(machine, paths, known, request, earlier, ending.budget_s, is_new=began is None)
        helpers = [INSTRUMENTS, *experiment.helpers_of(known.workloads[one] for one in request.workloads)]
        how = replace(build_options(paths, request.release), helpers=helpers)
        where = [*lead_to(machine.name, engine, as_root=options.as_root)]
        where += [] if results is None else ["--results", str(results.absolute())]
        order = durations.shortest_first(request.workloads, earlier, **request.rounds_alike)
        run = MatrixRun(machine, known, into, request, how, ending, order, where, name, began, left_out)
        folder, built = run.in_stages(first) if first else run.at_once()
    described = write_report(folder)
    if ending.exit_code:
        raise typer.Exit(ending.exit_code)
    fail_on_failed_builds(built, lead_to(machine.name, engine, as_root=options.as_root))
    fail_on_failed_cells(folder, described)


def print_known(paths: ProjectPaths, request: MatrixRequest) -> None:
    """Print what the experiment of README's table says of what is asked for, if it came with the project."""
    folder = paths.reference / overview.EXPERIMENT
    if (folder / store.FIGURES_FILE).is_file():
        figures = store.read_json(folder / store.FIGURES_FILE, RecordedFigures)
        for line in overview.known_lines(store.read_experiment(folder), figures, request.labels, request.workloads):
            console.print(Text(line), soft_wrap=True)


def print_estimate(
    machine: Engine,
    paths: ProjectPaths,
    known: Catalog,
    request: MatrixRequest,
    earlier: Sequence[Experiment],
    budget_s: float | None = None,
    *,
    is_new: bool = True,
) -> list[str]:
    """Print how long it will take, as far as earlier builds and experiments tell.

    Return the variants that are built and measured first; none where all are at once.
    """
    there = machine.look_up(known, request.variants, build_options(paths, request.release))
    missing = [one.variant for one in there if one.outcome.state is not State.OK]
    console.print(Text(f"expect  {expected(paths, request, earlier, missing, budget_s)}"), soft_wrap=True)
    first = request.first_variants(known, missing) if is_new else []
    if first:
        soon = building(paths, request, [name for name in missing if name in first])
        line = f"expect  first rows: {', '.join(first)}; {soon.words}, and a first look; the others join them"
        console.print(Text(line), soft_wrap=True)
    return first


def expected(
    paths: ProjectPaths,
    request: MatrixRequest,
    earlier: Sequence[Experiment],
    missing: Sequence[str],
    budget_s: float | None,
) -> str:
    """Return how many rows there are, and how long building these variants and measuring takes."""
    cells = len(dict.fromkeys(request.labels)) + len(request.conditions) + 1  # the twin
    measuring = durations.of_measuring(request.workloads, cells, earlier, **request.rounds_alike).within(budget_s)
    number = len(request.workloads)
    size = f"{cells} rows of {number} workload{'s' * (number > 1)}"
    return f"{size}: {building(paths, request, missing).words}; {measuring.words}"


def building(paths: ProjectPaths, request: MatrixRequest, missing: Sequence[str]) -> durations.DurationEstimate:
    """Return how long these variants take to build, here if they were built here, else as the project recorded."""
    profile = profile_name(request.release)
    usual_s, recorded = store.read_durations(paths.cache, profile), store.latest_builds(paths.reference, profile)
    return durations.of_builds(missing, usual_s, recorded)


def fail_on_failed_cells(folder: Path, described: Experiment) -> None:
    """Raise WorkloadError for the first cell that failed."""
    for cell in failed_cells([*described.cells, *described.limits]):
        raise WorkloadError(
            file=str(folder),
            key=f"{cell.label} / {cell.workload}",
            found=cell.outcome.reason,
            todo=f"Every other cell is in {folder}; run it again with --workloads {cell.workload}.",
        )
