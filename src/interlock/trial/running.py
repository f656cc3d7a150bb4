"""One trial from beginning to end: build, prove, measure, profile, record, and remove what was made."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interlock import __version__
from interlock.catalog.types import MOUNT, slug
from interlock.catalog.variants import Base
from interlock.engine import machine
from interlock.engine.client import engine_failure
from interlock.engine.docker import DockerEngine
from interlock.engine.ownership import temporary_folder
from interlock.engine.protocol import OnStep
from interlock.engine.run import trials
from interlock.engine.run.trials import BuildSetup, Recipe, UserImage
from interlock.errors import EngineError, InterlockError, Interrupted
from interlock.measure import lock
from interlock.measure.cells import ProgressUpdate
from interlock.measure.ending import Ending
from interlock.measure.profiling import best_probe
from interlock.results import store
from interlock.results.answers import OWN_TWIN, Candidate, Trial, TrialSettings
from interlock.results.experiments import BaseImage
from interlock.results.journal import KILLED
from interlock.trial.builds import Builds, PlannedCandidate, twin_of
from interlock.trial.options import exposed_address
from interlock.trial.rounds import Checks, TrialMeasurements, TrialResources, TriedCandidate, measure_rounds, prove


@dataclass(frozen=True)
class Assignment:
    """What a trial tries, and the command that repeats it."""

    root: Path
    cache: Path
    results: Path
    output: Path | None
    base: Base
    recipe: Recipe
    planned: Sequence[PlannedCandidate]
    checks: Checks
    settings: TrialSettings
    starts_service: bool
    keep: bool
    command: str


@dataclass(frozen=True)
class ProgressCallbacks:
    """What is called with each step of a build, and with each run."""

    on_build: Callable[[str, str], None]
    on_progress: Callable[[ProgressUpdate], None]


@dataclass(frozen=True)
class _TrialStart:
    """A trial's builder and owner, and its start by the calendar and by the monotonic clock."""

    builder: str
    host: Mapping[str, Any]  # its facts and the engine's
    started: datetime.datetime
    clock_s: float

    @property
    def owner(self) -> str:
        return f"trial-{self.started:%Y%m%d%H%M%S%f}"


def run_trial(engine: DockerEngine, assignment: Assignment, callbacks: ProgressCallbacks) -> tuple[Path, Trial]:
    """Run a trial; return its folder and record. Raise an InterlockError without leaving anything in the engine.

    Its record is written after each run, so that what was measured survives any end.
    Ctrl-C ends its rounds and profiles with what is known, as a budget does; before the first figure it ends the trial.
    The user's folder is only read.
    """
    host = {**machine.facts(), "engine": engine.facts()}
    begun = _TrialStart(trials.find_builder(), host, datetime.datetime.now(datetime.UTC), time.monotonic())
    left: list[UserImage] = []
    journal = _Journal(assignment, begun)
    try:
        with temporary_folder("trial") as folder:
            shop = BuildSetup(engine.client, engine.address, begun.owner, folder, assignment.cache, begun.builder)
            builds = Builds(shop, assignment.recipe, callbacks.on_build, left)
            # If the service does not work unchanged, nothing else need be built.
            own = builds.own()
            resources = _open_resources(engine, assignment, own, begun.owner, callbacks.on_progress)
            resources = replace(resources, on_block=journal.add)
            prove(resources, [own])
            planned = [builds.candidate(one) for one in assignment.planned]
        prove(resources, planned)
        measured = _measure_under_lock(assignment, resources, [own, twin_of(own), *planned])
        if assignment.keep:
            measured.candidates = _kept(engine, assignment, measured.candidates)
    except Exception as error:
        with suppress(EngineError):  # the first error says more
            _clean_up(engine, begun.owner, left)
        raise journal.end_by(error) from error
    except BaseException:
        _clean_up(engine, begun.owner, left)
        raise
    _clean_up(engine, begun.owner, left)
    return journal.write(measured)


def _open_resources(
    engine: DockerEngine,
    assignment: Assignment,
    own: TriedCandidate,
    owner: str,
    on_progress: Callable[[ProgressUpdate], None],
) -> TrialResources:
    settings, checks = assignment.settings, assignment.checks
    on_progress(ProgressUpdate("preparing", "load and instruments", "", 0, 1))
    base = _base(engine, assignment, on_progress)
    if assignment.starts_service and checks.address is None:
        ports = engine.exposed_ports(own.candidate.image_id)
        checks = replace(checks, address=exposed_address(ports))
    modes = [one.mode.environment for one in assignment.planned if one.mode]
    needed = settings.profiled or any(MOUNT in value for one in modes for value in one.values())
    trials = engine.set_up_trial(owner, assignment.root, base, settings, instruments=needed)
    return TrialResources(
        trials,
        checks,
        settings,
        on_progress,
        ending=Ending(settings.budget_s),
        require_answer=engine.require_answer,
    )


