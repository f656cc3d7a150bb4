"""What an experiment is to measure: settings, the images built for them, and what it goes on with. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.analysis.verdicts import LOOKS, MOST_ROUNDS
from interlock.catalog.project import Catalog
from interlock.catalog.types import DEFAULT_BASELINE, TWIN, label_of, split_label
from interlock.catalog.variants import Mode
from interlock.catalog.workloads import Workload
from interlock.engine.protocol import UserSurroundings
from interlock.errors import UsageError
from interlock.measure.resumable import modes_of, remaining
from interlock.measure.workload import WorkloadResult
from interlock.results.experiments import (
    BaseImage,
    Built,
    CellResult,
    Experiment,
    Outcome,
    State,
    Subject,
    require_built,
)
from interlock.results.settings import Settings
from interlock.results.trials import Trial

# The largest number of rounds with --quick: rows go on until they are decided.
MOST_QUICK_ROUNDS = 10


def planned_rounds(quick: bool, wanted: int | None) -> tuple[int, int | None]:
    """Return the least number of rounds and the largest; a wanted number is exact and has no limit."""
    if wanted is not None:
        return wanted, None
    return min(LOOKS), MOST_QUICK_ROUNDS if quick else MOST_ROUNDS


def choose_baseline(wanted: str, built: Sequence[Built]) -> str:
    """Return the wanted baseline, or cpython-3.13, or the first variant that has an image.

    BuildError if none has; UsageError if the wanted one has none.
    """
    ready = [image.variant for image in require_built(built)]
    if wanted and wanted not in ready:
        why = next(image.outcome.reason for image in built if image.variant == wanted)
        todo = f"Correct that, or compare with another one: {', '.join(ready)}."
        raise UsageError(key="--baseline", found=f"'{wanted}' has no image ({why})", todo=todo)
    return wanted or (DEFAULT_BASELINE if DEFAULT_BASELINE in ready else ready[0])


@dataclass(frozen=True)
class UsersImages:
    """What a trial adds: what is known of each row, where its containers run, and the base of the helpers' images."""

    trial: Trial
    surroundings: UserSurroundings
    base: BaseImage | None = None  # None as long as nothing is built


@dataclass(frozen=True)
class Assignment:
    """Settings, and what they are measured with."""

    catalog: Catalog
    root: Path
    results: Path
    built: Sequence[Built]
    settings: Settings
    command: str = ""  # that repeats it
    name: str | None = None  # of the folder; None: the date and a letter
    resumes: Experiment | None = None  # what was measured in the folder of this name before
    order: Sequence[str] = ()  # in which workloads are measured (default: the settings'); those with a server come last
    users: UsersImages | None = None
    # Measure only up to the first look: other rows are built after it and join. The record says how the rest goes on.
    first_look_alone: bool = False

    @property
    def trial(self) -> Trial | None:
        return self.users.trial if self.users else None

    @property
    def workloads(self) -> dict[str, Workload]:
        """Return the chosen workloads, as they are measured."""
        known, settings = self.catalog.workloads, self.settings
        return {name: known[name].for_experiment(settings.quick, settings.benchmarks) for name in settings.workloads}

    @property
    def modes(self) -> dict[str, Mode]:
        """Return the modes of the rows that have one, by label."""
        return modes_of(self.catalog, self.settings.variants)

    @property
    def problems(self) -> dict[str, str]:
        """Return why rows of a trial were proved not to work, by label: they are not measured."""
        return {label: row.problem for label, row in self.trial.tried.items() if row.problem} if self.trial else {}

    @property
    def to_measure(self) -> list[str]:
        """Return the workloads to measure, in order; those that are not complete if an experiment is resumed.

        For a first look alone, they are those with rows that have not been opened yet.
        """
        names = remaining(self.resumes) if self.resumes else self.settings.workloads
        if self.first_look_alone and self.resumes:
            labels = {subject.label for subject in self.subjects()}
            opened = {(cell.workload, cell.label) for cell in self.resumes.cells if cell.times is not None}
            names = [name for name in names if not opened.issuperset((name, label) for label in labels)]
        place = {name: number for number, name in enumerate(self.order)}

        def order(name: str) -> tuple[bool, int]:
            workload = self.catalog.workloads[name]
            # With a server or a load values vary more: these workloads get what the others leave of a budget.
            return bool(workload.server or workload.load), place.get(name, len(place))

        return sorted(names, key=order)

    @property
    def first_look(self) -> Assignment | None:
        """Return the assignment that gives every row its first rounds before any gets more; None if none is needed."""
        look = replace(self, first_look_alone=True)
        is_shared = self.settings.looks and not self.first_look_alone and len(self.to_measure) > 1
        return look if is_shared and look.to_measure else None

    @property
    def left_out(self) -> dict[str, list[str]]:
        """Return the benchmarks that --quick leaves out of whole workloads, by workload."""
        known, taken = self.catalog.workloads, self.workloads
        names = {
            name: [each.name for each in known[name].benchmarks if each not in taken[name].benchmarks]
            for name in taken
            if name not in self.settings.benchmarks
        }
        return {name: left_out for name, left_out in names.items() if left_out}

    @property
    def controls(self) -> dict[str, str]:
        """Return the control of each variant that has one; a user's images are compared with their own alone."""
        known = {} if self.users else self.catalog.variants
        return {
            image.variant: control
            for image in self.built
            if image.variant in known and (control := known[image.variant].control)
        }

    def subjects(self) -> list[Subject]:
        """Return the chosen variants that have an image, then the baseline's twin."""
        plain = {
            image.variant: Subject(variant=image.variant, image_id=image.image_id)
            for image in self.built
            if image.outcome.state is State.OK
        }
        chosen = [split_label(label) for label in self.settings.variants if label not in self.problems]
        return [
            *(self._in_mode(plain[variant], mode) for variant, mode in chosen if variant in plain),
            plain[self.settings.baseline].model_copy(update={"mode": TWIN}),
        ]

    def _in_mode(self, plain: Subject, name: str | None) -> Subject:
        if name is None:
            return plain
        mode = self.modes[label_of(plain.variant, name)]
        update = {"mode": name, "environment": mode.environment, "options": mode.options, "gil": mode.gil}
        return plain.model_copy(update=update)

    def cells_of(self, workload: str, measured: WorkloadResult | None, not_reached: Outcome) -> list[CellResult]:
        """Return a workload's cells in the chosen order, including those without an image and those not reached."""
        cells = {label: self._unopened(workload, label, not_reached) for label in self.settings.variants}
        cells |= {cell.label: cell for cell in measured.cells if not cell.is_limit} if measured else {}
        return list(cells.values())

    def _unopened(self, workload: str, label: str, not_reached: Outcome) -> CellResult:
        variant, mode = split_label(label)
        outcome = next(image.outcome for image in self.built if image.variant == variant)
        if outcome.state is State.OK:
            problem = self.problems.get(label)
            outcome = Outcome(state=State.FAILED, reason=problem) if problem else not_reached
        return CellResult(variant=variant, mode=mode, workload=workload, outcome=outcome)
