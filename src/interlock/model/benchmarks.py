"""One benchmark of a workload: how it is run, and how its figures are shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from interlock.model.common import Data, PathBelow, PythonVersions, RequirementLine
from interlock.model.profiles import BenchmarkProfile

# What a detail is of: a key of what a program reports, or of what the launcher read of the whole process.
DetailKey = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
OF_PROCESS = "process_"


class Metric(Data):
    """How a figure is shown: seconds (or calls) per unit of work times scale, or scale divided by it."""

    label: str
    scale: Annotated[float, Field(gt=0)]
    inverse: bool = False

    def shown(self, per_unit: float) -> float:
        return self.scale / per_unit if self.inverse else self.scale * per_unit

    @property
    def per(self) -> str:
        """What it is divided by, in the label's words: 'per 1M imports' of 'futex per 1M imports'."""
        _, divided, unit = self.label.rpartition(" per ")
        return f"per {unit}" if divided else self.label


class Detail(Data):
    """A figure beside the metric: what a process reports, divided by its units of work or values, times scale."""

    label: str
    of: DetailKey
    per: Literal["unit", "value", "process"] = "process"
    scale: Annotated[float, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _a_whole_process_is_not_divided(self) -> Detail:
        if self.of.startswith(OF_PROCESS) and self.per != "process":
            raise ValueError(
                f"'{self.of}' is of a whole process, start and warm-ups included: it is shown per process, "
                f"not per {self.per}"
            )
        return self

    def shown(self, reported: float, values: int, units: int) -> float:
        """Of one process that reported this figure for so many values of so many units of work each."""
        return self.scale * reported / {"unit": values * units, "value": values, "process": 1}[self.per]


class Scaling(Data):
    """A benchmark's place in a curve: the same work with another number of workers."""

    name: str
    workers: Annotated[int, Field(ge=1)]
    wait: bool = False  # the workers need no CPU of their own: more of them than CPUs is no lack of CPUs


class Benchmark(Data):
    """One measured program or command of a workload."""

    name: str
    arguments: list[str] = []
    command: list[str] | None = None  # arguments of the interpreter; of kind command, a whole command line
    program: PathBelow | None = None  # in the place of the workload's
    set_up: list[str] = []  # arguments of the interpreter, run once in each container before, not measured
    expected: list[str] = []  # what the output of a command, or the answer of a service, must have
    asked_by: list[str] = []  # arguments that ask a user's program for it, found out before the rounds
    requirements: list[RequirementLine] = []  # besides the workload's
    requires_python: PythonVersions = ""  # besides the workload's
    needs_gil: str = ""  # why it cannot be had where the GIL is off
    cpus: Literal["all", "one"] = "all"
    deadline_s: Annotated[float, Field(gt=0)] | None = None  # in the place of the workload's
    ranks: bool = True  # whether it counts in summaries and where a workload is given a weight; else only where named
    full_only: bool = False  # left out with --quick
    details: list[Detail] = []
    scaling: Scaling | None = None  # the loader makes it of `workers`
    profile_arguments: list[str] = []  # what the profiled process gets besides: tracing is slow
    profile_loops: Annotated[int, Field(ge=1)] = 1
    profile_syscalls: list[str] | Literal["all"] = ["futex"]  # whose calls profile_metric shows
    parallel: Annotated[int, Field(ge=1)] = 1  # so many processes of a command start at once; each is a unit of work
    rate_per_s: Annotated[float, Field(gt=0)] | None = None  # of a service: what its latencies are measured at
    cold: bool = False  # before each process the page cache is rid of the interpreter's files
    metric: Metric
    profile_metric: Metric | None = None  # without one the benchmark is not profiled

    def calls_shown(self, profile: BenchmarkProfile | None) -> float | None:
        """What profile_metric shows of a profile; None without one, and of a probe that did not count these calls."""
        if self.profile_metric is None or profile is None or not profile.knows(self.profile_syscalls):
            return None
        return self.profile_metric.shown(profile.calls_per_unit(self.profile_syscalls))