def _measure_under_lock(
    assignment: Assignment, resources: TrialResources, entries: Sequence[TriedCandidate]
) -> TrialMeasurements:
    """Measure while nothing else does on this machine; the probe is tried then too, because it traces."""
    say: Callable[[str], None] = lambda text: resources.on_progress(ProgressUpdate("preparing", text, "", 0, 1))  # noqa: E731
    with lock.hold(f"trial of {assignment.recipe.context.resolve()}", say):
        chosen = _with_probe(resources)
        with resources.ending.listening():
            measured = measure_rounds(chosen, entries)
    if resources.ending.signals and not any(one.values for one in measured.candidates):
        raise Interrupted(resources.ending.signals[0])
    return measured


def _with_probe(resources: TrialResources) -> TrialResources:
    if not resources.settings.profiled:
        return resources
    try:
        return replace(resources, probe=best_probe(resources.services.workspace))
    except InterlockError as error:  # another tracer, say: times can still be measured
        return replace(resources, no_probe=error.found)


def _base(engine: DockerEngine, assignment: Assignment, on_progress: Callable[[ProgressUpdate], None]) -> BaseImage:
    """Return the base of the helper images: that of a variant that was built, or the plan's."""
    found = next((one.built.base for one in assignment.planned if one.built.base), None)
    say: OnStep = lambda _, text: on_progress(ProgressUpdate("preparing", text, "", 0, 1))  # noqa: E731
    return found or engine.ensure_base(assignment.base, assignment.cache, say)


def _kept(engine: DockerEngine, assignment: Assignment, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Tag the candidates' images, so that they can be run by name."""
    name = slug(assignment.recipe.context.resolve().name.lower()) or "service"

    def tagged(one: Candidate) -> Candidate:
        if not one.image_id or one.label == OWN_TWIN:
            return one
        repository, tag = f"interlock/trial-{name}", slug(one.label.lower())
        engine.tag(one.image_id, f"{repository}:{tag}")
        return one.model_copy(update={"image_tag": f"{repository}:{tag}"})

    return [tagged(one) for one in candidates]


def _clean_up(engine: DockerEngine, owner: str, left: Sequence[UserImage]) -> None:
    """Remove what the trial made; images that have a tag stay."""
    try:
        engine.clean_up(owner)
    finally:
        for image in left:
            engine.remove_untagged([image.image_id, *image.left])


def _record(begun: _TrialStart, assignment: Assignment, measured: TrialMeasurements) -> Trial:
    return Trial(
        name="",
        tool_version=__version__,
        command=assignment.command,
        started=begun.started.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - begun.clock_s, 1),
        settings=assignment.settings,
        host=dict(begun.host),
        builder=begun.builder,
        candidates=measured.candidates,
        order=measured.order,
        probe=measured.probe,
        no_probe=measured.no_probe,
        warnings=measured.warnings,
        measuring_s=measured.measuring_s,
        ended_by=measured.ended_by,
    )


class _Journal:
    """Writes the record of a trial, and each time the whole of it: it is small, and then there is one file to read."""

    def __init__(self, assignment: Assignment, begun: _TrialStart) -> None:
        self._assignment, self._begun = assignment, begun
        self._folder: Path | None = None
        self._measured: TrialMeasurements | None = None

    def add(self, measured: TrialMeasurements) -> None:
        """Write what was measured so far, once there is any; once this returns it survives any end."""
        if any(one.values for one in measured.candidates):
            self._measured = measured
            self.write(replace(measured, ended_by=KILLED))

    def write(self, measured: TrialMeasurements) -> tuple[Path, Trial]:
        """Write the record into the folder that was asked for, or a new one in results/."""
        trial = _record(self._begun, self._assignment, measured)
        if self._folder is None:
            wanted, day = self._assignment.output, trial.started.partition("T")[0]
            self._folder = wanted or store.new_experiment(self._assignment.results, day)
        named = trial.model_copy(update={"name": self._folder.resolve().name})
        store.write_json(self._folder / store.TRIAL_FILE, named)
        return self._folder, named

    def end_by(self, error: Exception) -> Exception:
        """Note in the record what ended the trial; return the error to end with, which says where the record is."""
        found = error if isinstance(error, InterlockError) else engine_failure(error)
        if self._measured is None or self._folder is None:
            return found or error
        with suppress(InterlockError):  # a full disk: the last that could be written is there
            self.write(replace(self._measured, ended_by=f"an error ({found.found if found else error})"))
        if found is None:
            return error
        return found.with_todo(f"What was measured until then: interlock report {self._folder}")
