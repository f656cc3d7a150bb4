"""All that a pick is made from, and the questions that several of its steps ask of it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from interlock.model import (
    TWIN,
    Built,
    Catalog,
    CellResult,
    Experiment,
    Gil,
    Mode,
    Values,
    Variant,
    VariantAudit,
    label_of,
    split_label,
)
from interlock.pick.demands import Demands
from interlock.pick.weighing import Place, Recorded, baseline_of, shares_of

# What a start costs: `python -c pass`.
START: Place = ("startup", "pass")


@dataclass(frozen=True)
class Material:
    """An experiment with its values (of the workloads that are asked for, and of starts), and what is wanted.

    `audits` are by variant: of those whose dependencies were tried.
    """

    recorded: Recorded
    values: Values
    catalog: Catalog
    demands: Demands
    today: datetime.date
    audits: Mapping[str, VariantAudit] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        return self.recorded.experiment

    @cached_property
    def baseline(self) -> str:
        return baseline_of(self.experiment, self.demands)

    @cached_property
    def shares(self) -> dict[Place, float]:
        return shares_of(self.experiment, self.demands, self.catalog.workloads)

    @cached_property
    def labels(self) -> list[str]:
        """Every variant and mode that was to be measured; a condition is the baseline once more, and no contender."""
        ours = [cell for cell in self.experiment.cells if cell.mode not in {TWIN, *self.experiment.conditions}]
        return list(dict.fromkeys(cell.label for cell in ours))

    @cached_property
    def cells(self) -> dict[tuple[str, str], CellResult]:
        """By label and workload."""
        return {(cell.label, cell.workload): cell for cell in self.experiment.cells}

    @cached_property
    def images(self) -> dict[str, Built]:
        """By variant."""
        return {image.variant: image for image in self.experiment.images}

    @property
    def twin(self) -> str:
        return label_of(self.experiment.settings.baseline, TWIN)

    def variant(self, label: str) -> Variant | None:
        """None of one that the project has no more."""
        return self.catalog.variants.get(split_label(label)[0])

    def mode(self, label: str) -> Mode | None:
        """None of a plain variant, and of a mode that the project has no more."""
        variant, name = self.variant(label), split_label(label)[1]
        return next((mode for mode in variant.modes if mode.name == name), None) if variant else None

    def gil(self, label: str) -> Gil | None:
        """What it is declared to be."""
        variant, mode = self.variant(label), self.mode(label)
        return (mode.gil if mode else None) or (variant.proof.gil if variant else None)

    def medians(self, label: str, place: Place) -> Sequence[float]:
        """One figure for each round; none if it was not measured."""
        values = self.values.get((label, place[0]), {}).get(place[1])
        return values.medians if values else []

    def max_rss_bytes(self, label: str) -> int:
        """The most that a process of it took in the ranked benchmarks."""
        found = (self.values.get((label, workload), {}).get(name) for workload, name in self.shares)
        return max((one.max_rss_bytes for one in found if one), default=0)
