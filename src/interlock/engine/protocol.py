"""What measuring, building and trials ask of an engine, whichever it is: Docker, Podman or this machine itself.

An engine says itself what it cannot do: beforehand by `cannot`, or by the same UnsupportedHereError when it tries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from interlock.catalog.project import Catalog
from interlock.catalog.types import Right
from interlock.engine.agent import Agent
from interlock.engine.ended import Ended
from interlock.engine.ownership import Life
from interlock.errors import UnsupportedHereError
from interlock.results.experiments import BaseImage, Built, EngineName, PackageSet

if TYPE_CHECKING:
    from interlock.engine.names import Registry  # it loads docker, which not every engine needs

# A sandbox's memory limit, swap included. What it writes to a tmpfs counts.
MEMORY_BYTES = 2**30
# Where a load finds its script for a fixed rate.
FIXED_RATE = "/usr/local/share/interlock/fixed-rate.lua"
# The helper that every experiment needs.
INSTRUMENTS = "instruments"
NOTHING: Mapping[str, str] = MappingProxyType({})
# Each command that asks for a profile has its own option to leave it out.
LEAVE_OUT = "leave the profile out (`matrix --no-profile`, `trial --no-syscalls`)"

# Called with a variant's name and the step that it is at.
OnStep = Callable[[str, str], None]


@dataclass(frozen=True)
class BuildOptions:
    """Where to build from and how."""

    root: Path
    cache: Path
    # A new value builds again what is unchanged. All variants have the same one, so that a shared build is done once.
    rebuild: str = ""
    # Where a team keeps what it has built: what is there is pulled instead of built.
    registry: Registry | None = None
    pulls_only: bool = False  # whether what would have to be made here counts as missing
    verifies: bool = False  # whether everything is built a second time and compared
    # Images that an experiment needs besides variants: a container engine begins to build them beside the first builds.
    helpers: Sequence[str] = ()


class Feature(StrEnum):
    """What not every engine can do, or not on every machine."""

    SERVICES = "services"
    LOAD = "load"
    USER_IMAGES = "images of users"
    IMAGES = "images that are built here and run elsewhere"
    WHOLE_CORE = "the whole core set"
    SYSTEM_CALLS = "counts of system calls"
    STACKS = "stacks of system calls"
    CPU_TIME = "CPU time of a sandbox"


@dataclass(frozen=True)
class CoreSet:
    """The labels of the core set that an engine can measure, and those that it leaves out, each with the reason."""

    labels: list[str]
    left_out: list[tuple[str, str]]


@dataclass(frozen=True)
class CpuUsed:
    """CPU time of all processes of a sandbox since it was opened, in seconds."""

    user_s: float
    sys_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.sys_s

    def since(self, before: CpuUsed) -> CpuUsed:
        """Return what was used after `before` was read.

        The kernel measures the sum and divides it anew at each reading, so either part may shrink.
        """
        total_s = self.total_s - before.total_s
        sys_s = min(max(self.sys_s - before.sys_s, 0.0), total_s)
        return CpuUsed(total_s - sys_s, sys_s)


@dataclass(frozen=True)
class Answer:
    """What a service answered, and its HTTP status: 0 if nothing came."""

    body: str
    status: int

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300


@dataclass(frozen=True)
class LoadRun:
    """What a load printed, and its duration in seconds by the clock of the place it ran in."""

    stdout: str
    duration_s: float


@dataclass(frozen=True)
class Surroundings:
    """What a cell gets in addition to what every cell has."""

    rights: tuple[Right, ...] = ()  # what the workload asks for
    prefix_on_volume: bool = False  # whether /usr/local is on a volume instead of the image's file system


USUAL = Surroundings()


@dataclass(frozen=True)
class UserSurroundings:
    """Where a user's own images run in a trial: network, CPUs, memory, and what all of them are told."""

    network: str | None = None  # of the engine; None: one is made that has access to the outside
    cpus: str = ""  # in the engine's words; empty for all
    memory: str | None = None
    alias: str = ""  # their name in the network
    environment: Mapping[str, str] = field(default_factory=dict)  # values may be secrets: no record has them


@dataclass(frozen=True)
class OwnStart:
    """What a container of a user's image is started with."""

    image_id: str
    environment: Mapping[str, str] = field(default_factory=dict)  # of the row's mode
    command: Sequence[str] | None = None  # in place of the image's own, its entrypoint left out
    cpus: str = ""  # in the engine's words; empty for those of its surroundings
    gil_probed: bool = False


