"""One workload of an experiment: its cells are opened, measured in rounds and profiled, and their files written."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from interlock.catalog.types import PREFIX, TWIN
from interlock.catalog.workloads import Workload
from interlock.engine.build.image import QUESTION, broken_mode, parse_facts
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure.cells import Cell, limits_of, open_session
from interlock.measure.kinds.choosing import ANY, kind_of, kind_of_track
from interlock.measure.processes import OK, with_options
from interlock.measure.profiling import profile_cells
from interlock.measure.resumable import Recorder, restore, write_cell
from interlock.measure.rounds import Course, watched_rounds
from interlock.measure.sessions import Resources, Session
from interlock.measure.stopwatch import Phase, Stopwatch
from interlock.measure.tracks import Track
from interlock.results.experiments import CellResult, Facts, Outcome, State, Subject

# Seconds after which an interpreter that has not reported its facts hangs: in some modes its first thread does.
ANSWER_S = 20


@dataclass(frozen=True)
class WorkloadResult:
    """What one workload yields: its cells, the course of its rounds, and what disturbed them."""

    workload: Workload  # with the benchmarks that were discovered
    cells: list[CellResult]  # with those of limits
    course: Course = field(default_factory=Course)
    facts: dict[str, Facts] = field(default_factory=dict)  # of its interpreters
    warnings: list[str] = field(default_factory=list)
    clock: Stopwatch = field(default_factory=Stopwatch)


def measure_workload(resources: Resources, workload: Workload, subjects: Sequence[Subject]) -> WorkloadResult:
    """Measure and profile one workload on all subjects and write their files."""
    clock = Stopwatch()
    with clock.during(Phase.PREPARING), ExitStack() as ends:
        try:
            session = ends.enter_context(open_session(resources, workload, clock))
        except WorkloadError as error:
            state = State.UNSUPPORTED if isinstance(error, UnsupportedHereError) else State.FAILED
            return _unmeasured(workload, subjects, Outcome(state=state, reason=error.found), clock)
        return _measure_on(session, subjects)


def _measure_on(session: Session, subjects: Sequence[Subject]) -> WorkloadResult:
    """Measure and profile; what was measured before a budget or a signal ended it is written too."""
    resources, clock, ending = session.resources, session.clock, session.resources.watching.ending
    cells: list[Cell] = []
    facts: dict[str, Facts] = {}
    reasons: dict[str, Outcome] | None = None
    try:
        with ending.kept():
            for subject in (*subjects, *limits_of(session.workload)):
                cells.append(cell := Cell(session, subject))
                if kind_of(session.workload).opens_slots:
                    cell.slot()
            reasons = discover(session, _interpreters(cells))
        # Somebody may have ended it before its program had said which benchmarks it has.
        session.workload = session.workload if reasons is not None else _as_known(session)
        # Also if somebody has ended it: what was measured before is in the results that are written now.
        if resources.resumes is not None:
            for cell in cells:
                restore(resources.folder, resources.resumes, cell)
        if not ending.signals:
            with ending.kept():
                for cell in _interpreters(cells) if reasons else ():
                    for track in cell.tracks.values():
                        track.outcome = reasons[cell.subject.label]
                facts |= _make_ready(session, _interpreters(cells))
        course = Course()
        recorder = Recorder(session, cells, course)
        recorder.begin(facts)
        with clock.during(Phase.MEASURING):
            warnings = watched_rounds(session, cells, course, recorder.keep)
        if resources.settings.profiled and not resources.first_look_alone:
            with ending.kept(), clock.during(Phase.PROFILING):
                profile_cells(session, cells, recorder.keep)
        _note_unmeasured(cells, ending.reason)
        return WorkloadResult(session.workload, [write_cell(cell) for cell in cells], course, facts, warnings, clock)
    finally:
        for cell in cells:
            cell.leave()


def _interpreters(cells: Sequence[Cell]) -> list[Cell]:
    return [cell for cell in cells if not cell.is_limit]


def _as_known(session: Session) -> Workload:
    """Return the workload with the benchmarks that it had before it was resumed, else with what is in its file."""
    resumes = session.resources.resumes
    before = resumes.workloads.get(session.workload.name) if resumes else None
    return before or kind_of(session.workload).unlisted()


def discover(session: Session, cells: Sequence[Cell]) -> dict[str, Outcome]:
    """Give the session the benchmarks that cells list; if none can, return by label why not."""
    kind = kind_of(session.workload)
    reasons: dict[str, Outcome] = {}
    if not kind.is_listed:
        return reasons
    for cell in cells:
        track = Track(cell, ANY)
        outcome = track.packages.outcome
        try:
            if outcome.state is State.OK:
                session.workload = kind.listed(track)
                return {}
        except WorkloadError as error:
            outcome = Outcome(state=State.FAILED, reason=error.found)
        reasons[cell.subject.label] = outcome
    session.workload = kind.unlisted()
    return reasons


def _make_ready(session: Session, cells: Sequence[Cell]) -> dict[str, Facts]:
    """Return the facts of the interpreters, and give an outcome to what cannot be measured."""
    answers: dict[str, Facts | None] = {}
    for cell in cells:
        # The twin has the baseline's facts.
        if cell.subject.mode != TWIN and not kind_of(session.workload).is_proved:
            with cell.clock.during(Phase.PREPARING):
                answers[cell.subject.label] = ask_facts(cell)
    facts = {label: answer for label, answer in answers.items() if answer}
    for cell in cells:
        own = facts.get(cell.subject.label)
        of_variant = own or facts.get(cell.subject.variant)
        exclude_impossible(cell, of_variant)
        fail_without_mode(cell, own)
        # As the mode declares it, or the interpreter reports it; the twin has its variant's.
        cell.gil = cell.subject.gil or (of_variant.gil if of_variant else None)
    return facts


def _note_unmeasured(cells: Sequence[Cell], reason: str) -> None:
    """Give an outcome to the benchmarks that the end of the experiment came before."""
    for track in (track for cell in cells for track in cell.tracks.values() if reason):
        if track.goes_on and not track.has_values:
            track.outcome = Outcome(state=State.NOT_MEASURED, reason=f"{reason} came first")


def _unmeasured(workload: Workload, subjects: Sequence[Subject], outcome: Outcome, clock: Stopwatch) -> WorkloadResult:
    """Return cells with one outcome for a workload that could not be prepared; the other workloads go on."""
    cells = [
        CellResult(
            variant=subject.variant,
            mode=subject.mode,
            workload=workload.name,
            outcome=outcome,
            benchmarks={benchmark.name: outcome for benchmark in workload.benchmarks},
        )
        for subject in (*subjects, *limits_of(workload))
    ]
    return WorkloadResult(workload, cells, clock=clock)


def ask_facts(cell: Cell) -> Facts | None:
    """Return an interpreter's facts; None if it does not answer, and its benchmarks will show why."""
    subject, known = cell.subject, cell.session.resources.known
    if subject.label in known.facts or subject.label in known.silent:
        return known.facts.get(subject.label)
    argv = with_options(["python", "-c", QUESTION], subject.options)
    ended = cell.slot().run(argv, ANSWER_S, subject.environment)
    if ended.timed_out:
        known.silent.add(subject.label)
    try:
        return known.facts.setdefault(subject.label, parse_facts(ended.stdout))
    except ValueError:
        return None


