"""One trial from beginning to end: build, prove, measure, profile, record; then all that it made is removed."""

from __future__ import annotations

import datetime
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from interlock import __version__, host, store, turns
from interlock.engine import cells, user_build
from interlock.engine import trial as engine
from interlock.engine.base import ensure_base
from interlock.engine.client import engine_facts
from interlock.engine.helpers import ensure_helper
from interlock.engine.trial import Stall
from interlock.engine.user_build import Recipe, UserImage, Workshop
from interlock.errors import InterlockError
from interlock.model import (
    MOUNT,
    OWN_TWIN,
    Base,
    BaseImage,
    Candidate,
    Trial,
    TrialSettings,
    slug,
)
from interlock.probes import best_probe
from interlock.stage import Step
from interlock.trial.asked import exposed_address
from interlock.trial.builds import Builds, Contestant, twin_of
from interlock.trial.rounds import Held, Scene, hold, prove
from interlock.trial.visits import Demands, Entry

TRIAL_FILE = "trial.json"
LOADED = "load"


@dataclass(frozen=True)
class Assignment:
    """What a trial is to try, and the command that asked for it."""

    root: Path
    cache: Path
    results: Path
    output: Path | None
    base: Base
    recipe: Recipe
    contestants: Sequence[Contestant]
    demands: Demands
    settings: TrialSettings
    starts_service: bool
    keep: bool
    command: str


@dataclass(frozen=True)
class Seen:
    """Who is told what happens."""

    on_build: Callable[[str, str], None]
    on_step: Callable[[Step], None]


@dataclass(frozen=True)
class _Begun:
    """A trial's owner, and when it began by the calendar and by the monotonic clock."""

    builder: str
    started: datetime.datetime
    clock_s: float

    @property
    def owner(self) -> str:
        return f"trial-{self.started:%Y%m%d%H%M%S%f}"


def conduct(client: Any, assignment: Assignment, seen: Seen) -> tuple[Path, Trial]:
    """The trial's folder and record. InterlockErrors say why there is none: nothing is left then.

    The user's folder is only read.
    """
    begun = _Begun(user_build.find_builder(), datetime.datetime.now(datetime.UTC), time.monotonic())
    left: list[UserImage] = []
    try:
        with tempfile.TemporaryDirectory(prefix="interlock-trial-") as folder:
            shop = Workshop(client, begun.owner, Path(folder), assignment.cache / "logs", begun.builder)
            builds = Builds(shop, assignment.recipe, seen.on_build, left)
            # What does not work unchanged is said before anything else is built.
            own = builds.own()
            scene = _set_scene(client, assignment, own, begun.owner, seen.on_step)
            prove(scene, [own])
            contestants = [builds.contestant(one) for one in assignment.contestants]
        prove(scene, contestants)
        held = _hold_in_turn(client, assignment, scene, [own, twin_of(own), *contestants])
        if assignment.keep:
            held.candidates = _kept(client, assignment, held.candidates)
    finally:
        _clean_up(client, begun.owner, left)
    return _write(assignment, _record(client, begun, assignment, held))


def _set_scene(client: Any, assignment: Assignment, own: Entry, owner: str, on_step: Callable[[Step], None]) -> Scene:
    settings, demands = assignment.settings, assignment.demands
    on_step(Step("preparing", "load and instruments", "", 0, 1))
    base = _base(client, assignment, on_step)
    if assignment.starts_service and demands.address is None:
        ports = engine.exposed_ports(client, own.candidate.image_id)
        demands = replace(demands, address=exposed_address(ports))
    modes = [one.mode.environment for one in assignment.contestants if one.mode]
    needed = settings.profiled or any(MOUNT in value for one in modes for value in one.values())
    instruments = ensure_helper(client, assignment.root, "instruments", base) if needed else ""
    volume = cells.create_instruments_volume(client, owner, instruments, {}) if instruments else None
    network = settings.network or engine.open_network(client, owner)
    load_image = ensure_helper(client, assignment.root, LOADED, base)
    loader = engine.start_loader(client, owner, load_image, network, settings.load_cpus)
    stall = Stall(client, owner, network, loader, settings.service_cpus, settings.memory, volume)
    return Scene(stall, demands, settings, on_step, instruments)


def _hold_in_turn(client: Any, assignment: Assignment, scene: Scene, entries: Sequence[Entry]) -> Held:
    """The rounds, once nothing else measures on this machine; a probe is tried then too, because it may trace."""
    say: Callable[[str], None] = lambda text: scene.on_step(Step("preparing", text, "", 0, 1))  # noqa: E731
    with turns.turn(f"trial of {assignment.recipe.context.resolve()}", say):
        return hold(_with_probe(client, scene), entries)


def _with_probe(client: Any, scene: Scene) -> Scene:
    if not scene.settings.profiled:
        return scene
    try:
        return replace(scene, probe=best_probe(client, scene.instruments_image_id, scene.stall.owner))
    except InterlockError as error:  # another tracer, say: what is timed is none the worse for it
        return replace(scene, no_probe=error.found)


def _base(client: Any, assignment: Assignment, on_step: Callable[[Step], None]) -> BaseImage:
    """What the helpers are built on: the variants' own, or, if none was built, as for the first one."""
    found = next((one.built.base for one in assignment.contestants if one.built.base), None)
    say: Callable[[str], None] = lambda text: on_step(Step("preparing", text, "", 0, 1))  # noqa: E731
    return found or ensure_base(client, assignment.base, assignment.cache, say)


def _kept(client: Any, assignment: Assignment, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Their images get tags, so that they can be run by name."""
    name = slug(assignment.recipe.context.resolve().name.lower()) or "service"

    def tagged(one: Candidate) -> Candidate:
        if not one.image_id or one.label == OWN_TWIN:
            return one
        repository, tag = f"interlock/trial-{name}", slug(one.label.lower())
        client.images.get(one.image_id).tag(repository, tag)
        return one.model_copy(update={"image_tag": f"{repository}:{tag}"})

    return [tagged(one) for one in candidates]


def _clean_up(client: Any, owner: str, left: Sequence[UserImage]) -> None:
    """What was kept has a tag, and stays."""
    try:
        cells.clean_up(client, owner)
    finally:
        for image in left:
            user_build.remove_images(client, [image.image_id, *image.left])


def _record(client: Any, begun: _Begun, assignment: Assignment, held: Held) -> Trial:
    return Trial(
        name="",
        tool_version=__version__,
        command=assignment.command,
        started=begun.started.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - begun.clock_s, 1),
        settings=assignment.settings,
        host={**host.facts(), "engine": engine_facts(client)},
        builder=begun.builder,
        candidates=held.candidates,
        order=held.order,
        probe=held.probe,
        no_probe=held.no_probe,
        warnings=held.warnings,
    )


def _write(assignment: Assignment, trial: Trial) -> tuple[Path, Trial]:
    """In a folder of its own, or the one that was asked for."""
    folder = assignment.output or store.new_experiment(assignment.results, trial.started.partition("T")[0])
    named = trial.model_copy(update={"name": folder.resolve().name})
    store.write_json(folder / TRIAL_FILE, named)
    return folder, named
