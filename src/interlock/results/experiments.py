"""What builds and experiments record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum, StrEnum
from functools import partial
from statistics import fmean, geometric_mean, quantiles
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, TypeAdapter, ValidationError, model_validator

from interlock.catalog.types import (
    LEAST_VALUE_S,
    LIMIT,
    MOST_SECONDS,
    Count,
    Data,
    EnvironmentName,
    FileName,
    Finite,
    Seconds,
    Sha256,
    Version,
    first_refusal,
    label_of,
)
from interlock.catalog.variants import Gil, Mode, ThreadFlavour
from interlock.catalog.workloads import Workload
from interlock.errors import BuildError, shortened
from interlock.results.commands import resuming
from interlock.results.engines import EngineName as EngineName  # noqa: PLC0414  others take it from here
from interlock.results.profiles import BenchmarkProfile, Probe
from interlock.results.settings import Settings
from interlock.results.trials import Trial

EXPERIMENT_FILE = "experiment.json"
# Part of a workload's warning that its rounds decide nothing.
TOO_DISTURBED = "too much to decide by"


class State(StrEnum):
    """How a cell, or one benchmark of it, ended."""

    OK = "ok"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    UNSUPPORTED = "unsupported"
    UNAVAILABLE = "unavailable"
    NOT_MEASURED = "not measured"


# Processes may print any amount; nobody reads more than this.
MOST_REASON = 1000


class Outcome(Data):
    """A state and, unless it is ok, the reason."""

    state: State
    reason: Annotated[str, AfterValidator(partial(shortened, longest=MOST_REASON))] = ""


class BaseImage(Data):
    """The parent image that was used, and where it came from."""

    reference: str
    origin: Literal["registry", "mmdebstrap"]
    image_id: str
    chain_id: str  # of its layers (OCI image specification); empty where it is not known
    size_bytes: int | None  # None where it is not known


class PassedOver(Data):
    """A newer version than what was built, and why that could not be had."""

    version: Version
    reason: str


class Built(Data):
    """The result of building, pulling or looking up one variant."""

    variant: str
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
    optimisations: list[str] | None = None  # in addition to -O: PGO, LTO; None where it is not known
    training: Literal["stored", "here"] | None = None  # where the profile of optimisation is from; None without
    version: str = ""  # the version it was built from; empty in records from before there were several
    passed_over: list[PassedOver] = []  # newer ones, the newest first

    @property
    def fallback_words(self) -> str:
        """Return which version was taken in place of the newest, and why; empty if it is the newest."""
        newer = " and ".join(version.version for version in self.passed_over)
        why = "; ".join(dict.fromkeys(version.reason for version in self.passed_over))
        return f"{self.version}, because {newer} can be had nowhere ({why})" if newer else ""

    @property
    def reference(self) -> str:
        """Return what a FROM line names: a registry's NAME:TAG@DIGEST, or this engine's tag if there is no digest.

        The tag beside a digest is for people; engines only use the digest.
        """
        if self.digest is None:
            return self.tag
        repository, _, digest = self.digest.partition("@")
        return f"{repository}:{self.tag.rpartition(':')[2]}@{digest}"


def fallback_lines(images: Iterable[Built]) -> list[str]:
    """Return a line for each version that was built in place of a newer one, with its variants and the reason."""
    variants: dict[str, list[str]] = {}
    for image in images:
        if image.fallback_words:
            variants.setdefault(image.fallback_words, []).append(image.variant)
    return [f"{', '.join(names)}: {words}" for words, names in variants.items()]


def require_built(variants: Iterable[Built]) -> list[Built]:
    """Return the variants that have an image; BuildError if none has."""
    known = list(variants)
    ready = [built for built in known if built.outcome.state is State.OK]
    if not ready:
        reasons = "; ".join(f"{built.variant}: {built.outcome.reason}" for built in known)
        raise BuildError(
            found=f"no variant could be built ({reasons})", todo="Correct the reasons, or name other variants."
        )
    return ready


def bases_line(images: Iterable[Built]) -> str:
    """Return where the base of these images came from, in words."""
    origins = sorted({image.base.origin for image in images if image.base})
    return f"base image from {' and '.join(origins) or 'nowhere'}"


class Recorded(Data):
    """What every record of a command begins with."""

    schema_version: Literal[3] = 3
    name: str
    tool_version: str
    command: str
    started: str
    duration_s: float


class BuildRecord(Recorded):
    """The file builds.json: results and times of building variants, with the machine and the command."""

    side_by_side: int  # the most builds at the same time
    host: dict[str, Any]
    builds: list[Built]


class Facts(Data):
    """What the interpreter in a built image reports."""

    version: str
    implementation: str
    thread_flavour: ThreadFlavour
    gil: Gil
    loaded_libraries: list[str]
    thread_error: str | None
    optimisation: str
    prefix: str  # sys.prefix; empty where it is not known
    mapped_files: list[str]  # the interpreter and its libraries; empty where they are not known


class ProcessCost(Data):
    """What the launcher read of one process: times in seconds, memory in bytes."""

    wall_s: Seconds
    user_s: Seconds
    sys_s: Seconds
    max_rss_bytes: Count
    voluntary_switches: Count
    involuntary_switches: Count
    resident_share: Finite | None = None  # of the interpreter's pages, what was still cached after they were dropped
    exit_code: Count
    signal: Count


class Times(Data):
    """What a cell or a workload took, in seconds, each for itself.

    Preparing is packages, containers, servers and set-ups; measuring is rounds with their calibration and warm-ups.
    """

    preparing_s: float = 0.0
    measuring_s: float = 0.0
    profiling_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.preparing_s + self.measuring_s + self.profiling_s

    def plus(self, other: Times) -> Times:
        """Return the sum of both times."""
        mine, theirs = self.model_dump(), other.model_dump()
        return Times(**{key: round(mine[key] + theirs[key], 3) for key in mine})


class CellResult(Data):
    """A cell's outcome, and that of each of its benchmarks."""

    variant: FileName  # names the folder, with the mode; the workload names the file
    mode: FileName | None = None
    workload: FileName
    outcome: Outcome
    benchmarks: dict[str, Outcome] = {}
    packages: dict[str, dict[str, str]] = {}  # by benchmark: installed versions by name
    profile: Outcome | None = None
    notes: list[str] = []  # what a reader must know beside the figures
    times: Times | None = None  # None of a cell that was not opened

    @property
    def label(self) -> str:
        return label_of(self.variant, self.mode)

    @property
    def is_limit(self) -> bool:
        return self.variant == LIMIT

    def outcome_of(self, benchmark: str) -> Outcome:
        return self.benchmarks.get(benchmark, self.outcome)


