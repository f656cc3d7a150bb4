"""One execution of the matrix: what is measured, on what, and its record (experiment.json)."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import __version__
from interlock.analysis.verdicts import LOOKS, MOST_ROUNDS
from interlock.catalog.project import Catalog
from interlock.catalog.types import DEFAULT_BASELINE, TWIN, label_of, slug, split_label
from interlock.catalog.workloads import Workload
from interlock.engine import machine
from interlock.engine.client import engine_failure
from interlock.engine.protocol import NOTHING, Engine, Needs, UserSurroundings
from interlock.errors import EngineError, InterlockError, StoreError, UsageError, nearest
from interlock.measure import disturbances, lock
from interlock.measure.cells import Interpreters, Resources
from interlock.measure.ending import Ending, part_of_budget
from interlock.measure.packages import install_required
from interlock.measure.profiling import best_probe
from interlock.measure.resumable import EarlierMeasurements, joined, remaining, silent_in
from interlock.measure.watching import Look, ProgressUpdate
from interlock.measure.workload import WorkloadResult, measure_workload
from interlock.results import store
from interlock.results.commands import command_line, resuming
from interlock.results.experiments import (
    BaseImage,
    Built,
    CellResult,
    Experiment,
    Outcome,
    Settings,
    State,
    Subject,
    require_built,
)
from interlock.results.journal import KILLED, Journal, recover
from interlock.results.profiles import Probe
from interlock.results.trials import Trial


@dataclass(frozen=True)
class Rounds:
    """The least number of rounds and the largest; between them a row goes on until it is decided.

    Without a limit there are exactly `least` rounds.
    """

    least: int
    limit: int | None = None


# What of a budget the first look of the rows that are built first may take.
FIRST_LOOK_SHARE = 1 / 3
QUICK, FULL = Rounds(min(LOOKS), 10), Rounds(min(LOOKS), MOST_ROUNDS)


def planned_rounds(quick: bool, wanted: int | None) -> Rounds:
    """Return a fixed number of rounds if one is wanted, otherwise as many as the verdicts need."""
    if wanted is not None:
        return Rounds(wanted)
    return QUICK if quick else FULL


@dataclass(frozen=True)
class Wildcards:
    """`core` or `all`, as the user named variants and workloads; empty where each is named."""

    variants: str = ""
    workloads: str = ""


NAMED = Wildcards()


def repeat_command(settings: Settings, words_for: Wildcards = NAMED, where: Sequence[str] = ()) -> str:
    """Return the command that repeats an experiment."""
    return command_line("matrix", *repeat_options(settings, words_for, where))


def repeat_options(settings: Settings, words_for: Wildcards = NAMED, where: Sequence[str] = ()) -> list[str]:
    """Return the options that repeat an experiment, with its defaults written out; `where` has those of its engine.

    Except the number of rounds, which the verdicts decide again, and lists of names that a word stands for.
    """
    words = ["--variants", words_for.variants or ",".join(settings.variants)]
    words += ["--workloads", words_for.workloads or ",".join(settings.workloads)]
    words += ["--conditions", ",".join(settings.conditions)] if settings.conditions else []
    words += ["--quick"] if settings.quick else []
    words += ["--rounds", str(settings.rounds)] if settings.rounds_limit is None else []
    words += ["--baseline", settings.baseline, "--seed", str(settings.seed)]
    words += [] if settings.profiled else ["--no-profile"]
    words += ["--why"] if settings.why else []
    words += [] if settings.budget_s is None else ["--budget", f"{settings.budget_s:g}s"]
    words += ["--release"] if settings.profile == "release" else []
    return [*words, *where]


@dataclass(frozen=True)
class Assignment:
    """What an experiment is to measure, and the command that repeats it."""

    catalog: Catalog
    root: Path
    results: Path
    built: list[Built]
    settings: Settings
    command: str
    name: str | None = None  # None: the date and a letter
    resumes: Experiment | None = None  # what was measured in the folder of this name before
    order: Sequence[str] = ()  # in which workloads are measured (default: the settings'); those with a server come last
    trial: Trial | None = None  # of a user's own images: what is known of them, and how their containers run
    users: UserSurroundings | None = None
    base: BaseImage | None = None  # of the helpers' images, where it is not that of a variant
    # Only to the first look, because other rows are built after it and join: its record says how the rest goes on.
    first_look_alone: bool = False

    @property
    def workloads(self) -> dict[str, Workload]:
        """Return the chosen workloads, as they are measured."""
        known, settings = self.catalog.workloads, self.settings
        return {name: known[name].for_experiment(settings.quick) for name in settings.workloads}

    @property
    def problems(self) -> dict[str, str]:
        """Return why rows of a trial were proved not to work, by label: they are not measured."""
        return {label: one.problem for label, one in self.trial.tried.items() if one.problem} if self.trial else {}

    @property
    def to_measure(self) -> list[str]:
        """Return what to measure, in its order: of an experiment that is resumed, what is not complete."""
        names = remaining(self.resumes) if self.resumes else self.settings.workloads
        place = {name: number for number, name in enumerate(self.order)}
        # With a server or a load values vary more: these have what the others leave of a budget.
        return sorted(names, key=lambda name: (self.is_served(name), place.get(name, len(place))))

    def is_served(self, name: str) -> bool:
        """Return whether a workload has a server or a load beside its cells."""
        workload = self.catalog.workloads[name]
        return bool(workload.server or workload.load)

    @property
    def left_out(self) -> dict[str, list[str]]:
        """Return the benchmarks that --quick leaves out, by workload."""
        known, taken = self.catalog.workloads, self.workloads
        names = {
            name: [one.name for one in known[name].benchmarks if one not in taken[name].benchmarks] for name in taken
        }
        return {name: some for name, some in names.items() if some}


@dataclass
class Record:
    """What an experiment has measured so far."""

    folder: Path
    started: datetime.datetime
    host: Mapping[str, Any] = field(default_factory=dict)  # its facts and the engine's when it began
    journal: Journal | None = None  # of what is to be kept
    ending: Ending = field(default_factory=Ending)
    waiting_s: float = 0.0
    set_up_s: float = 0.0
    clock_s: float = field(default_factory=time.monotonic)
    probe: Probe | None = None
    measured: dict[str, WorkloadResult] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)

    @property
    def has_values(self) -> bool:
        """Return whether something has been measured."""
        return bool(self.measured or (self.journal and self.journal.entries))

    @property
    def owner(self) -> str:
        """Return the name under which the engine keeps what it makes for this experiment."""
        return f"{self.folder.name}-{self.started:%H%M%S%f}"

    @property
    def not_reached(self) -> Outcome:
        """Return the outcome of cells that nothing was measured of."""
        return Outcome(state=State.NOT_MEASURED, reason=f"{self.ending.reason or 'the end'} came first")


@dataclass(frozen=True)
class Observers:
    """What is called at each step of an experiment and at each look, and what can end it early."""

    on_progress: Callable[[ProgressUpdate], None]
    on_look: Callable[[Look], None] = lambda _: None
    ending: Ending = field(default_factory=Ending)
    on_record: Callable[[Path], None] = lambda _: None  # after each workload but the last, between two measurements


def choose_baseline(wanted: str | None, built: list[Built]) -> str:
    """Return the wanted baseline, or cpython-3.13, or the first variant that has an image; UsageError if none has."""
    ready = [image.variant for image in require_built(built)]
    if wanted is not None and wanted not in ready:
        raise UsageError(
            key="--baseline", found=f"'{wanted}' is not among the built variants", todo=nearest(wanted, ready)
        )
    return wanted or (DEFAULT_BASELINE if DEFAULT_BASELINE in ready else ready[0])


def run(engine: Engine, assignment: Assignment, watching: Observers) -> Path:
    """Measure all cells while no other experiment measures on this machine; return the experiment's folder."""
    start_s = time.monotonic()

    def on_wait(text: str) -> None:
        watching.on_progress(ProgressUpdate("preparing", text, "", 0, 1))

    what = "trial" if assignment.trial else "matrix"
    with lock.hold(f"{what} into {assignment.results}", on_wait), watching.ending.listening():
        try:
            return _run(engine, assignment, watching, time.monotonic() - start_s)
        finally:
            watching.ending.pause()


