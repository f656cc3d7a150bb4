"""From how many CPUs on another image would do more: what the curves over workers predict. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from interlock.analysis.pick.evidence import Evidence
from interlock.analysis.statistics import Interval
from interlock.results.figures import Bounds

# A contender, the CPUs that it needs, and its throughput divided by the baseline's there.
Prediction = tuple[str, int, Interval]


def predictions(evidence: Evidence, labels: Sequence[str]) -> Iterator[tuple[str, str, int, Prediction]]:
    """Yield, for each curve of the weighted workloads, its workload, name, fitted workers and soonest prediction.

    Sought are more CPUs than were asked for, from which the interval of the predicted ratio is above 1.
    """
    for workload in dict.fromkeys(workload for workload, _ in evidence.shares):
        for curve in evidence.curves(workload):
            faster = {label: found for label, found in curve.faster.items() if label in labels}
            soonest = _soonest(faster, evidence.criteria.cpus)
            if soonest:
                yield workload, curve.name, curve.fitted_to, soonest


def _soonest(faster: Mapping[str, Mapping[int, Bounds]], cpus: int) -> Prediction | None:
    more = {count for found in faster.values() for count in found if count > cpus}
    if not more:
        return None
    soonest = min(more)
    there = {label: Interval(*found[soonest]) for label, found in faster.items() if soonest in found}
    best = max(there, key=lambda label: there[label].estimate)
    return best, soonest, there[best]
