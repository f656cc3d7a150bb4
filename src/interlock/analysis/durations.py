"""How long an experiment will take, from what was recorded of earlier ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from interlock.results.experiments import BuildRecord, Experiment, State
from interlock.results.settings import Settings, duration_text


@dataclass(frozen=True)
class DurationEstimate:
    """Seconds that something takes in all, the records that say so, and the names that no record has."""

    what: str
    seconds: float
    sources: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    budget_s: float | None = None  # which it does not exceed

    def within(self, budget_s: float | None) -> DurationEstimate:
        """Return what it takes where a budget ends it."""
        ends_it = budget_s is not None and (self.unknown or self.seconds > budget_s)
        return replace(self, budget_s=budget_s if ends_it else None)

    @property
    def words(self) -> str:
        """Return it as a sentence's part: 'measuring about 80 min (as in 2026-11-21-b), unknown for write'."""
        if self.budget_s is not None:
            return f"{self.what} at most {duration_text(self.budget_s)}"
        known = f" about {duration_text(self.seconds)} (as in {', '.join(self.sources)})" if self.sources else ""
        separator = "," if known else ""
        unknown = f"{separator} unknown for {', '.join(self.unknown)}" if self.unknown else ""
        return f"{self.what}{known}{unknown}" if known or unknown else f"{self.what} nothing"


def of_builds(
    variants: Sequence[str],
    usual_s: Mapping[str, float],
    record: BuildRecord | None,
    optimised: Mapping[str, Sequence[str] | None],
) -> DurationEstimate:
    """Return how long these variants take to build, side by side as in the record.

    A variant takes what its last build on this machine did (`usual_s`), else what those of its kind did here, else what
    the record says of it: the kind of a build is what optimised it, by `optimised`.
    """
    # A variant without a source takes only seconds to fail.
    made = [build for build in record.builds if build.outcome.state is State.OK] if record else []
    builds = [build for build in made if not build.reused]
    all_s = sum(build.duration_s for build in builds)
    factor = record.duration_s / all_s if record and all_s else 1.0
    recorded_s = {
        build.variant: build.duration_s for build in builds if build.optimisations == optimised.get(build.variant)
    }
    known_s: dict[str, tuple[str, float]] = {}
    for name in variants:
        kind = optimised.get(name)
        kind_s = [seconds for other, seconds in usual_s.items() if kind and kind == optimised.get(other)]
        if name in usual_s:
            known_s[name] = "earlier builds here", usual_s[name]
        elif kind_s:
            known_s[name] = "builds of its kind here", fmean(kind_s)
        elif record and name in recorded_s:
            known_s[name] = record.name, recorded_s[name]
    sources = dict.fromkeys(source for source, _ in known_s.values())
    each_s = [seconds for _, seconds in known_s.values()]
    # Side by side they take a part of their sum, but no less than the longest.
    total_s = max(factor * sum(each_s), max(each_s, default=0.0))
    return DurationEstimate(
        "building", total_s, tuple(sources), tuple(name for name in variants if name not in known_s)
    )


def of_measuring(asked: Settings, cells: int, experiments: Sequence[Experiment]) -> DurationEstimate:
    """Return how long an experiment takes with this many cells of each workload, profiles and all before included."""
    taken = _latest(asked, experiments)
    total_s = sum(cells * _cell_s(experiment, name) for name, experiment in taken.items())
    sources = dict.fromkeys(experiment.name for experiment in taken.values())
    unknown = tuple(name for name in asked.workloads if name not in taken)
    return DurationEstimate("measuring", total_s, tuple(sources), unknown)


def shortest_first(asked: Settings, experiments: Sequence[Experiment]) -> list[str]:
    """Return the workloads in the order of what a cell of each takes; those that no record has come last.

    Where each has an equal share of what is left of a budget, a short one leaves the rest of its share to the long
    ones. In any other order a long one ends with its share, and what the short ones leave comes too late for it.
    """
    known_s = {name: _cell_s(experiment, name) for name, experiment in _latest(asked, experiments).items()}
    return sorted(asked.workloads, key=lambda name: known_s.get(name, math.inf))


def _latest(asked: Settings, experiments: Sequence[Experiment]) -> dict[str, Experiment]:
    """Return for each workload the latest experiment that finished it, measured what is asked for and has its time.

    Those whose rounds were fixed, or not, as is asked for go before all others.
    """

    def by_rounds_and_time(experiment: Experiment) -> tuple[bool, str]:
        return experiment.settings.looks is asked.looks, experiment.started

    def tells(experiment: Experiment, name: str) -> bool:
        there = experiment.settings
        is_alike = (there.quick, there.benchmarks.get(name)) == (asked.quick, asked.benchmarks.get(name))
        return is_alike and name not in experiment.unfinished and _measured(experiment, name) > 0

    latest: dict[str, Experiment] = {}
    for experiment in sorted(experiments, key=by_rounds_and_time):
        latest |= {name: experiment for name in experiment.times if tells(experiment, name)}
    return {name: latest[name] for name in asked.workloads if name in latest}


def _cell_s(experiment: Experiment, workload: str) -> float:
    """Return what a cell of the workload took that was measured: the others take next to nothing."""
    return experiment.times[workload].total_s / _measured(experiment, workload)


def _measured(experiment: Experiment, workload: str) -> int:
    """Return how many cells of a workload have a benchmark that was measured."""
    cells = [cell for cell in experiment.cells if cell.workload == workload]
    return sum(
        State.OK in {cell.outcome.state, *(outcome.state for outcome in cell.benchmarks.values())} for cell in cells
    )
