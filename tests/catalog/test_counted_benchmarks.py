"""Which benchmarks count: every shipped workload says something on one CPU and on more."""

from __future__ import annotations

from interlock.catalog import project as catalogs
from interlock.catalog.counted_benchmarks import counted
from tests.builders import ROOT


def test_of_every_shipped_workload_something_counts_on_one_cpu_and_on_more() -> None:
    for workload in catalogs.load(ROOT).workloads.values():
        for cpus in (1, 2, 64):
            assert counted(workload.benchmarks, cpus), (workload.name, cpus)
            curves = [one.scaling.name for one in counted(workload.benchmarks, cpus) if one.scaling]
            assert len(curves) == len(set(curves)), (workload.name, cpus)
