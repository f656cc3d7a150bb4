"""What a trial tries: the user's Dockerfile, the variants that were named or are there, and a copy on each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog import project
from interlock.catalog.project import Catalog, ProjectPaths, by_profile
from interlock.catalog.types import split_label
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from interlock.engine.run.user_images import DOCKERFILE, Recipe
from interlock.errors import UsageError, nearest
from interlock.results.experiments import Built, Outcome, State
from interlock.swap.writing import read_file
from interlock.trial.builds import Copy, PlannedCandidate, copy_for
from interlock.trial.options import settings_of, usual_variants


def find_recipe(context: Path, file: Path | None, options: Sequence[str]) -> tuple[Recipe, str]:
    """Return what to build and the text of the Dockerfile: --file here or in the folder, or the folder's own.

    UsageError if there is none.
    """
    if not context.is_dir():
        raise UsageError(file=str(context), found="no such folder", todo="Give the folder of your service.")
    places = [context / DOCKERFILE] if file is None else [file, context / file]
    path = next((one for one in places if one.is_file()), None)
    if path is None:
        raise UsageError(file=str(places[0]), found="no such file", todo="Give your Dockerfile with --file.")
    return Recipe(context, path, tuple(options)), read_file(path)


def docker_options(build_args: Sequence[str], secrets: Sequence[str], target: str | None) -> list[str]:
    """Return the options for `docker build`."""
    settings_of("--build-arg", build_args, os.environ)
    words = [word for one in build_args for word in ("--build-arg", one)]
    words += [word for one in secrets for word in ("--secret", one)]
    return [*words, *(("--target", target) if target else ())]


@dataclass(frozen=True)
class Variants:
    """The variants of a project in an engine, each in the wanted profile, or in its own for production."""

    engine: DockerEngine
    paths: ProjectPaths
    known: Catalog
    wanted: str | None

    def labels(self, chosen: Sequence[str] | None) -> list[str]:
        """Return the named variants and modes, or those of the usual variants that are built; UsageError for none."""
        if chosen is None:
            return self._ready()
        known = self.known.variants
        for name in (split_label(label)[0] for label in chosen):
            if name not in {*known, project.EVERYTHING}:
                raise UsageError(key="--variants", found=f"there is no variant '{name}'", todo=nearest(name, known))
        return project.select_labels(known, list(chosen))

    def _ready(self) -> list[str]:
        usual = by_profile(self.known, usual_variants(self.known.variants), self.wanted)
        found = [
            one for profile, some in usual for one in self.engine.look_up(self.known, some, self._options(profile))
        ]
        ready = [one.variant for one in found if one.outcome.state is State.OK]
        if not ready:
            raise UsageError(
                key="--variants",
                found="missing option --variants, and no variant is built yet",
                todo="Name variants to build and try: --variants cpython-3.14,cpython-3.14t.",
            )
        return ready

    def copies(self, labels: Sequence[str], text: str, stage: str | None, file: Path) -> dict[str, Copy]:
        """Return the Dockerfile on each variant; SwapError if it cannot have the image of one."""
        variants = [self.known.variants[name] for name in _names(labels)]
        return {one.name: copy_for(text, one, one.profile_for(self.wanted), stage, str(file)) for one in variants}

    def build(self, labels: Sequence[str], on_step: Callable[[str, str], None]) -> dict[str, Built]:
        """Return the images of the variants, and build those that are missing."""
        return {
            one.variant: one
            for profile, some in by_profile(self.known, _names(labels), self.wanted)
            for one in self.engine.build(self.known, some, self._options(profile), on_step)
        }

    def planned(self, label: str, built: Mapping[str, Built], copies: Mapping[str, Copy]) -> PlannedCandidate:
        """Return what to try of a label."""
        name, mode_name = split_label(label)
        variant, image = self.known.variants[name], built[name]
        mode = next((one for one in variant.modes if one.name == mode_name), None)
        if image.outcome.state is State.OK:
            return PlannedCandidate(label, variant, mode, image, copies[name])
        missing = Outcome(state=State.UNAVAILABLE, reason=f"there is no image of it: {image.outcome.reason}")
        return PlannedCandidate(label, variant, mode, image.model_copy(update={"outcome": missing}), None)

    def _options(self, profile: str) -> BuildOptions:
        return BuildOptions(self.paths.root, self.paths.cache, profile)


def _names(labels: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(split_label(label)[0] for label in labels))
