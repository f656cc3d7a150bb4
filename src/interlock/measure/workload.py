"""One workload of an experiment: its cells are opened, measured in rounds and profiled, and their files written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from interlock.catalog.types import LIMIT, PREFIX, TWIN
from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Benchmark, Metric, Workload
from interlock.engine.agent import MOST_OUTPUT_BYTES
from interlock.engine.build.image import QUESTION, broken_mode, parse_facts
from interlock.engine.protocol import Ended
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure import adapters, processes, rounds
from interlock.measure.cells import (
    ANSWER_S,
    Cell,
    Phase,
    Resources,
    Session,
    Stopwatch,
    deadline_of,
    facts_of,
    leave_cell,
    open_cell,
    open_session,
    packages_of,
    replace_sandbox,
    start_in,
)
from interlock.measure.processes import OK
from interlock.measure.profiling import profile_pass
from interlock.measure.resumable import Recorder, write_cell
from interlock.measure.rounds import TimeUsed, watched_rounds
from interlock.results.experiments import CellResult, Facts, Outcome, State, Subject


@dataclass(frozen=True)
class WorkloadResult:
    """What one workload yields: its cells, the order of its rounds, the facts of its interpreters.

    And the time of its rounds, and warnings of what disturbed them.
    """

    cells: list[CellResult]
    limits: list[CellResult]
    order: list[list[str]]
    facts: dict[str, Facts]
    spent: TimeUsed
    warnings: list[str]
    workload: Workload  # with the benchmarks that were discovered
    clock: Stopwatch


def measure_workload(resources: Resources, workload: Workload, subjects: Sequence[Subject]) -> WorkloadResult:
    """Measure and profile one workload on all subjects and write their files."""
    clock = Stopwatch()
    clock.add(Phase.PREPARING, resources.package_sets.workload_s(workload))
    with clock.during(Phase.PREPARING), ExitStack() as ends:
        try:
            session = ends.enter_context(open_session(resources, workload, clock))
        except WorkloadError as error:
            state = State.UNSUPPORTED if isinstance(error, UnsupportedHereError) else State.FAILED
            return _unmeasured(workload, subjects, Outcome(state=state, reason=error.found), clock)
        return _measure_on(session, subjects)


def _measure_on(session: Session, subjects: Sequence[Subject]) -> WorkloadResult:
    """Measure and profile; what was measured before a budget or a signal ended it is written too."""
    ending, clock = session.resources.ending, session.clock
    open_cells: list[Cell] = []
    open_limits: list[Cell] = []
    facts: dict[str, Facts] = {}
    try:
        with ending.kept():
            open_cells.extend(_opened(session, subjects))
            open_limits += rounds.open_limits(session)
            for limit in open_limits:
                session.resources.restore(limit, session.workload.name)
            session = discover(session, open_cells)
            facts |= _make_ready(session, open_cells)
        spent = TimeUsed()
        recorder = Recorder(session, open_cells, open_limits, spent)
        recorder.begin(facts)
        with clock.during(Phase.MEASURING):
            warnings = watched_rounds(session, open_cells + open_limits, spent, recorder.order, recorder.keep)
        if session.resources.settings.profiled and not session.resources.first_look_alone:
            with ending.kept(), clock.during(Phase.PROFILING):
                profile_pass(session, open_cells, recorder.keep)
        for cell in open_cells + open_limits:
            _note_unmeasured(session, cell)
        written, limits_written = ([write_cell(session, cell) for cell in some] for some in (open_cells, open_limits))
        return WorkloadResult(
            written, limits_written, recorder.order.rounds, facts, spent, warnings, session.workload, clock
        )
    finally:
        for cell in open_cells + open_limits:
            leave_cell(session, cell)


def _opened(session: Session, subjects: Sequence[Subject]) -> Iterator[Cell]:
    """Yield each subject's cell as soon as it is open; its variant's packages are of the first one's preparing."""
    seen: set[str] = set()
    for subject in subjects:
        clock = Stopwatch()
        if subject.variant not in seen:
            clock.add(Phase.PREPARING, session.resources.package_sets.variant_s(subject.variant, session.workload))
        seen.add(subject.variant)
        with clock.during(Phase.PREPARING):
            cell = open_cell(session, subject, clock)
        session.resources.restore(cell, session.workload.name)
        yield cell


