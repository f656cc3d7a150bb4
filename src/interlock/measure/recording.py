"""What is kept of the cells of a workload: files and results at its end, and a line of the journal after each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from interlock.catalog.types import TWIN
from interlock.measure.cells import Cell, Session, packages_of
from interlock.measure.processes import OK, worst_outcome
from interlock.measure.rounds import RoundOrder, TimeUsed
from interlock.results import store
from interlock.results.experiments import CellResult, Facts, Outcome, State, Subject
from interlock.results.journal import Entry, Journal, RunData
from interlock.results.profiles import BenchmarkProfile, CellProfile
from interlock.results.runs import write_runs

NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="the end came first")


@dataclass
class Recorder:
    """Adds what is new in the cells of a workload to the experiment's journal, if it has one."""

    session: Session
    cells: Sequence[Cell]
    limits: Sequence[Cell]
    spent: TimeUsed
    order: RoundOrder = field(default_factory=RoundOrder)
    runs: dict[tuple[str, str], int] = field(default_factory=dict)  # how many are written, by label and benchmark
    profiles: set[tuple[str, str]] = field(default_factory=set)

    @property
    def journal(self) -> Journal | None:
        return self.session.resources.journal

    def begin(self, facts: dict[str, Facts]) -> None:
        """Begin the journal of this workload; what its cells have from before they were resumed is in their files."""
        self._take_new()
        if self.journal is not None:
            self.journal.begin(self.session.workload, facts)

    def keep(self) -> None:
        """Write what is new, and wait until it is on the disk."""
        runs, profiles = self._take_new()
        if self.journal is None:
            return
        cells, limits = ([result_so_far(self.session, one) for one in some] for some in (self.cells, self.limits))
        entry = Entry(
            runs=runs,
            profiles=profiles,
            cells=cells,
            limits=limits,
            order=self.order.rounds,
            times=self.session.clock.times,
            in_processes_s=round(self.spent.in_processes_s, 3),
        )
        self.journal.add(entry)

    def _take_new(self) -> tuple[dict[str, dict[str, list[RunData]]], dict[str, dict[str, BenchmarkProfile]]]:
        runs: dict[str, dict[str, list[RunData]]] = {}
        profiles: dict[str, dict[str, BenchmarkProfile]] = {}
        for cell in (*self.cells, *self.limits):
            label = cell.subject.label
            for name, some in cell.runs.items():
                new = some[self.runs.get((label, name), 0) :]
                if new:
                    runs.setdefault(label, {})[name] = [RunData.of(run) for run in new]
                self.runs[label, name] = len(some)
            for name, profile in cell.profiles.items():
                if (label, name) not in self.profiles:
                    profiles.setdefault(label, {})[name] = profile
                self.profiles.add((label, name))
        return runs, profiles


def result_so_far(session: Session, cell: Cell) -> CellResult:
    """Return the result of a cell if nothing more were measured of it."""
    outcomes = {}
    for benchmark in session.workload.benchmarks:
        if cell.limit is not None and benchmark.name not in cell.limit.benchmarks:
            continue
        has_values = any(run.values for run in cell.runs.get(benchmark.name, []))
        known = cell.outcomes.get(benchmark.name, OK)
        outcomes[benchmark.name] = known if has_values or known.state is not State.OK else NOT_REACHED
    return result_of(session, cell, outcomes, NOT_REACHED)


def result_of(session: Session, cell: Cell, outcomes: dict[str, Outcome], unprofiled: Outcome) -> CellResult:
    """Return a cell's result; `unprofiled` is the outcome of profiles that something came before."""
    subject = cell.subject
    return CellResult(
        variant=subject.variant,
        mode=subject.mode,
        workload=session.workload.name,
        outcome=worst_outcome(outcomes.values()),
        benchmarks=outcomes,
        packages=_installed(session, subject),
        profile=_profile_outcome(session, cell, unprofiled),
        notes=cell.notes,
        times=cell.clock.times,
    )


def write_cell(session: Session, cell: Cell) -> CellResult:
    """Write the cell's files, each at once, and return its result."""
    resources, workload, subject = session.resources, session.workload, cell.subject
    path = store.cell_path(resources.folder, resources.host, subject.variant, subject.mode, workload.name)
    write_runs(path, cell.runs)
    if cell.profiles:
        store.write_json(store.profile_path(path), CellProfile(benchmarks=cell.profiles))
    reason = resources.ending.reason
    unprofiled = Outcome(state=State.NOT_MEASURED, reason=f"{reason} came first") if reason else OK
    return result_of(session, cell, cell.outcomes, unprofiled)


def _installed(session: Session, subject: Subject) -> dict[str, dict[str, str]]:
    """Return the versions of the packages that each benchmark had."""
    found = {one.name: packages_of(session, subject, one).versions for one in session.workload.benchmarks}
    return {name: versions for name, versions in found.items() if versions}


def _profile_outcome(session: Session, cell: Cell, unprofiled: Outcome) -> Outcome | None:
    """Return whether the cell has its profiles; None if it is to have none."""
    if not session.resources.settings.profiled or cell.subject.mode == TWIN or cell.limit is not None:
        return None
    if cell.profile_problem:
        return Outcome(state=State.FAILED, reason=cell.profile_problem)
    wanted = {one.name for one in session.workload.benchmarks if one.profile_metric and cell.goes_on(one)}
    return OK if wanted <= cell.profiles.keys() else unprofiled
