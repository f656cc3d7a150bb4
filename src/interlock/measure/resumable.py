"""What is kept of a workload's cells, at its end and after each block; how an experiment that was ended goes on."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from interlock.analysis.changes import changed_packages
from interlock.catalog.project import Catalog
from interlock.catalog.types import TWIN, label_of, split_label
from interlock.catalog.variants import Mode
from interlock.catalog.workloads import Workload
from interlock.errors import UsageError
from interlock.measure.cells import Cell
from interlock.measure.packages import PackageSets
from interlock.measure.processes import OK, worst_outcome
from interlock.measure.programs import sums_of
from interlock.measure.rounds import Course
from interlock.measure.sessions import Session
from interlock.measure.stopwatch import Phase
from interlock.measure.tracks import Track
from interlock.results import store
from interlock.results.experiments import Built, CellResult, Experiment, Facts, Outcome, State
from interlock.results.journal import Journal, JournalEntry, RunData
from interlock.results.profiles import BenchmarkProfile, CellProfile
from interlock.results.store import read_runs, write_runs

NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="the end came first")


# The machine may have got what it lacked when the experiment began.
LACKED = {State.UNSUPPORTED, State.UNAVAILABLE}
TRIED_AGAIN = {State.NOT_MEASURED, *LACKED}

BEGIN_ANEW = "Start a new experiment: leave out --resume."
MEND = "Mend that and resume again, or start a new experiment."


@dataclass
class Recorder:
    """Adds what is new in the cells of a workload to the experiment's journal, if it has one."""

    session: Session
    cells: Sequence[Cell]  # with those of limits
    course: Course

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
        results = [result_so_far(cell) for cell in self.cells]
        entry = JournalEntry(
            runs=runs,
            profiles=profiles,
            cells=[cell for cell in results if not cell.is_limit],
            limits=[cell for cell in results if cell.is_limit],
            order=self.course.order,
            times=self.session.clock.times,
            in_processes_s=round(self.course.in_processes_s, 3),
        )
        self.journal.add(entry)

    def _take_new(self) -> tuple[dict[str, dict[str, list[RunData]]], dict[str, dict[str, BenchmarkProfile]]]:
        runs: dict[str, dict[str, list[RunData]]] = {}
        profiles: dict[str, dict[str, BenchmarkProfile]] = {}
        for track in (track for cell in self.cells for track in cell.tracks.values()):
            if track.runs[track.kept :]:
                new = [RunData.of(run) for run in track.runs[track.kept :]]
                runs.setdefault(track.label, {})[track.name] = new
            if track.profile is not None and not track.profile_kept:
                profiles.setdefault(track.label, {})[track.name] = track.profile
            track.kept, track.profile_kept = len(track.runs), track.profile is not None
        return runs, profiles


def result_so_far(cell: Cell) -> CellResult:
    """Return the result of a cell if nothing more were measured of it."""
    outcomes = {
        track.name: NOT_REACHED if track.goes_on and not track.has_values else track.outcome
        for track in cell.tracks.values()
    }
    return result_of(cell, outcomes, NOT_REACHED)


def result_of(cell: Cell, outcomes: dict[str, Outcome], unprofiled: Outcome) -> CellResult:
    """Return a cell's result; `unprofiled` is the outcome of profiles that were not reached."""
    versions = {track.name: track.packages.versions for track in cell.tracks.values()}
    return CellResult(
        variant=cell.subject.variant,
        mode=cell.subject.mode,
        workload=cell.session.workload.name,
        outcome=worst_outcome(outcomes.values()),
        benchmarks=outcomes,
        packages={name: of_track for name, of_track in versions.items() if of_track},
        profile=_profile_outcome(cell, unprofiled),
        notes=cell.notes,
        times=cell.clock.times,
    )


def write_cell(cell: Cell) -> CellResult:
    """Write the cell's files, each at once, and return its result."""
    resources, subject, tracks = cell.session.resources, cell.subject, cell.tracks
    name = cell.session.workload.name
    path = store.cell_path(resources.folder, resources.host, subject.variant, subject.mode, name)
    write_runs(path, {name: track.runs for name, track in tracks.items() if track.runs})
    profiles = {name: track.profile for name, track in tracks.items() if track.profile is not None}
    if profiles:
        store.write_profiles(path, CellProfile(benchmarks=profiles))
    reason = resources.watching.ending.reason or ("the first look at other rows" if resources.first_look_alone else "")
    unprofiled = Outcome(state=State.NOT_MEASURED, reason=f"{reason} came first") if reason else OK
    return result_of(cell, {name: track.outcome for name, track in tracks.items()}, unprofiled)


