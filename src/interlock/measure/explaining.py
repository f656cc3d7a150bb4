"""Where a benchmark waits on each of its variants: stacks alone, of an experiment without a record."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from interlock.engine.protocol import Engine
from interlock.measure import lock
from interlock.measure.cells import Cell, open_session
from interlock.measure.experiment import Assignment, Observers, Record, set_up, subjects
from interlock.measure.profiling import lock_sites_in
from interlock.measure.watching import ProgressUpdate
from interlock.results.profiles import LockSites


def explain(
    engine: Engine,
    assignment: Assignment,
    benchmark: str,
    on_progress: Callable[[ProgressUpdate], None],
    *,
    acquires: bool = False,
) -> dict[str, LockSites]:
    """Return the lock sites of the assignment's only workload on each of its variants, by label.

    WorkloadError says why a variant has none; what was started is removed in any case.
    """
    (name,) = assignment.settings.workloads
    record = Record(Path("why"), datetime.datetime.now(datetime.UTC))
    wanted = set(assignment.settings.variants)
    with lock.hold(f"why {name}/{benchmark}", lambda text: on_progress(ProgressUpdate("preparing", text, "", 0, 1))):
        try:
            resources = set_up(engine, assignment, record, Observers(on_progress))
            workload = assignment.workloads[name]
            probe = resources.require_probe()
            sites = {}
            chosen = [subject for subject in subjects(assignment) if subject.label in wanted]
            with open_session(resources, workload) as session:
                for index, subject in enumerate(chosen):
                    on_progress(ProgressUpdate("stacks", name, subject.label, index, len(chosen)))
                    cell = Cell(session, subject)
                    try:
                        sites[subject.label] = lock_sites_in(cell.tracks[benchmark], probe, acquires=acquires)
                    finally:
                        cell.close()
            return sites
        finally:
            engine.clean_up(record.owner)