def record_builds(engine: Engine, assignment: Assignment, watching: Observers) -> Path:
    """Write the record of an experiment that was ended before anything was measured; return its folder.

    Of one that goes on, the record that it has, with what ended it.
    """
    return _run(engine, assignment, watching, 0.0)


def _run(engine: Engine, assignment: Assignment, watching: Observers, waited_s: float) -> Path:
    """Measure workload by workload.

    What was measured before something ended it is kept, and the rest recorded as not measured. Containers, networks and
    volumes are removed in any case; if an error comes before anything is measured, so is the folder.
    """
    started = datetime.datetime.now(datetime.UTC)
    host = {"folder": host_folder(), **machine.facts(), "engine": engine.facts()}
    folder = _folder(assignment, started)
    store.check_sums(folder)
    journal = Journal(folder)
    store.forget_sums(folder)
    record = Record(folder, started, host, journal, watching.ending, waited_s)
    error = ""
    try:
        _measure_all(engine, assignment, watching, record)
    except BaseException as found:
        failure = found if isinstance(found, InterlockError) else engine_failure(found)
        error = watching.ending.reason or f"an error ({getattr(failure, 'found', type(found).__name__)})"
        if failure is not None and record.has_values:
            more = f"What was measured is in {folder}; to continue: {resuming(assignment.command, folder.name)}"
            raise failure.with_todo(more) from found
        raise
    finally:
        with watching.ending.shielded():
            try:
                with suppress(OSError):  # whoever read the output may be gone
                    watching.on_progress(ProgressUpdate("ending", "what it had started is removed", "", 0, 1))
                engine.clean_up(record.owner)
            except EngineError:
                if not error:  # else the first one says more
                    raise
            finally:
                _finish(engine, assignment, record, journal, error)
    return folder


