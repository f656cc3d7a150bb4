"""Which benchmarks of a workload count, on how many CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.catalog.workloads import Benchmark


def counted(benchmarks: Sequence[Benchmark], cpus: int, workers: int | None = None) -> list[Benchmark]:
    """Return the benchmarks that count where a program has this many CPUs, of each curve one.

    Of a curve it is the one with as many workers as CPUs, or as `workers` says: the fewest that use all, else the most.
    Workers that wait need no CPU: the most. With more CPUs than one, what counts for one stands in where nothing counts
    for more.
    """
    fits = {"any", "one"} if cpus == 1 else {"any", "more"}
    counting = [one for one in benchmarks if one.counts_for in fits]
    counting = counting or [one for one in benchmarks if one.counts_for == "one"]
    curves: dict[str, list[Benchmark]] = {}
    for one in counting:
        if one.scaling:
            curves.setdefault(one.scaling.name, []).append(one)
    chosen = {name: _of_curve(group, cpus, workers) for name, group in curves.items()}
    return [one for one in counting if one.scaling is None or chosen[one.scaling.name] is one]


def _of_curve(group: Sequence[Benchmark], cpus: int, workers: int | None) -> Benchmark | None:
    by_workers = {one.scaling.workers: one for one in group if one.scaling}
    if workers is None and any(one.scaling.wait for one in group if one.scaling):
        return by_workers[max(by_workers)]
    wanted = workers or cpus
    if wanted == 1:  # more workers have more CPUs than one
        return by_workers.get(1)
    return by_workers[min((one for one in by_workers if one >= wanted), default=max(by_workers))]
