"""The pick of an experiment from its own figures, on its own day, and the rows that are not about what to run. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from interlock.analysis.comparison import counted
from interlock.analysis.pick.advice import ImageHere, ThisMachine, advise, decide
from interlock.analysis.pick.criteria import Criteria, WorkloadWeight, phase_on
from interlock.analysis.pick.evidence import (
    Evidence,
    RecordedExperiment,
    missing_from,
    usual_question,
    weighted_benchmarks,
)
from interlock.analysis.pick.exclusions import LocalImage
from interlock.analysis.pick.figures import recorded_figures
from interlock.catalog.project import Catalog
from interlock.catalog.types import split_label
from interlock.catalog.variants import SupportPhase
from interlock.catalog.workloads import Workload
from interlock.results.answers import Pick, Whose
from interlock.results.experiments import Experiment, Values

# What people choose between; the other families are there to show why, and their rows are folded.
CHOSEN_FROM = {"release-lines", "free-threading", "already-there", "other-runtimes"}


def is_aside(label: str, catalog: Catalog, today: datetime.date) -> bool:
    """Return whether a row is of a mode, a study, or a version without support."""
    name, mode = split_label(label)
    variant = catalog.variants.get(name)
    if variant is None or mode is not None or variant.family not in CHOSEN_FROM:
        return True
    return phase_on(variant.support, today) is SupportPhase.END_OF_LIFE


def _with_figures(
    experiment: Experiment, criteria: Criteria, known: Mapping[str, Workload]
) -> Iterator[WorkloadWeight]:
    """Yield the workloads with figures of the baseline; of one that lacks some, or was measured in part, what it has.

    One test that fails on the baseline must not keep the rest of its suite out of the answer.
    """

    def has(weight: WorkloadWeight) -> bool:
        return not missing_from(experiment, replace(criteria, weights=(weight,)), known)

    for name in experiment.settings.workloads:
        whole = WorkloadWeight(name, None, 1.0)
        if has(whole):
            yield whole
            continue
        chosen = experiment.settings.benchmarks.get(name)
        counting = counted(weighted_benchmarks(experiment.workloads, known, whole), criteria.cpus)
        each = [WorkloadWeight(name, part, 1.0) for part in chosen or [benchmark.name for benchmark in counting]]
        parts = [part for part in each if has(part)]
        yield from parts if chosen else [replace(part, weight=1.0 / len(parts)) for part in parts]


def own_pick(experiment: Experiment, values: Values, catalog: Catalog, today: datetime.date) -> Pick | None:
    """Return the pick for the usual mix, or by all that has figures of the baseline; None without any."""
    recorded = RecordedExperiment(Path(experiment.name), experiment, Whose.HERE)
    cpus = experiment.host["cores"] or 1
    criteria = usual_question([recorded], Criteria((), cpus), catalog)

    if missing_from(experiment, criteria, catalog.workloads):
        criteria = replace(criteria, weights=tuple(_with_figures(experiment, criteria, catalog.workloads)))
        if not criteria.weights:
            return None
    evidence = Evidence(recorded, recorded_figures(experiment, values), catalog, criteria, today)
    ranked = decide(evidence)
    image = evidence.images[split_label(ranked.chosen.label)[0]] if ranked.chosen else None
    here = ThisMachine(experiment.host, experiment.host.get("engine"))
    return advise(evidence, ranked, here, ImageHere(image, LocalImage.MEASURED))
