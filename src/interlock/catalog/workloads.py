"""The contents of workloads/: programs and commands, their benchmarks, and how their figures are shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from operator import itemgetter
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from interlock.catalog.services import Load, UserWork
from interlock.catalog.types import Data, Name, PathBelow, PythonVersions, RequirementLine, Right, first_twice

# The key of a detail's figure, among those that a program reports or that the launcher reads of the whole process.
DetailKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
OF_PROCESS = "process_"
# Stands for the number of workers in the texts of a benchmark that has a list of them.
WORKERS = "{workers}"
# The keys of such a benchmark, in a file.
OF_WORKERS = {"workers", "workers_wait"}


class Metric(Data):
    """How a figure is shown: seconds (or calls) per unit of work times scale, or scale divided by it."""

    label: str = Field(description="The figure's unit, as tables show it: ns per lock, MB/s.")
    scale: float = Field(gt=0, description="Factor from seconds (or calls) per unit of work to the figure.")
    inverse: bool = Field(default=False, description="Show scale divided by the seconds: for MB/s, requests/s.")

    def shown(self, per_unit: float) -> float:
        """Return the figure for these seconds (or calls) per unit of work."""
        return self.scale / per_unit if self.inverse else self.scale * per_unit

    @property
    def per(self) -> str:
        """Return what it is divided by, from the label: 'per 1M imports' of 'lock cost per 1M imports'."""
        _, divided, unit = self.label.rpartition(" per ")
        return f"per {unit}" if divided else self.label


class Detail(Data):
    """A second figure of a benchmark: what its processes report, divided by units of work or values, times scale."""

    label: str = Field(description="The figure's name and unit, as tables show it.")
    of: DetailKey = Field(
        description="Key of the metadata that a program reports, or process_user_s, process_sys_s and others that the "
        "launcher reads of the whole process."
    )
    per: Literal["unit", "value", "process"] = Field(default="process", description="What the report is divided by.")
    scale: float = Field(default=1.0, gt=0, description="Factor from what is reported to the figure.")

    @model_validator(mode="after")
    def _a_whole_process_is_not_divided(self) -> Detail:
        if self.of.startswith(OF_PROCESS) and self.per != "process":
            raise ValueError(
                f"'{self.of}' is of a whole process, start and warm-ups included: it is shown per process, "
                f"not per {self.per}"
            )
        return self

    def shown(self, reported: float, values: int, units: int) -> float:
        """Return the figure of a process that reported this and timed `values` values of `units` units of work each."""
        return self.scale * reported / {"unit": values * units, "value": values, "process": 1}[self.per]


class Scaling(Data):
    """A benchmark's position in a curve: the same work with another number of workers."""

    name: str = Field(description="Name of the curve.")
    workers: int = Field(ge=1, description="Number of workers of this benchmark.")
    wait: bool = Field(
        default=False, description="Whether the workers wait most of the time, so that they need no CPU each."
    )


def _in_files(schema: dict[str, Any]) -> None:
    """Change a benchmark's schema to what a file may have: `workers`, from which `expand_workers` makes copies."""
    del schema["properties"]["asked_by"]
    parallel = schema["properties"]["parallel"]
    parallel["anyOf"] = [{key: parallel.pop(key) for key in ("minimum", "type")}, {"const": WORKERS}]
    schema["properties"] |= {
        "workers": {
            "description": "Numbers of workers: a copy of the benchmark for each, which has the number for {workers}.",
            "items": {"minimum": 1, "type": "integer"},
            "minItems": 1,
            "type": "array",
        },
        "workers_wait": {
            "default": False,
            "description": "Whether the workers wait most of the time, so that they need no CPU each.",
            "type": "boolean",
        },
    }
    schema |= {"dependentRequired": {"workers_wait": ["workers"]}, "not": {"required": ["workers", "scaling"]}}