def _make_ready(session: Session, open_cells: Sequence[Cell]) -> dict[str, Facts]:
    """Return the facts of the interpreters, and give an outcome to what cannot be measured."""
    answers: dict[str, Facts | None] = {}
    for cell in open_cells:
        # The twin has the baseline's facts; what a user's image starts may be any interpreter.
        if cell.subject.mode != TWIN and session.workload.user is None:
            with cell.clock.during(Phase.PREPARING):
                answers[cell.subject.label] = _ask_facts(session, cell)
    facts = {label: answer for label, answer in answers.items() if answer}
    for cell in open_cells:
        _exclude_impossible(session, cell, facts_of(cell.subject, facts))
        _fail_without_mode(session.workload, cell, facts.get(cell.subject.label))
        cell.gil = _gil_at_start(cell.subject, facts)
    return facts


def _note_unmeasured(session: Session, cell: Cell) -> None:
    """Give an outcome to the benchmarks that the end of the experiment came before."""
    reason = session.resources.ending.reason
    for benchmark in session.workload.benchmarks if reason else []:
        if cell.goes_on(benchmark) and not any(run.values for run in cell.runs.get(benchmark.name, [])):
            cell.outcomes[benchmark.name] = Outcome(state=State.NOT_MEASURED, reason=f"{reason} came first")


def _unmeasured(workload: Workload, subjects: Sequence[Subject], outcome: Outcome, clock: Stopwatch) -> WorkloadResult:
    """Return cells with one outcome for a workload that could not be prepared; the other workloads go on."""
    limited = [Subject(variant=LIMIT, mode=limit.name, image_id=None) for limit in workload.limits]
    variants, limits = ([_all_ended(workload, one, outcome) for one in some] for some in (subjects, limited))
    return WorkloadResult(variants, limits, [], {}, TimeUsed(), [], workload, clock)


def _all_ended(workload: Workload, subject: Subject, outcome: Outcome) -> CellResult:
    return CellResult(
        variant=subject.variant,
        mode=subject.mode,
        workload=workload.name,
        outcome=outcome,
        benchmarks={benchmark.name: outcome for benchmark in workload.benchmarks},
    )


def _ask_facts(session: Session, cell: Cell) -> Facts | None:
    """Return an interpreter's facts; None if it does not answer, and its benchmarks will show why."""
    subject, known, silent = cell.subject, session.resources.facts, session.resources.silent
    if subject.label in known or subject.label in silent:
        return known.get(subject.label)
    argv = processes.with_options(["python", "-c", QUESTION], subject.options)
    ended = cell.sandbox.run(argv, ANSWER_S, subject.environment)
    if ended.took_sandbox:
        replace_sandbox(session, cell)
    if ended.timed_out:
        silent.add(subject.label)
    try:
        return known.setdefault(subject.label, parse_facts(ended.stdout))
    except ValueError:
        return None


def _exclude_impossible(session: Session, cell: Cell, facts: Facts | None) -> None:
    """Give an outcome to benchmarks without their program or packages, and those that cannot take a mode's options."""
    mode_has_options = bool(cell.subject.options)
    for benchmark in session.workload.benchmarks:
        outcome = packages_of(session, cell.subject, benchmark).outcome
        program = session.workload.program_of(benchmark)
        if program is not None and not _is_there(session.resources, program):
            reason = f"workloads/{session.workload.name}.toml, key 'program': workloads/{program} does not exist"
            outcome = Outcome(state=State.FAILED, reason=reason)
        if benchmark.cold and outcome.state is State.OK:
            outcome = _cold_outcome(session, cell, facts)
        if mode_has_options and not processes.takes_options(session.workload, benchmark):
            outcome = _unsupported(
                f"the mode '{cell.subject.mode}' is an option of the interpreter, which this command does not start"
            )
        if outcome.state is not State.OK:
            cell.outcomes[benchmark.name] = outcome


def _cold_outcome(session: Session, cell: Cell, facts: Facts | None) -> Outcome:
    """Return why no process of the cell can be cold, if so, and note that its hot ones read from elsewhere."""
    if not session.network.can_evict:
        return _unsupported("a cold cache needs a container engine")
    if cell.subject.surroundings.interpreter == "image":
        return _unsupported("the image's storage driver keeps files in memory, which cannot be dropped")
    if facts and not f"{facts.prefix}/".startswith(f"{PREFIX}/"):
        cell.note(f"its library is below {facts.prefix}, on the image's file system; that of others is on a volume")
        return _unsupported(f"the library is below {facts.prefix}, and only {PREFIX} is on a volume")
    return OK


