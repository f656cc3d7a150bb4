"""The images of a trial: the user's Dockerfile unchanged, and copies whose FROM names a variant's image.

A changed Dockerfile can also be built and started once, without tests and load, before anybody relies on it.
"""

from __future__ import annotations

import difflib
import re
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interlock.catalog.types import slug
from interlock.catalog.variants import Mode, Variant
from interlock.engine.docker import DockerEngine
from interlock.engine.run import user_containers, user_images
from interlock.engine.run.user_images import BuildSetup, Recipe, UserImage
from interlock.errors import BuildError
from interlock.measure.processes import OK
from interlock.results.experiments import Built, Outcome, State
from interlock.results.trials import OWN, TriedImage
from interlock.swap.edits import swapped_dockerfile
from interlock.swap.image_names import new_image


@dataclass(frozen=True)
class Candidate:
    """A variant (in a mode) to try: what was built of it, and the Dockerfile on its image."""

    label: str
    variant: Variant
    mode: Mode | None
    built: Built
    copy: Copy

    @property
    def has_image(self) -> bool:
        return self.built.outcome.state is State.OK


@dataclass
class TriedRow:
    """A row of a trial: its image, and what is known of it before anything is timed."""

    label: str
    image: Built
    about: TriedImage = field(default_factory=TriedImage)
    mode: Mode | None = None

    @property
    def is_tried(self) -> bool:
        """Return whether it is proved: it has an image, and its mode can be set from outside."""
        return self.image.outcome.state is State.OK and not (self.mode and self.mode.options)

    def note(self, **changes: Any) -> None:
        """Add to what is known of it."""
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
            return TriedRow(OWN, self._build(Built(variant=OWN, outcome=OK), None))
        except BuildError as error:
            found = f"your own Dockerfile, unchanged: {error.found}"
            raise BuildError(file=str(self.recipe.dockerfile), found=found, todo=error.todo) from None

    def row(self, candidate: Candidate) -> TriedRow:
        """Build a variant's copy; if that fails its rows have failed."""
        name, mode, copy = candidate.variant.name, candidate.mode, candidate.copy
        if name not in self.made:
            self.made[name] = self._built(candidate)
        about = TriedImage(declared_gil=(mode and mode.gil) or candidate.variant.proof.gil)
        if candidate.has_image:
            about = about.model_copy(update={"changes": list(copy.changes), "warnings": list(copy.warnings)})
        return TriedRow(candidate.label, self.made[name], about, mode)

    def _built(self, candidate: Candidate) -> Built:
        # What its Dockerfile names is in the record, in place of a tag of its own.
        image = candidate.built
        kept = ("variant", "outcome", "tag", "version", "passed_over")
        parent = Built(**{key: getattr(image, key) for key in kept})
        state, reason = State.UNAVAILABLE, f"there is no image of it: {image.outcome.reason}"
        if candidate.has_image:
            try:
                return self._build(parent, candidate.copy)
            except BuildError as error:
                state, reason = State.FAILED, error.found
        return parent.model_copy(update={"outcome": Outcome(state=state, reason=reason)})

    def _build(self, known: Built, copy: Copy | None) -> Built:
        label = known.variant
        self.say(label, "starting")
        recipe = self.recipe if copy is None else replace(self.recipe, options=options_for(self.recipe.options, copy))
        text = copy.text if copy else None
        try:
            image = user_images.build_user_image(
                self.shop, recipe, slug(label), text, lambda step: self.say(label, step)
            )
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


ARGUMENT = re.compile(r"^\s*ARG\s+([A-Za-z_][A-Za-z0-9_]*)\s*=", re.IGNORECASE)
BUILD_ARG = "--build-arg"


@dataclass(frozen=True)
class Copy:
    """A Dockerfile to build in place of the user's."""

    text: str
    changes: tuple[str, ...]  # a diff's lines
    warnings: tuple[str, ...]
    set_here: frozenset[str]  # build arguments whose default is the new image: a --build-arg would undo the swap


def copy_for(text: str, variant: Variant, stage: str | None, file: str) -> Copy:
    """Return the Dockerfile on a variant's image, with versions in paths edited; SwapError if that is impossible."""
    image = new_image(variant, variant.image_tag)
    new = swapped_dockerfile(text, image, stage, paths=True, file=file)
    lines = new.text.splitlines()
    named = [ARGUMENT.match(lines[number - 1]) for number in new.changed if number <= len(lines)]
    kept = [f"line {one.line}: {one.old} stays: {one.reason}" for one in new.paths if not one.edited]
    return Copy(
        text=new.text,
        changes=tuple(changes(text, new.text)),
        warnings=(*(f"line {one.line}: {one.text}" if one.line else one.text for one in new.warnings), *kept),
        set_here=frozenset(match[1] for match in named if match),
    )


def changes(before: str, after: str) -> list[str]:
    """Return the lines that differ, as `diff` shows them, without its header."""
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in diff if not line.startswith(("---", "+++"))]


def options_for(options: Sequence[str], copy: Copy) -> tuple[str, ...]:
    """Return the options of `docker build` without the build arguments that would undo the swap."""
    pairs = zip(options[::2], options[1::2], strict=True)
    kept = [(name, value) for name, value in pairs if not (name == BUILD_ARG and _name(value) in copy.set_here)]
    return tuple(word for pair in kept for word in pair)


def _name(setting: str) -> str:
    return setting.partition("=")[0]


# A service that cannot import what it needs has said so by then.
WATCHED_S = 5.0


def build_and_start(
    engine: DockerEngine, dockerfile: Path, text: str, cache: Path, on_step: Callable[[str], None]
) -> str:
    """Build a text in the place of a Dockerfile, in its folder, and start it; return how it went on.

    BuildError if it does not build, WorkloadError if it ends with an error. Nothing of it stays.
    """
    owner = f"swap-{slug(dockerfile.name.lower())}-{uuid.uuid4().hex[:12]}"
    with tempfile.TemporaryDirectory(prefix="interlock-swap-") as folder:
        shop = BuildSetup(engine.client, engine.address, owner, Path(folder), cache, user_images.find_builder())
        image = user_images.build_user_image(shop, Recipe(dockerfile.parent, dockerfile), "swapped", text, on_step)
        try:
            return user_containers.start_alone(engine.client, owner, image.image_id, WATCHED_S)
        finally:
            engine.remove_untagged([image.image_id, *image.left])
