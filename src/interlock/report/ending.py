"""How an experiment ended: where its time went, and what was open when something ended it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.analysis.comparison import Table
from interlock.analysis.verdicts import Verdict
from interlock.report.tables import Section
from interlock.results.experiments import Experiment, State, Times

COLUMNS = ("workload", "preparing s", "measuring s", "profiling s", "in all s", "dearest row to prepare")
# A row whose preparing took less than this is not worth a name.
NAMED_S = 1.0


def time_section(experiment: Experiment) -> Section | None:
    """Return the table of seconds by workload, then those of no workload; None where they are not recorded."""
    if not experiment.times:
        return None
    rows = [_row(experiment, name, times) for name, times in experiment.times.items()]
    alone = {"instruments, probe": experiment.set_up_s, "waiting for the lock": experiment.waiting_s}
    rows += [(name, "-", "-", "-", f"{seconds:.0f}", "") for name, seconds in alone.items()]
    title = f"where the time went: {_sum(experiment):.0f} s in all, without the builds"
    return Section(title, COLUMNS, tuple(rows))


def _row(experiment: Experiment, workload: str, times: Times) -> tuple[str, ...]:
    cells = [cell for cell in experiment.cells if cell.workload == workload and cell.times]
    prepared = {cell.label: cell.times.preparing_s for cell in cells if cell.times}
    label = max(prepared, key=lambda one: prepared[one], default="")
    dearest = f"{label} {prepared[label]:.0f} s" if prepared.get(label, 0) >= NAMED_S else ""
    phases = (times.preparing_s, times.measuring_s, times.profiling_s, times.total_s)
    return (workload, *(f"{seconds:.0f}" for seconds in phases), dearest)


def _sum(experiment: Experiment) -> float:
    return sum(one.total_s for one in experiment.times.values()) + experiment.set_up_s + experiment.waiting_s


def ended_lines(experiment: Experiment, tables: Iterable[Table]) -> list[str]:
    """Return what ended an experiment before all was decided, what of it is open, and how it goes on."""
    if not experiment.ended_by:
        return []
    open_rows = [one for table in tables for one in _open_rows(table)]
    unreached = _unreached(experiment)
    return [
        f"{experiment.ended_by} ended the experiment. `interlock matrix --resume {experiment.name}` goes on.",
        *(f"undecided: {one}" for one in open_rows),
        *(f"not measured: {one}" for one in unreached),
    ]


def _open_rows(table: Table) -> list[str]:
    """Return a line for a benchmark whose rows are not all decided, with their names."""
    labels = [row.label for row in table.rows if row.to_baseline and row.to_baseline.verdict is Verdict.UNDECIDED]
    return [f"{table.workload.name} / {table.benchmark.name}: {', '.join(labels)}"] if labels else []


def _unreached(experiment: Experiment) -> list[str]:
    """Return a line for a workload with cells that were not measured: the workload alone if none of it was."""
    lines = []
    for workload in experiment.settings.workloads:
        states = {cell.label: cell.outcome.state for cell in experiment.cells if cell.workload == workload}
        labels = [label for label, state in states.items() if state is State.NOT_MEASURED]
        some = f": {', '.join(labels)}" if State.OK in states.values() else ""
        lines += [f"{workload}{some}"] if labels else []
    return lines
