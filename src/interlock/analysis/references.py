"""What the experiments that come with Interlock say of published claims and of a reader's questions. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.analysis.claims import ClaimVerdict, Finding, measure
from interlock.analysis.comparison import (
    Contents,
    DetailFigure,
    baseline_optimisation,
    details_of,
    optimisation_text,
)
from interlock.analysis.verdicts import Comparison
from interlock.catalog.claims import AnsweringFigure
from interlock.results.experiments import Experiment


@dataclass(frozen=True)
class ReferenceFinding:
    """What is said of a claim, and the experiment that says it."""

    finding: Finding
    experiment: Experiment


@dataclass(frozen=True)
class ReferenceFigure:
    """A figure, and the experiment that it is of."""

    figure: Comparison | DetailFigure | float
    experiment: Experiment


def in_order(references: Sequence[Contents]) -> list[Contents]:
    """Return the references in the order in which they judge: builds with PGO and LTO first, the newest first."""
    newest = sorted(references, key=lambda reference: reference.experiment.started, reverse=True)
    best = optimisation_text(["PGO", "LTO"])
    return sorted(newest, key=lambda reference: baseline_optimisation(reference.experiment) != best)


def best_findings(judged: Sequence[tuple[Experiment, Sequence[Finding]]]) -> list[ReferenceFinding]:
    """Return for each claim the first finding that judges it, decided or not, else the first that says most."""
    best: dict[str, ReferenceFinding] = {}
    for experiment, findings in judged:
        for finding in findings:
            known = best.get(finding.claim.name)
            if known is None or (known.finding.verdict.silent and _says(finding) > _says(known.finding)):
                best[finding.claim.name] = ReferenceFinding(finding, experiment)
    return list(best.values())


def _says(finding: Finding) -> tuple[bool, ...]:
    """Return how much a finding says, to be compared: a verdict, a figure, why there is none."""
    has_figure = finding.ratio is not None or finding.count is not None
    return not finding.verdict.silent, has_figure, finding.verdict is ClaimVerdict.NOT_TESTABLE


def best_figures(
    figures: Mapping[str, AnsweringFigure], references: Sequence[Contents]
) -> dict[str, ReferenceFigure | str]:
    """Return each figure of the first reference that has it, or of the one that it names; else why there is none."""
    return {name: _first(figure, references) for name, figure in figures.items()}


def _figure(figure: AnsweringFigure, reference: Contents) -> Comparison | DetailFigure | float | str:
    if not figure.detail:
        return measure(figure, reference)
    missing = f"{figure.variant} has no '{figure.detail}' in {figure.workload} / {figure.benchmark}"
    workload = reference.experiment.workloads.get(figure.workload)
    if workload is None:
        return missing
    values = reference.values_of(figure.variant, figure.workload, figure.benchmark)
    named = (benchmark for benchmark in workload.benchmarks if benchmark.name == figure.benchmark)
    details = (detail for benchmark in named for detail in details_of(workload, benchmark, values) if detail)
    return next((detail for detail in details if detail.detail.label == figure.detail), missing)


def _first(figure: AnsweringFigure, references: Sequence[Contents]) -> ReferenceFigure | str:
    why = f"there is no reference '{figure.experiment}'"
    for reference in references:
        if figure.experiment in {None, reference.experiment.name}:
            measured = _figure(figure, reference)
            if not isinstance(measured, str):
                return ReferenceFigure(measured, reference.experiment)
            why = measured
    return why
