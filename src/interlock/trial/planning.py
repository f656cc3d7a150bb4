"""Plans what a trial tries: the user's Dockerfile, the variants named or present, and a copy on each of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog import selection
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.types import split_label
from interlock.engine.docker import DockerEngine
from interlock.engine.protocol import BuildOptions
from interlock.engine.run.user_images import DOCKERFILE, Recipe
from interlock.errors import UsageError, require_known
from interlock.results.commands import option_words
from interlock.results.experiments import State
from interlock.swap.image_names import new_image
from interlock.swap.writing import read_file
from interlock.trial.builds import Candidate, Copy, copy_for
from interlock.trial.options import settings_of, usual_variants


def find_recipe(
    context: Path, file: Path | None, build_args: Sequence[str], secrets: Sequence[str], target: str | None
) -> Recipe:
    """Return what to build: --file here or in the folder, or the folder's own Dockerfile; UsageError without one."""
    if not context.is_dir():
        raise UsageError(file=str(context), found="no such folder", todo="Give the folder of your service.")
    places = [context / DOCKERFILE] if file is None else [file, context / file]
    path = next((place for place in places if place.is_file()), None)
    if path is None:
        raise UsageError(file=str(places[0]), found="no such file", todo="Give your Dockerfile with --file.")
    arguments = settings_of("--build-arg", build_args, os.environ)
    return Recipe(context, path, arguments, tuple(option_words({"secret": list(secrets), "target": target})))


@dataclass(frozen=True)
class Variants:
    """The variants of a project in an engine."""

    engine: DockerEngine
    paths: ProjectPaths
    known: Catalog

    def labels(self, chosen: Sequence[str] | None) -> list[str]:
        """Return the named variants and modes, or those of the usual variants that are built; UsageError for none."""
        if not chosen:
            return self._ready()
        known = self.known.variants
        for name in (split_label(label)[0] for label in chosen):
            if name != selection.EVERYTHING:
                require_known(known, name, "variant", "--variants")
        return selection.select_labels(known, list(chosen), "--variants")

    def _ready(self) -> list[str]:
        usual = usual_variants(self.known.variants)
        images = self.engine.look_up(self.known, usual, self._options)
        ready = [image.variant for image in images if image.outcome.state is State.OK]
        if not ready:
            raise UsageError(
                key="--variants",
                found="missing option --variants, and no variant is built yet",
                todo="Name variants to build and try: --variants cpython-3.14,cpython-3.14t.",
            )
        return ready

    def copies(
        self, labels: Sequence[str], recipe: Recipe, stage: str | None, *, takes_contexts: bool
    ) -> dict[str, Copy]:
        """Return what is built on each variant; SwapError if the Dockerfile cannot use a variant's image."""
        text, copies = read_file(recipe.dockerfile), {}
        for variant in (self.known.variants[name] for name in _names(labels)):
            image = new_image(variant, variant.image_tag)
            copies[variant.name] = copy_for(recipe, text, image, stage, takes_contexts=takes_contexts)
        return copies

    def candidates(
        self, labels: Sequence[str], copies: Mapping[str, Copy], on_step: Callable[[str, str], None]
    ) -> list[Candidate]:
        """Return what to try, with the variants' images; those that are missing are built now."""
        images = self.engine.build(self.known, _names(labels), self._options, on_step)
        built = {image.variant: image for image in images}
        chosen = []
        for label in labels:
            name, mode_name = split_label(label)
            variant = self.known.variants[name]
            mode = next((mode for mode in variant.modes if mode.name == mode_name), None)
            chosen.append(Candidate(label, variant, mode, built[name], copies[name]))
        return chosen

    @property
    def _options(self) -> BuildOptions:
        return BuildOptions(self.paths.root, self.paths.cache)


def _names(labels: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(split_label(label)[0] for label in labels))
