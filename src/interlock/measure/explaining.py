"""Where a benchmark waits on each of its variants: stacks alone, of an experiment without a record."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from interlock.engine.protocol import Engine
from interlock.measure import lock
from interlock.measure.assignment import Assignment
from interlock.measure.cells import Cell, open_session
from interlock.measure.experiment import Execution
from interlock.measure.stacks import lock_sites_in
from interlock.measure.watching import Observers, ProgressUpdate
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
    watching = Observers(on_progress)
    execution = Execution(engine, assignment, watching, Path("why"), datetime.datetime.now(datetime.UTC))
    with lock.hold(f"why {name}/{benchmark}", watching.on_step):
        try:
            resources = execution.set_up()
            workload = assignment.workloads[name]
            probe = resources.require_probe()
            sites = {}
            subjects = [each for each in assignment.subjects() if each.label in assignment.settings.variants]
            with open_session(resources, workload) as session:
                for index, subject in enumerate(subjects):
                    on_progress(ProgressUpdate("stacks", name, subject.label, index, len(subjects)))
                    cell = Cell(session, subject)
                    try:
                        sites[subject.label] = lock_sites_in(cell.tracks[benchmark], probe, acquires=acquires)
                    finally:
                        cell.close()
            return sites
        finally:
            engine.clean_up(execution.owner)
