"""One workload of an experiment: its cells are opened, measured in rounds and profiled, and their files written."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from interlock import instruments, limits, store
from interlock.discovery import discover
from interlock.engine import proof
from interlock.engine.running import OnHost
from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.model import (
    LIMIT,
    TWIN,
    CellProfile,
    CellResult,
    Facts,
    Gil,
    Outcome,
    State,
    Subject,
    Workload,
)
from interlock.profiling import profile_pass
from interlock.rounds import watched_rounds
from interlock.runs import OK, suite_of, worst
from interlock.stage import Cell, Stage, Stand, open_container, packages_of
from interlock.staging import staged
from interlock.visits import Spent

# An interpreter that has not said by then what it is hangs: in some modes its first thread does.
ANSWER_S = 20


@dataclass(frozen=True)
class Measured:
    """What one workload yielded: its cells, the order of each round, and what the interpreters said of themselves.

    And what its rounds took, and what disturbed the machine meanwhile.
    """

    cells: list[CellResult]
    limits: list[CellResult]
    order: list[list[str]]
    facts: dict[str, Facts]
    spent: Spent
    warnings: list[str]
    workload: Workload  # with the benchmarks that it turned out to have


def measure_workload(stand: Stand, workload: Workload, subjects: Sequence[Subject]) -> Measured:
    """Measures and profiles one workload on all subjects and writes their files, each when it is whole."""
    with ExitStack() as ends:
        try:
            stage = ends.enter_context(staged(stand, workload))
        except WorkloadError as error:
            state = State.UNSUPPORTED if isinstance(error, UnsupportedHereError) else State.FAILED
            return _unmeasured(workload, subjects, Outcome(state=state, reason=error.found))
        return _measure_on(stage, subjects)


def _measure_on(stage: Stage, subjects: Sequence[Subject]) -> Measured:
    stand = stage.stand
    open_cells: list[Cell] = []
    open_limits: list[Cell] = []
    try:
        for subject in subjects:
            open_cells.append(Cell(subject, open_container(stage, subject)))
        open_limits += limits.open_limits(stage)
        stage = discover(stage, open_cells)
        workload = stage.workload
        # The twin would say what the baseline says.
        answers = {cell.subject.label: _ask_facts(stage, cell) for cell in open_cells if cell.subject.mode != TWIN}
        facts = {label: answer for label, answer in answers.items() if answer}
        for cell in open_cells:
            _hold_to_what_it_has(stage, cell)
            _hold_to_its_mode(workload, cell, facts.get(cell.subject.label))
            cell.gil = _gil_at_start(cell.subject, facts)
        spent = Spent()
        order, warnings = watched_rounds(stage, open_cells + open_limits, spent)
        if stand.settings.profiled:
            profile_pass(stage, open_cells)
        written, limits_written = ([_write(stage, cell) for cell in some] for some in (open_cells, open_limits))
        return Measured(written, limits_written, order, facts, spent, warnings, workload)
    finally:
        for container in [container for cell in open_cells + open_limits for container in cell.containers]:
            stand.running.remove(container)


def _unmeasured(workload: Workload, subjects: Sequence[Subject], outcome: Outcome) -> Measured:
    """Every cell of a workload whose stage could not be set ends in the same way; the other workloads go on."""
    limited = [Subject(variant=LIMIT, mode=limit.name, image_id="") for limit in workload.limits]
    told, limits_told = ([_all_ended(workload, one, outcome) for one in some] for some in (subjects, limited))
    return Measured(told, limits_told, [], {}, Spent(), [], workload)


def _all_ended(workload: Workload, subject: Subject, outcome: Outcome) -> CellResult:
    return CellResult(
        variant=subject.variant,
        mode=subject.mode,
        workload=workload.name,
        outcome=outcome,
        benchmarks={benchmark.name: outcome for benchmark in workload.benchmarks},
    )


def _ask_facts(stage: Stage, cell: Cell) -> Facts | None:
    """None of an interpreter that does not answer: its benchmarks will say what is wrong with it."""
    subject = cell.subject
    argv = instruments.with_options(["python", "-c", proof.QUESTION], subject.options)
    ended = stage.stand.running.run(cell.container, argv, ANSWER_S, subject.environment)
    if ended.took_container:
        cell.container = open_container(stage, subject)
    try:
        return proof.parse_facts(ended.stdout)
    except ValueError:
        return None


def _hold_to_what_it_has(stage: Stage, cell: Cell) -> None:
    """Not started are benchmarks without their program or packages, and those that a mode's options would not reach."""
    mode_has_options = bool(cell.subject.options)
    for benchmark in stage.workload.benchmarks:
        outcome = packages_of(stage, cell.subject, benchmark).outcome
        program = stage.workload.program_of(benchmark)
        if program is not None and not _is_there(stage.stand, program):
            reason = f"workloads/{stage.workload.name}.toml, key 'program': workloads/{program} does not exist"
            outcome = Outcome(state=State.FAILED, reason=reason)
        if benchmark.cold and isinstance(stage.stand.client, OnHost):
            outcome = Outcome(state=State.UNSUPPORTED, reason="a cold cache needs a container engine")
        if mode_has_options and not instruments.takes_options(stage.workload, benchmark):
            reason = f"the mode '{cell.subject.mode}' is options of an interpreter, which this command does not start"
            outcome = Outcome(state=State.UNSUPPORTED, reason=reason)
        if outcome.state is not State.OK:
            cell.outcomes[benchmark.name] = outcome