def _folder(assignment: Assignment, started: datetime.datetime) -> Path:
    if assignment.resumes is not None:
        return assignment.results / assignment.resumes.name
    return store.new_folder(assignment.results, assignment.name, started.date().isoformat())


def _finish(engine: Engine, assignment: Assignment, record: Record, journal: Journal, error: str) -> None:
    """Write what is known of an experiment at its end. What an error cut short is recovered from the journal."""
    if not error:
        goes_on = assignment.first_look_alone and not record.ending.signals
        _write_record(engine, assignment, record, KILLED if goes_on else record.ending.reason)
        store.write_sums(record.folder)
        journal.end()
    elif record.has_values or assignment.resumes is not None:
        journal.close()
        recover(record.folder, error)
        with suppress(StoreError):  # the first error says more
            store.write_sums(record.folder)
    else:
        journal.end()
        store.remove_folder(record.folder)


def _measure_all(engine: Engine, assignment: Assignment, watching: Observers, record: Record) -> None:
    """Measure workload by workload until something ends it; the record is written before the first and after each."""
    resources, ending = None, watching.ending
    names, is_first = assignment.to_measure, assignment.first_look_alone
    took = assignment.resumes.times if assignment.resumes else {}
    if ending.stops():
        return
    with ending.kept():
        resources = set_up(engine, assignment, record, watching)
    if resources is None:
        return
    record.probe = resources.probe
    packages_s = sum(resources.package_sets.took_s.values())
    record.set_up_s = time.monotonic() - record.clock_s - packages_s
    _write_record(engine, assignment, record)
    for index, name in enumerate(names):
        if ending.stops():
            return
        ending.share(part_of_budget(names[index:], took), profiled=assignment.settings.profiled and not is_first)
        record.measured[name] = measure_workload(resources, assignment.workloads[name], subjects(assignment))
        record.unfinished += [name] if ending.has_cut or is_first else []
        _write_record(engine, assignment, record)
        if record.journal is not None:
            record.journal.clear()
        if is_first or index + 1 < len(names):
            watching.on_record(record.folder)


