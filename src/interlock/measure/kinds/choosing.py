"""Which kind a benchmark is of: a new one is a module beside this and a row in its table."""

from __future__ import annotations

from interlock.catalog.workloads import Benchmark, Limit, Metric, Workload
from interlock.measure.kinds.command import Command, LimitCommand, PythonCommand, UsersCommand
from interlock.measure.kinds.kind import Kind
from interlock.measure.kinds.program import Program
from interlock.measure.kinds.pyperf import PyperfScript
from interlock.measure.kinds.pytest import PytestSuite
from interlock.measure.kinds.service import Service
from interlock.measure.kinds.users_service import UsersService
from interlock.measure.tracks import Track
from interlock.results.experiments import Subject

KINDS: dict[str, type[Kind]] = {
    "program": Program,
    "command": Command,
    "service": Service,
    "pyperf": PyperfScript,
    "pytest-benchmark": PytestSuite,
}
# Stands for the benchmarks of a workload before they are discovered.
ANY = Benchmark(name="", metric=Metric(label="s", scale=1))


def kind_of(workload: Workload, benchmark: Benchmark = ANY) -> Kind:
    """Return the kind of a benchmark: its workload's, but a program's workload may have commands too."""
    kind = KINDS[workload.kind]
    if workload.user is not None:
        kind = UsersCommand if workload.user.address is None else UsersService
    elif kind is Program and benchmark.command is not None:
        kind = PythonCommand
    return kind(workload, benchmark)


def kind_of_track(track: Track) -> Kind:
    """Return the kind of a track's benchmark; that of a limit is a command without an interpreter."""
    workload, cell = track.session.workload, track.cell
    if cell.is_limit:
        return LimitCommand(workload, track.benchmark, limit_of(workload, cell.subject).unit_count)
    return kind_of(workload, track.benchmark)


def limit_of(workload: Workload, subject: Subject) -> Limit:
    """Return the limit that a subject is."""
    return next(limit for limit in workload.limits if limit.name == subject.mode)