def _profile_outcome(cell: Cell, unprofiled: Outcome) -> Outcome | None:
    """Return whether the cell has its profiles; None if it is to have none."""
    if not cell.session.resources.settings.profiled or cell.subject.mode == TWIN or cell.is_limit:
        return None
    if cell.profile_problem:
        return Outcome(state=State.FAILED, reason=cell.profile_problem)
    wanted = [track for track in cell.tracks.values() if track.benchmark.profile_metric and track.goes_on]
    return OK if all(track.profile is not None for track in wanted) else unprofiled


# The facts of a host that its times depend on; the load and the kernel may differ.
SAME = ("name", "cpu", "cores", "memory_bytes", "architecture")
# The share by which the memory may differ: each kernel leaves a different part of it.
SAME_MEMORY = 0.03


def restore(folder: Path, experiment: Experiment, cell: Cell) -> None:
    """Give a new cell the values, profiles, outcomes and times that an experiment's files and its record have of it."""
    subject, workload = cell.subject, cell.session.workload
    path = store.cell_path(folder, experiment.host["folder"], subject.variant, subject.mode, workload.name)
    runs, profiles = read_runs(path), store.read_profiles(path)
    for benchmark in experiment.workloads[workload.name].benchmarks if runs else []:
        # A benchmark that the program listed then and no longer lists keeps its values.
        if benchmark.name in runs and benchmark.name not in cell.tracks:
            cell.tracks[benchmark.name] = Track(cell, benchmark)
    for name, track in cell.tracks.items():
        track.runs += runs.get(name, [])
        track.profile = profiles.get(name)
    for before in (*experiment.cells, *experiment.limits):
        if before.workload == workload.name and before.label == subject.label:
            _restore_result(before, cell)


def _restore_result(before: CellResult, cell: Cell) -> None:
    for name, outcome in before.benchmarks.items():
        # A benchmark that needs no more rounds has no other outcome than this one.
        if name in cell.tracks and outcome.state not in TRIED_AGAIN:
            cell.tracks[name].outcome = outcome
    for note in before.notes:
        cell.note(note)
    for phase in Phase if before.times else ():
        cell.clock.add(phase, getattr(before.times, f"{phase.value}_s"))


def silent_in(experiment: Experiment) -> set[str]:
    """Return the labels of the interpreters that hung when they were asked their facts, and in a workload."""
    return {
        cell.label
        for cell in experiment.cells
        if cell.outcome.state is State.TIMED_OUT and cell.mode != TWIN and cell.label not in experiment.facts
    }


def remaining(experiment: Experiment) -> list[str]:
    """Return the workloads that go on, were never reached or lacked something; UsageError if there are none."""
    names = experiment.settings.workloads
    lacking = {cell.workload for cell in experiment.cells if _lacks_all(cell)}
    names_left = [name for name in names if name in {*experiment.unfinished, *lacking} or name not in experiment.times]
    says = bool(experiment.times or experiment.ended_by)
    if not names_left or not says:
        what = "is complete" if says else "has no record of which parts are complete"
        raise UsageError(key="--resume", found=f"{experiment.name} {what}", todo=BEGIN_ANEW)
    return names_left


def _lacks_all(cell: CellResult) -> bool:
    """Return whether nothing of a cell was measured because something was missing."""
    return cell.outcome.state in LACKED and not any(outcome.state is State.OK for outcome in cell.benchmarks.values())


def require_same_host(experiment: Experiment, here: Mapping[str, Any]) -> None:
    """Raise UsageError unless this is the host that the experiment was begun on."""
    for key in SAME:
        there, now = experiment.host.get(key), here.get(key)
        if not _is_same(key, there, now):
            change = f"{experiment.name} was started on another host: {key} {there}, here {now}"
            raise UsageError(key="--resume", found=change, todo="Resume it there, or start a new experiment.")


def require_same_release(experiment: Experiment, now: str) -> None:
    """Raise UsageError if one release would go on with what another began; no development version is that certain."""
    there = experiment.tool_version
    if there != now and not any(".dev" in version for version in (there, now)):
        problem = f"{experiment.name} was begun with Interlock {there}, and this is {now}"
        raise UsageError(key="--resume", found=problem, todo=f"Install Interlock {there}, or start a new experiment.")


def _is_same(key: str, there: Any, now: Any) -> bool:
    """Return whether a fact of a host is the same."""
    if key == "memory_bytes" and there and now:
        return math.isclose(there, now, rel_tol=SAME_MEMORY)
    return bool(there == now)


def images_now(experiment: Experiment, built: Sequence[Built]) -> list[Built]:
    """Return the images that an experiment goes on with: its own, and those that it lacked and that exist now."""
    now = {image.variant: image for image in built}
    return [image if image.outcome.state is State.OK else now.get(image.variant, image) for image in experiment.images]


