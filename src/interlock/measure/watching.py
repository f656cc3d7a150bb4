"""What whoever started an experiment is told while it measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from interlock.analysis.verdicts import Comparison, Pair
from interlock.catalog.workloads import Benchmark, Workload
from interlock.measure.ending import Ending


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


@dataclass(frozen=True)
class Observers:
    """What is called at each step of an experiment and at each look, and what can end it early."""

    on_progress: Callable[[ProgressUpdate], None]
    on_look: Callable[[Look], None] = lambda _: None
    ending: Ending = field(default_factory=Ending)
    # Before the first block, and after each workload but the experiment's last: between two measurements.
    on_record: Callable[[Path], None] = lambda _: None
    # For a workload that other programs disturbed too much to decide by: its name, and what they did.
    on_disturbed: Callable[[str, str], None] = lambda *_: None

    def on_step(self, step: str, subject: str = "", activity: str = "preparing") -> None:
        """Say what goes on between two measurements."""
        self.on_progress(ProgressUpdate(activity, step, subject, 0, 1))
