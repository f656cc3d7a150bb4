"""One trial from beginning to end: build, prove, hand over to an experiment, and remove what was made."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.catalog.types import slug
from interlock.catalog.workloads import Workload
from interlock.engine.docker import DockerEngine
from interlock.engine.ownership import temporary_folder
from interlock.engine.protocol import INSTRUMENTS, Needs
from interlock.engine.run.user_images import BuildSetup, Recipe, UserBuilder, UserImage
from interlock.errors import EngineError
from interlock.measure import experiment
from interlock.measure.assignment import Assignment, UsersImages
from interlock.measure.resumable import require_same_images
from interlock.measure.watching import Observers
from interlock.results.experiments import BaseImage
from interlock.trial.builds import Builds, Candidate, TriedRow
from interlock.trial.options import exposed_address
from interlock.trial.proofs import Proofs
from interlock.trial.workloads import Checks, ServicePlace, workload_of


@dataclass(frozen=True)
class TrialRequest:
    """What to try: an assignment whose images are not built yet, and what each of them has to do."""

    assignment: Assignment
    cache: Path
    recipe: Recipe
    builder: UserBuilder
    candidates: Sequence[Candidate]
    checks: Checks
    users: UsersImages
    places: Sequence[ServicePlace]  # CPUs of the service, each a workload
    keep: bool


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
            shop = BuildSetup(engine.client, owner, folder, request.cache, request.builder)
            builds = Builds(shop, request.recipe, on_build, left)
            assignment = _proved(engine, request, builds, watching)
        measured = experiment.run(engine, assignment, watching)
    except BaseException:
        with suppress(EngineError):  # the first error says more
            _clean_up(engine, owner, left)
        raise
    # Without the images of its stages the classic builder has no cache, and a kept image does not come out equal again.
    _clean_up(engine, owner, [] if request.keep else left)
    return measured


def _proved(engine: DockerEngine, request: TrialRequest, builds: Builds, watching: Observers) -> Assignment:
    """Build and prove the user's own image, then the others, and return what is to be measured."""
    own, checks, recipe = builds.own(), request.checks, request.recipe
    if checks.load is not None and checks.address is None:
        checks = replace(checks, address=exposed_address(engine.exposed_ports(own.image.image_id)))
    places, base = request.places, _base(engine, request, watching)
    workload = workload_of(recipe.context, checks, places[-1])
    surroundings = replace(request.users.surroundings, alias=checks.address.host if checks.address else "")
    helpers = experiment.helpers_of([workload])
    watching.on_step(", ".join([INSTRUMENTS, *helpers]))
    needs = Needs(request.assignment.root, [], {}, helpers, base, surroundings)
    workspace = engine.set_up(builds.shop.owner, needs)
    with workspace.network(None, load="load" in helpers) as network:
        proofs = Proofs(network, workload, checks, watching.on_progress, engine.require_answer)
        proofs.prove([own])
        rows = [own, *(builds.row(candidate) for candidate in request.candidates)]
        proofs.prove(rows[1:])
        workloads = [_probed(request, proofs, own, place) for place in places]
    if request.keep:
        _keep(engine, recipe, rows)
    tried = {"builder": request.builder.name, "tried": {row.label: row.about for row in rows}}
    users = UsersImages(request.users.trial.model_copy(update=tried), surroundings, base)
    return _assignment(request.assignment, workloads, users, rows)


def _probed(request: TrialRequest, proofs: Proofs, own: TriedRow, place: ServicePlace) -> Workload:
    """Return a place's workload, with the load that the user's own service calls for, or as the trial began with it."""
    folder, checks, began = request.recipe.context, proofs.checks, request.assignment.resumes
    workload = workload_of(folder, checks, place)
    if began is not None:
        return began.workloads[workload.name]
    if checks.load is None:
        return workload
    return workload_of(folder, checks, place, replace(proofs, workload=workload).probe(own, place.count))


def _assignment(
    asked: Assignment, workloads: Sequence[Workload], users: UsersImages, rows: Sequence[TriedRow]
) -> Assignment:
    """Return the experiment of the rows, with the user's own image as the baseline."""
    built, began = list({row.image.variant: row.image for row in rows}.values()), asked.resumes
    catalog = asked.catalog.model_copy(update={"workloads": {workload.name: workload for workload in workloads}})
    settings = asked.settings.model_copy(update={"workloads": [workload.name for workload in workloads]})
    command = asked.command
    if began is not None:
        # By their content, because labels name the trial and so give equal images different names.
        require_same_images(began, built, by="content_hash")
        settings, command = began.settings, began.command
    return replace(asked, catalog=catalog, built=built, settings=settings, command=command, users=users)


def _base(engine: DockerEngine, request: TrialRequest, watching: Observers) -> BaseImage:
    """Return the base of the helper images: that of a variant that was built, or the catalog's."""
    built = next((candidate.built.base for candidate in request.candidates if candidate.built.base), None)
    usual = next(iter(request.assignment.catalog.bases.values()))
    return built or engine.ensure_base(usual, request.cache, lambda _, text: watching.on_step(text))


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