def require_same_files(experiment: Experiment, there: Sequence[Built]) -> None:
    """Raise UsageError for a variant whose files have changed: its build would remove the image that was measured."""
    now = {image.variant: image.content_hash for image in there}
    for image in experiment.images:
        was, is_now = image.content_hash, now.get(image.variant)
        if image.outcome.state is State.OK and was and is_now and was != is_now:
            raise _other_image(experiment, image)


def _other_image(experiment: Experiment, image: Built) -> UsageError:
    change = f"{image.variant} has another image than when {experiment.name} was started"
    return UsageError(key="--resume", found=change, todo=BEGIN_ANEW)


def require_same_images(
    experiment: Experiment, built: Sequence[Built], by: Literal["image_id", "content_hash"] = "image_id"
) -> None:
    """Raise UsageError for a variant that has another image now, or none: ratios of two builds do not compare."""
    now = {image.variant: image for image in built}
    for image in experiment.images:
        if image.outcome.state is not State.OK:
            continue
        there = now[image.variant]
        if there.outcome.state is not State.OK:
            lost = f"{image.variant} has no image any more ({there.outcome.reason})"
            raise UsageError(key="--resume", found=lost, todo=MEND)
        if getattr(there, by) != getattr(image, by):
            raise _other_image(experiment, image)


def require_same_packages(experiment: Experiment, now: PackageSets, names: Collection[str]) -> None:
    """Raise UsageError for a row of these workloads that has other packages than it was measured with, or none."""
    for cell in experiment.cells:
        workload = experiment.workloads[cell.workload]
        for benchmark in workload.benchmarks if workload.name in names else ():
            before, there = cell.packages.get(benchmark.name), now.of(cell.variant, workload, benchmark)
            if before is None:
                continue
            what = f"of {cell.label} in {workload.name}"
            if there.outcome.state is not State.OK:
                lost = f"the packages {what} cannot be installed any more ({there.outcome.reason})"
                raise UsageError(key="--resume", found=lost, todo=MEND)
            if changed := changed_packages(before, there.versions):
                problem = f"the packages {what} are not those that {experiment.name} was begun with: {changed}"
                raise UsageError(key="--resume", found=problem, todo=BEGIN_ANEW)


def modes_of(known: Catalog, labels: Collection[str]) -> dict[str, Mode]:
    """Return the modes of those labels that have one."""
    modes = {label_of(variant.name, mode.name): mode for variant in known.variants.values() for mode in variant.modes}
    return {label: modes[label] for label in labels if label in modes}


# What of a mode changes what is measured.
OF_A_MODE = ("environment", "options", "gil")


def require_same_modes(experiment: Experiment, now: Mapping[str, Mode]) -> None:
    """Raise UsageError for a row whose mode runs the interpreter in another way than it did."""
    for label, mode in now.items():
        before = experiment.modes.get(label)
        if before is None or any(getattr(before, key) != getattr(mode, key) for key in OF_A_MODE):
            raise _changed(experiment, f"variants/{split_label(label)[0]}.toml: the mode of {label}")


def _changed(experiment: Experiment, what: str) -> UsageError:
    problem = f"{what} is not as {experiment.name} recorded it"
    return UsageError(key="--resume", found=problem, todo="Restore it, or start a new experiment.")


def require_same_catalog(experiment: Experiment, known: Catalog, programs: Mapping[str, bytes]) -> None:
    """Raise UsageError for a name that is gone, for another mode, and for a workload that goes on and has changed.

    A workload is its file and those of the `programs`, by path below workloads/, that it runs.
    """
    rows = {label for variant in known.variants.values() for label in variant.labels}
    for what, names, known_names in (
        ("variant or mode", experiment.settings.variants, rows),
        ("workload", experiment.settings.workloads, set(known.workloads)),
    ):
        for name in names:
            if name not in known_names:
                raise UsageError(key="--resume", found=f"there is no {what} '{name}' any more", todo=BEGIN_ANEW)
    settings = experiment.settings
    require_same_modes(experiment, modes_of(known, settings.variants))
    for name in remaining(experiment):
        now = known.workloads[name].for_experiment(settings.quick, settings.benchmarks)
        if name not in experiment.times:
            continue
        if _as_in_file(experiment.workloads[name], now) != now:
            raise _changed(experiment, now.file)
        before, there = experiment.programs.get(name, {}), sums_of(now, programs)
        for path in sorted(before.keys() | there.keys()):
            if before.get(path) != there.get(path):
                raise _changed(experiment, f"workloads/{path}")


def _as_in_file(measured: Workload, now: Workload) -> Workload:
    """Return a measured workload without what its program has listed."""
    declared = [each.model_copy(update={"asked_by": []}) for each in measured.benchmarks if now.benchmarks]
    return measured.model_copy(update={"benchmarks": declared, "metric": now.metric})