def _write_record(engine: Engine, assignment: Assignment, record: Record, ended_by: str = KILLED) -> None:
    """Write experiment.json. Until the end is known it says what is true if nothing more can be said."""
    described, before = describe(engine, assignment, record, ended_by), assignment.resumes
    store.write_json(record.folder / store.EXPERIMENT_FILE, joined(before, described) if before else described)


def subjects(assignment: Assignment) -> list[Subject]:
    """Return the chosen variants that have an image, then the baseline under each condition and as its twin."""
    settings, conditions = assignment.settings, assignment.catalog.conditions
    plain = {
        image.variant: Subject(variant=image.variant, image_id=image.image_id)
        for image in assignment.built
        if image.outcome.state is State.OK
    }
    baseline = plain[settings.baseline]
    chosen = [split_label(label) for label in settings.variants]
    chosen = [one for one in chosen if one[0] in plain and label_of(*one) not in assignment.problems]
    return [
        *(_in_mode(assignment.catalog, plain[variant], mode) for variant, mode in chosen),
        *(baseline.model_copy(update={"mode": key, "surroundings": conditions[key]}) for key in settings.conditions),
        baseline.model_copy(update={"mode": TWIN}),
    ]


def _in_mode(known: Catalog, plain: Subject, name: str | None) -> Subject:
    if name is None:
        return plain
    mode = next(mode for mode in known.variants[plain.variant].modes if mode.name == name)
    update = {"mode": name, "environment": mode.environment, "options": mode.options, "gil": mode.gil}
    return plain.model_copy(update=update)


def set_up(engine: Engine, assignment: Assignment, record: Record, watching: Observers) -> Resources:
    """Return what all cells share: the engine's workspace, the best probe that works in it, and packages."""

    def on_step(variant: str, step: str) -> None:
        watching.on_progress(ProgressUpdate("preparing", step, variant, 0, 1))

    on_step("", "instruments")
    before, programs = assignment.resumes, {} if assignment.trial else programs_of(assignment.root / "workloads")
    workloads = [assignment.workloads[name] for name in assignment.to_measure]
    needs = Needs(
        assignment.root,
        assignment.built,
        programs,
        helpers_of(workloads),
        assignment.base,
        assignment.users,
    )
    workspace = engine.set_up(record.owner, needs)
    # What an engine builds for itself is no part of the budget, as builds are none.
    watching.ending.start(FIRST_LOOK_SHARE if assignment.first_look_alone else 1)
    installer = engine.installer(assignment.catalog, assignment.root, on_step)
    return Resources(
        workspace=workspace,
        folder=record.folder,
        host=host_folder(),
        probe=best_probe(workspace) if assignment.settings.profiled else None,
        settings=assignment.settings,
        on_progress=watching.on_progress,
        on_look=watching.on_look,
        ending=watching.ending,
        journal=record.journal,
        first_look_alone=assignment.first_look_alone,
        restore=EarlierMeasurements(record.folder, before).restore if before else lambda _: None,
        package_sets=install_required(installer, assignment.built, workloads),
        programs=frozenset(programs),
        known=Interpreters(
            images=assignment.built,
            controls=controls_of(assignment),
            facts=dict(before.facts) if before else {},
            silent=silent_in(before) if before else set(),
        ),
        require_answer=lambda: _require_answer(engine),
    )


def _require_answer(engine: Engine) -> None:
    """Raise EngineError if the engine is gone: what failed meanwhile failed for that."""
    engine.facts()


def helpers_of(workloads: Iterable[Workload]) -> list[str]:
    """Return what the engine has to start besides the cells of these workloads."""
    chosen = list(workloads)
    found = [name for name in ("server", "limits", "load") if any(getattr(one, name) for one in chosen)]
    return [*found, "load"] if any(one.is_users_service for one in chosen) else found


