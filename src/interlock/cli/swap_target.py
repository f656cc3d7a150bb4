"""The image that `swap` puts in: its variant and mode, and which image of it the engine or a registry has."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from interlock.catalog import project
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.published import Published
from interlock.catalog.types import MOUNT, split_label
from interlock.catalog.variants import Mode
from interlock.cli.images import build_line, build_options
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.names import find_tagged, known_digests
from interlock.engine.registry import platform_name, registry_digest, registry_platforms
from interlock.errors import EngineError, RegistryError, UsageError, nearest, require_known
from interlock.results.experiments import Built, Outcome, State
from interlock.swap.caveats import Caveat, Weight
from interlock.swap.image_names import NewImage, new_image


@dataclass(frozen=True)
class Target:
    """The variant and mode that --to names."""

    known: Catalog
    project_paths: ProjectPaths
    name: str
    mode: Mode | None

    @property
    def tag(self) -> str:
        return self.known.variants[self.name].image_tag


def target_of(to: str) -> Target:
    """Return the variant of --to; UsageError if it does not exist."""
    project_paths = ProjectPaths.find()
    known = project.load(project_paths.root)
    name, mode_name = split_label(to)
    require_known(known.variants, name, "variant", "--to")
    modes = {mode.name: mode for mode in known.variants[name].modes}
    if mode_name is not None and mode_name not in modes:
        raise UsageError(key="--to", found=f"{name} has no mode '{mode_name}'", todo=nearest(mode_name, modes))
    return Target(known, project_paths, name, modes.get(mode_name or ""))


def resolve(to: str, *, local: bool = False) -> tuple[NewImage, list[Caveat]]:
    """Return the image to swap in, with its digest where it is known, and caveats.

    It is this engine's image if a push or a pull gave it a digest, else the published one, unless `local`.
    """
    target = target_of(to)
    built, caveats = _built(target)
    variants = target.known.variants
    there = target.known.published.get(target.name)
    # This engine's image is in another repository than the published one, as a team's is.
    elsewhere = built and there and built.digest and built.digest.partition("@")[0] != there.repository
    if there is not None and not local and not elsewhere:
        reference, platforms = there.reference, there.platforms
        caveats = _of_published(there, variants[target.name].version, built)
    else:
        reference = built.reference if built else target.tag
        platforms = _platforms(built) if built else []
    mode = [Caveat(0, text) for text in _of_mode(target.mode)]
    image = new_image(variants[target.name], reference, variants.values(), platforms)
    return image, [*mode, *caveats]


def _of_published(there: Published, version: str, built: Built | None) -> list[Caveat]:
    """Return the caveats of a published image that is used in place of the one here."""
    told = []
    if there.version != version:
        told.append(f"the published image is Python {there.version}, variants/{there.name}.toml says {version}")
    if not there.signed:
        told.append("the published image is not signed")
    if built is not None and built.digest is None:
        told.append("the published image is put in, not what is built here; --local takes that one")
    return [Caveat(0, text, Weight.KNOW) for text in told]


def _platforms(built: Built) -> list[str]:
    """Return the image's platforms, such as linux/arm64: all of a registry's index, or the one that this engine has."""
    client = connect().client
    with suppress(RegistryError):  # said elsewhere
        if built.digest and (listed := registry_platforms(client, built.digest)):
            return listed
    return [platform_name(client.images.get(built.tag).attrs)]


def _of_mode(mode: Mode | None) -> list[str]:
    """Return what the user has to set for a mode, because no image contains it."""
    if mode is None:
        return []
    if any(MOUNT in value for value in mode.environment.values()):
        return [f"mode {mode.name} needs a library that only the measuring instruments have"]
    environment = [f"ENV {name}={value}" for name, value in mode.environment.items()]
    options = [f"the interpreter started with {' '.join(mode.options)}"] if mode.options else []
    return [f"the image does not set mode {mode.name}: add {' and '.join([*environment, *options])}"]


def _built(target: Target) -> tuple[Built | None, list[Caveat]]:
    """Return the variant's image in this engine, or None and why its digest is unknown."""
    try:
        containers = connect()
    except EngineError as error:
        return None, [
            Caveat(0, f"{error.found}: whether {target.tag} is built, and its digest, are unknown", Weight.KNOW)
        ]
    named = Built(variant=target.name, outcome=Outcome(state=State.OK), tag=target.tag)
    here = find_tagged(containers.client, named)
    if here is None:
        return None, [Caveat(0, f"the image is not built here: `{build_line(named)}`", Weight.KNOW)]
    (current,) = containers.look_up(target.known, [target.name], build_options(target.project_paths))
    caveats = []
    if current.outcome.state is not State.OK:
        caveats.append(f"{target.tag} here is older than variants/{target.name}.toml: `{build_line(named)}`")
    if current.passed_over:
        caveats.append(f"{target.tag} here is {current.fallback_words}")
    here = _confirmed(containers, here)
    if here.digest is not None:
        caveats += _why_others_may_not_find(containers, here.digest)
    return here, [Caveat(0, text) for text in caveats]


def _confirmed(containers: DockerEngine, here: Built) -> Built:
    """Return the image with a recorded digest that a registry has; Podman 4 also records digests that none has."""
    digests = known_digests(containers.client.images.get(here.image_id))
    if len(digests) < 2:
        return here
    with suppress(RegistryError):
        confirmed = next((name for name in digests if registry_digest(containers.client, name)), here.digest)
        return here.model_copy(update={"digest": confirmed})
    return here


def _why_others_may_not_find(containers: DockerEngine, digest: str) -> list[str]:
    try:
        registered = registry_digest(containers.client, digest)
    except RegistryError as error:
        return [f"{error.found}: builds on other machines may not find {digest}"]
    return [] if registered else [f"its registry does not have {digest}: builds on other machines will not find it"]
