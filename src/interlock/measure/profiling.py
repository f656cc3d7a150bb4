"""Profiles, after all timing of a workload: system calls under the best probe, and where locks wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from interlock.catalog.types import TWIN
from interlock.errors import InterlockError, WorkloadError
from interlock.measure.cells import Cell
from interlock.measure.counts import NO_CALLS, parse_bpf, parse_strace, unseen
from interlock.measure.kinds.choosing import kind_of_track
from interlock.measure.kinds.kind import COMMAND_PHASE, NO_WORK
from interlock.measure.sessions import Session
from interlock.measure.stacks import lock_sites_in
from interlock.measure.stopwatch import Phase
from interlock.measure.tracks import Track
from interlock.measure.watching import ProgressUpdate
from interlock.results.profiles import BenchmarkProfile, Method, PhaseCounts, Probe

# strace counts a whole process, and one without work to subtract.
WHOLE, SETUP = "whole", "setup"


def profile_cells(session: Session, cells: Sequence[Cell], on_profile: Callable[[], None] = lambda: None) -> None:
    """Profile each benchmark that works, and call `on_profile` after each; not the twin, the baseline's image."""
    to_profile = [(cell, tracks) for cell in cells if cell.subject.mode != TWIN and (tracks := _without_profile(cell))]
    ending = session.resources.watching.ending
    ending.begin_profile()
    for index, (cell, tracks) in enumerate(to_profile):
        if ending.stops_profile():
            return
        session.resources.watching.on_progress(
            ProgressUpdate("profile", session.workload.name, cell.subject.label, index, len(to_profile))
        )
        for track in tracks:
            try:
                with cell.clock.during(Phase.PROFILING):
                    track.profile = profile_of(track, session.resources.require_probe())
            except (InterlockError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
                cell.profile_problem = str(error)
            else:
                on_profile()


def _without_profile(cell: Cell) -> list[Track]:
    """Return the tracks of a cell that are to have a profile and have none."""
    tracks = cell.tracks.values()
    return [track for track in tracks if track.benchmark.profile_metric and track.goes_on and track.profile is None]


def profile_of(track: Track, probe: Probe) -> BenchmarkProfile:
    """Count the system calls of a track's work; they are kept if stacks fail."""
    profile = (_by_phases if probe.method is Method.BPF else _by_difference)(track)
    if not (track.benchmark.why or track.session.resources.settings.why):
        return profile
    try:
        return profile.model_copy(update={"why": lock_sites_in(track, probe)})
    except InterlockError as error:
        return profile.model_copy(update={"no_why": error.found})


def _by_phases(track: Track) -> BenchmarkProfile:
    """Count one process, or a service at work: the probe itself separates start and warm-up from work."""
    kind = kind_of_track(track)
    with kind.working(track) as working:
        text, units = working.counted()
    return profile_by_phases(parse_bpf(text), units, kind.phase)


def _by_difference(track: Track) -> BenchmarkProfile:
    """Count a process with units of work under strace and, for a program, one without, whose calls are subtracted."""
    kind = kind_of_track(track)
    if kind.needs_load:
        raise WorkloadError(
            found="strace cannot watch a service that runs; BPF can",
            todo="Run `interlock doctor`: it says how to allow it.",
        )
    result = kind.run_counted(track, track.benchmark.profile_loops, strace=True)
    whole, setup = parse_strace(result.ended.stderr), NO_CALLS
    if result.output is not None:
        setup = parse_strace(kind.run_counted(track, NO_WORK, strace=True).ended.stderr)
    return profile_by_difference(whole, setup, track.profiled_units(result))


def profile_by_phases(phases: dict[str, PhaseCounts], units: int, counted: str) -> BenchmarkProfile:
    """Return the profile of a probe with phases, of which one is counted; WorkloadError if it saw no call in it."""
    if any(name not in phases for name in (COMMAND_PHASE, counted)) or not (
        phases[COMMAND_PHASE].total and phases[counted].ns
    ):
        raise unseen(counted)
    return BenchmarkProfile(method=Method.BPF, units=units, phases=phases, counted=counted)


def profile_by_difference(whole: PhaseCounts, setup: PhaseCounts, units: int) -> BenchmarkProfile:
    """Return the profile of a probe without phases, from a process with units of work and one without."""
    return BenchmarkProfile(
        method=Method.STRACE_FUTEX,
        units=units,
        phases={WHOLE: whole, SETUP: setup},
        counted=WHOLE,
        deducted=SETUP,
    )
