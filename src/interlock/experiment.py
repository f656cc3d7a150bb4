"""One execution of the matrix: what is measured, on what, and the record of it."""

from __future__ import annotations

import datetime
import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import __version__, host, stability, store, turns
from interlock.catalog import EVERYTHING
from interlock.engine import cells
from interlock.engine.helpers import ensure_helper
from interlock.engine.host.packages import HostInstaller
from interlock.engine.packages import Installer
from interlock.engine.running import OnHost, facts_of
from interlock.errors import UsageError
from interlock.measure import Measured, measure_workload
from interlock.model import (
    DEFAULT_BASELINE,
    TWIN,
    Built,
    Catalog,
    CellResult,
    EngineName,
    Experiment,
    Outcome,
    Probe,
    Settings,
    State,
    Subject,
    Workload,
    label_of,
    slug,
    split_label,
)
from interlock.probes import best_probe, best_probe_here
from interlock.provision import Provisions, provide
from interlock.stage import Stand, Step


@dataclass(frozen=True)
class Rounds:
    """At least so many, then on until each ratio's interval is this narrow (half of it, as a share), up to a limit."""

    least: int
    limit: int | None = None
    half_width: float | None = None


# An interval of fewer than five rounds covers too little: docs/method.md, From values to a statement.
QUICK, FULL = Rounds(5, 20, 0.025), Rounds(10, 40, 0.01)


def planned_rounds(quick: bool, wanted: int | None) -> Rounds:
    """Exactly the wanted number; without one, as many as the intervals ask for."""
    if wanted is not None:
        return Rounds(wanted)
    return QUICK if quick else FULL


def repeat_command(settings: Settings, everything: bool = False, engine: EngineName | None = None) -> str:
    """The command that repeats an experiment, with what was chosen by default written out.

    Except the number of rounds: the intervals decide it anew. And `everything`, which is 'all' and no list.
    """
    variants = EVERYTHING if everything else ",".join(settings.variants)
    words = ["nox", "-s", "matrix", "--", "--variants", variants]
    words += ["--workloads", ",".join(settings.workloads)]
    words += ["--conditions", ",".join(settings.conditions)] if settings.conditions else []
    words += ["--quick"] if settings.quick else []
    words += ["--rounds", str(settings.rounds)] if settings.rounds_limit is None else []
    words += ["--baseline", settings.baseline, "--seed", str(settings.seed)]
    words += [] if settings.profiled else ["--no-profile"]
    words += ["--engine", engine.value] if engine else []
    return shlex.join([*words, *(["--release"] if settings.profile == "release" else [])])


@dataclass(frozen=True)
class Assignment:
    """What an experiment is to measure, and the command that asked for it."""

    catalog: Catalog
    root: Path
    results: Path
    built: list[Built]
    settings: Settings
    command: str
    name: str | None = None  # none if the date is to name it

    @property
    def workloads(self) -> dict[str, Workload]:
        """The chosen ones, as they are measured."""
        known, settings = self.catalog.workloads, self.settings
        return {name: known[name].taken(settings.quick) for name in settings.workloads}

    @property
    def left_out(self) -> dict[str, list[str]]:
        """By workload the benchmarks that --quick leaves out."""
        known, taken = self.catalog.workloads, self.workloads
        names = {
            name: [one.name for one in known[name].benchmarks if one not in taken[name].benchmarks] for name in taken
        }
        return {name: some for name, some in names.items() if some}


@dataclass
class Record:
    """What has been measured so far."""

    name: str
    started: datetime.datetime
    clock_s: float = field(default_factory=time.monotonic)
    probe: Probe | None = None
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
    """Measures all cells once nothing else measures on this machine, and returns the experiment's folder."""
    with turns.turn(f"matrix into {assignment.results}", lambda text: on_step(Step("preparing", text, "", 0, 1))):
        return _run(client, assignment, on_step)


def _run(client: Any, assignment: Assignment, on_step: Callable[[Step], None]) -> Path:
    """Interrupted, it keeps the workloads that are complete (the rest are recorded as failed: interrupted), or nothing
    if none is; containers, network and volume go in any case.
    """
    started = datetime.datetime.now(datetime.UTC)
    folder = store.new_folder(assignment.results, assignment.name, started.date().isoformat())
    record = Record(folder.name, started)
    owner = f"{folder.name}-{started:%H%M%S%f}"
    try:
        stand = _set_up(client, assignment, folder, owner, on_step)
        record.probe = stand.probe
        for name in assignment.settings.workloads:
            record.measured[name] = measure_workload(stand, assignment.workloads[name], subjects(assignment))
    finally:
        try:
            _clean_up(client, owner)
        finally:
            if record.measured:
                store.write_json(folder / store.EXPERIMENT_FILE, describe(client, assignment, record))
            else:
                store.remove_folder(folder)
    return folder


def subjects(assignment: Assignment) -> list[Subject]:
    """What was chosen and has an image, then the baseline under each condition and as its twin."""
    settings, conditions = assignment.settings, assignment.catalog.conditions
    plain = {
        image.variant: Subject(variant=image.variant, image_id=image.image_id)
        for image in assignment.built
        if image.outcome.state is State.OK
    }
    baseline = plain[settings.baseline]
    chosen = [split_label(label) for label in settings.variants]
    return [
        *(_in_mode(assignment.catalog, plain[variant], mode) for variant, mode in chosen if variant in plain),
        *(baseline.model_copy(update={"mode": key, "surroundings": conditions[key]}) for key in settings.conditions),
        baseline.model_copy(update={"mode": TWIN}),
    ]


