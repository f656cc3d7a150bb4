"""Going on with an experiment that a budget or a signal ended: what is kept, and what it may go on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.catalog.workloads import Workload
from interlock.errors import UsageError
from interlock.measure.cells import Cell
from interlock.measure.stopwatch import Phase
from interlock.results import store
from interlock.results.experiments import Built, CellResult, Experiment, State, Times
from interlock.results.runs import read_runs

# What of a host's facts its times depend on; the load and the kernel may be others.
SAME = ("name", "cpu", "cores", "memory_bytes", "architecture")
# An outcome that further rounds would only repeat.
FINAL = {State.FAILED, State.TIMED_OUT, State.UNSUPPORTED}


@dataclass(frozen=True)
class Earlier:
    """What was measured of an experiment's cells before it ended."""

    folder: Path
    experiment: Experiment
    cells: Mapping[tuple[str, str], CellResult] = field(init=False)  # by label and workload

    def __post_init__(self) -> None:
        every = [*self.experiment.cells, *self.experiment.limits]
        object.__setattr__(self, "cells", {(one.label, one.workload): one for one in every})

    def restore(self, cell: Cell, workload: str) -> None:
        """Give a new cell the values, profiles, outcomes and times that its files and the record have."""
        subject, host = cell.subject, self.experiment.host["folder"]
        path = store.cell_path(self.folder, host, subject.variant, subject.mode, workload)
        cell.runs.update(read_runs(path))
        cell.profiles.update(store.read_profiles(path))
        before = self.cells.get((subject.label, workload))
        if before is None:
            return
        cell.outcomes.update({name: one for name, one in before.benchmarks.items() if one.state in FINAL})
        for note in before.notes:
            cell.note(note)
        for phase, seconds in phases_of(before.times):
            cell.clock.add(phase, seconds)


def phases_of(times: Times | None) -> list[tuple[Phase, float]]:
    """Return the seconds of each phase; none where they are not recorded."""
    return [(phase, getattr(times, f"{phase.value}_s")) for phase in Phase] if times else []


def remaining(experiment: Experiment) -> list[str]:
    """Return the workloads that go on or were never reached; UsageError if there are none."""
    names = experiment.settings.workloads
    found = [name for name in names if name in experiment.unfinished or name not in experiment.times]
    says = bool(experiment.times or experiment.ended_by)
    if not found or not says:
        what = "is complete" if says else "does not say what of it is complete"
        raise UsageError(key="--resume", found=f"{experiment.name} {what}", todo="Begin a new experiment.")
    return found


def require_same_host(experiment: Experiment, here: Mapping[str, Any]) -> None:
    """Raise UsageError unless this is the host that the experiment was begun on."""
    for key in SAME:
        there = experiment.host.get(key)
        if there != here.get(key):
            found = f"{experiment.name} was begun on another host: {key} {there}, here {here.get(key)}"
            raise UsageError(key="--resume", found=found, todo="Go on there, or begin a new experiment.")


def require_same_images(experiment: Experiment, built: Sequence[Built]) -> None:
    """Raise UsageError for a variant that has another image now: ratios of two builds do not compare."""
    now = {one.variant: one.image_id for one in built if one.outcome.state is State.OK}
    for one in experiment.images:
        if one.outcome.state is State.OK and now.get(one.variant) != one.image_id:
            found = f"{one.variant} has another image than when {experiment.name} was begun"
            raise UsageError(key="--resume", found=found, todo="Begin a new experiment.")


def require_same_workloads(experiment: Experiment, known: Mapping[str, Workload]) -> None:
    """Raise UsageError for a workload that goes on and whose file says something else now."""
    for name in remaining(experiment):
        if name not in known:
            found = f"there is no workload '{name}' any more"
            raise UsageError(key="--resume", found=found, todo="Begin a new experiment.")
        before, now = experiment.workloads[name], known[name].for_experiment(experiment.settings.quick)
        if name in experiment.unfinished and not now.is_adapted and before != now:
            found = f"{now.file} is not as it was when {experiment.name} was begun"
            raise UsageError(key="--resume", found=found, todo="Restore it, or begin a new experiment.")


def joined(before: Experiment, now: Experiment) -> Experiment:
    """Return the record of both parts, of which the second went on with the first.

    A cell that was opened again holds what was measured before too; sums and times are of both.
    """
    names, again = before.settings.workloads, now.times.keys()
    kept = [name for name in names if name in before.times and name not in again]
    measured = [name for name in names if name in kept or name in again]
    return now.model_copy(
        update={
            "started": before.started,
            "cells": sorted(_cells(before.cells, now.cells), key=lambda one: names.index(one.workload)),
            "limits": _cells(before.limits, now.limits),
            "workloads": now.workloads | {name: before.workloads[name] for name in kept},
            "facts": before.facts | now.facts,
            "order": before.order | {name: before.order.get(name, []) + some for name, some in now.order.items()},
            "times": {name: _times(before, name).plus(_times(now, name)) for name in measured},
            "warnings": list(dict.fromkeys([*before.warnings, *now.warnings])),
            "probe": now.probe or before.probe,
            "unfinished": [*(name for name in before.unfinished if name in kept), *now.unfinished],
            **{key: round(getattr(before, key) + getattr(now, key), 3) for key in SUMS},
        }
    )


SUMS = ("duration_s", "measuring_s", "in_processes_s", "waiting_s", "set_up_s")


def _cells(before: Sequence[CellResult], now: Sequence[CellResult]) -> list[CellResult]:
    """Return the cells as they are now; one that was not opened again as it was before."""
    opened = [one for one in now if one.times is not None]
    found = {(one.label, one.workload): one for some in (now, before, opened) for one in some}
    return list(found.values())


def _times(experiment: Experiment, workload: str) -> Times:
    return experiment.times.get(workload, Times())
