"""What workloads/ says: programs and commands, and how their figures are shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from interlock.model.common import Data, FileName, Name


class Repetition(Data):
    """How much one process of a workload measures, and how many processes at most."""

    warmups: Annotated[int, Field(ge=0)]
    values: Annotated[int, Field(ge=1)]
    rounds_limit: Annotated[int, Field(ge=1)] | None = None  # where the experiment's would take too long


class Metric(Data):
    """How a figure is shown: seconds (or calls) per unit of work times scale, or scale divided by it."""

    label: str
    scale: Annotated[float, Field(gt=0)]
    inverse: bool = False

    def shown(self, per_unit: float) -> float:
        return self.scale / per_unit if self.inverse else self.scale * per_unit


class Benchmark(Data):
    """One measured program or command of a workload."""

    name: str
    arguments: list[str] = []
    command: list[str] | None = None
    cpus: Literal["all", "one"] = "all"
    ranks: bool = True  # whether it counts where a workload is given a weight; else only where it is named
    profile_arguments: list[str] = []  # what the profiled process gets besides: tracing is slow
    profile_loops: Annotated[int, Field(ge=1)] = 1
    metric: Metric
    profile_metric: Metric | None = None  # without one the benchmark is not profiled


class Server(Data):
    """A workload that has one gets the server image on a network of its own."""

    environment: dict[str, str] = {}


class WorkloadFile(Data):
    """One file workloads/<name>.toml."""

    summary: str
    program: FileName | None = None
    unit: str
    deadline_s: Annotated[float, Field(gt=0)]
    quick: Repetition
    full: Repetition
    server: Server | None = None
    benchmarks: Annotated[list[Benchmark], Field(min_length=1)]

    @model_validator(mode="after")
    def _each_benchmark_has_a_name_and_something_to_run(self) -> WorkloadFile:
        names = [benchmark.name for benchmark in self.benchmarks]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two benchmarks have the name '{name}'")
        for benchmark in self.benchmarks:
            if (benchmark.command is None) == (self.program is None):
                raise ValueError(
                    f"benchmark '{benchmark.name}' needs either its own command or the workload's program, not both"
                )
        return self


class Workload(WorkloadFile):
    """A workload with its name, which is its file's."""

    name: Name