BUDGET_WORDS = "the budget of "  # what `ended_by` begins with if a budget ended the rounds


class RoundsEnd(Enum):
    """Why a table has as many rounds as it has, which decides what the last look at sameness may spend."""

    FIXED = "their number was fixed beforehand"
    REACHED = "a limit or a budget ended them, or nothing was left to decide"
    CUT = "whoever had seen them ended them, or they go on"


def rounds_end_of(*, looks: bool, ended_by: str) -> RoundsEnd:
    """Return why rounds ended: `looks` if their number was not fixed, `ended_by` as a record has it."""
    if not looks:
        return RoundsEnd.FIXED
    return RoundsEnd.REACHED if not ended_by or ended_by.startswith(BUDGET_WORDS) else RoundsEnd.CUT


class _EngineFacts(BaseModel):
    """What every reader of a record needs of its engine; there may be more."""

    name: EngineName
    version: str
    storage_driver: str


class _HostFacts(BaseModel):
    """What every reader of a record needs of its machine; there may be more."""

    folder: FileName
    cpu: str
    cores: Annotated[int, Field(ge=0, strict=True)]
    memory_bytes: Annotated[int, Field(ge=0, lt=2**63, strict=True)]
    kernel: str
    system: str
    engine: _EngineFacts


def _with_plain_folder(host: dict[str, Any]) -> dict[str, Any]:
    TypeAdapter(FileName).validate_python(host.get("folder"))
    return host


