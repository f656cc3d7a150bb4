"""The images of a trial: the user's Dockerfile with its own images, and with a variant's in place of them.

BuildKit can replace the image named in FROM by a variant's, and the file stays as it is. Other builders, and files with
versions in their paths, need a copy as `interlock swap` would write it. Such a copy can also be built and started once,
without tests and load, before anybody relies on it.
"""

from __future__ import annotations

import difflib
import re
import tempfile
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interlock.catalog.types import slug
from interlock.catalog.variants import Gil, Mode, Variant
from interlock.engine.docker import DockerEngine
from interlock.engine.run import user_containers, user_images
from interlock.engine.run.user_images import CLASSIC, BuildSetup, Recipe, UserBuilder, UserImage, find_builder
from interlock.errors import BuildError
from interlock.measure.processes import OK
from interlock.results.experiments import Built, Outcome, State
from interlock.results.trials import OWN, TriedImage
from interlock.swap.contexts import context_names
from interlock.swap.copied import beside
from interlock.swap.files import swapped_dockerfile
from interlock.swap.image_names import NewImage
from interlock.swap.instructions import parse_instructions
from interlock.swap.writing import read_file


@dataclass(frozen=True)
class Candidate:
    """A variant (in a mode) to try: its image, and the Dockerfile on that image."""

    label: str
    variant: Variant
    mode: Mode | None
    built: Built
    copy: Copy

    @property
    def has_image(self) -> bool:
        return self.built.outcome.state is State.OK

    @property
    def wheel_tag(self) -> str:
        """Return the tag of the wheels that are its own: cp314t."""
        version = "".join(self.built.version.split(".")[:2])
        return f"cp{version}{'t' * (self.variant.proof.gil is Gil.OFF)}" if version else self.variant.name


@dataclass
class TriedRow:
    """A row of a trial: its image, and what is known of it before anything is timed."""

    label: str
    image: Built
    about: TriedImage = field(default_factory=TriedImage)
    mode: Mode | None = None

    @property
    def is_tried(self) -> bool:
        """Return whether it can be proved: it has an image, and its mode can be set from outside."""
        return self.image.outcome.state is State.OK and not (self.mode and self.mode.options)

    @property
    def environment(self) -> Mapping[str, str]:
        return self.mode.environment if self.mode else {}

    def note(self, **changes: Any) -> None:
        """Change what is known of it."""
        self.about = self.about.model_copy(update=changes)


@dataclass
class Builds:
    """Builds the images, each variant's once for all its modes; `left` collects what to remove later."""

    shop: BuildSetup
    recipe: Recipe
    say: Callable[[str, str], None]
    left: list[UserImage]
    made: dict[str, Built] = field(default_factory=dict)

    def own(self) -> TriedRow:
        """Build the user's own Dockerfile; BuildError if that fails."""
        try:
            return TriedRow(OWN, self._build(Built(variant=OWN, outcome=OK), self.recipe))
        except BuildError as error:
            problem = f"your own Dockerfile, unchanged: {error.found}"
            raise BuildError(file=str(self.recipe.dockerfile), found=problem, todo=error.todo) from None

    def row(self, candidate: Candidate) -> TriedRow:
        """Build a variant's copy; if that fails, its rows have failed too."""
        name, mode, copy = candidate.variant.name, candidate.mode, candidate.copy
        if name not in self.made:
            self.made[name] = self._built(candidate)
        about = TriedImage(declared_gil=(mode and mode.gil) or candidate.variant.proof.gil)
        if candidate.has_image:
            about = about.model_copy(update={"changes": list(copy.changes), "warnings": list(copy.warnings)})
        return TriedRow(candidate.label, self.made[name], about, mode)

    def _built(self, candidate: Candidate) -> Built:
        # The record has the image that its Dockerfile names, in place of a tag of its own.
        image = candidate.built
        kept = ("variant", "outcome", "tag", "version", "passed_over")
        parent = Built(**{key: getattr(image, key) for key in kept})
        state, reason = State.UNAVAILABLE, f"there is no image of it: {image.outcome.reason}"
        if candidate.has_image:
            try:
                return self._build(parent, replace(candidate.copy.recipe, wheel_tag=candidate.wheel_tag))
            except BuildError as error:
                state, reason = State.FAILED, error.found
        return parent.model_copy(update={"outcome": Outcome(state=state, reason=reason)})

    def _build(self, known: Built, recipe: Recipe) -> Built:
        label = known.variant
        self.say(label, "starting")
        try:
            image = user_images.build_user_image(self.shop, recipe, slug(label), lambda step: self.say(label, step))
        except BuildError:
            self.say(label, State.FAILED.value)
            raise
        self.left.append(image)
        self.say(label, State.OK.value)
        update = {
            "image_id": image.image_id,
            "size_bytes": image.size_bytes,
            "content_hash": image.content_hash,
            "duration_s": round(image.duration_s, 1),
        }
        return known.model_copy(update=update)