class Benchmark(Data):
    """One measured program or command of a workload."""

    model_config = ConfigDict(json_schema_extra=_in_files)

    name: str = Field(description="Name of the benchmark in results and reports; unique in the workload.")
    arguments: list[str] = Field(
        default=[], description="Arguments of the program, in addition to those of the protocol."
    )
    command: list[str] | None = Field(
        default=None,
        description="Arguments of the interpreter, timed as a whole process; of kind 'command' a whole command line.",
    )
    program: PathBelow | None = Field(default=None, description="Program to run in place of the workload's.")
    set_up: list[str] = Field(
        default=[], description="Arguments of the interpreter, run once in each cell before, not measured."
    )
    expected: list[str] = Field(
        default=[], description="Texts that the output of a command, or the answer of a service, must have."
    )
    # Found before the rounds: the arguments by which an adapted program runs only this benchmark.
    asked_by: list[str] = []
    requirements: list[RequirementLine] = Field(
        default=[], description="Packages (PEP 508 lines) to install, in addition to the workload's."
    )
    requires_python: PythonVersions = Field(
        default="",
        description="Versions of Python (>=3.8) that can run it, in addition to the workload's requires_python.",
    )
    needs_gil: str = Field(default="", description="Why it cannot run where the GIL is off.")
    cpus: Literal["all", "one"] = Field(default="all", description="CPUs that its processes may use.")
    threads: Literal["one", "many"] = Field(
        default="many",
        description="one: a single thread works and never waits for another; its fast values tell what it costs, and "
        "values that were disturbed are taken again.",
    )
    clock: Literal["wall", "cpu"] = Field(
        default="wall",
        description="cpu: decided by CPU time, which no neighbour on the machine changes; only for one thread that "
        "never waits. The other clock's time is recorded too.",
    )
    values_factor: int = Field(
        default=1, ge=1, description="Factor of its workload's warm-ups and values, for slices as much shorter."
    )
    deadline_s: float | None = Field(default=None, gt=0, description="Seconds for a run (default: the workload's).")
    counts_for: Literal["any", "one", "more", "named"] = Field(
        default="any",
        description="On how many CPUs it counts in summaries and in its workload's weight: any, one or more than one; "
        "'named' counts only where it is named.",
    )
    full_only: bool = Field(default=False, description="Whether --quick leaves it out, unless it is named.")
    details: list[Detail] = Field(default=[], description="Second figures, after the workload's.")
    scaling: Scaling | None = Field(
        default=None, description="Position in a curve; where it differs in {workers} alone, use `workers`."
    )
    profile_arguments: list[str] = Field(
        default=[], description="Further arguments of the profiled process, to do less: tracing is slow."
    )
    profile_loops: int = Field(default=1, ge=1, description="Loops of the profiled process.")
    profile_syscalls: list[str] | Literal["all"] = Field(
        default=["futex"], description="System calls whose number profile_metric shows; ['futex'] shows the lock cost."
    )
    why: bool = Field(
        default=False, description="Also record stacks of its waits and wakes, in a separate pass, if it is profiled."
    )
    parallel: int = Field(
        default=1, ge=1, description="Processes of a command that start at once; each is a unit of work."
    )
    rate_per_s: float | None = Field(
        default=None, gt=0, description="Fixed rate (requests per second) at which a service's latencies are measured."
    )
    cold: bool = Field(
        default=False, description="Drop the interpreter's files from the page cache before each process."
    )
    metric: Metric = Field(description="How its figure is shown.")
    profile_metric: Metric | None = Field(
        default=None, description="How its number of system calls is shown; without it the benchmark is not profiled."
    )

    @property
    def computes_in_threads(self) -> bool:
        """Return whether it has several threads that each need a CPU, and may use several CPUs."""
        scaling = self.scaling
        return scaling is not None and scaling.workers > 1 and not scaling.wait and self.parallel == 1


def expand_workers(data: Any) -> Any:
    """Return a workload's data with a copy of each benchmark for each number in its `workers`.

    `{workers}` in any text of the benchmark becomes the number. A limit that names the benchmark as in the file is the
    limit of all copies. Anything that is not a workload's data is returned unchanged, for the schema to refuse.

    Raises ValueError for a list or a name that cannot be expanded.
    """
    if not isinstance(data, dict) or not isinstance(data.get("benchmarks"), list):
        return data
    copies = [(benchmark, _copies(benchmark)) for benchmark in data["benchmarks"]]
    expanded = {**data, "benchmarks": [copy for _, by_workers in copies for copy in by_workers]}
    if isinstance(data.get("limits"), list):
        names: dict[str, list[str]] = {}
        for benchmark, by_workers in copies:
            if len(by_workers) != 1 or by_workers[0] is not benchmark:
                names.setdefault(benchmark["name"], []).extend(copy["name"] for copy in by_workers)
        expanded["limits"] = [_limit(limit, names) for limit in data["limits"]]
    return expanded


