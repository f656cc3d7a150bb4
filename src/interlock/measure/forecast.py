"""How long an experiment will take, and which of its rows there are soon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from interlock.analysis import durations
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.selection import CORE
from interlock.measure.ending import Ending
from interlock.measure.stages import first_variants
from interlock.results import store
from interlock.results.experiments import Experiment
from interlock.results.settings import Settings

# README's first command, the core set with --quick, is to end in half an hour, builds included.
QUICK_CORE_S = 16 * 60.0


def usual_budget_s(settings: Settings) -> float | None:
    """Return the budget that the core set has with --quick, unless the number of rounds is fixed."""
    is_core = (settings.variants_word, settings.workloads_word) == (CORE, CORE)
    return QUICK_CORE_S if settings.quick and settings.looks and is_core else None


def of_builds(paths: ProjectPaths, known: Catalog, missing: Sequence[str]) -> durations.DurationEstimate:
    """Return how long these variants take to build, here if they were built here, else as the project recorded."""
    usual_s = store.read_durations(paths.cache)
    optimised = {name: variant.optimisations for name, variant in known.variants.items()}
    return durations.of_builds(missing, usual_s, store.latest_builds(paths.reference), optimised)


@dataclass(frozen=True)
class Forecast:
    """How long an experiment will take, as far as earlier builds and experiments tell."""

    paths: ProjectPaths
    known: Catalog
    settings: Settings
    earlier: Sequence[Experiment]
    ending: Ending

    def of_all(self, missing: Sequence[str]) -> str:
        """Return how many rows there are, and how long building these variants and measuring takes."""
        settings = self.settings
        cells = len(settings.variants) + 1  # the twin
        quickly = settings.model_copy(update={"quick": True})
        measuring = durations.of_measuring(settings, cells, self.earlier)
        quick = durations.of_measuring(quickly, cells, self.earlier).within(usual_budget_s(quickly))
        number = len(settings.workloads)
        size = f"{cells} rows of {number} workload{'s' * (number > 1)}"
        built = of_builds(self.paths, self.known, missing).words
        said = f"{size}: {built}; {measuring.within(self.ending.budget_s).words}"
        is_told = bool(measuring.unknown) and self.ending.budget_s is None and not quick.unknown
        return f"{said} (with --quick {quick.words.removeprefix('measuring ')})" if is_told else said

    def first(self, known: Catalog, missing: Sequence[str]) -> list[str]:
        """Return the variants that are built and measured first; none if all are built and measured at once.

        With a fixed number of rounds no row goes before the others.
        """
        settings = self.settings
        if not settings.looks:
            return []
        return first_variants(known.variants, settings.to_build, missing, settings.baseline)

    def lines(self, missing: Sequence[str], first: Sequence[str]) -> list[str]:
        """Return what to expect of building these variants and measuring all, and of the first rows, if some are."""
        lines = [self.of_all(missing)]
        if first:
            soon = of_builds(self.paths, self.known, [name for name in missing if name in first])
            lines.append(f"first rows: {', '.join(first)}; {soon.words}, and a first look; the others join them")
        return lines