def _unsupported(reason: str) -> Outcome:
    return Outcome(state=State.UNSUPPORTED, reason=reason)


def _is_there(resources: Resources, program: str) -> bool:
    """Return whether the cells have a program; a suite's may be a folder."""
    return any(path == program or path.startswith(f"{program}/") for path in resources.programs)


def _fail_without_mode(workload: Workload, cell: Cell, facts: Facts | None) -> None:
    """Fail all benchmarks of a mode that has no effect: its figures would be of something else."""
    reason = broken_mode(cell.subject, facts) if facts else ""
    if reason:
        broken = Outcome(state=State.FAILED, reason=reason)
        cell.outcomes = {benchmark.name: broken for benchmark in workload.benchmarks}


def _gil_at_start(subject: Subject, facts: Mapping[str, Facts]) -> Gil | None:
    """Return the GIL's state as the mode declares it or the interpreter reports it; the twin has its variant's."""
    own = facts_of(subject, facts)
    return subject.gil or (own.gil if own else None)


MOST_BENCHMARKS = 1000
ANY = Benchmark(name="", metric=Metric(label="s", scale=1))


def discover(session: Session, open_cells: Sequence[Cell]) -> Session:
    """Return the session with the benchmarks that cells list; if none can, each cell fails with its reason."""
    if not session.workload.is_adapted:
        return session
    reasons: dict[str, Outcome] = {}
    for cell in open_cells:
        outcome = packages_of(session, cell.subject, ANY).outcome
        try:
            if outcome.state is State.OK:
                return dataclasses.replace(session, workload=adapters.with_found(session.workload, _ask(session, cell)))
        except WorkloadError as error:
            outcome = Outcome(state=State.FAILED, reason=error.found)
        reasons[cell.subject.label] = outcome
    unfound = adapters.unfound(session.workload)
    for cell in open_cells:
        cell.outcomes = {one.name: reasons[cell.subject.label] for one in unfound.benchmarks}
    return dataclasses.replace(session, workload=unfound)


def _ask(session: Session, cell: Cell) -> dict[str, list[str]]:
    """Return the arguments that select each benchmark, by name; WorkloadError if there is none."""
    found = _tasks(session, cell) if session.workload.kind == adapters.PYPERF else _tests(session, cell)
    if not found:
        found_none = f"{session.workload.program} has no benchmark"
        raise WorkloadError(key="program", found=found_none, todo="Add one, as docs/workloads.md shows.")
    return found


def _tasks(session: Session, cell: Cell) -> dict[str, list[str]]:
    """Run a script's benchmarks by number until one does nothing: that number does not exist."""
    found: dict[str, list[str]] = {}
    for number in range(MOST_BENCHMARKS):
        ended = _run(session, cell, adapters.task_argv(session.workload, number))
        if ended.exit_code != 0:
            raise _listing_error(session, cell, ended)
        names = list(adapters.outputs_of(session.workload, ended.stdout))
        if not names:
            return found
        found[names[0]] = ["--worker-task", str(number)]
    raise WorkloadError(
        found=f"{session.workload.program} has more than {MOST_BENCHMARKS} benchmarks", todo="Split it into several."
    )


def _tests(session: Session, cell: Cell) -> dict[str, list[str]]:
    ended = _run(session, cell, adapters.suite_argv(session.workload))
    found = {} if ended.took_sandbox else adapters.tests_of(session.workload, ended.stdout)
    if ended.exit_code != 0 and not found:
        raise _listing_error(session, cell, ended)
    return found


def _run(session: Session, cell: Cell, argv: list[str]) -> Ended:
    argv = adapters.with_report_descriptor(session.workload, processes.with_options(argv, cell.subject.options))
    return start_in(session, cell, ANY, argv, cell.subject.environment)


def _listing_error(session: Session, cell: Cell, ended: Ended) -> WorkloadError:
    program, deadline_s = session.workload.program, deadline_of(session, cell, ANY)
    if ended.timed_out:
        found = f"{program} did not end within {deadline_s:g} s when it listed its benchmarks"
    elif ended.flooded:
        found = f"{program} printed more than {MOST_OUTPUT_BYTES // 2**20} MiB when it listed its benchmarks"
    else:
        found = f"{program} ended with exit code {ended.exit_code}: {adapters.failure_line(ended.stdout, ended.stderr)}"
    return WorkloadError(found=found, todo=f"Run workloads/{program} by hand.")