class Experiment(Recorded):
    """The file experiment.json: everything that a reader needs besides the values."""

    name: FileName  # its folder's
    settings: Settings
    host: Annotated[dict[str, Any], AfterValidator(_with_plain_folder)]
    images: list[Built]
    workloads: dict[str, Workload]
    programs: dict[str, dict[str, Sha256]] = {}  # by workload: the sums of what it runs, by path below workloads/
    modes: dict[str, Mode] = {}  # by label
    controls: dict[str, str]
    facts: dict[str, Facts]  # by variant or variant+mode
    cells: list[CellResult]
    limits: list[CellResult] = []  # like cells: the variant is `limit`, the mode the limit's name
    left_out: dict[str, list[str]] = {}  # by workload: benchmarks that --quick left out
    order: dict[str, list[list[str]]]
    probe: Probe | None = None
    warnings: list[str] = []
    measuring_s: float = 0.0  # wall time of all rounds; the next field is the part that measured processes took
    in_processes_s: float = 0.0
    times: dict[str, Times] = {}  # by workload, for all its cells together; empty where they are not known
    waiting_s: float = 0.0  # for the lock that lets one experiment at a time measure
    set_up_s: float = 0.0  # for the instruments and the probe, which all workloads share
    unfinished: list[str] = []  # workloads whose rounds or profiles something ended: `--resume` goes on with them
    ended_by: str = ""  # what ended it before all was decided: Ctrl-C, SIGTERM, a budget
    trial: Trial | None = None  # of a user's own images

    @property
    def engine(self) -> EngineName:
        """Return the engine that it was measured with."""
        return EngineName(self.host["engine"]["name"])

    @property
    def resume_command(self) -> str:
        """Return the command that resumes it."""
        return resuming(self.command, self.name, self.settings.where.words)

    @property
    def versions(self) -> dict[str, str]:
        """Return the version that each variant was built from, where it is recorded."""
        return {image.variant: image.version for image in self.images if image.version}

    def rounds_end(self, workload: str) -> RoundsEnd:
        """Return why a workload's rounds ended."""
        return rounds_end_of(looks=self.settings.looks, ended_by=self.ended_by if workload in self.unfinished else "")

    def require_whole(self) -> None:
        """Raise ValueError for a record that readers cannot use, without machine, date or a workload that it names."""
        try:
            _HostFacts.model_validate(self.host)
        except ValidationError as error:
            key, message, _ = first_refusal(error)
            raise ValueError(f"host.{key}: {message}") from None
        datetime.fromisoformat(self.started)
        named = {*self.settings.workloads, *(cell.workload for cell in (*self.cells, *self.limits))}
        for name in sorted(named - self.workloads.keys()):
            raise ValueError(f"it names the workload '{name}', and does not say what that is")


MOST_LOOPS = 10**15
Loops = Annotated[int, Field(ge=1, le=MOST_LOOPS, strict=True)]
ShortText = Annotated[str, Field(max_length=10_000, strict=True)]
Number = Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)] | Finite


class ProgramOutput(Data):
    """The JSON object that a workload program prints last; times are raw seconds of loops x inner_loops units."""

    interlock: Literal[1]
    unsupported: ShortText | None = None
    fed: bool = False  # whether it takes --fed
    loops: Annotated[int, Field(ge=0, le=MOST_LOOPS, strict=True)] = 0
    inner_loops: Loops = 1
    calibration: list[tuple[Loops, Seconds]] = []
    warmups: list[Seconds] = []
    values: list[Seconds] = []
    cpu: list[Seconds] = []  # CPU time of each value; other people's programs do not report it
    metadata: dict[ShortText, bool | Number | ShortText] = {}

    @model_validator(mode="after")
    def _work_takes_time(self) -> ProgramOutput:
        """Require a time above 0 s, unless there are no loops (a traced set-up): 0 s is a broken clock."""
        if self.unsupported is None and self.loops > 0:
            if not self.calibration and not self.values:
                raise ValueError("neither values nor a calibration")
            if any(value < LEAST_VALUE_S for value in self.values):
                raise ValueError("a value of 0 s")
        return self


class Subject(Data):
    """What is measured: a variant's image, plain, in a mode or as the baseline's twin."""

    variant: str
    image_id: str | None  # None of a limit, which is no interpreter's
    mode: str | None = None
    environment: dict[EnvironmentName, str] = {}
    options: list[str] = []  # of the interpreter, before its arguments
    gil: Gil | None = None  # what the interpreter must report in this mode

    @property
    def label(self) -> str:
        return label_of(self.variant, self.mode)


# Our own keys in a pyperf run's metadata: its block, its group if the block is split, and which figure stands for it.
BLOCK, GROUP, ESTIMATOR = "interlock_block", "interlock_group", "interlock_estimator"