def controls_of(assignment: Assignment) -> dict[str, str]:
    """Return the control of each variant that has one; a user's images are compared with their own alone."""
    known = {} if assignment.trial else assignment.catalog.variants
    return {
        image.variant: control
        for image in assignment.built
        if image.variant in known and (control := known[image.variant].control)
    }


def programs_of(folder: Path) -> dict[str, bytes]:
    """Return the workloads' programs and the files of their folders, by path below workloads/."""
    found = sorted(path for glob in ("*.py", "*/**/*") for path in folder.glob(glob) if path.is_file())
    names = {path.relative_to(folder): path for path in found}
    return {str(name): path.read_bytes() for name, path in names.items() if "__pycache__" not in name.parts}


def host_folder() -> str:
    """Return the name of this host's folder in an experiment."""
    return slug(machine.facts()["name"]) or "host"


def describe(engine: Engine, assignment: Assignment, record: Record, ended_by: str) -> Experiment:
    """Return the record, which is complete: a report needs no catalog."""
    built, settings, known, measured = assignment.built, assignment.settings, assignment.catalog, record.measured
    return Experiment(
        name=record.folder.name,
        tool_version=__version__,
        command=assignment.command,
        started=record.started.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - record.clock_s, 1),
        settings=settings,
        host=dict(record.host),
        images=built,
        workloads=assignment.workloads | {key: one.workload for key, one in measured.items()},
        conditions={key: known.conditions[key] for key in settings.conditions},
        controls=controls_of(assignment),
        facts={label: facts for one in measured.values() for label, facts in one.facts.items()},
        cells=[
            cell
            for key in settings.workloads
            for cell in cells_of(
                key, settings, built, measured.get(key), record.not_reached, problems=assignment.problems
            )
        ],
        limits=[cell for one in measured.values() for cell in one.limits],
        left_out=assignment.left_out,
        order={key: one.order for key, one in measured.items()},
        probe=record.probe,
        warnings=warnings_of(measured, is_elsewhere=engine.is_elsewhere),
        measuring_s=round(sum(one.spent.wall_s for one in measured.values()), 3),
        in_processes_s=round(sum(one.spent.in_processes_s for one in measured.values()), 3),
        times={key: one.clock.times for key, one in measured.items()},
        waiting_s=round(record.waiting_s, 3),
        set_up_s=round(record.set_up_s, 3),
        unfinished=record.unfinished,
        ended_by=ended_by,
        trial=assignment.trial,
    )


def warnings_of(measured: Mapping[str, WorkloadResult], *, is_elsewhere: bool) -> list[str]:
    """Return what disturbed the workloads, or that an engine on another machine cannot be watched."""
    if is_elsewhere:
        return [disturbances.REMOTE]
    return [warning for one in measured.values() for warning in one.warnings]


def cells_of(  # noqa: PLR0913  only a trial has problems
    workload: str,
    settings: Settings,
    built: list[Built],
    measured: WorkloadResult | None,
    not_reached: Outcome,
    *,
    problems: Mapping[str, str] = NOTHING,
) -> list[CellResult]:
    """Return the workload's cells in the chosen order, including those without an image and those not reached.

    `problems` are of labels that were proved not to work.
    """
    done = {cell.label: cell for cell in measured.cells} if measured else {}
    conditions = [label_of(settings.baseline, name) for name in settings.conditions]
    outcomes = {image.variant: image.outcome for image in built}
    planned = {}
    for label in (*settings.variants, *conditions):
        variant, mode = split_label(label)
        outcome = outcomes[variant] if outcomes[variant].state is not State.OK else not_reached
        if outcome is not_reached and label in problems:
            outcome = Outcome(state=State.FAILED, reason=problems[label])
        missing = CellResult(variant=variant, mode=mode, workload=workload, outcome=outcome)
        planned[label] = done.get(label, missing)
    return list((planned | done).values())
