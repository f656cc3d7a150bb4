"""From how many CPUs on another image would do more: what the curves over workers predict. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interlock.analysis.pick.evidence import Evidence
from interlock.analysis.scaling import ThroughputsByWorkers, predicted_ratio
from interlock.analysis.statistics import Interval
from interlock.catalog.workloads import Benchmark

# No law that was fitted on a few cores says anything of more CPUs than this.
MOST_CPUS = 64

# A contender, the CPUs that it needs, and its throughput divided by the baseline's there.
Prediction = tuple[str, int, Interval]


def predictions(evidence: Evidence, labels: Sequence[str]) -> list[tuple[str, str, int, Prediction]]:
    """Return, for each curve of the weighted workloads, its workload, name, fitted workers and soonest prediction.

    Sought are more CPUs than were asked for, from which the interval of the predicted ratio is above 1. Workers that
    wait need no CPU each, so their curves predict nothing.
    """
    found = []
    for workload in dict.fromkeys(workload for workload, _ in evidence.shares):
        for name, group in evidence.experiment.workloads[workload].curves.items():
            if any(one.scaling and one.scaling.wait for _, one in group):
                continue
            fitted = [(workers, one) for workers, one in group if workers <= evidence.cores]
            soonest = _soonest(evidence, labels, workload, fitted)
            if soonest:
                found.append((workload, name, max(workers for workers, _ in fitted), soonest))
    return found


def _soonest(
    evidence: Evidence, labels: Sequence[str], workload: str, group: Sequence[tuple[int, Benchmark]]
) -> Prediction | None:
    theirs = _throughputs(evidence, evidence.baseline, workload, group)
    curves = {label: _throughputs(evidence, label, workload, group) for label in labels}
    for cpus in range(evidence.criteria.cpus + 1, MOST_CPUS + 1):
        ratios = {label: predicted_ratio(mine, theirs, cpus) for label, mine in curves.items()}
        faster = {label: ratio for label, ratio in ratios.items() if ratio and ratio.low > 1}
        if faster:
            best = max(faster, key=lambda label: faster[label].estimate)
            return best, cpus, faster[best]
    return None


def _throughputs(
    evidence: Evidence, label: str, workload: str, group: Sequence[tuple[int, Benchmark]]
) -> ThroughputsByWorkers:
    """Return units of work in a second by number of workers, one for each round."""
    found: Mapping[int, Sequence[float]] = {
        workers: [1 / seconds for seconds in evidence.figures(label, (workload, one.name))] for workers, one in group
    }
    return {workers: some for workers, some in found.items() if some}
