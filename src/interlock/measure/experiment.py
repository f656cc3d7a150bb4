"""One execution of the matrix: an assignment is measured workload by workload, and recorded (experiment.json)."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interlock import __version__
from interlock.catalog.types import slug
from interlock.catalog.workloads import Workload
from interlock.engine import machine
from interlock.engine.client import engine_failure
from interlock.engine.ownership import Life
from interlock.engine.protocol import Engine, Needs
from interlock.errors import EngineError, InterlockError, OutputError, StoreError, UsageError
from interlock.measure import disturbances, lock
from interlock.measure.assignment import Assignment
from interlock.measure.ending import part_of_budget
from interlock.measure.kinds.choosing import kind_of
from interlock.measure.packages import install_required
from interlock.measure.probes import best_probe
from interlock.measure.programs import programs_of, sums_of
from interlock.measure.resumable import require_same_packages, silent_in
from interlock.measure.sessions import Interpreters, Resources
from interlock.measure.watching import Observers
from interlock.measure.workload import WorkloadResult, measure_workload
from interlock.results import store
from interlock.results.commands import resuming
from interlock.results.experiments import EXPERIMENT_FILE, Experiment, Outcome, State
from interlock.results.files import remove_folder
from interlock.results.journal import KILLED, Journal, joined
from interlock.results.profiles import Probe
from interlock.results.sums import check_sums, forget_sums, write_sums

# The part of a budget that the first look of the rows that are built first may take, while others are to come.
FIRST_LOOK_SHARE = 1 / 3


def run(engine: Engine, assignment: Assignment, watching: Observers) -> Path:
    """Measure all cells while no other experiment measures on this machine; return the experiment's folder.

    Within a budget every row gets its first rounds before any gets more. If a signal ends the wait for another
    experiment, nothing is measured, and what is known is written.
    """
    start_s = time.monotonic()
    what, ending = "trial" if assignment.users else "matrix", watching.ending
    with ending.listening(), ExitStack() as held:
        with ending.kept():
            held.enter_context(lock.hold(f"{what} into {assignment.results}", watching.on_step))
        waited_s = time.monotonic() - start_s
        try:
            if ending.budget_s and not ending.signals and (look := assignment.first_look):
                folder = execute(engine, look, watching, waited_s)
                ending.pause()
                if ending.signals:
                    return folder
                assignment, waited_s = replace(assignment, resumes=store.read_experiment(folder)), 0.0
            return execute(engine, assignment, watching, waited_s)
        finally:
            ending.pause()


def execute(engine: Engine, assignment: Assignment, watching: Observers, waited_s: float = 0.0) -> Path:
    """Measure workload by workload, and return the experiment's folder; if it has been ended, write what is known.

    What was measured before something ended it is kept, and the rest recorded as not measured. Containers, networks and
    volumes are removed in any case; if an error comes before anything is measured, so is the folder.
    """
    started = datetime.datetime.now(datetime.UTC)
    host = {"folder": host_folder(), **machine.facts(), "engine": engine.facts()}
    if assignment.resumes is not None:
        folder = assignment.results / assignment.resumes.name
        _require_as_it_was(folder, assignment.resumes)
    else:
        folder = store.new_folder(assignment.results, assignment.name, started.date().isoformat())
    check_sums(folder)
    journal = Journal(folder)
    forget_sums(folder)
    Execution(engine, assignment, watching, folder, started, host, journal, waited_s).complete()
    return folder


def _require_as_it_was(folder: Path, resumes: Experiment) -> None:
    """Raise UsageError if another process has gone on with an experiment while this one waited."""
    if store.read_experiment(folder).duration_s != resumes.duration_s:
        raise UsageError(
            key="--resume", found=f"{resumes.name} has gone on since this command read it", todo="Resume it again."
        )


# The command that removes what a silent engine could not remove.
CLEAN = "interlock clean"


@dataclass
class Execution:
    """What is measured, on what, and what is known of it so far."""

    engine: Engine
    assignment: Assignment
    watching: Observers
    folder: Path
    started: datetime.datetime
    host: Mapping[str, Any]  # its facts and the engine's when it began
    journal: Journal  # of what is to be kept
    waiting_s: float
    set_up_s: float = 0.0
    clock_s: float = field(default_factory=time.monotonic)
    probe: Probe | None = None
    programs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # sums of what each workload runs, by path
    measured: dict[str, WorkloadResult] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)

    @property
    def owner(self) -> str:
        """Return the name under which the engine keeps what it makes for this experiment."""
        return f"{self.folder.name}-{self.started:%H%M%S%f}"

    @property
    def has_values(self) -> bool:
        """Return whether something has been measured, now or before it was resumed."""
        return bool(self.measured or self.journal.entries or self.assignment.resumes)

    @property
    def is_complete(self) -> bool:
        """Return whether all that is assigned has been measured: what comes then ends nothing early."""
        return not self.unfinished and self.measured.keys() >= {*self.assignment.to_measure}

    def complete(self) -> None:
        """Measure all that is assigned, remove what was made for it, and write what is known."""
        try:
            self._measure_all()
        except BaseException as raised:
            failure = raised if isinstance(raised, InterlockError) else None
            if failure is None and isinstance(raised, Exception):  # a signal during a call is no answer of the engine
                failure = engine_failure(raised)
            cause = f"an error ({getattr(failure, 'found', type(raised).__name__)})"
            # What --resume refuses stays as it was.
            before = self.assignment.resumes if isinstance(raised, UsageError) else None
            stays = self._end(self.watching.ending.reason or (before and before.ended_by) or cause)
            more = []
            if stays and failure is not None and CLEAN not in failure.todo:
                more.append(self._to_clean)
            if self.has_values and before is None:
                to_continue = resuming(self.assignment.command, self.folder.name, self.assignment.settings.where.words)
                more.append(f"What was measured is in {self.folder}; to continue: {to_continue}")
            if failure is not None and more:
                raise failure.with_todo(" ".join(more)) from raised
            raise
        self._end()

    @property
    def _to_clean(self) -> str:
        return f"Once the engine answers, `{CLEAN} {self.owner}` removes what was started."

    def _end(self, error: str = "") -> bool:
        """Remove what was started and write what is known; after an error return whether something stays."""
        with self.watching.ending.shielded():
            try:
                with suppress(OSError, OutputError):  # whoever read the output may be gone, or its disk full
                    self.watching.on_step("what it had started is removed", activity="ending")
                self.engine.clean_up(self.owner)
            except EngineError as failure:
                if not error:
                    raise failure.with_todo(f"{self._to_clean} What was measured is in {self.folder}.") from None
                return True
            finally:
                self._finish(error)
        return False

    def _finish(self, error: str) -> None:
        """Write what is known at the end. What an error cut short is recovered from the journal."""
        ending = self.watching.ending
        if not error:
            goes_on = self.assignment.first_look_alone and not ending.signals
            self._write_record(KILLED if goes_on else ending.reason)
            write_sums(self.folder)
            self.journal.end()
        elif self.has_values:
            self.journal.close()
            with suppress(StoreError):  # the first error says more; whoever reads it next recovers what is left
                store.recover(self.folder, error)
                write_sums(self.folder)
        else:
            self.journal.end()
            remove_folder(self.folder)

    def _measure_all(self) -> None:
        """Measure workload by workload until something ends it; write the record before the first and after each."""
        resources, ending, assignment = None, self.watching.ending, self.assignment
        names, is_first = assignment.to_measure, assignment.first_look_alone
        took = assignment.resumes.times if assignment.resumes else {}
        rows = {name: len(assignment.workloads[name].benchmarks) for name in names}
        if ending.stops():
            return
        self._remove_left()
        with ending.kept():
            resources = set_up(self.engine, self.owner, assignment, self.watching, self.folder)
        if resources is None:
            return
        resources = replace(resources, journal=self.journal)
        self.probe, self.set_up_s = resources.probe, time.monotonic() - self.clock_s
        programs = resources.programs
        self.programs = {name: sums_of(workload, programs) for name, workload in assignment.workloads.items()}
        self._write_record()
        self.watching.on_record(self.folder)
        for index, name in enumerate(names):
            if ending.stops():
                return
            part = part_of_budget(names[index:], took, rows)
            ending.share(part, profiled=assignment.settings.profiled and not is_first)
            self.measured[name] = measure_workload(resources, assignment.workloads[name], assignment.subjects())
            self.unfinished += [name] if ending.has_cut or is_first else []
            self._write_record()
            self.journal.clear()
            if is_first or index + 1 < len(names):
                self.watching.on_record(self.folder)

    def _remove_left(self) -> None:
        """Remove what killed runs left in the engine: it may still run, and would disturb this one."""
        left = [owner for owner, life in self.engine.owners().items() if life is Life.DEAD]
        for owner in left:
            self.watching.on_step(f"what {owner} left is removed")
            with suppress(EngineError):  # if it stays and works, the rounds' disturbance names it
                self.engine.clean_up(owner)

    def _write_record(self, ended_by: str = KILLED) -> None:
        """Write experiment.json. Until the end is known, it says what holds if the process is killed."""
        described, before = self._described("" if self.is_complete else ended_by), self.assignment.resumes
        store.write_json(self.folder / EXPERIMENT_FILE, joined(before, described) if before else described)

    def _described(self, ended_by: str) -> Experiment:
        """Return the record, which is complete: a report needs no catalog."""
        assignment, measured = self.assignment, self.measured
        settings, results = assignment.settings, list(measured.values())
        reason = f"{self.watching.ending.reason or 'the end'} came first"
        not_reached = Outcome(state=State.NOT_MEASURED, reason=reason)
        cells = [assignment.cells_of(name, measured.get(name), not_reached) for name in settings.workloads]
        return Experiment(
            name=self.folder.name,
            tool_version=__version__,
            command=assignment.command,
            started=self.started.isoformat(timespec="seconds"),
            duration_s=round(time.monotonic() - self.clock_s, 1),
            settings=settings,
            host=dict(self.host),
            images=list(assignment.built),
            workloads=assignment.workloads | {name: result.workload for name, result in measured.items()},
            programs={name: dict(sums) for name, sums in self.programs.items()},
            modes=assignment.modes,
            controls=assignment.controls,
            facts={label: facts for result in results for label, facts in result.facts.items()},
            cells=[cell for of_workload in cells for cell in of_workload],
            limits=[cell for result in results for cell in result.cells if cell.is_limit],
            left_out=assignment.left_out,
            order={name: result.course.order for name, result in measured.items()},
            probe=self.probe,
            warnings=warnings_of(measured, is_elsewhere=self.engine.is_elsewhere),
            measuring_s=round(sum(result.course.wall_s for result in results), 3),
            in_processes_s=round(sum(result.course.in_processes_s for result in results), 3),
            times={name: result.clock.times for name, result in measured.items()},
            waiting_s=round(self.waiting_s, 3),
            set_up_s=round(self.set_up_s, 3),
            unfinished=self.unfinished,
            ended_by=ended_by,
            trial=assignment.trial,
        )


def set_up(engine: Engine, owner: str, assignment: Assignment, watching: Observers, folder: Path) -> Resources:
    """Return what all cells share: the engine's workspace, the best probe that works in it, and packages.

    `owner` is the name under which the engine keeps what it makes.
    """
    before, users = assignment.resumes, assignment.users
    watching.on_step("instruments")
    programs = {} if users else programs_of(assignment.root)
    workloads = [assignment.workloads[name] for name in assignment.to_measure]
    needs = Needs(
        assignment.root,
        assignment.built,
        programs,
        helpers_of(workloads),
        users.base if users else None,
        users.surroundings if users else None,
    )
    workspace = engine.set_up(owner, needs)
    # What an engine builds for itself is no part of the budget, like the builds of variants.
    is_waited_for = any(image.outcome.state is State.NOT_MEASURED for image in assignment.built)
    watching.ending.start(FIRST_LOOK_SHARE if assignment.first_look_alone and is_waited_for else 1)
    installer = engine.installer(
        assignment.catalog, assignment.root, lambda variant, step: watching.on_step(step, variant)
    )
    packages = install_required(installer, assignment.built, workloads)
    if before is not None:
        require_same_packages(before, packages, assignment.to_measure)
    return Resources(
        workspace=workspace,
        folder=folder,
        host=host_folder(),
        probe=best_probe(workspace) if assignment.settings.profiled else None,
        settings=assignment.settings,
        watching=watching,
        first_look_alone=assignment.first_look_alone,
        resumes=before,
        package_sets=packages,
        programs=programs,
        known=Interpreters(
            images=assignment.built,
            controls=assignment.controls,
            facts=dict(before.facts) if before else {},
            silent=silent_in(before) if before else set(),
        ),
        require_answer=engine.facts,
    )


def helpers_of(workloads: Iterable[Workload]) -> list[str]:
    """Return what the engine has to start besides the cells of these workloads."""
    chosen = list(workloads)
    helpers = [name for name in ("server", "limits") if any(getattr(workload, name) for workload in chosen)]
    return [*helpers, "load"] if any(kind_of(workload).needs_load for workload in chosen) else helpers


def host_folder() -> str:
    """Return the name of this host's folder in an experiment."""
    return slug(machine.facts()["name"]) or "host"


def warnings_of(measured: Mapping[str, WorkloadResult], *, is_elsewhere: bool) -> list[str]:
    """Return what disturbed the workloads, and that an engine on another machine cannot be watched."""
    unwatched = [disturbances.REMOTE] if is_elsewhere else []
    return unwatched + [warning for result in measured.values() for warning in result.warnings]
