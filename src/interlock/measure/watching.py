"""What whoever started an experiment is told while it measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from interlock.analysis.verdicts import Comparison, Pair
from interlock.catalog.workloads import Benchmark, Workload


@dataclass(frozen=True)
class ProgressUpdate:
    """A process that is about to run: `number` of `total` ran before it in this activity."""

    activity: str
    workload: str
    subject: str
    number: int
    total: int


@dataclass(frozen=True)
class Look:
    """What the rounds of one benchmark have shown so far; after `is_last` nothing more is measured of it."""

    workload: Workload
    benchmark: Benchmark
    comparisons: Mapping[Pair, Comparison]
    is_last: bool = False
    built_otherwise: frozenset[str] = frozenset()  # labels: their ratio to the baseline is of that too
