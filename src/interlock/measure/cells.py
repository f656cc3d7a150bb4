"""Cells: a workload on one subject while it is measured, with a track per benchmark; how their session is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from interlock.catalog.types import LIMIT
from interlock.catalog.workloads import Benchmark, Workload
from interlock.measure.bare_cells import BareCell
from interlock.measure.kinds.choosing import kind_of, limit_of
from interlock.measure.sessions import Resources, Session
from interlock.measure.stopwatch import Stopwatch
from interlock.measure.tracks import Track
from interlock.results.experiments import Subject


@dataclass(eq=False)
class Cell(BareCell):
    """A workload on one subject while it is measured; what is measured without an interpreter is its limit's."""

    profile_problem: str = ""

    @cached_property
    def tracks(self) -> dict[str, Track]:
        """Return the tracks by their benchmarks; they are known once those are discovered."""
        workload = self.session.workload
        benchmarks = _limited(workload, self.subject) if self.is_limit else workload.benchmarks
        return {benchmark.name: Track(self, benchmark) for benchmark in benchmarks}


def limits_of(workload: Workload) -> list[Subject]:
    """Return the workload's limits, which have cells as variants do."""
    return [Subject(variant=LIMIT, mode=limit.name, image_id=None) for limit in workload.limits]


@contextmanager
def open_session(resources: Resources, workload: Workload, clock: Stopwatch | None = None) -> Iterator[Session]:
    """Yield the workload's session, then close it; WorkloadError if its server or load does not start."""
    environment = None if workload.server is None else workload.server.environment
    with resources.workspace.network(environment, load=kind_of(workload).needs_load) as network:
        yield Session(resources, workload, network, clock or Stopwatch(), shares_slots(workload))


def shares_slots(workload: Workload) -> bool:
    """Return whether a workload needs nothing of its own, leaves no files, and its program is not another's."""
    if workload.server or workload.load or workload.limits or workload.rights:
        return False
    kinds = (kind_of(workload), *(kind_of(workload, benchmark) for benchmark in workload.benchmarks))
    return not any(kind.leaves_traces for kind in kinds)


def _limited(workload: Workload, subject: Subject) -> list[Benchmark]:
    """Return the benchmarks that a subject is the limit of, each with the limit's command in its place."""
    limit = limit_of(workload, subject)
    kept = ("name", "cpus", "threads", "deadline_s", "metric", "values_factor")
    return [
        Benchmark(command=limit.command, **{key: getattr(benchmark, key) for key in kept})
        for benchmark in workload.benchmarks
        if benchmark.name in limit.benchmarks
    ]
