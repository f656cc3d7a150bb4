"""An experiment from its builds to its end: at once, or the rows first that people ask about, and the others later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.catalog.types import DEFAULT_BASELINE
from interlock.catalog.variants import SourceKind, SupportPhase, Variant
from interlock.engine.protocol import BuildOptions, Engine
from interlock.errors import InterlockError
from interlock.measure import experiment, resumable
from interlock.measure.assignment import Assignment, choose_baseline
from interlock.measure.ending import Ending
from interlock.measure.watching import Observers
from interlock.results import store
from interlock.results.experiments import Built, Outcome, State, require_built
from interlock.results.settings import Settings

# To compile fewer than this later gains nothing: a second stage opens all cells again.
LEAST_LATER = 2
WAITING = Outcome(state=State.NOT_MEASURED, reason="it is built after the first look at the first rows")


def first_variants(
    known: Mapping[str, Variant], names: Sequence[str], missing: Collection[str], baseline: str
) -> list[str]:
    """Return the variants to build and measure before the others; none where that gains nothing.

    Of the core set they are the baseline, what upstream still mends, and what needs no compiler or is there already.
    """
    wanted = baseline or DEFAULT_BASELINE
    compiled = [name for name in missing if known[name].kind is SourceKind.SOURCE]

    def is_first(name: str) -> bool:
        variant = known[name]
        is_soon = name not in compiled or variant.support.phase is SupportPhase.BUGFIX
        return name == wanted or (variant.core and is_soon)

    first = [name for name in names if is_first(name)]
    later = [name for name in compiled if name not in first]
    gains = len(later) >= LEAST_LATER and len(first) > 1 and wanted in first
    return first if gains else []


def are_enough(built: Sequence[Built], baseline: str) -> bool:
    """Return whether there is something to compare: the baseline and another one."""
    ready = {image.variant for image in built if image.outcome.state is State.OK}
    return (baseline or DEFAULT_BASELINE) in ready and len(ready) > 1


@dataclass
class StagedRun:
    """Builds and measures an assignment, whose images are so far those that cannot be built, with the reason."""

    engine: Engine
    assignment: Assignment
    how: BuildOptions
    ending: Ending
    build: Callable[[list[str]], list[Built]]
    watch: Callable[[Assignment], AbstractContextManager[Observers]]  # while an assignment is measured

    def run(self, first: Sequence[str], there: Sequence[Built]) -> tuple[Path, list[Built]]:
        """Return the experiment's folder and what was built; `there` is what there was before.

        The first variants are built and looked at while nothing compiles; then the others, which join them. Without
        first ones, or where they are not enough to compare, all are built and measured at once.
        """
        asked, began = self.assignment.settings, self.assignment.resumes
        if began is not None:
            resumable.require_same_files(began, there)
        later = [name for name in asked.to_build if first and name not in first]
        built = self._build([name for name in asked.to_build if name not in later])
        waiting = [Built(variant=name, outcome=WAITING) for name in later]
        if later and not self.ending.signals and are_enough(built, asked.baseline):
            folder = self._measure([*built, *waiting], first_look_alone=True)
            if self.ending.signals:
                return folder, built
            self.assignment = replace(self.assignment, resumes=store.read_experiment(folder))
        if later:
            built += waiting if self.ending.signals else self._build_later(later)
        return self._measure(built), built

    def _build_later(self, names: list[str]) -> list[Built]:
        """Build the other variants; an error says too where what the first look has shown is, if there was one."""
        try:
            return self._build(names)
        except InterlockError as error:
            looked, results = self.assignment.resumes, self.assignment.results
            if looked is None:
                raise
            kept = f"What was measured is in {results / looked.name}; to continue: {looked.resume_command}"
            raise error.with_todo(kept) from error

    def _build(self, names: list[str]) -> list[Built]:
        """Build variants; if a signal ends it, what is there by then is kept."""
        built: list[Built] = []
        with self.ending.listening(), self.ending.kept():
            built = self.build(names)
        if not self.ending.signals:
            return built
        reason = Outcome(state=State.NOT_MEASURED, reason=f"{self.ending.reason} came before it was built")
        there = self.engine.look_up(self.assignment.catalog, names, self.how)
        missing = {image.variant for image in there if image.outcome.state is not State.OK}
        return [image.model_copy(update={"outcome": reason}) if image.variant in missing else image for image in there]

    def _measure(self, built: list[Built], *, first_look_alone: bool = False) -> Path:
        began = self.assignment.resumes
        if began is None:
            settings = self.assignment.settings
            settings = settings.with_baseline(self._baseline(settings, built))
            images, command = [*built, *self.assignment.built], settings.command
        else:
            settings, images, command = began.settings, resumable.images_now(began, built), began.command
            if not self.ending.signals:  # which may have come before an image was built again
                resumable.require_same_images(began, built)
                require_built(image for image in images if image.variant == settings.baseline)
        assignment = replace(
            self.assignment, built=images, settings=settings, command=command, first_look_alone=first_look_alone
        )
        measure = experiment.execute if self.ending.signals else experiment.run
        with self.watch(assignment) as watching:
            return measure(self.engine, assignment, watching)

    def _baseline(self, settings: Settings, built: Sequence[Built]) -> str:
        """Return the baseline; of builds that a signal ended, and of which there may be none, the intended one."""
        if not self.ending.signals:
            return choose_baseline(settings.baseline, built)
        ready = [image.variant for image in built if image.outcome.state is State.OK]
        usual = [DEFAULT_BASELINE] if DEFAULT_BASELINE in settings.to_build else [*ready, *settings.to_build]
        return settings.baseline or usual[0]