def _in_mode(known: Catalog, plain: Subject, name: str | None) -> Subject:
    if name is None:
        return plain
    mode = next(mode for mode in known.variants[plain.variant].modes if mode.name == name)
    update = {"mode": name, "environment": mode.environment, "options": mode.options, "gil": mode.gil}
    return plain.model_copy(update=update)


def _clean_up(client: Any, owner: str) -> None:
    if isinstance(client, OnHost):
        client.clean_up(owner)
    else:
        cells.clean_up(client, owner)


def _set_up(client: Any, assignment: Assignment, folder: Path, owner: str, on_step: Callable[[Step], None]) -> Stand:
    if isinstance(client, OnHost):
        return _set_up_on_host(client, assignment, folder, owner, on_step)
    root, settings = assignment.root, assignment.settings
    base = next(image.base for image in assignment.built if image.base is not None)
    on_step(Step("preparing", "instruments", "", 0, 1))
    programs = programs_of(root / "workloads")
    image_id = ensure_helper(client, root, "instruments", base)
    served, limited, loaded = (
        any(getattr(workload, what) for workload in assignment.workloads.values())
        for what in ("server", "limits", "load")
    )
    return Stand(
        client=client,
        experiment=owner,
        folder=folder,
        host=host_folder(),
        volume=cells.create_instruments_volume(client, owner, image_id, programs),
        server_image_id=ensure_helper(client, root, "server", base) if served else "",
        instruments_image_id=image_id,
        limits_image_id=ensure_helper(client, root, "limits", base) if limited else "",
        load_image_id=ensure_helper(client, root, "load", base) if loaded else "",
        probe=best_probe(client, image_id, owner) if settings.profiled else None,
        settings=settings,
        on_step=on_step,
        provisions=_provide(client, assignment, on_step),
        programs=frozenset(programs),
    )


def _set_up_on_host(
    host_engine: OnHost, assignment: Assignment, folder: Path, owner: str, on_step: Callable[[Step], None]
) -> Stand:
    """There are no images: what is no variant's runs as programs of this machine."""
    on_step(Step("preparing", "instruments", "", 0, 1))
    programs = programs_of(assignment.root / "workloads")
    ready = host_engine.set_up(owner, programs)

    def say(variant: str, step: str) -> None:
        on_step(Step("preparing", step, variant, 0, 1))

    installer = HostInstaller(assignment.catalog, host_engine.cache, say)
    return Stand(
        client=ready,
        experiment=owner,
        folder=folder,
        host=host_folder(),
        volume="",
        server_image_id="",
        instruments_image_id="",
        limits_image_id="",
        load_image_id="",
        probe=best_probe_here(ready) if assignment.settings.profiled else None,
        settings=assignment.settings,
        on_step=on_step,
        provisions=provide(installer, assignment.built, list(assignment.workloads.values())),
        programs=frozenset(programs),
    )


def _provide(client: Any, assignment: Assignment, on_step: Callable[[Step], None]) -> Provisions:
    def say(variant: str, step: str) -> None:
        on_step(Step("preparing", step, variant, 0, 1))

    installer = Installer(client, assignment.catalog, assignment.root, say)
    return provide(installer, assignment.built, list(assignment.workloads.values()))


def programs_of(folder: Path) -> dict[str, bytes]:
    """The workloads' programs, and all that is in folders beside them, by path below their folder."""
    found = sorted(path for glob in ("*.py", "*/**/*") for path in folder.glob(glob) if path.is_file())
    names = {path.relative_to(folder): path for path in found}
    return {str(name): path.read_bytes() for name, path in names.items() if "__pycache__" not in name.parts}


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
        host={"folder": host_folder(), **host.facts(), "engine": facts_of(client)},
        images=built,
        workloads=assignment.workloads | {key: one.workload for key, one in measured.items()},
        conditions={key: known.conditions[key] for key in settings.conditions},
        controls={image.variant: control for image in built if (control := known.variants[image.variant].control)},
        facts={label: facts for one in measured.values() for label, facts in one.facts.items()},
        cells=[cell for key in settings.workloads for cell in cells_of(key, settings, built, measured.get(key))],
        limits=[cell for one in measured.values() for cell in one.limits],
        left_out=assignment.left_out,
        order={key: one.order for key, one in measured.items()},
        probe=record.probe,
        warnings=warnings_of(measured),
        measuring_s=round(sum(one.spent.wall_s for one in measured.values()), 3),
        in_processes_s=round(sum(one.spent.in_processes_s for one in measured.values()), 3),
    )


def warnings_of(measured: Mapping[str, Measured]) -> list[str]:
    """What disturbed the measuring, workload by workload, or that nobody could watch it."""
    if stability.engine_is_elsewhere():
        return [stability.REMOTE]
    return [warning for one in measured.values() for warning in one.warnings]


def cells_of(workload: str, settings: Settings, built: list[Built], measured: Measured | None) -> list[CellResult]:
    """The workload's cells in the order of the choice, those without an image and those never reached included."""
    done = {cell.label: cell for cell in measured.cells} if measured else {}
    conditions = [label_of(settings.baseline, name) for name in settings.conditions]
    outcomes = {image.variant: image.outcome for image in built}
    interrupted = Outcome(state=State.FAILED, reason="interrupted before it was measured")
    planned = {}
    for label in (*settings.variants, *conditions):
        variant, mode = split_label(label)
        outcome = outcomes[variant] if outcomes[variant].state is not State.OK else interrupted
        missing = CellResult(variant=variant, mode=mode, workload=workload, outcome=outcome)
        planned[label] = done.get(label, missing)
    return list((planned | done).values())