class Estimator(StrEnum):
    """Which figure stands for a process's values.

    A slow value of one thread is a disturbance, so its figure is a fast one; the minimum would be off by a state of the
    machine that another process never met. Threads that wait for each other are slow for reasons of their own: all of
    their values count.
    """

    MEAN = "mean"
    LOWER_DECILE = "lower-decile"

    def of(self, values: Sequence[float]) -> float:
        """Return the figure that stands for these values, of which there must be at least one."""
        if self is Estimator.MEAN or len(values) == 1:
            return fmean(values)
        return quantiles(values, n=10, method="inclusive")[0]


def by_group(figures: Sequence[float], blocks: Sequence[int], groups: Sequence[int]) -> list[dict[int, float]]:
    """Return for each block the figures by group; a group with several processes has their mean."""
    by_number: dict[int, dict[int, list[float]]] = {}
    for number, group, figure in zip(blocks, groups, figures, strict=True):
        by_number.setdefault(number, {}).setdefault(group, []).append(figure)
    return [{group: _mean(of_group) for group, of_group in block.items()} for block in by_number.values()]


def by_block(figures: Sequence[float], blocks: Sequence[int]) -> list[float]:
    """Return the mean figure of each block; a baseline has several figures in a block."""
    return [block[0] for block in by_group(figures, blocks, [0] * len(blocks))]


def _mean(figures: Sequence[float]) -> float:
    if len(figures) == 1:
        return figures[0]
    return geometric_mean(figures) if min(figures) > 0 else fmean(figures)


# Seconds for one unit of work, which may be tiny: a value may have 10^30 units.
Value = Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False, strict=True)]
Units = Annotated[int, Field(ge=1, le=MOST_LOOPS**2, strict=True)]


class BenchmarkValues(Data):
    """Seconds per unit of work of one benchmark in one cell, a list for each process, in the order of the blocks."""

    processes: list[list[Value]]
    blocks: list[Count]  # of each process
    groups: list[Count] = []  # of each process, if the rows of a block were split
    estimator: Estimator
    user_s: list[Seconds] = []  # CPU time of the whole process, start and exit included, one for each process
    sys_s: list[Seconds] = []
    units: list[Units] = []  # of work within one value, one for each process
    reported: dict[str, list[Finite]] = {}  # figures by key, one for each process; keys that one lacks are left out
    max_rss_bytes: Count
    gil_after: Gil | None = None

    @property
    def figures(self) -> list[float]:
        """Return one figure for each block, because values within a process are not independent."""
        return by_block([self.estimator.of(process) for process in self.processes], self.blocks)

    @property
    def block_figures(self) -> Sequence[float | Mapping[int, float]]:
        """Return the figure of each block, or the figures by group if rows were split."""
        return self.block_figures_of([self.estimator.of(process) for process in self.processes])

    def block_figures_of(self, figures: Sequence[float]) -> Sequence[float | Mapping[int, float]]:
        """Return the same for any figures, of which each process has one."""
        return by_group(figures, self.blocks, self.groups) if self.groups else by_block(figures, self.blocks)


# What an experiment's files hold, by variant[+mode] and workload, and then by benchmark.
CellKey = tuple[str, str]
Values = Mapping[CellKey, Mapping[str, BenchmarkValues]]
Profiles = Mapping[CellKey, Mapping[str, BenchmarkProfile]]


PRODUCTS = {
    EngineName.DOCKER: "Docker API",
    EngineName.PODMAN: "Podman",
    EngineName.HOST: "this machine itself, without containers",
}


def host_line(host: Mapping[str, Any]) -> str:
    """Return the recorded machine in one line: cores, processor, memory, kernel and system."""
    memory = f"{host['memory_bytes'] / 2**30:.0f} GiB"
    return f"{host['cores']} cores {host['cpu']}, {memory}, Linux {host['kernel']}, {host['system']}"


def engine_line(engine: Mapping[str, Any], built: str) -> str:
    """Return the recorded engine in one line; `built` is added for an engine with containers."""
    name = EngineName(engine["name"])
    if name is EngineName.HOST:
        return f"host: {PRODUCTS[name]}"
    return f"{PRODUCTS[name]} {engine['version']}, storage driver {engine['storage_driver']}, {built}"


class PackageSet(Data):
    """Installed packages: the volume, and the path that cells mount it at; or why they cannot be installed."""

    outcome: Outcome = Outcome(state=State.OK)
    volume: str = ""
    mount_path: str = ""
    versions: dict[str, str] = {}  # by canonical name

    @property
    def site(self) -> str:
        """Return the folder that modules are imported from."""
        return f"{self.mount_path}/site" if self.mount_path else ""
