"""The data of Interlock: variants, workloads, and what an experiment records. Frozen; unknown keys are refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
# A variant, or variant+mode.
Label = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9.-]*(\+[a-z0-9][a-z0-9.-]*)?$")]
PublicationDate = Annotated[str, StringConstraints(pattern=r"^[0-9]{4}(-[0-9]{2}){0,2}$")]

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


class Surroundings(Data):
    """What a cell's container gives to its processes; the defaults are what production runs."""

    seccomp: Literal["default", "unconfined"] = "default"
    interpreter: Literal["image", "tmpfs"] = "image"  # what /usr/local is on
    scratch: Literal["tmpfs", "image"] = "tmpfs"  # what /scratch is on


PRODUCTION = Surroundings()


class Condition(Surroundings):
    """Surroundings that the baseline is measured in once more, so that what containers cost has a figure."""

    name: Name
    summary: str


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

    @model_validator(mode="after")
    def _each_mode_has_a_name_of_its_own(self) -> VariantFile:
        names = [mode.name for mode in self.modes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two modes have the name '{name}'")
        return self


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
    def labels(self) -> list[str]:
        """The variant, and it in each of its modes, as orders name them."""
        return [self.name, *(label_of(self.name, mode.name) for mode in self.modes)]

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


class Publication(Data):
    """Where a claim was published."""

    author: str
    title: str
    date: PublicationDate
    url: str | None = None


class ClaimMetric(StrEnum):
    """What a claim is about. Times and shares are ratios; calls are counts, or ratios of two counts."""

    TIME = "time"  # seconds per unit of work
    USER = "user"  # CPU seconds of the whole process, per unit of work
    SYS = "sys"
    SYS_SHARE = "sys-share"  # the kernel's share of the CPU seconds
    FUTEX = "futex"  # calls per unit of work
    SYSCALLS = "syscalls"

    @property
    def counted(self) -> bool:
        return self in {ClaimMetric.FUTEX, ClaimMetric.SYSCALLS}


class Bound(StrEnum):
    """How far the published figure reaches: up to its tolerance on both sides, or without end on one."""

    EXACT = "exact"
    AT_LEAST = "at-least"
    AT_MOST = "at-most"


class Needs(Data):
    """What the host must have, and why the claim cannot be tested without it."""

    min_cores: Annotated[int, Field(ge=1)] = 1
    system: str | None = None  # a part of the operating system's name
    reason: Annotated[str, Field(min_length=1)]


class Claim(Data):
    """A published figure, and which of an experiment's figures it is compared with."""

    name: Name
    statement: Annotated[str, Field(min_length=1)]
    source: Publication
    workload: Name
    benchmark: str
    metric: ClaimMetric
    syscalls: list[str] = []
    variant: Label
    against: Label | None = None  # none of a count
    against_benchmark: str | None = None  # the claim's own without it
    scale: Annotated[float, Field(gt=0)] = 1.0  # units of work that a count was published for
    published: Annotated[float, Field(ge=0)]
    tolerance: Annotated[float, Field(ge=0)]  # a share of the published figure
    bound: Bound = Bound.EXACT
    needs: Needs | None = None
    required: bool = False
    note: str = ""

    @model_validator(mode="after")
    def _says_what_is_compared(self) -> Claim:
        if self.against is None and (not self.metric.counted or self.against_benchmark is not None):
            raise ValueError("a ratio needs 'against': the variant that it is a ratio to")
        if self.against is not None and self.published == 0:
            raise ValueError("a ratio of 0 cannot be measured")
        if self.against == self.variant and self.against_benchmark in {None, self.benchmark}:
            raise ValueError("'variant' and 'against' are the same: name another 'against' or 'against_benchmark'")
        if (self.metric is ClaimMetric.SYSCALLS) != bool(self.syscalls):
            raise ValueError("'syscalls' names the calls that the metric 'syscalls' counts, and no other metric has it")
        return self


class ClaimsFile(Data):
    """A file of claims, by name, and of the publications that they name as their sources."""

    sources: dict[Name, Publication] = {}
    claims: Annotated[dict[Name, Claim], Field(min_length=1)]

    @model_validator(mode="before")
    @classmethod
    def _join(cls, data: dict[str, Any]) -> dict[str, Any]:
        sources, claims = data.get("sources", {}), data.get("claims")
        if not isinstance(sources, dict) or not isinstance(claims, dict):
            return data
        return {**data, "claims": {name: cls._joined(name, claim, sources) for name, claim in claims.items()}}

    @staticmethod
    def _joined(name: str, claim: Any, sources: dict[str, Any]) -> Any:
        if not isinstance(claim, dict):
            return claim
        source = claim.get("source")
        if not isinstance(source, str):
            return {**claim, "name": name}
        if source not in sources:
            raise ValueError(f"claim '{name}' has the source '{source}', which is not among [sources]")
        return {**claim, "name": name, "source": sources[source]}


class Catalog(Data):
    """Everything that variants/ and workloads/ say."""

    bases: dict[str, Base]
    profiles: dict[str, Profile]
    variants: dict[str, Variant]
    workloads: dict[str, Workload]
    conditions: dict[str, Condition]


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
    instructions: int | None = None  # in user mode; only if they were asked for
    exit_code: int
    signal: int


class Method(StrEnum):
    """How system calls were counted, the best one first."""

    BPF = "bpf"
    TRACEPOINTS = "tracepoints"
    STRACE_FUTEX = "strace-futex"  # stops a process at its futex calls alone, by seccomp-bpf
    STRACE = "strace"

    @property
    def perturbs(self) -> bool:
        """Whether it changes how often threads wait for each other."""
        return self in {Method.STRACE_FUTEX, Method.STRACE}


class Probe(Data):
    """The method that an engine's machine allows, why each better one is not, and why instructions are not counted."""

    method: Method
    refused: dict[Method, str] = {}
    no_instructions: str = ""


class CallCounts(Data):
    """One system call: calls, errors by errno's name; wall time in it (waiting included) where it was taken."""

    calls: int
    errors: dict[str, int] = {}
    ns: int | None = None
    max_ns: int | None = None


class FutexCounts(Data):
    """One futex operation; a wake that woke nobody was for nothing."""

    calls: int
    ns: int
    max_ns: int
    errors: int
    woke_nobody: int


class LockWaits(Data):
    """How often and how long threads waited at one address of one process."""

    process: int
    address: str
    waits: int
    ns: int


class TaskCounts(Data):
    """The kernel's own account of the threads that ended in a phase, over all their life."""

    ended: int
    voluntary_switches: int
    involuntary_switches: int
    run_queue_wait_ns: int


class PhaseCounts(Data):
    """The system calls of a part of a process's life; `total` was counted apart from them."""

    total: int
    syscalls: dict[str, CallCounts]
    ns: int | None = None
    futex: dict[str, FutexCounts] = {}
    futex_wait_log2_ns: dict[int, int] = {}  # n: waits of 2^n to 2^(n+1) ns
    locks_waited_for: int = 0
    locks: list[LockWaits] = []  # the ten with the longest wait in all
    tasks: TaskCounts | None = None


class Instructions(Data):
    """Instructions in user mode per unit of work: the median of some runs, and half their range as a share of it."""

    per_unit: float
    spread: float
    runs: int


class BenchmarkProfile(Data):
    """The system calls of one benchmark by phase. Those of the units of work: `counted`, without `deducted`."""

    method: Method
    perturbed: bool
    units: Annotated[int, Field(ge=1)]
    phases: dict[str, PhaseCounts]
    counted: str
    deducted: str | None = None
    instructions: Instructions | None = None
    no_instructions: str = ""

    def calls_per_unit(self, names: Sequence[str]) -> float:
        """Calls of these names per unit of work.

        A contended program may make fewer calls in all than its set-up alone did: that is 0, not less.
        """
        calls = self._calls(self.counted, names) - (self._calls(self.deducted, names) if self.deducted else 0)
        return max(0, calls) / self.units

    def _calls(self, phase: str, names: Sequence[str]) -> int:
        syscalls = self.phases[phase].syscalls
        return sum(syscalls[name].calls for name in names if name in syscalls)

    @property
    def futex_per_unit(self) -> float:
        return self.calls_per_unit(["futex"])


class CellProfile(Data):
    """A file <workload>.profile.json."""

    schema_version: Literal[2] = 2
    benchmarks: dict[str, BenchmarkProfile]


def label_of(variant: str, mode: str | None) -> str:
    """A variant in a mode, as it is named in results, reports and orders."""
    return variant if mode is None else f"{variant}+{mode}"


def split_label(label: str) -> tuple[str, str | None]:
    """The variant and the mode that `label_of` joined."""
    variant, joined, mode = label.partition("+")
    return variant, mode if joined else None


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
    order: dict[str, list[list[str]]]
    probe: Probe | None = None
    warnings: list[str] = []
    measuring_s: float = 0.0  # wall time of all rounds, and what of it the measured processes took
    in_processes_s: float = 0.0


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
    max_rss_bytes: int
    gil_after: Gil | None = None
