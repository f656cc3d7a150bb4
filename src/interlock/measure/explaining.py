"""Why: the stacks of one benchmark on a few variants, without timing anything."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from interlock.engine.protocol import Engine
from interlock.errors import WorkloadError
from interlock.measure import experiment, lock
from interlock.measure.cells import Cell, ProgressUpdate, open_sandbox, open_session
from interlock.measure.experiment import Assignment, Record, Watching
from interlock.measure.profiling import lock_sites_in
from interlock.results.lock_sites import LockSites


def explain(
    engine: Engine, assignment: Assignment, benchmark: str, on_progress: Callable[[ProgressUpdate], None]
) -> dict[str, LockSites]:
    """Return the lock sites of the assignment's only workload on each of its variants, by label.

    WorkloadError says why a variant has none; what was started is removed in any case.
    """
    (name,) = assignment.settings.workloads
    record = Record(Path("why"), datetime.datetime.now(datetime.UTC))
    wanted = set(assignment.settings.variants)
    with lock.hold(f"why {name}/{benchmark}", lambda text: on_progress(ProgressUpdate("preparing", text, "", 0, 1))):
        try:
            resources = experiment.set_up(engine, assignment, record, Watching(on_progress))
            workload = assignment.workloads[name]
            (one,) = [one for one in workload.benchmarks if one.name == benchmark]
            if resources.probe is None:
                raise WorkloadError(key="--no-profile", found="no probe was chosen", todo="Run without it.")
            found = {}
            subjects = [subject for subject in experiment.subjects(assignment) if subject.label in wanted]
            with open_session(resources, workload) as session:
                for index, subject in enumerate(subjects):
                    on_progress(ProgressUpdate("stacks", name, subject.label, index, len(subjects)))
                    cell = Cell(subject, open_sandbox(session, subject))
                    try:
                        found[subject.label] = lock_sites_in(session, one, cell, resources.probe)
                    finally:
                        cell.sandbox.close()
            return found
        finally:
            engine.clean_up(record.owner)
