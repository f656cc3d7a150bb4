"""One trial from beginning to end: build, prove, hand over to an experiment, and remove what was made."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.catalog.project import Catalog
from interlock.catalog.types import slug
from interlock.catalog.variants import Base
from interlock.catalog.workloads import Workload
from interlock.engine.docker import DockerEngine
from interlock.engine.ownership import temporary_folder
from interlock.engine.protocol import INSTRUMENTS, Needs, UserSurroundings
from interlock.engine.run import trials
from interlock.engine.run.trials import BuildSetup, Recipe, UserImage
from interlock.errors import EngineError, UsageError
from interlock.measure import experiment
from interlock.measure.experiment import Observers
from interlock.measure.resumable import BEGIN_ANEW
from interlock.measure.watching import ProgressUpdate
from interlock.results.experiments import BaseImage, Built, Experiment, Settings, State
from interlock.results.trials import Trial
from interlock.trial.builds import Builds, PlannedCandidate, TriedRow
from interlock.trial.options import exposed_address
from interlock.trial.proofs import Proofs
from interlock.trial.workloads import Checks, workload_of


@dataclass(frozen=True)
class TrialRequest:
    """What a trial tries, where its experiment goes, and the command that repeats it."""

    root: Path
    cache: Path
    results: Path
    name: str | None
    catalog: Catalog
    recipe: Recipe
    planned: Sequence[PlannedCandidate]
    checks: Checks
    asked: Trial
    settings: Settings
    starts_service: bool
    keep: bool
    command: str
    began: Experiment | None = None  # of which the rest is to be measured

    @property
    def containers(self) -> UserSurroundings:
        """Return where the user's images run."""
        asked, checks = self.asked, self.checks
        alias = checks.address.host if checks.address else ""
        return UserSurroundings(asked.network, asked.service_cpus, asked.memory, alias, checks.environment)


def run_trial(
    engine: DockerEngine, request: TrialRequest, on_build: Callable[[str, str], None], watching: Observers
) -> Path:
    """Run a trial and return the folder of its experiment; nothing of it stays in the engine, whatever ends it.

    If the user's own Dockerfile does not work unchanged, nothing else is built: WorkloadError or BuildError.
    The user's folder is only read.
    """
    owner = f"trial-{datetime.datetime.now(datetime.UTC):%Y%m%d%H%M%S%f}"
    left: list[UserImage] = []
    try:
        with temporary_folder("trial") as folder:
            builder = trials.find_builder()
            shop = BuildSetup(engine.client, engine.address, owner, folder, request.cache, builder)
            builds = Builds(shop, request.recipe, request.settings.profile, on_build, left)
            assignment = _proved(engine, request, builds, watching.on_progress)
        measured = experiment.run(engine, assignment, watching)
    except BaseException:
        with suppress(EngineError):  # the first error says more
            _clean_up(engine, owner, left)
        raise
    _clean_up(engine, owner, left)
    return measured


def _proved(
    engine: DockerEngine, request: TrialRequest, builds: Builds, on_progress: Callable[[ProgressUpdate], None]
) -> experiment.Assignment:
    """Build and prove the user's own image, then the others, and return what is to be measured."""
    own = builds.own()
    if request.starts_service and request.checks.address is None:
        address = exposed_address(engine.exposed_ports(own.image.image_id))
        request = replace(request, checks=replace(request.checks, address=address))
    workload, base = workload_of(request.recipe.context, request.checks), _base(engine, request, on_progress)
    helpers = experiment.helpers_of([workload])
    on_progress(ProgressUpdate("preparing", ", ".join([INSTRUMENTS, *helpers]), "", 0, 1))
    workspace = engine.set_up(builds.shop.owner, Needs(request.root, [], {}, helpers, base, request.containers))
    with workspace.network(None, load=workload.is_users_service) as network:
        proofs = Proofs(network, workload, request.checks, on_progress, engine.require_answer)
        proofs.prove([own])
        rows = [own, *(builds.row(one) for one in request.planned)]
        proofs.prove(rows[1:])
    if request.keep:
        _keep(engine, request.recipe, rows)
    return _assignment(request, builds.shop.builder, workload, base, rows)


def _assignment(
    request: TrialRequest, builder: str, workload: Workload, base: BaseImage, rows: Sequence[TriedRow]
) -> experiment.Assignment:
    """Return the experiment of the rows: one workload, with the user's own image as the baseline."""
    built, began = list({row.image.variant: row.image for row in rows}.values()), request.began
    if began is not None:
        require_the_same(began, workload, built)
    settings = began.settings if began else request.settings.model_copy(update={"workloads": [workload.name]})
    return experiment.Assignment(
        catalog=request.catalog.model_copy(update={"workloads": {workload.name: workload}}),
        root=request.root,
        results=request.results,
        built=built,
        settings=settings,
        command=began.command if began else request.command,
        name=request.name,
        resumes=began,
        trial=request.asked.model_copy(update={"builder": builder, "tried": {row.label: row.about for row in rows}}),
        users=request.containers,
        base=base,
    )


def require_the_same(began: Experiment, workload: Workload, built: Sequence[Built]) -> None:
    """Raise UsageError unless a trial goes on with the load or tests, and the images, that it began with.

    Images are the same by their content: labels say of which trial each is, and so it has another name.
    """
    if began.workloads != {workload.name: workload}:
        found = f"{began.name} had another load, address or tests: {began.command}"
        raise UsageError(key="--resume", found=found, todo="Give the same options, or start a new trial.")
    now = {one.variant: one.content_hash for one in built}
    for one in began.images:
        if one.outcome.state is State.OK and now[one.variant] != one.content_hash:
            found = f"{one.variant} has another image than when {began.name} was started"
            raise UsageError(key="--resume", found=found, todo=BEGIN_ANEW)


def _base(engine: DockerEngine, request: TrialRequest, on_progress: Callable[[ProgressUpdate], None]) -> BaseImage:
    """Return the base of the helper images: that of a variant that was built, or the catalog's."""
    found = next((one.built.base for one in request.planned if one.built.base), None)
    usual: Base = next(iter(request.catalog.bases.values()))
    return found or engine.ensure_base(
        usual, request.cache, lambda _, text: on_progress(ProgressUpdate("preparing", text, "", 0, 1))
    )


def _keep(engine: DockerEngine, recipe: Recipe, rows: Sequence[TriedRow]) -> None:
    """Tag the images, so that they can be run by name."""
    name = slug(recipe.context.resolve().name.lower()) or "service"
    for row in rows:
        if row.image.image_id:
            row.note(kept_as=f"interlock/trial-{name}:{slug(row.label.lower())}")
            engine.tag(row.image.image_id, row.about.kept_as)


def _clean_up(engine: DockerEngine, owner: str, left: Sequence[UserImage]) -> None:
    """Remove what the trial made; images that have a tag stay."""
    try:
        engine.clean_up(owner)
    finally:
        for image in left:
            engine.remove_untagged([image.image_id, *image.left])
