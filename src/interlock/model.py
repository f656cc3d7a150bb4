"""The data of Interlock: variants, workloads, and what an experiment records. Frozen; unknown keys are refused."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Place = Annotated[str, StringConstraints(pattern=r"^(https?://|pool/)[A-Za-z0-9._/~+%:@-]+$")]
PinnedReference = Annotated[str, StringConstraints(pattern=r"^[a-z0-9./:_-]+@sha256:[0-9a-f]{64}$")]
Seconds = Annotated[float, Field(ge=0)]
Version = Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+([abc]|rc)?[0-9]*$")]
# Goes between double quotes in a shell script: only $PREFIX is expanded there.
ShellWord = Annotated[str, StringConstraints(pattern=r'^([^"`\\$\n]|\$PREFIX([^A-Za-z0-9_"`\\$\n]|$))*$')]
PackageName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.+-]*$")]
EnvironmentName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]

# Inside a cell's container: the instruments and workloads (read-only), and a tmpfs for what workloads write.
MOUNT = "/interlock"
SCRATCH = "/scratch"

TWIN = "twin"
DEFAULT_BASELINE = "cpython-3.13"


class Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Base(Data):
    """A parent image: what a generated FROM names, and how to make its equal where no registry answers."""

    reference: PinnedReference
    suite: Name
    build_packages: list[PackageName]
    runtime_packages: list[PackageName]


class Profile(Data):
    """An optimisation profile: the OPT of every variant's build."""

    name: Name
    summary: str
    optimise: ShellWord


class Source(Data):
    """A source archive: one SHA-256 and the places to try, in this order."""

    file: FileName
    sha256: Sha256
    places: Annotated[list[Place], Field(min_length=1)]
    patches: list[FileName] = []
    environment: dict[EnvironmentName, ShellWord] = {}
    configure: list[ShellWord] = []


class Library(Source):
    """A library that is built before the interpreter, into the same prefix."""

    name: Name
    parallel: bool = True


class ThreadFlavour(StrEnum):
    PTHREAD = "pthread"
    GNU_PTH = "gnu-pth"
    NONE = "none"
    FREE_THREADED = "free-threaded"


class Gil(StrEnum):
    ON = "on"
    OFF = "off"


class Proof(Data):
    """What the built image must show to be what its name says."""

    thread_flavour: ThreadFlavour
    gil: Gil
    thread_library: str | None = None

    @model_validator(mode="after")
    def _library_belongs_to_threads(self) -> Proof:
        if (self.thread_flavour is ThreadFlavour.NONE) != (self.thread_library is None):
            raise ValueError("thread_library is what `ldd` shows: needed unless thread_flavour is 'none'")
        return self


class ProfileFlags(Data):
    """What a profile adds to this variant's configure, and the work that profile-guided optimisation learns from."""

    configure: list[ShellWord] = []
    profile_task: ShellWord | None = None  # the version's own without it


class Mode(Data):
    """A way to run a variant without another build: what its interpreter is started with."""

    name: Name
    summary: Annotated[str, StringConstraints(pattern=r'^[^"\n$\\]+$')]
    environment: dict[EnvironmentName, str] = {}
    options: list[str] = []  # of the interpreter, before its arguments
    gil: Gil | None = None  # what the mode makes of the variant's


class VariantFile(Data):
    """One file variants/<name>.toml; its JSON Schema is variants/variant.schema.json."""

    summary: Annotated[str, StringConstraints(pattern=r'^[^"\n$\\]+$')]
    version: Version
    base: Name
    tag: Name
    control: Name | None = None
    proof: Proof
    libraries: list[Library] = []
    interpreter: Source
    release: ProfileFlags | None = None
    modes: list[Mode] = []


class Variant(VariantFile):
    """A variant with its name, which is its file's."""

    name: Name

    @property
    def major(self) -> str:
        return self.version.split(".", 1)[0]

    @property
    def parts(self) -> list[Source]:
        """Everything that is fetched and built, in order."""
        return [*self.libraries, self.interpreter]

    @property
    def profiles(self) -> list[str]:
        """The optimisation profiles that this variant has."""
        return ["standard"] if self.release is None else ["standard", "release"]

    def image_tag(self, profile: str) -> str:
        suffix = "" if profile == "standard" else f"-{profile}"
        return f"interlock/python:{self.tag}-{self.base}{suffix}"


class Repetition(Data):
    """How much one process of a workload measures."""

    warmups: Annotated[int, Field(ge=0)]
    values: Annotated[int, Field(ge=1)]


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


class Catalog(Data):
    """Everything that variants/ and workloads/ say."""

    bases: dict[str, Base]
    profiles: dict[str, Profile]
    variants: dict[str, Variant]
    workloads: dict[str, Workload]


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
    exit_code: int
    signal: int


class BenchmarkProfile(Data):
    """Syscalls of one benchmark: whole process, and futex calls per unit of work with set-up taken off."""

    method: str
    perturbed: bool
    units: int
    calls: dict[str, int]
    errors: dict[str, int]
    setup_calls: dict[str, int]
    futex_per_unit: float


class CellProfile(Data):
    """A file <workload>.profile.json."""

    schema_version: Literal[1] = 1
    benchmarks: dict[str, BenchmarkProfile]


def label_of(variant: str, mode: str | None) -> str:
    """A variant in a mode, as it is named in results, reports and orders."""
    return variant if mode is None else f"{variant}+{mode}"


class CellResult(Data):
    """A cell's outcome, and that of each of its benchmarks."""

    variant: str
    mode: str | None = None
    workload: str
    outcome: Outcome
    benchmarks: dict[str, Outcome] = {}
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
    variants: list[str]
    workloads: list[str]
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
    controls: dict[str, str]
    facts: dict[str, Facts]
    cells: list[CellResult]
    order: dict[str, list[list[str]]]
    warnings: list[str] = []


def slug(text: str) -> str:
    """Text as a part of a file or container name."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-.")


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
    """Who is measured: a variant's image, in a mode or as the baseline's twin."""

    variant: str
    image_id: str
    mode: str | None = None

    @property
    def label(self) -> str:
        return label_of(self.variant, self.mode)


class BenchmarkValues(Data):
    """Seconds per unit of work of one benchmark in one cell, a list for each process, in the order of the rounds."""

    processes: list[list[float]]
    user_s: list[float] = []  # CPU time of the whole process, start and exit included, one for each process
    sys_s: list[float] = []
    max_rss_bytes: int
    gil_after: Gil | None = None