def _limit(limit: Any, copies: dict[str, list[str]]) -> Any:
    if not isinstance(limit, dict) or not isinstance(limit.get("benchmarks"), list):
        return limit
    named = (copies.get(name, [name]) if isinstance(name, str) else [name] for name in limit["benchmarks"])
    return {**limit, "benchmarks": [name for copied in named for name in copied]}


def _copies(benchmark: Any) -> list[Any]:
    if not isinstance(benchmark, dict) or not benchmark.keys() & OF_WORKERS:
        return [benchmark]
    name, workers = benchmark.get("name"), benchmark.get("workers")
    if workers is None:
        raise ValueError(f"benchmark '{name}' has workers_wait, which belongs to workers = [...]")
    if "scaling" in benchmark:
        raise ValueError(f"benchmark '{name}' has both workers and scaling: either of them says where it is in a curve")
    if not isinstance(name, str) or WORKERS not in name:
        raise ValueError(f"benchmark '{name}' has workers, but no {WORKERS} in its name to tell its copies apart")
    counts = workers if isinstance(workers, list) else []
    if not counts or not all(type(count) is int and count > 0 for count in counts) or len(set(counts)) < len(counts):
        raise ValueError(f"benchmark '{name}' has workers = {workers!r}: expected different numbers from 1 on")
    group = name.replace(WORKERS, "").strip("-")
    wait = benchmark.get("workers_wait", False)
    if not isinstance(wait, bool):
        raise ValueError(f"benchmark '{name}' has workers_wait = {wait!r}: expected true or false")
    rest = {key: value for key, value in benchmark.items() if key not in OF_WORKERS}
    return [
        {**_filled(rest, str(count)), "scaling": {"name": group, "workers": count, "wait": wait}} for count in counts
    ]


def _filled(value: Any, count: str) -> Any:
    if isinstance(value, str):
        return value.replace(WORKERS, count)
    if isinstance(value, list):
        return [_filled(item, count) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, count) for key, item in value.items()}
    return value


Kind = Literal["program", "command", "service", "pyperf", "pytest-benchmark"]
ADAPTED = ("pyperf", "pytest-benchmark")
# Keys of a benchmark that say how Interlock's own programs are run and profiled; for others the workload says it.
OF_PROGRAMS = (
    "arguments",
    "program",
    "set_up",
    "requirements",
    "requires_python",
    "needs_gil",
    "profile_metric",
    "why",
    "details",
)


class Repetition(Data):
    """How much one process of a workload measures, and how many rounds at most."""

    warmups: int = Field(ge=0, description="Timings of a process that do not count.")
    values: int = Field(ge=1, description="Timings of a process that count.")
    rounds_limit: int | None = Field(
        default=None, ge=1, description="Rounds at most, where the experiment's limit would take too long."
    )


class Limit(Data):
    """What the machine can do without an interpreter: a command whose one run does some units of work."""

    name: Name = Field(description="Name of the limit in reports.")
    command: list[str] = Field(min_length=1, description="Command line, run in the image of the limits.")
    benchmarks: list[str] = Field(min_length=1, description="Benchmarks that it is the limit of.")
    unit_count: int = Field(ge=1, description="Units of work that one run of the command does.")


class WorkloadServer(Data):
    """The server that a workload's cells can reach, on a network of its own."""

    environment: dict[str, str] = Field(default={}, description="Environment variables of the server's container.")