def exclude_impossible(cell: Cell, facts: Facts | None) -> None:
    """Give an outcome to benchmarks without their program or packages, and those that cannot take a mode's options."""
    workload, programs = cell.session.workload, cell.session.resources.programs
    for track in cell.tracks.values():
        outcome, program = track.packages.outcome, workload.program_of(track.benchmark)
        # A suite's program may be a folder.
        if program and not any(path == program or path.startswith(f"{program}/") for path in programs):
            reason = f"workloads/{workload.name}.toml, key 'program': workloads/{program} does not exist"
            outcome = Outcome(state=State.FAILED, reason=reason)
        if track.benchmark.cold and outcome.state is State.OK:
            outcome = _cold_outcome(cell, facts)
        if cell.subject.options and not kind_of_track(track).takes_options:
            outcome = _unsupported(
                f"the mode '{cell.subject.mode}' is an option of the interpreter, which this command does not start"
            )
        if outcome.state is not State.OK:
            track.outcome = outcome


def _cold_outcome(cell: Cell, facts: Facts | None) -> Outcome:
    """Return why no process of the cell can be cold, if so, and note that its hot ones read from elsewhere."""
    if not cell.session.network.can_evict:
        return _unsupported("a cold cache needs a container engine")
    if facts and not f"{facts.prefix}/".startswith(f"{PREFIX}/"):
        cell.note(f"its library is below {facts.prefix}, on the image's file system; that of others is on a volume")
        return _unsupported(f"the library is below {facts.prefix}, and only {PREFIX} is on a volume")
    return OK


def _unsupported(reason: str) -> Outcome:
    return Outcome(state=State.UNSUPPORTED, reason=reason)


def fail_without_mode(cell: Cell, facts: Facts | None) -> None:
    """Fail all benchmarks of a mode that has no effect: its figures would be of something else."""
    reason = broken_mode(cell.subject, facts) if facts else ""
    for track in cell.tracks.values() if reason else ():
        track.outcome = Outcome(state=State.FAILED, reason=reason)
