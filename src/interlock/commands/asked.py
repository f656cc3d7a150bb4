"""What `matrix` and `fleet` are asked for: their common options, and what these come to."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Annotated

import typer

from interlock import catalog, experiment
from interlock.errors import UsageError
from interlock.model import Built, Catalog, EngineName, Settings, split_label
from interlock.routines import profile_name, split_names

Labels = Annotated[
    str | None, typer.Option(help="Comma-separated, each `variant` or `variant+mode`; all without this option.")
]
Conditions = Annotated[
    str | None, typer.Option(help="Conditions to measure the baseline under besides; none without this option.")
]
Quick = Annotated[bool, typer.Option("--quick", help="Fewer rounds and values: minutes, wider spreads.")]
Rounds = Annotated[
    int | None,
    typer.Option(min=2, help="Exactly so many; by default 10 to 40 until ±1 %, if quick 5 to 20 until ±2.5 %."),
]
Baseline = Annotated[str | None, typer.Option(help="What the report compares with (cpython-3.13).")]
Seed = Annotated[int | None, typer.Option(help="Of the order of the rounds; a new one by default.")]
Profiled = Annotated[bool, typer.Option(help="Count syscalls in a pass of its own.")]


@dataclass(frozen=True)
class Asked:
    """The chosen names, which exist, and the other options as they were given."""

    labels: list[str]
    everything: bool
    workloads: list[str]
    conditions: list[str]
    quick: bool
    rounds: int | None
    baseline: str | None
    seed: int | None
    profiled: bool
    release: bool

    @property
    def variants(self) -> list[str]:
        """What has to be built."""
        return list(dict.fromkeys(split_label(label)[0] for label in self.labels))

    def require_possible(self, engine: EngineName | None) -> None:
        """UsageError for what the engine that was named has not."""
        if engine is EngineName.HOST and self.conditions:
            raise UsageError(
                key="--conditions", found="are of containers, and '--engine host' has none", todo="Leave one."
            )

    def settings(self, built: list[Built]) -> Settings:
        """Of what was built; UsageError if the baseline was not."""
        plan = experiment.planned_rounds(self.quick, self.rounds)
        baseline = experiment.choose_baseline(self.baseline, built)
        return Settings(
            quick=self.quick,
            rounds=plan.least,
            rounds_limit=plan.limit,
            half_width=plan.half_width,
            seed=random.SystemRandom().randrange(2**32) if self.seed is None else self.seed,
            baseline=baseline,
            profile=profile_name(self.release),
            # The baseline is measured plain, whichever of its modes were chosen.
            variants=list(dict.fromkeys([*self.labels, baseline])),
            workloads=self.workloads,
            conditions=self.conditions,
            profiled=self.profiled,
        )


def asked(
    known: Catalog,
    *,
    variants: str | None,
    workloads: str | None,
    conditions: str | None,
    quick: bool,
    rounds: int | None,
    baseline: str | None,
    seed: int | None,
    profile: bool,
    release: bool,
) -> Asked:
    """The options with their names looked up; UsageError for one that does not exist."""
    labels = catalog.select_labels(known.variants, split_names(variants))
    everything = labels == catalog.select_labels(known.variants, None)
    if baseline is not None:
        labels += catalog.select_names(known.variants, [baseline], "variant")
    under = split_names(conditions)
    return Asked(
        labels=labels,
        everything=everything,
        workloads=catalog.select_names(known.workloads, split_names(workloads), "workload"),
        conditions=catalog.select_names(known.conditions, under, "condition") if under else [],
        quick=quick,
        rounds=rounds,
        baseline=baseline,
        seed=seed,
        profiled=profile,
        release=release,
    )