@dataclass(frozen=True)
class Needs:
    """What an experiment needs besides its variants."""

    root: Path
    built: Sequence[Built]
    programs: Mapping[str, bytes]  # of the workloads, by path below workloads/
    helpers: Sequence[str] = ()  # what its workloads need: server, limits, load
    base: BaseImage | None = None  # of the helpers, if it is not a variant's
    users: UserSurroundings | None = None  # of a trial


@dataclass(frozen=True)
class StackOptions:
    """What a profiler needs to take stacks, besides those at futex calls, and why it has no Python frames."""

    calls: Sequence[str]
    files: Sequence[str]  # executables and libraries, as the sandbox sees them
    offsets: Sequence[int] | None  # of the interpreter's frames
    no_frames: str = ""
    has_gil: bool = True
    switches_threads: bool = False  # whether a library in the process switches its threads
    attempts: bool = False  # whether a lock says at the call that takes it whether it is taken (GNU pth's own do)
    acquires: bool = False  # whether the functions that take locks and stop all threads are probed

    def with_acquires(self) -> StackOptions:
        """Return the options that probe acquires too; UnsupportedHereError where nothing can be told of them."""
        if self.switches_threads and not self.attempts:
            raise UnsupportedHereError(
                found="GNU pth switches threads inside the functions that take locks: their return cannot be probed",
                todo="Leave out --acquires.",
            )
        return replace(self, acquires=True)

    def arguments(self) -> list[str]:
        """Return the profiler's options."""
        frames = [] if self.offsets is None else ["--frames", ",".join(map(str, self.offsets))]
        what = "attempts" if self.switches_threads else "locks,gil" if self.has_gil else "locks"
        probes = ["--probe", what] if self.acquires else []
        files = [word for file in self.files for word in ("--file", file)]
        return ["--stacks", ",".join(self.calls), *frames, *probes, *files]


class Counting(Protocol):
    """A profiler at work; `text` is what it printed, once `stop` has returned."""

    text: str

    def stop(self) -> None: ...


class Sandbox(Protocol):
    """Where processes of one variant run until it is closed: a container, or a folder of this machine."""

    @property
    def id(self) -> str:
        """Return the container's id; empty for a folder, whose processes all descend from Interlock's."""
        ...

    def run(self, argv: list[str], deadline_s: float, environment: Mapping[str, str] = NOTHING) -> Ended:
        """Run a command line to its end or the deadline. A process that had to be killed takes the sandbox with it."""
        ...

    def start_agent(self) -> Agent:
        """Start the launcher as the agent that starts and feeds processes here until the sandbox is closed."""
        ...

    def has_no_memory_left(self) -> bool:
        """Return whether the kernel killed one of its processes for want of memory."""
        ...

    def count(self, stacks: StackOptions | None = None) -> AbstractContextManager[Counting]:
        """Count by BPF what happens in the sandbox from the first line of the block on, until `stop`."""
        ...

    def mark_work(self) -> AbstractContextManager[None]:
        """Mark what happens in the block as work, for a profiler that tells phases apart."""
        ...

    def cpu_used(self) -> CpuUsed: ...

    def memory_bytes(self) -> int:
        """Return the memory of its processes now, without files."""
        ...

    def address(self) -> str:
        """Return the address at which services in the sandbox answer."""
        ...

    def stop_service(self, folder: str) -> None:
        """Send SIGTERM to the service whose process id is in folder/service.pid, if it still runs."""
        ...

    def kill_processes(self) -> None:
        """Kill all that runs in it; the sandbox stays."""
        ...

    def close(self) -> None: ...


class UserContainer(Sandbox, Protocol):
    """A container of a user's image, which runs what the image, or a command in its place, says."""

    def require_running(self, when: str) -> None:
        """Raise WorkloadError with the exit code and the last lines of the log if it has ended."""
        ...

    def wait(self, limit_s: float) -> int | None:
        """Wait for its end and return the exit code; None after limit_s seconds."""
        ...

    def log(self) -> str:
        """Return everything that it printed."""
        ...

    def gil_lines(self) -> list[str]:
        """Return the lines that the GIL probe wrote, one for each process."""
        ...

    def listening(self) -> list[str]:
        """Return the addresses and ports at which it takes TCP connections, as in 127.0.0.1:8000."""
        ...


