"""The command that measures a matrix, and the options that it shares with the command for fleets."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlock.catalog import loading
from interlock.catalog.loading import Catalog
from interlock.catalog.types import split_label
from interlock.cli import progress
from interlock.cli.build import build_options, build_variants, fail_on_failed_builds, write_generated
from interlock.cli.machine import ready_machine
from interlock.cli.options import (
    Engine,
    Profiled,
    Release,
    Results,
    Seed,
    WorkloadNames,
    console,
    open_project,
    profile_name,
    split_names,
)
from interlock.cli.report import write_report
from interlock.errors import UsageError, WorkloadError
from interlock.measure import experiment
from interlock.report.experiment import failed_cells
from interlock.results.experiments import Built, EngineName, Experiment, Settings

Labels = Annotated[
    str | None,
    typer.Option(metavar="A,B+MODE", help="Variants, plain or in a mode (default: all variants in all modes)."),
]
Conditions = Annotated[
    str | None,
    typer.Option(metavar="C,D", help="Conditions in which the baseline is measured too (default: none)."),
]
Quick = Annotated[bool, typer.Option("--quick", help="Measure fewer rounds and values: faster, with wider intervals.")]
Rounds = Annotated[
    int | None,
    typer.Option(min=2, metavar="N", help="Fixed number of rounds (default: as many as needed)."),
]
Baseline = Annotated[
    str | None, typer.Option(metavar="VARIANT", help="Variant that the report compares with (default: cpython-3.13).")
]


@dataclass(frozen=True)
class MatrixRequest:
    """What the options of `matrix` or `fleet` ask for; all names in it exist."""

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
        """Return the variants that have to be built."""
        return list(dict.fromkeys(split_label(label)[0] for label in self.labels))

    def require_possible(self, engine: EngineName | None) -> None:
        """Raise UsageError for an option that the named engine does not support."""
        if engine is EngineName.HOST and self.conditions:
            found = "needs containers, which --engine host does not have"
            raise UsageError(key="--conditions", found=found, todo="Leave out --conditions or --engine host.")

    def settings(self, built: list[Built]) -> Settings:
        """Return the experiment's settings for what was built; UsageError if the baseline was not."""
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


def read_request(
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
) -> MatrixRequest:
    """Return the request that the options make; UsageError for a name that does not exist."""
    labels = loading.select_labels(known.variants, split_names(variants))
    everything = labels == loading.select_labels(known.variants, None)
    if baseline is not None:
        labels += loading.select_names(known.variants, [baseline], "variant")
    under = split_names(conditions)
    return MatrixRequest(
        labels=labels,
        everything=everything,
        workloads=loading.select_names(known.workloads, split_names(workloads), "workload"),
        conditions=loading.select_names(known.conditions, under, "condition") if under else [],
        quick=quick,
        rounds=rounds,
        baseline=baseline,
        seed=seed,
        profiled=profile,
        release=release,
    )


def matrix(
    variants: Labels = None,
    workloads: WorkloadNames = None,
    conditions: Conditions = None,
    quick: Quick = False,
    rounds: Rounds = None,
    baseline: Baseline = None,
    seed: Seed = None,
    profile: Profiled = True,
    release: Release = False,
    engine: Engine = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of the experiment and its folder (default: from the date).")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Prepare this machine first, with playbooks/host.yml.")] = False,
    results: Results = None,
) -> None:
    """Build variants, measure workloads on them and report: the main job.

    Checks this machine first. Cells that fail do not stop the others.
    """
    paths, known = open_project()
    request = read_request(
        known,
        variants=variants,
        workloads=workloads,
        conditions=conditions,
        quick=quick,
        rounds=rounds,
        baseline=baseline,
        seed=seed,
        profile=profile,
        release=release,
    )
    request.require_possible(engine)
    with ready_machine(paths, known, profile, agreed=yes, engine=engine) as machine:
        write_generated(paths, known)
        built = build_variants(machine, known, request.variants, build_options(paths, release))
        settings = request.settings(built)
        with progress.Display(console) as display:
            on_progress = progress.MeasureProgress(display, len(settings.workloads))
            command = experiment.repeat_command(settings, request.everything, _engine_to_repeat(machine.name, engine))
            into = results or paths.results
            assignment = experiment.Assignment(known, paths.root, into, built, settings, command, name)
            folder = experiment.run(machine, assignment, on_progress)
    described = write_report(folder)
    fail_on_failed_builds(built)
    fail_on_failed_cells(folder, described)


def _engine_to_repeat(used: EngineName, engine: EngineName | None) -> EngineName | None:
    """Return the engine that the command to repeat this experiment names."""
    return used if used is EngineName.HOST else engine


def fail_on_failed_cells(folder: Path, described: Experiment) -> None:
    """Raise WorkloadError for the first cell that failed."""
    for cell in failed_cells([*described.cells, *described.limits]):
        raise WorkloadError(
            file=str(folder),
            key=f"{cell.label} / {cell.workload}",
            found=cell.outcome.reason,
            todo=f"Every other cell is in {folder}; run it again with --workloads {cell.workload}.",
        )
