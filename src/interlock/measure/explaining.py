"""Where a benchmark waits on each of its variants: stacks alone, of an experiment without a record."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path

from interlock.engine.protocol import Engine
from interlock.errors import WorkloadError
from interlock.measure import lock
from interlock.measure.assignment import Assignment
from interlock.measure.cells import Cell, open_session
from interlock.measure.experiment import set_up
from interlock.measure.stacks import lock_sites_in
from interlock.measure.tracks import Track
from interlock.measure.watching import Observers, ProgressUpdate
from interlock.measure.workload import exclude_impossible
from interlock.results.profiles import LockSites


def explain(
    engine: Engine,
    assignment: Assignment,
    on_progress: Callable[[ProgressUpdate], None],
    *,
    acquires: bool = False,
) -> dict[str, LockSites]:
    """Return the lock sites of the assignment's only benchmark on each of its variants, by label.

    WorkloadError says why a variant has none; what was started is removed in any case.
    """
    ((name, (benchmark,)),) = assignment.settings.benchmarks.items()
    watching, owner = Observers(on_progress), f"why-{datetime.datetime.now(datetime.UTC):%H%M%S%f}"
    with lock.hold(f"why {name}/{benchmark}", watching.on_step):
        try:
            resources = set_up(engine, owner, assignment, watching, Path("why"))
            workload = assignment.workloads[name]
            probe = resources.require_probe()
            sites = {}
            subjects = [each for each in assignment.subjects() if each.label in assignment.settings.variants]
            with open_session(resources, workload) as session:
                tracks = [_possible(Cell(session, subject), benchmark) for subject in subjects]
                for index, track in enumerate(tracks):
                    on_progress(ProgressUpdate("stacks", name, track.label, index, len(tracks)))
                    try:
                        sites[track.label] = lock_sites_in(track, probe, acquires=acquires)
                    finally:
                        track.cell.close()
            return sites
        finally:
            engine.clean_up(owner)


def _possible(cell: Cell, benchmark: str) -> Track:
    """Return the benchmark's track in a cell; WorkloadError if it is known that it cannot run there."""
    exclude_impossible(cell, None)
    track = cell.tracks[benchmark]
    if not track.goes_on:
        problem = f"{track.label} cannot run {cell.session.workload.name}/{benchmark}: {track.outcome.reason}"
        raise WorkloadError(found=problem, todo="Name another variant or benchmark.")
    return track
