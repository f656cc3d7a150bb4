"""Instructions in user mode per unit of work, which no neighbour changes, by the processor's counter."""

from __future__ import annotations

import statistics

from interlock.errors import UnsupportedHereError, WorkloadError
from interlock.measure.cells import Cell
from interlock.measure.kinds.kind import PROGRAM_PHASE
from interlock.measure.tracks import NO_WORK, Track
from interlock.results.profiles import Instructions, Probe

RUNS = 3


def count_instructions(track: Track, probe: Probe) -> Instructions:
    """Return instructions in user mode per unit of work, without those of a program's set-up.

    UnsupportedHereError says why they are not counted; WorkloadError how counting failed.
    """
    if refused := track.kind.no_instructions or probe.no_instructions:
        raise UnsupportedHereError(found=refused, todo="Look at its time, or measure on real hardware.")
    # In a container without a seccomp profile, because the engine's default one blocks perf_event_open.
    unconfined = Cell(track.session, track.cell.subject, unconfined=True)
    counting = Track(unconfined, track.kind)
    try:
        per_unit = [_per_unit(counting) for _ in range(RUNS)]
    finally:
        unconfined.close()
    if min(per_unit) <= 0:
        raise WorkloadError(found="the counter shows no instructions of the work", todo="Run `interlock doctor`.")
    middle = statistics.median(per_unit)
    return Instructions(per_unit=middle, spread=(max(per_unit) - min(per_unit)) / 2 / middle, runs=RUNS)


def _per_unit(track: Track) -> float:
    """Count once; of a program the process without work is subtracted."""
    result = track.run_counted(track.benchmark.profile_loops, instructions=True)
    counted = result.costs[-1].instructions or 0
    if track.kind.phase == PROGRAM_PHASE:
        counted -= track.run_counted(NO_WORK, instructions=True).costs[-1].instructions or 0
    return counted / track.profiled_units(result)
