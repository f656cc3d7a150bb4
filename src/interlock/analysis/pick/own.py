"""The pick of an experiment from its own figures, on its own day, and the rows that are not about what to run. Pure."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

from interlock.analysis.pick.advice import ImageHere, ThisMachine, advise, decide
from interlock.analysis.pick.criteria import Criteria, WorkloadWeight, phase_on
from interlock.analysis.pick.evidence import Evidence, RecordedExperiment, missing_from, usual_question
from interlock.analysis.pick.exclusions import LocalImage
from interlock.analysis.pick.figures import recorded_figures
from interlock.catalog.project import Catalog
from interlock.catalog.types import split_label
from interlock.catalog.variants import SupportPhase
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


def own_pick(experiment: Experiment, values: Values, catalog: Catalog, today: datetime.date) -> Pick | None:
    """Return the pick for the usual mix, or by all workloads with figures of the baseline; None without any."""
    recorded = RecordedExperiment(Path(experiment.name), experiment, Whose.HERE)
    cpus = experiment.host["cores"] or 1
    criteria = usual_question([recorded], Criteria((), cpus), catalog)

    def lacks(asked: Criteria) -> bool:
        return bool(missing_from(experiment, asked, catalog.workloads))

    if lacks(criteria):
        settings = experiment.settings
        parts = {name: [*settings.benchmarks.get(name, ())] or [None] for name in settings.workloads}
        each = [WorkloadWeight(name, part, 1.0) for name, known in parts.items() for part in known]
        criteria = replace(
            criteria, weights=tuple(weight for weight in each if not lacks(replace(criteria, weights=(weight,))))
        )
        if not criteria.weights:
            return None
    evidence = Evidence(recorded, recorded_figures(experiment, values), catalog, criteria, today)
    ranked = decide(evidence)
    image = evidence.images[split_label(ranked.chosen.label)[0]] if ranked.chosen else None
    here = ThisMachine(experiment.host, experiment.host.get("engine"))
    return advise(evidence, ranked, here, ImageHere(image, LocalImage.MEASURED))
