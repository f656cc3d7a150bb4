"""The command that measures a matrix, and the options that it shares with the command for fleets."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlock.catalog import project
from interlock.catalog.project import Catalog
from interlock.catalog.types import split_label
from interlock.cli import progress
from interlock.cli.build import build_options, build_variants, fail_on_failed_builds, write_generated
from interlock.cli.machine import ready_machine
from interlock.cli.options import (
    MatrixOptions,
    Results,
    console,
    open_project,
    profile_name,
    split_names,
    takes_matrix_options,
)
from interlock.cli.report import write_report
from interlock.errors import UsageError, WorkloadError
from interlock.measure import experiment
from interlock.report.experiment import failed_cells
from interlock.results.experiments import Built, EngineName, Experiment, Settings


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
            seed=random.SystemRandom().randrange(2**32) if self.seed is None else self.seed,
            baseline=baseline,
            profile=profile_name(self.release),
            # The baseline is measured plain, whichever of its modes were chosen.
            variants=list(dict.fromkeys([*self.labels, baseline])),
            workloads=self.workloads,
            conditions=self.conditions,
            profiled=self.profiled,
        )


def read_request(known: Catalog, options: MatrixOptions) -> MatrixRequest:
    """Return the request that the options make; UsageError for a name that does not exist."""
    labels = project.select_labels(known.variants, split_names(options.variants))
    everything = labels == project.select_labels(known.variants, None)
    if options.baseline is not None:
        labels += project.select_names(known.variants, [options.baseline], "variant")
    under = split_names(options.conditions)
    return MatrixRequest(
        labels=labels,
        everything=everything,
        workloads=project.select_names(known.workloads, split_names(options.workloads), "workload"),
        conditions=project.select_names(known.conditions, under, "condition") if under else [],
        quick=options.quick,
        rounds=options.rounds,
        baseline=options.baseline,
        seed=options.seed,
        profiled=options.profile,
        release=options.release,
    )


@takes_matrix_options
def matrix(
    options: MatrixOptions,
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
    request = read_request(known, options)
    request.require_possible(options.engine)
    with ready_machine(paths, known, options.profile, agreed=yes, engine=options.engine) as machine:
        write_generated(paths, known)
        built = build_variants(machine, known, request.variants, build_options(paths, options.release))
        settings = request.settings(built)
        with progress.Display(console) as display:
            on_progress = progress.MeasureProgress(display, len(settings.workloads))
            command = experiment.repeat_command(
                settings, request.everything, _engine_to_repeat(machine.name, options.engine)
            )
            into = results or paths.results
            assignment = experiment.Assignment(known, paths.root, into, built, settings, command, name)
            folder = experiment.run(machine, assignment, experiment.Watching(on_progress))
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