def _is_there(stand: Stand, program: str) -> bool:
    """A suite's program may be a folder."""
    return any(path == program or path.startswith(f"{program}/") for path in stand.programs)


def _hold_to_its_mode(workload: Workload, cell: Cell, facts: Facts | None) -> None:
    """A mode that does not take effect fails: figures under its name would be of something else."""
    reason = proof.broken_mode(cell.subject, facts) if facts else ""
    if reason:
        broken = Outcome(state=State.FAILED, reason=reason)
        cell.outcomes = {benchmark.name: broken for benchmark in workload.benchmarks}


def _gil_at_start(subject: Subject, facts: Mapping[str, Facts]) -> Gil | None:
    """As the mode declares or the interpreter said; the twin's said nothing, it is the variant's."""
    said = facts.get(subject.label) or facts.get(subject.variant)
    return subject.gil or (said.gil if said else None)


def _write(stage: Stage, cell: Cell) -> CellResult:
    """The cell's files, whole or not at all, and its result."""
    stand, workload, subject = stage.stand, stage.workload, cell.subject
    path = store.cell_path(stand.folder, stand.host, subject.variant, subject.mode, workload.name)
    suite = suite_of(cell.runs)
    if suite is not None:
        text = io.StringIO()
        suite.dump(text)
        store.write_whole(path, text.getvalue())
    if cell.profiles:
        store.write_json(store.profile_path(path), CellProfile(benchmarks=cell.profiles))
    return CellResult(
        variant=subject.variant,
        mode=subject.mode,
        workload=workload.name,
        outcome=worst(cell.outcomes.values()),
        benchmarks=cell.outcomes,
        packages=_installed(stage, subject),
        profile=_profile_outcome(stand, cell),
        notes=cell.notes,
    )


def _installed(stage: Stage, subject: Subject) -> dict[str, dict[str, str]]:
    """By benchmark the packages that it had, and their versions."""
    found = {one.name: packages_of(stage, subject, one).versions for one in stage.workload.benchmarks}
    return {name: versions for name, versions in found.items() if versions}


def _profile_outcome(stand: Stand, cell: Cell) -> Outcome | None:
    if not stand.settings.profiled or cell.subject.mode == TWIN or cell.limit is not None:
        return None
    return Outcome(state=State.FAILED, reason=cell.profile_problem) if cell.profile_problem else OK