class Network(Protocol):
    """What one workload is measured in: its sandboxes, and the server or the load that they talk to."""

    @property
    def url(self) -> str | None:
        """Return the server's URL, or the address of the services' database; None if the workload has neither."""
        ...

    @property
    def helper_ids(self) -> Sequence[str]:
        """Return the containers besides sandboxes, whose CPU time is the experiment's too."""
        ...

    @property
    def can_evict(self) -> bool:
        """Return whether an interpreter's files can be dropped from the page cache in a sandbox."""
        ...

    def open_sandbox(
        self, image_id: str, surroundings: Surroundings = USUAL, packages: Mapping[str, str] = NOTHING
    ) -> Sandbox:
        """Open a sandbox of a variant; `packages` are the places of volumes with packages, by their names."""
        ...

    def open_limits_sandbox(self, surroundings: Surroundings = USUAL) -> Sandbox:
        """Open a sandbox for commands that show what the machine can do without an interpreter."""
        ...

    def started(self, start: OwnStart) -> AbstractContextManager[UserContainer]:
        """Start a container of a user's image and remove it after the block; WorkloadError if it does not start."""
        ...

    def ask(self, url: str, *, any_answer: bool = False, body: bool = True) -> Answer:
        """Ask a service for about a second until its answer is 2xx, or there is any; return the last one."""
        ...

    def put_load(self, words: Sequence[str], limit_s: float) -> LoadRun:
        """Run a load generator to its end; WorkloadError unless it ended well in time."""
        ...

    def load_cpu_used(self) -> CpuUsed:
        """Return the CPU time of what generates the load."""
        ...


class Workspace(Protocol):
    """What an engine has set up for one experiment. `Engine.clean_up` removes it."""

    @property
    def owner(self) -> str: ...

    @property
    def is_elsewhere(self) -> bool:
        """Return whether cells run on another machine, whose other processes cannot be seen from here."""
        ...

    def network(self, server: Mapping[str, str] | None, *, load: bool) -> AbstractContextManager[Network]:
        """Start a workload's server with this environment, or its load; both end with the block."""
        ...

    def open_tools_sandbox(self) -> Sandbox:
        """Open a sandbox that has the instruments alone, to try probes in."""
        ...


class Installer(Protocol):
    """Installs the packages that workloads require, for the variants of a project."""

    @property
    def catalog(self) -> Catalog: ...

    def tidy(self) -> None:
        """Remove packages of what is gone."""
        ...

    def ensure_all(self, wanted: Sequence[tuple[Built, Sequence[str]]]) -> list[PackageSet]:
        """Return the packages of each image and its requirement lines, installed now if they were not.

        Packages that cannot be installed say so in their outcome.
        """
        ...


class Engine(Protocol):
    """What builds and runs variants."""

    @property
    def name(self) -> EngineName: ...

    @property
    def is_elsewhere(self) -> bool:
        """Return whether it is on another machine, which cannot be watched from here."""
        ...

    def cannot(self, feature: Feature) -> UnsupportedHereError | None:
        """Return the error of what it cannot do here; None if it can."""
        ...

    def facts(self) -> dict[str, Any]:
        """Return what an experiment records of the engine."""
        ...

    def core(self, known: Catalog) -> CoreSet:
        """Return the core set as far as this engine has it."""
        ...

    def build(self, known: Catalog, names: Sequence[str], options: BuildOptions, on_step: OnStep) -> list[Built]:
        """Build every named variant. Failures and missing sources are outcomes; EngineError ends the build.

        UsageError for an option about images on an engine that has none.
        """
        ...

    def look_up(self, known: Catalog, names: Sequence[str], options: BuildOptions) -> list[Built]:
        """Return what the variants have now, or why they have nothing. Nothing is built."""
        ...

    def set_up(self, owner: str, needs: Needs) -> Workspace:
        """Make what all sandboxes of an experiment share."""
        ...

    def installer(self, known: Catalog, root: Path, on_step: OnStep) -> Installer: ...

    def owners(self) -> dict[str, Life]:
        """Return the owners of everything temporary in this engine, and whether they are still at work."""
        ...

    def makers(self) -> dict[int, str]:
        """Return the processes of this machine that are at work with this engine, by their ids, and their owners."""
        ...

    def clean_up(self, owner: str) -> None:
        """Remove everything of this owner; EngineError names what stays."""
        ...
