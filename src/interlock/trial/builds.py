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

from interlock.catalog.types import slug
from interlock.catalog.variants import Gil, Mode, Variant
from interlock.engine.docker import DockerEngine
from interlock.engine.run import trials
from interlock.engine.run.trials import BuildSetup, Recipe, UserImage
from interlock.errors import BuildError
from interlock.measure.processes import OK
from interlock.results.answers import OWN, OWN_TWIN, Candidate
from interlock.results.experiments import Built, Outcome, State
from interlock.swap.edits import swapped_dockerfile
from interlock.swap.image_names import new_image
from interlock.trial.rounds import TriedCandidate


@dataclass(frozen=True)
class PlannedCandidate:
    """A variant (in a mode) to try: what was built of it, and the Dockerfile on its image."""

    label: str
    variant: Variant
    mode: Mode | None
    built: Built
    copy: Copy | None  # None if the variant has no image


@dataclass
class Builds:
    """Builds the candidates, each variant once for all its modes; `left` collects the images to remove later."""

    shop: BuildSetup
    recipe: Recipe
    say: Callable[[str, str], None]
    left: list[UserImage]
    made: dict[str, UserImage | BuildError] = field(default_factory=dict)

    def own(self) -> TriedCandidate:
        """Build the user's own Dockerfile; BuildError if that fails."""
        try:
            return TriedCandidate(_candidate(OWN, self._build(OWN, None)))
        except BuildError as error:
            found = f"your own Dockerfile, unchanged: {error.found}"
            raise BuildError(file=str(self.recipe.dockerfile), found=found, todo=error.todo) from None

    def candidate(self, one: PlannedCandidate) -> TriedCandidate:
        """Build a variant's copy; if that fails the candidate has failed."""
        name = one.variant.name
        if one.copy is not None and name not in self.made:
            try:
                self.made[name] = self._build(name, one.copy)
            except BuildError as error:
                self.made[name] = error
        return _entry(one, self.made.get(name))

    def _build(self, label: str, copy: Copy | None) -> UserImage:
        self.say(label, "starting")
        recipe = self.recipe if copy is None else replace(self.recipe, options=options_for(self.recipe.options, copy))
        text = copy.text if copy else None
        try:
            image = trials.build_user_image(self.shop, recipe, slug(label), text, lambda step: self.say(label, step))
        except BuildError:
            self.say(label, State.FAILED.value)
            raise
        self.left.append(image)
        self.say(label, State.OK.value)
        return image


def twin_of(own: TriedCandidate) -> TriedCandidate:
    """Return the twin: the same image as another candidate, which need not be proved again."""
    return TriedCandidate(own.candidate.model_copy(update={"label": OWN_TWIN, "build_s": 0.0}))


def _candidate(label: str, image: UserImage) -> Candidate:
    return Candidate(
        label=label,
        outcome=OK,
        image_id=image.image_id,
        size_bytes=image.size_bytes,
        build_s=round(image.duration_s, 1),
    )


def _entry(one: PlannedCandidate, image: UserImage | BuildError | None) -> TriedCandidate:
    """Return a candidate to try, or one that has failed before, with the reason."""
    mode = one.mode
    copied = one.copy and {"changes": list(one.copy.changes), "warnings": list(one.copy.warnings)}
    known = {"image": one.built.tag, "declared_gil": _declared(one.variant, mode), **(copied or {})}
    if not isinstance(image, UserImage):
        outcome = one.built.outcome if image is None else Outcome(state=State.FAILED, reason=image.found)
        return TriedCandidate(Candidate(label=one.label, outcome=outcome, **known))
    entry = TriedCandidate(_candidate(one.label, image).model_copy(update=known), mode.environment if mode else {})
    if mode and mode.options:
        reason = f"its mode is an option of the interpreter ({' '.join(mode.options)}), which your command starts"
        entry.update(outcome=Outcome(state=State.UNSUPPORTED, reason=reason))
    return entry


def _declared(variant: Variant, mode: Mode | None) -> Gil:
    return (mode.gil if mode else None) or variant.proof.gil


ARGUMENT = re.compile(r"^\s*ARG\s+([A-Za-z_][A-Za-z0-9_]*)\s*=", re.IGNORECASE)
BUILD_ARG = "--build-arg"


@dataclass(frozen=True)
class Copy:
    """A Dockerfile to build in place of the user's."""

    text: str
    changes: tuple[str, ...]  # a diff's lines
    warnings: tuple[str, ...]
    set_here: frozenset[str]  # build arguments whose default is the new image: a --build-arg would undo the swap


def copy_for(text: str, variant: Variant, profile: str, stage: str | None, file: str) -> Copy:
    """Return the Dockerfile on a variant's image, with versions in paths edited; SwapError if that is impossible."""
    image = new_image(variant, profile, variant.image_tag(profile))
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
        shop = BuildSetup(engine.client, engine.address, owner, Path(folder), cache, trials.find_builder())
        image = trials.build_user_image(shop, Recipe(dockerfile.parent, dockerfile), "swapped", text, on_step)
        try:
            return trials.start_alone(engine.client, owner, image.image_id, WATCHED_S)
        finally:
            engine.remove_untagged([image.image_id, *image.left])
