"""One execution of the matrix: what is measured, on what, and the record of it."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import __version__, host, store
from interlock.engine import cells
from interlock.engine.client import engine_facts
from interlock.engine.helpers import ensure_helper
from interlock.errors import UsageError
from interlock.measure import Measured, measure_workload
from interlock.model import (
    DEFAULT_BASELINE,
    TWIN,
    Built,
    Catalog,
    CellResult,
    Experiment,
    Outcome,
    Settings,
    State,
    Subject,
    slug,
)
from interlock.stage import Stand, Step

QUICK_ROUNDS, FULL_ROUNDS = 3, 12


@dataclass(frozen=True)
class Assignment:
    """What an experiment is to measure, and the command that asked for it."""

    catalog: Catalog
    root: Path
    results: Path
    built: list[Built]
    settings: Settings
    command: str


@dataclass
class Record:
    """What has been measured so far."""

    name: str
    started: datetime.datetime
    clock_s: float = field(default_factory=time.monotonic)
    measured: dict[str, Measured] = field(default_factory=dict)


def choose_baseline(wanted: str | None, built: list[Built]) -> str:
    """The wanted baseline, or cpython-3.13, or the first variant that was built."""
    ready = [image.variant for image in built if image.outcome.state is State.OK]
    if not ready:
        reasons = "; ".join(f"{image.variant}: {image.outcome.reason}" for image in built)
        raise UsageError(found=f"no variant could be built ({reasons})", todo="Mend that: there is nothing to measure.")
    if wanted is not None and wanted not in ready:
        raise UsageError(
            key="--baseline",
            found=f"'{wanted}' is not among the built variants",
            todo=f"Choose from: {', '.join(ready)}.",
        )
    return wanted or (DEFAULT_BASELINE if DEFAULT_BASELINE in ready else ready[0])


def run(client: Any, assignment: Assignment, on_step: Callable[[Step], None]) -> Path:
    """Measures all cells and returns the experiment's folder.

    Interrupted, it keeps the workloads that are complete (the rest are recorded as failed: interrupted), or nothing
    if none is; containers, network and volume go in any case.
    """
    started = datetime.datetime.now(datetime.UTC)
    folder = store.new_experiment(assignment.results, started.date().isoformat())
    record = Record(folder.name, started)
    owner = f"{folder.name}-{started:%H%M%S%f}"
    try:
        stand = _set_up(client, assignment, folder, owner, on_step)
        for name in assignment.settings.workloads:
            workload = assignment.catalog.workloads[name]
            record.measured[name] = measure_workload(stand, workload, subjects(assignment))
    finally:
        try:
            cells.clean_up(client, owner)
        finally:
            if record.measured:
                store.write_json(folder / store.EXPERIMENT_FILE, describe(client, assignment, record))
            else:
                store.remove_folder(folder)
    return folder


def subjects(assignment: Assignment) -> list[Subject]:
    """Every image that was built, and the baseline's twin."""
    settings = assignment.settings
    ready = [image for image in assignment.built if image.outcome.state is State.OK]
    twin = next(image for image in ready if image.variant == settings.baseline)
    return [
        *(Subject(variant=image.variant, image_id=image.image_id) for image in ready),
        Subject(variant=twin.variant, image_id=twin.image_id, mode=TWIN),
    ]


def _set_up(client: Any, assignment: Assignment, folder: Path, owner: str, on_step: Callable[[Step], None]) -> Stand:
    root, settings = assignment.root, assignment.settings
    base = next(image.base for image in assignment.built if image.base is not None)
    on_step(Step("preparing", "instruments", "", 0, 1))
    programs = {path.name: path.read_bytes() for path in sorted((root / "workloads").glob("*.py"))}
    image_id = ensure_helper(client, root, "instruments", base)
    served = any(assignment.catalog.workloads[name].server for name in settings.workloads)
    return Stand(
        client=client,
        experiment=owner,
        folder=folder,
        host=host_folder(),
        volume=cells.create_instruments_volume(client, owner, image_id, programs),
        server_image_id=ensure_helper(client, root, "server", base) if served else "",
        settings=settings,
        on_step=on_step,
    )


def host_folder() -> str:
    return slug(host.facts()["name"]) or "host"


def describe(client: Any, assignment: Assignment, record: Record) -> Experiment:
    """experiment.json: complete by itself, so that a report needs no catalog."""
    built, settings, known, measured = assignment.built, assignment.settings, assignment.catalog, record.measured
    return Experiment(
        name=record.name,
        tool_version=__version__,
        command=assignment.command,
        started=record.started.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - record.clock_s, 1),
        settings=settings,
        host={"folder": host_folder(), **host.facts(), "engine": engine_facts(client)},
        images=built,
        workloads={key: known.workloads[key] for key in settings.workloads},
        controls={image.variant: control for image in built if (control := known.variants[image.variant].control)},
        facts={variant: facts for one in measured.values() for variant, facts in one.facts.items()},
        cells=[cell for key in settings.workloads for cell in cells_of(key, built, measured.get(key))],
        order={key: one.order for key, one in measured.items()},
    )


def cells_of(workload: str, built: list[Built], measured: Measured | None) -> list[CellResult]:
    """The workload's cells in the order of the variants, those without an image and those never reached included."""
    done = {cell.variant: cell for cell in measured.cells if cell.mode is None} if measured else {}
    interrupted = Outcome(state=State.FAILED, reason="interrupted before it was measured")
    cells_ = [
        done.get(image.variant)
        or CellResult(
            variant=image.variant,
            workload=workload,
            outcome=image.outcome if image.outcome.state is not State.OK else interrupted,
        )
        for image in built
    ]
    return cells_ + [cell for cell in (measured.cells if measured else []) if cell.mode is not None]
