"""The images of a trial: the user's own Dockerfile as it is, and its copies on variants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from interlock.engine import user_build
from interlock.engine.user_build import Recipe, UserImage, Workshop
from interlock.errors import BuildError
from interlock.model import OWN, OWN_TWIN, Built, Candidate, Gil, Mode, Outcome, State, Variant, slug
from interlock.runs import OK
from interlock.trial.copies import Copy, options_for
from interlock.trial.visits import Entry


@dataclass(frozen=True)
class Contestant:
    """A variant (in a mode) that is to be tried: its image if it has one, and the Dockerfile on it."""

    label: str
    variant: Variant
    mode: Mode | None
    built: Built
    copy: Copy | None  # none if it has no image


@dataclass
class Builds:
    """Builds what is tried, each variant once whatever its modes; what was built is in `left`."""

    shop: Workshop
    recipe: Recipe
    say: Callable[[str, str], None]
    left: list[UserImage]
    made: dict[str, UserImage | BuildError] = field(default_factory=dict)

    def own(self) -> Entry:
        """The user's own; BuildError if it does not build."""
        try:
            return Entry(_candidate(self.shop.client, OWN, self._build(OWN, None)))
        except BuildError as error:
            found = f"your own Dockerfile, unchanged: {error.found}"
            raise BuildError(file=str(self.recipe.dockerfile), found=found, todo=error.todo) from None

    def contestant(self, one: Contestant) -> Entry:
        """A variant; one that does not build has ended."""
        name = one.variant.name
        if one.copy is not None and name not in self.made:
            try:
                self.made[name] = self._build(name, one.copy)
            except BuildError as error:
                self.made[name] = error
        return _entry(self.shop.client, one, self.made.get(name))

    def _build(self, label: str, copy: Copy | None) -> UserImage:
        self.say(label, "starting")
        recipe = self.recipe if copy is None else replace(self.recipe, options=options_for(self.recipe.options, copy))
        text = copy.text if copy else None
        try:
            image = user_build.build(self.shop, recipe, slug(label), text, lambda step: self.say(label, step))
        except BuildError:
            self.say(label, State.FAILED.value)
            raise
        self.left.append(image)
        self.say(label, State.OK.value)
        return image


def twin_of(own: Entry) -> Entry:
    """The same image, as if it were another: what works once works."""
    return Entry(own.candidate.model_copy(update={"label": OWN_TWIN, "build_s": 0.0}))


def _candidate(client: Any, label: str, image: UserImage) -> Candidate:
    return Candidate(
        label=label,
        outcome=OK,
        image_id=image.image_id,
        size_bytes=client.images.get(image.image_id).attrs["Size"],
        build_s=round(image.duration_s, 1),
    )


def _entry(client: Any, one: Contestant, image: UserImage | BuildError | None) -> Entry:
    """A contestant that may go on, or one that has ended before it began, with the reason."""
    mode = one.mode
    copied = one.copy and {"changes": list(one.copy.changes), "warnings": list(one.copy.warnings)}
    known = {"image": one.built.tag, "declared_gil": _declared(one.variant, mode), **(copied or {})}
    if not isinstance(image, UserImage):
        outcome = one.built.outcome if image is None else Outcome(state=State.FAILED, reason=image.found)
        return Entry(Candidate(label=one.label, outcome=outcome, **known))
    entry = Entry(_candidate(client, one.label, image).model_copy(update=known), mode.environment if mode else {})
    if mode and mode.options:
        reason = f"its mode is an option of the interpreter ({' '.join(mode.options)}), which your own command starts"
        entry.update(outcome=Outcome(state=State.UNSUPPORTED, reason=reason))
    return entry


def _declared(variant: Variant, mode: Mode | None) -> Gil:
    return (mode.gil if mode else None) or variant.proof.gil
