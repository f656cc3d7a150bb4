"""What workloads/ says: programs and commands, and how their figures are shown."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, model_validator

from interlock.model.benchmarks import Benchmark, Detail, Metric
from interlock.model.common import Data, Name, PathBelow, PythonVersions, RequirementLine
from interlock.model.expansion import expanded

Kind = Literal["program", "command", "service", "pyperf", "pytest-benchmark"]
BROUGHT = ("pyperf", "pytest-benchmark")
# Keys of a benchmark that say how Interlock's own kinds are run and profiled; those of others are the workload's.
OF_PROGRAMS = (
    "arguments",
    "program",
    "set_up",
    "requirements",
    "requires_python",
    "needs_gil",
    "profile_metric",
    "details",
)
Item = TypeVar("Item")


class Repetition(Data):
    """How much one process of a workload measures, and how many processes at most."""

    warmups: Annotated[int, Field(ge=0)]
    values: Annotated[int, Field(ge=1)]
    rounds_limit: Annotated[int, Field(ge=1)] | None = None  # where the experiment's would take too long


class Limit(Data):
    """What the machine can do without an interpreter: a command whose one run does so many units of work."""

    name: Name
    command: Annotated[list[str], Field(min_length=1)]
    benchmarks: Annotated[list[str], Field(min_length=1)]  # that it is the limit of
    unit_count: Annotated[int, Field(ge=1)]


class Server(Data):
    """A workload that has one gets the server image on a network of its own."""

    environment: dict[str, str] = {}


class Load(Data):
    """What is put on the services of a workload, each time once they are healthy and warm.

    First requests at a benchmark's fixed rate, which its latencies are of; then as many as it answers.
    """

    connections: Annotated[int, Field(ge=1)]
    warm_up_requests: Annotated[int, Field(ge=1)]
    quick_s: Annotated[int, Field(ge=1)]  # of each of the two
    full_s: Annotated[int, Field(ge=1)]


class WorkloadFile(Data):
    """One file workloads/<name>.toml."""

    summary: str
    kind: Kind = "program"
    program: PathBelow | None = None
    arguments: list[str] = []  # of a program that users bring, before a benchmark's own
    requirements: list[RequirementLine] = []  # installed for each variant before anything is measured
    requires_python: PythonVersions = ""  # on others it is unsupported
    unit: str
    deadline_s: Annotated[float, Field(gt=0)]
    quick: Repetition
    full: Repetition
    server: Server | None = None
    load: Load | None = None  # of kind service
    metric: Metric | None = None  # of benchmarks that a program which users bring has and this file does not name
    details: list[Detail] = []  # of every benchmark, before its own
    benchmarks: list[Benchmark] = []
    limits: list[Limit] = []

    @model_validator(mode="before")
    @classmethod
    def _a_list_of_workers_is_a_benchmark_for_each(cls, data: Any) -> Any:
        return expanded(data)

    @model_validator(mode="after")
    def _each_benchmark_has_a_name_and_something_to_run(self) -> WorkloadFile:
        names = [benchmark.name for benchmark in self.benchmarks]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two benchmarks have the name '{name}'")
        for benchmark in self.benchmarks:
            if self.is_brought and self.program is None:
                raise ValueError(f"kind '{self.kind}' needs a program")
            if (benchmark.command is None) == (self.program_of(benchmark) is None):
                raise ValueError(
                    f"benchmark '{benchmark.name}' needs either its own command or the workload's program, not both"
                )
            if benchmark.expected and benchmark.command is None and self.kind != "service":
                raise ValueError(f"benchmark '{benchmark.name}' has no command whose output could be as expected")
            if benchmark.parallel > 1 and benchmark.command is None:
                raise ValueError(f"benchmark '{benchmark.name}' has no command that could start in parallel")
        return self

    @model_validator(mode="after")
    def _its_kind_has_what_it_needs(self) -> WorkloadFile:
        if self.is_brought and bool(self.benchmarks) == bool(self.metric):
            raise ValueError(f"kind '{self.kind}' needs either benchmarks or, to find them out, a metric for all")
        for benchmark in self.benchmarks if self.is_brought else []:
            own = [key for key in OF_PROGRAMS if getattr(benchmark, key)]
            if own:
                raise ValueError(f"'{own[0]}' is not for a benchmark of kind '{self.kind}', as '{benchmark.name}' is")
        if not self.is_brought and not self.benchmarks:
            raise ValueError("it has no benchmark")
        if not self.is_brought and (self.arguments or self.metric):
            raise ValueError(f"'arguments' and 'metric' of a workload are for kinds {' and '.join(BROUGHT)}")
        if self.kind == "command" and any(benchmark.command is None for benchmark in self.benchmarks):
            raise ValueError("of kind 'command' every benchmark has a command, a whole command line")
        return self

    @model_validator(mode="after")
    def _a_service_has_its_load(self) -> WorkloadFile:
        is_service = self.kind == "service"
        if is_service != (self.load is not None):
            raise ValueError("a [load] is what kind 'service' needs, and no other kind has")
        for benchmark in self.benchmarks:
            if is_service != (benchmark.rate_per_s is not None):
                raise ValueError(
                    f"benchmark '{benchmark.name}': a rate_per_s is what a service needs, and nothing else has"
                )
            if is_service and (benchmark.command is not None or not benchmark.expected):
                raise ValueError(
                    f"benchmark '{benchmark.name}' of a service is a program, and says what its answer has (expected)"
                )
        if is_service and (self.quick.values, self.full.values) != (1, 1):
            raise ValueError("a visit to a service yields one value: 'values' must be 1")
        return self

    @model_validator(mode="after")
    def _details_are_told_apart(self) -> WorkloadFile:
        for benchmark in self.benchmarks:
            twice = _twice(detail.label for detail in self.details_of(benchmark))
            if twice:
                raise ValueError(f"benchmark '{benchmark.name}' has two details with the label '{twice}'")
        return self

    @model_validator(mode="after")
    def _limits_are_of_benchmarks(self) -> WorkloadFile:
        twice = _twice(limit.name for limit in self.limits)
        if twice:
            raise ValueError(f"two limits have the name '{twice}'")
        names = [benchmark.name for benchmark in self.benchmarks]
        for limit in self.limits:
            for name in limit.benchmarks:
                if name not in names:
                    raise ValueError(f"limit '{limit.name}' is of '{name}', but the benchmarks are {', '.join(names)}")
        return self

    @model_validator(mode="after")
    def _a_curve_is_of_one_metric(self) -> WorkloadFile:
        for name, group in self.curves.items():
            twice = _twice(workers for workers, _ in group)
            if twice:
                raise ValueError(f"'{name}' has two benchmarks of {twice} workers")
            if len({benchmark.metric for _, benchmark in group}) > 1:
                raise ValueError(f"the benchmarks of '{name}' differ in their metric: they cannot be one curve")
        return self

    @model_validator(mode="after")
    def _something_is_left_when_it_is_quick(self) -> WorkloadFile:
        if self.benchmarks and all(benchmark.full_only for benchmark in self.benchmarks):
            raise ValueError("every benchmark is full_only: nothing is left to measure with --quick")
        return self

    @property
    def is_brought(self) -> bool:
        """Whether its program is a user's own, which speaks another tool's protocol."""
        return self.kind in BROUGHT

    def program_of(self, benchmark: Benchmark) -> str | None:
        return benchmark.program or self.program

    def deadline_of(self, benchmark: Benchmark) -> float:
        return benchmark.deadline_s or self.deadline_s

    def python_versions_of(self, benchmark: Benchmark) -> str:
        return ",".join(one for one in (self.requires_python, benchmark.requires_python) if one)

    def requirements_of(self, benchmark: Benchmark) -> list[str]:
        return list(dict.fromkeys([*self.requirements, *benchmark.requirements]))

    @property
    def curves(self) -> dict[str, list[tuple[int, Benchmark]]]:
        """The benchmarks that are one curve each, by its name: number of workers and benchmark, fewest first."""
        found: dict[str, list[tuple[int, Benchmark]]] = {}
        for benchmark in self.benchmarks:
            if benchmark.scaling:
                found.setdefault(benchmark.scaling.name, []).append((benchmark.scaling.workers, benchmark))
        return {name: sorted(group, key=itemgetter(0)) for name, group in found.items()}

    def details_of(self, benchmark: Benchmark) -> list[Detail]:
        return [*self.details, *benchmark.details]

    def limits_of(self, benchmark: str) -> list[Limit]:
        return [limit for limit in self.limits if benchmark in limit.benchmarks]


def _twice(items: Iterable[Item]) -> Item | None:
    """The first that is there a second time."""
    seen = set()
    for item in items:
        if item in seen:
            return item
        seen.add(item)
    return None


class Workload(WorkloadFile):
    """A workload with its name, which is its file's."""

    name: Name

    def taken(self, quick: bool) -> Workload:
        """What an experiment measures of it: when it is quick, not what is full_only, nor limits of that alone."""
        kept = [benchmark for benchmark in self.benchmarks if not (quick and benchmark.full_only)]
        names = {benchmark.name for benchmark in kept}
        of = {limit.name: [name for name in limit.benchmarks if name in names] for limit in self.limits}
        limits = [limit.model_copy(update={"benchmarks": of[limit.name]}) for limit in self.limits if of[limit.name]]
        return self.model_copy(update={"benchmarks": kept, "limits": limits})