class WorkloadFile(Data):
    """One file workloads/NAME.toml; its JSON Schema is workloads/workload.schema.json."""

    summary: str = Field(description="What is measured, in one line.")
    core: bool = Field(default=False, description="Whether it is in the core set, which `matrix` uses by default.")
    kind: Kind = Field(
        default="program",
        description="program: speaks Interlock's protocol (docs/workloads.md); command: whole command lines; service: "
        "a server under load; pyperf and pytest-benchmark: programs that speak these tools' protocols.",
    )
    program: PathBelow | None = Field(default=None, description="Program below workloads/ that benchmarks run.")
    arguments: list[str] = Field(
        default=[], description="Arguments of a program of kind pyperf or pytest-benchmark, before a benchmark's own."
    )
    requirements: list[RequirementLine] = Field(
        default=[], description="Packages (PEP 508 lines) to install for each variant before anything is measured."
    )
    requires_python: PythonVersions = Field(
        default="", description="Versions of Python (>=3.8) that can run it; on others it is unsupported."
    )
    unit: str = Field(description="Unit of work, in the singular: lock, start, MiB.")
    deadline_s: float = Field(gt=0, description="Seconds for a run; after it the cell's container is killed.")
    quick: Repetition = Field(description="Timings and rounds with --quick.")
    full: Repetition = Field(description="Timings and rounds without --quick.")
    margin: float = Field(
        default=0.05, gt=0, lt=1, description="Two that differ by less than this share are the same (default: 0.05)."
    )
    server: WorkloadServer | None = Field(
        default=None, description="Start the server for this workload; an empty table is enough."
    )
    load: Load | None = Field(default=None, description="Load on the services of kind 'service'.")
    rights: list[Right] = Field(
        default=[],
        description="Additional rights of its cells: root (the owner of the image's files, without any capability), "
        "writable-root (files of the image can be changed), disk ({disk}, without a limit in total). Reports show it.",
    )
    metric: Metric | None = Field(
        default=None, description="How to show figures of an adapted program's benchmarks that no table names."
    )
    details: list[Detail] = Field(default=[], description="Second figures of every benchmark, before its own.")
    benchmarks: list[Benchmark] = Field(default=[], description="The measured programs or commands.")
    limits: list[Limit] = Field(default=[], description="What the machine can do without an interpreter.")

    @model_validator(mode="before")
    @classmethod
    def _a_list_of_workers_is_a_benchmark_for_each(cls, data: Any) -> Any:
        return expand_workers(data)

    @model_validator(mode="after")
    def _each_benchmark_has_a_name_and_something_to_run(self) -> WorkloadFile:
        if twice := first_twice(benchmark.name for benchmark in self.benchmarks):
            raise ValueError(f"two benchmarks have the name '{twice}'")
        for benchmark in self.benchmarks:
            if self.is_adapted and self.program is None:
                raise ValueError(f"kind '{self.kind}' needs a program")
            if (benchmark.command is None) == (self.program_of(benchmark) is None):
                raise ValueError(
                    f"benchmark '{benchmark.name}' needs either its own command or the workload's program, not both"
                )
            if benchmark.expected and benchmark.command is None and self.kind != "service":
                raise ValueError(
                    f"benchmark '{benchmark.name}' has 'expected', which needs a command or kind 'service'"
                )
            if benchmark.clock == "cpu" and benchmark.threads != "one":
                raise ValueError(f"benchmark '{benchmark.name}' has clock = 'cpu', which needs threads = 'one'")
            if benchmark.parallel > 1 and benchmark.command is None:
                raise ValueError(f"benchmark '{benchmark.name}' has 'parallel', which needs a command of its own")
        return self

    @model_validator(mode="after")
    def _its_kind_has_what_it_needs(self) -> WorkloadFile:
        if self.is_adapted and bool(self.benchmarks) == bool(self.metric):
            raise ValueError(f"kind '{self.kind}' needs either benchmarks or, to find them out, a metric for all")
        for benchmark in self.benchmarks if self.is_adapted else []:
            own = [key for key in OF_PROGRAMS if getattr(benchmark, key)]
            if own:
                raise ValueError(f"'{own[0]}' does not go with kind '{self.kind}', as '{benchmark.name}' is")
        if not self.is_adapted and not self.benchmarks:
            raise ValueError("it has no benchmark")
        if not self.is_adapted and (self.arguments or self.metric):
            raise ValueError(f"'arguments' and 'metric' of a workload are for kinds {' and '.join(ADAPTED)}")
        if self.kind == "command" and any(benchmark.command is None for benchmark in self.benchmarks):
            raise ValueError("of kind 'command' every benchmark has a command, a whole command line")
        return self

    @model_validator(mode="after")
    def _a_service_has_its_load(self) -> WorkloadFile:
        is_service = self.kind == "service"
        if is_service != (self.load is not None):
            raise ValueError("kind 'service' needs a [load], and no other kind may have one")
        for benchmark in self.benchmarks:
            if is_service != (benchmark.rate_per_s is not None):
                raise ValueError(
                    f"benchmark '{benchmark.name}': a service needs rate_per_s, and no other kind may have it"
                )
            if is_service and (benchmark.command is not None or not benchmark.expected):
                raise ValueError(
                    f"benchmark '{benchmark.name}' of a service needs a program, and 'expected' texts of its answer"
                )
        if is_service and (self.quick.warmups or self.full.warmups):
            raise ValueError("a service is warmed up by [load] warm_up_requests: 'warmups' must be 0")
        return self

    @model_validator(mode="after")
    def _details_are_told_apart(self) -> WorkloadFile:
        for benchmark in self.benchmarks:
            if twice := first_twice(detail.label for detail in self.details_of(benchmark)):
                raise ValueError(f"benchmark '{benchmark.name}' has two details with the label '{twice}'")
        return self

    @model_validator(mode="after")
    def _limits_are_of_benchmarks(self) -> WorkloadFile:
        if twice := first_twice(limit.name for limit in self.limits):
            raise ValueError(f"two limits have the name '{twice}'")
        names = [benchmark.name for benchmark in self.benchmarks]
        for limit in self.limits:
            for name in limit.benchmarks:
                if name not in names:
                    raise ValueError(
                        f"limit '{limit.name}' names the benchmark '{name}'; the benchmarks are {', '.join(names)}"
                    )
        return self

    @model_validator(mode="after")
    def _a_curve_is_of_one_metric(self) -> WorkloadFile:
        for name, group in self.curves.items():
            if twice := first_twice(workers for workers, _ in group):
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
    def is_adapted(self) -> bool:
        """Return whether its program is a user's own, which speaks another tool's protocol."""
        return self.kind in ADAPTED

    def program_of(self, benchmark: Benchmark) -> str | None:
        return benchmark.program or self.program

    def deadline_of(self, benchmark: Benchmark) -> float:
        return benchmark.deadline_s or self.deadline_s

    def python_versions_of(self, benchmark: Benchmark) -> str:
        return ",".join(versions for versions in (self.requires_python, benchmark.requires_python) if versions)

    def requirements_of(self, benchmark: Benchmark) -> list[str]:
        return list(dict.fromkeys([*self.requirements, *benchmark.requirements]))

    @property
    def curves(self) -> dict[str, list[tuple[int, Benchmark]]]:
        """Return each curve's benchmarks by its name, as pairs of number of workers and benchmark, fewest first."""
        by_name: dict[str, list[tuple[int, Benchmark]]] = {}
        for benchmark in self.benchmarks:
            if benchmark.scaling:
                by_name.setdefault(benchmark.scaling.name, []).append((benchmark.scaling.workers, benchmark))
        return {name: sorted(group, key=itemgetter(0)) for name, group in by_name.items()}

    def details_of(self, benchmark: Benchmark) -> list[Detail]:
        return [*self.details, *benchmark.details]

    def limits_of(self, benchmark: str) -> list[Limit]:
        return [limit for limit in self.limits if benchmark in limit.benchmarks]


