"""What builds and experiments record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from statistics import median
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from interlock.model.common import Data, EnvironmentName, Seconds, label_of
from interlock.model.profiles import BenchmarkProfile, Probe
from interlock.model.variants import PRODUCTION, Condition, Gil, Surroundings, ThreadFlavour
from interlock.model.workloads import Workload


class State(StrEnum):
    """How a cell, or one benchmark of it, ended."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"


class Outcome(Data):
    """A state and, unless it is ok, the reason in one sentence."""

    state: State
    reason: str = ""


class BaseImage(Data):
    """The parent image that was really used, and where it came from."""

    reference: str
    origin: Literal["registry", "debootstrap"]
    image_id: str
    size_bytes: int | None = None  # none where it was recorded before this was


class Built(Data):
    """What `build` says of one variant."""

    variant: str
    profile: str
    outcome: Outcome
    tag: str = ""
    image_id: str = ""
    digest: str | None = None
    content_hash: str = ""
    size_bytes: int = 0
    base: BaseImage | None = None
    duration_s: float = 0.0
    reused: bool = False
    pulled_from: str | None = None  # the registry that this run took it from instead of building it

    @property
    def reference(self) -> str:
        """What a FROM line names: as a registry has it, pinned to its digest; without one the tag in this engine.

        The tag beside a digest is for people: engines go by the digest.
        """
        if self.digest is None:
            return self.tag
        repository, _, digest = self.digest.partition("@")
        return f"{repository}:{self.tag.rpartition(':')[2]}@{digest}"


def bases_line(images: Iterable[Built]) -> str:
    """Where the base of these images came from."""
    origins = sorted({image.base.origin for image in images if image.base})
    return f"base image from {' and '.join(origins) or 'nowhere'}"


class BuildRecord(Data):
    """builds.json: what building the variants came to, with what a reader needs besides the figures."""

    schema_version: Literal[1] = 1
    name: str
    tool_version: str
    command: str
    started: str
    duration_s: float
    profile: str
    side_by_side: int  # builds at the same time, at most
    host: dict[str, Any]
    builds: list[Built]


class Facts(Data):
    """What an interpreter said of itself in the built image (inside/facts.py)."""

    version: str
    implementation: str
    thread_flavour: ThreadFlavour
    gil: Gil
    loaded_libraries: list[str]
    thread_error: str | None
    optimisation: str


class ProcessCost(Data):
    """What the launcher read of one process: times in seconds, memory in bytes."""

    wall_s: float
    user_s: float
    sys_s: float
    max_rss_bytes: int
    voluntary_switches: int
    involuntary_switches: int
    instructions: int | None = None  # in user mode; only if they were asked for
    resident_share: float | None = None  # of the interpreter's pages, after they were put out of the page cache
    exit_code: int
    signal: int


class CellResult(Data):
    """A cell's outcome, and that of each of its benchmarks."""

    variant: str
    mode: str | None = None
    workload: str
    outcome: Outcome
    benchmarks: dict[str, Outcome] = {}
    packages: dict[str, dict[str, str]] = {}  # by benchmark what was installed for it, and the versions
    profile: Outcome | None = None
    notes: list[str] = []  # what a reader must know beside the figures

    @property
    def label(self) -> str:
        return label_of(self.variant, self.mode)


class Settings(Data):
    """How an experiment was asked for."""

    quick: bool
    rounds: int  # at least; exactly without a limit
    rounds_limit: int | None = None
    half_width: float | None = None  # rounds go on until each ratio's interval is this narrow, as a share
    seed: int
    baseline: str
    profile: str
    variants: list[str]  # or variant+mode
    workloads: list[str]
    conditions: list[str] = []  # that the baseline is measured under besides
    profiled: bool


class Experiment(Data):
    """experiment.json: all that a reader needs besides the values."""

    schema_version: Literal[1] = 1
    name: str
    tool_version: str
    command: str
    started: str
    duration_s: float
    settings: Settings
    host: dict[str, Any]
    images: list[Built]
    workloads: dict[str, Workload]
    conditions: dict[str, Condition] = {}
    controls: dict[str, str]
    facts: dict[str, Facts]  # by variant or variant+mode
    cells: list[CellResult]
    limits: list[CellResult] = []  # as cells, of no variant: label and mode are those of `limit+NAME`
    left_out: dict[str, list[str]] = {}  # by workload the benchmarks that --quick left out
    order: dict[str, list[list[str]]]
    probe: Probe | None = None
    warnings: list[str] = []
    measuring_s: float = 0.0  # wall time of all rounds, and what of it the measured processes took
    in_processes_s: float = 0.0


class ProgramOutput(Data):
    """The JSON object that a workload program prints last; times are raw seconds of loops x inner_loops units."""

    interlock: Literal[1]
    unsupported: str | None = None
    loops: Annotated[int, Field(ge=0)] = 0
    inner_loops: Annotated[int, Field(ge=1)] = 1
    calibration: list[tuple[Annotated[int, Field(ge=1)], Seconds]] = []
    warmups: list[Seconds] = []
    values: list[Seconds] = []
    metadata: dict[str, int | float | str | bool] = {}

    @model_validator(mode="after")
    def _work_takes_time(self) -> ProgramOutput:
        """Without loops (a traced set-up) nothing is timed; with loops a value of 0 s is a broken clock."""
        if self.unsupported is None and self.loops > 0:
            if not self.calibration and not self.values:
                raise ValueError("neither values nor a calibration")
            if any(value == 0 for value in self.values):
                raise ValueError("a value of 0 s")
        return self


class Subject(Data):
    """Who is measured: a variant's image, in a mode, under a condition or as the baseline's twin."""

    variant: str
    image_id: str
    mode: str | None = None  # or the condition's name
    environment: dict[EnvironmentName, str] = {}
    options: list[str] = []  # of the interpreter, before its arguments
    gil: Gil | None = None  # what the interpreter must say of itself in this mode
    surroundings: Surroundings = PRODUCTION

    @property
    def label(self) -> str:
        return label_of(self.variant, self.mode)


class BenchmarkValues(Data):
    """Seconds per unit of work of one benchmark in one cell, a list for each process, in the order of the rounds."""

    processes: list[list[float]]
    user_s: list[float] = []  # CPU time of the whole process, start and exit included, one for each process
    sys_s: list[float] = []
    units: list[int] = []  # of work within one value, one for each process
    reported: dict[str, list[float]] = {}  # what details are of, by key, one for each process; none that lacks in any
    max_rss_bytes: int
    gil_after: Gil | None = None

    @property
    def medians(self) -> list[float]:
        """One figure for each process: values within a process are not independent of each other."""
        return [median(process) for process in self.processes]


# What an experiment's files hold, by variant[+mode] and workload, and then by benchmark.
CellKey = tuple[str, str]
Values = Mapping[CellKey, Mapping[str, BenchmarkValues]]
Profiles = Mapping[CellKey, Mapping[str, BenchmarkProfile]]