@dataclass(frozen=True)
class Copy:
    """What is built in place of the user's own recipe: the same, on a variant's image."""

    recipe: Recipe
    changes: tuple[str, ...]  # the lines of a diff, or the options
    warnings: tuple[str, ...]


def copy_for(recipe: Recipe, text: str, image: NewImage, stage: str | None, *, takes_contexts: bool) -> Copy:
    """Return a recipe on another image, with versions in paths edited; SwapError if that is impossible."""
    new = swapped_dockerfile(
        text,
        image,
        stage,
        paths=True,
        file=str(recipe.dockerfile),
        beside=beside(recipe.context / recipe.dockerfile.name),
    )
    warnings = [f"line {told.line}: {told.text}" if told.line else told.text for told in new.warnings]
    warnings += [f"line {told.line}: {told.old} stays: {told.reason}" for told in new.paths if not told.edited]
    if takes_contexts and (names := context_names(text, new.only_images_of, recipe.arguments)):
        given = tuple(f"--build-context={name}=docker-image://{image.reference}" for name in names)
        return Copy(replace(recipe, options=(*recipe.options, *given)), given, tuple(warnings))
    # The build argument of an ARG whose default is the new image would undo the swap.
    kept = {name: value for name, value in recipe.arguments.items() if name not in new.arguments}
    return Copy(replace(recipe, text=new.text, arguments=kept), tuple(changes(text, new.text)), tuple(warnings))


def changes(before: str, after: str) -> list[str]:
    """Return the lines that differ, as `diff` shows them, without its header."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++"))]


# Flags of instructions that only BuildKit builds.
NEEDS_BUILDKIT = re.compile(r"--(?:mount|network|security|link|parents|exclude)\b")


def require_builder(builder: UserBuilder, recipe: Recipe) -> None:
    """Raise BuildError, before anything is built, if the engine's classic builder cannot build a Dockerfile."""
    if builder != CLASSIC:
        return
    text = read_file(recipe.dockerfile) if recipe.text is None else recipe.text
    for instruction in parse_instructions(text):
        flags = [match[0] for flag in instruction.flags if (match := NEEDS_BUILDKIT.match(flag.text))]
        if needed := "a heredoc" if instruction.heredoc else flags[0] if flags else "":
            problem = f"{needed} needs BuildKit, and this engine has its classic builder alone"
            todo = "Install BuildKit's command: apt-get install docker-buildx."
            raise BuildError(file=f"{recipe.dockerfile}:{instruction.line}", found=problem, todo=todo)


# Within this time a service that cannot import what it needs has said so.
WATCHED_S = 5.0


def build_and_start(engine: DockerEngine, recipe: Recipe, cache: Path, on_step: Callable[[str], None]) -> str:
    """Build a recipe and start its image; return what happened.

    BuildError if it does not build, WorkloadError if it ends with an error. Nothing of it stays.
    """
    owner = f"swap-{slug(recipe.dockerfile.name.lower())}-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="interlock-swap-") as folder:
        shop = BuildSetup(engine.client, owner, Path(folder), cache, find_builder(engine.client))
        require_builder(shop.builder, recipe)
        image = user_images.build_user_image(shop, recipe, "swapped", on_step)
        try:
            return user_containers.start_alone(engine.client, owner, image.image_id, WATCHED_S)
        finally:
            engine.remove_untagged([image.image_id, *image.left])