class Workload(WorkloadFile):
    """A workload with its name, which is its file's."""

    name: Name
    user: UserWork | None = None  # of a trial, whose workload has no file

    @property
    def of_user(self) -> UserWork:
        """Return what it times in a user's own image; nothing for a workload that has a file."""
        return self.user or UserWork()

    @property
    def file(self) -> str:
        """Return the file that declares it, for errors."""
        return f"workloads/{self.name}.toml"

    def for_experiment(self, quick: bool, chosen: Mapping[str, Collection[str]] | None = None) -> Workload:
        """Return what an experiment measures: the benchmarks `chosen` for it, by workload, else all; and their limits.

        With `quick` it leaves out what is full_only, unless it was chosen.
        """
        wanted = (chosen or {}).get(self.name)
        if wanted:
            named = [benchmark for benchmark in self.benchmarks if benchmark.name in wanted]
            kept = [benchmark.model_copy(update={"full_only": False}) for benchmark in named]
        else:
            kept = [benchmark for benchmark in self.benchmarks if not (quick and benchmark.full_only)]
        names = {benchmark.name for benchmark in kept}
        of = {limit.name: [name for name in limit.benchmarks if name in names] for limit in self.limits}
        limits = [limit.model_copy(update={"benchmarks": of[limit.name]}) for limit in self.limits if of[limit.name]]
        return self.model_copy(update={"benchmarks": kept, "limits": limits})
