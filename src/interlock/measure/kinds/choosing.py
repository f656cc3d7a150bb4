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


def kinds_of(workload: Workload) -> list[Kind]:
    """Return the kinds of all benchmarks, of which some workloads have none before they are discovered."""
    return [kind_of(workload, benchmark) for benchmark in workload.benchmarks]


def limit_kinds(workload: Workload, subject: Subject) -> list[Kind]:
    """Return the kinds of the benchmarks that a subject is the limit of."""
    (limit,) = [limit for limit in workload.limits if limit.name == subject.mode]
    limited = [benchmark for benchmark in workload.benchmarks if benchmark.name in limit.benchmarks]
    return [_limit_kind(workload, benchmark, limit) for benchmark in limited]


def _limit_kind(workload: Workload, benchmark: Benchmark, limit: Limit) -> Kind:
    kept = ("name", "cpus", "threads", "deadline_s", "metric", "values_factor")
    command = Benchmark(command=limit.command, **{key: getattr(benchmark, key) for key in kept})
    return LimitCommand(workload, command, limit.unit_count)
