"""Profiles (what probes counted, by phase) and sites (where a program waits or wakes, and for which lock)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from interlock.catalog.types import Data
from interlock.catalog.workloads import Benchmark


class Method(StrEnum):
    """How system calls were counted, the best one first."""

    BPF = "bpf"
    STRACE_FUTEX = "strace-futex"  # futex calls alone; the process stops at each of them

    @property
    def perturbs(self) -> bool:
        """Return whether the method changes how often threads wait for each other."""
        return self is Method.STRACE_FUTEX


# Files from before 2026-11-29 also have figures that nobody asked for: tasks, instructions, short and long waits.
EARLIER = ConfigDict(frozen=True, extra="ignore")


class Probe(Data):
    """The method that a machine allows, and why each better one is refused."""

    model_config = EARLIER
    method: Method
    refused: dict[Method, str] = {}


class CallCounts(Data):
    """One system call: calls, errors by errno's name; wall time in it, waiting included, where it was measured."""

    calls: int
    errors: dict[str, int] = {}
    ns: int | None = None
    max_ns: int | None = None


FUTEX_WAITS = ("wait", "wait_bitset", "wait_requeue_pi", "lock_pi", "lock_pi2")
FUTEX_WAKES = ("wake", "wake_bitset", "wake_op")


class FutexCounts(Data):
    """One futex operation; `woke_nobody` counts wakes without a waiting thread."""

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


class PhaseCounts(Data):
    """The system calls of a part of a process's life; `total` is counted separately."""

    model_config = EARLIER
    total: int
    syscalls: dict[str, CallCounts]
    ns: int | None = None
    futex: dict[str, FutexCounts] = {}
    locks_waited_for: int = 0
    locks: list[LockWaits] = []  # the ten with the longest total wait

    def futex_of(self, operations: Collection[str]) -> list[FutexCounts]:
        """Return the counts of these futex operations."""
        return [counts for name, counts in self.futex.items() if name in operations]


# GNU pth's scheduler switches threads within the process. A switch sets signal masks, and each turn asks for pending
# signals, empties a pipe and selects. Only pth asks for pending signals, so these calls count its turns.
PTH_TURN = "rt_sigpending"
PTH_CALLS = ("rt_sigprocmask", PTH_TURN, "select", "pselect6", "poll", "ppoll")
# A profile_metric of these calls is shown as lock cost.
LOCK_CALLS = ["futex"]


@dataclass(frozen=True)
class LockCost:
    """What locking and waiting for each other costs in the kernel, per unit of work.

    `calls` are by what makes them: futex, sched_yield, and pth for its scheduler. `ns` is the wall time in them,
    waiting included; None if the probe has no times. `futex_alone` says that the probe counts no other calls.
    """

    calls: Mapping[str, float]
    ns: float | None
    futex_alone: bool = False


class BenchmarkProfile(Data):
    """The system calls of one benchmark by phase; its work's calls are those of `counted` less those of `deducted`."""

    model_config = EARLIER
    method: Method
    units: Annotated[int, Field(ge=1)]
    phases: dict[str, PhaseCounts]
    counted: str
    deducted: str | None = None
    why: LockSites | None = None  # from a separate pass
    no_why: str = ""

    def knows(self, names: Sequence[str] | Literal["all"]) -> bool:
        """Return whether calls with these names were counted at all."""
        return self.method is not Method.STRACE_FUTEX or (names != "all" and set(names) <= {"futex"})

    def calls_per_unit(self, names: Sequence[str] | Literal["all"]) -> float:
        """Return the calls with these names per unit of work.

        A contended program may make fewer calls than its set-up alone; then the number is 0, not negative.
        """
        calls = self._calls(self.counted, names) - (self._calls(self.deducted, names) if self.deducted else 0)
        return max(0, calls) / self.units

    @property
    def lock_cost(self) -> LockCost:
        """Return the number and the time per unit of work of futex, sched_yield and a scheduler's own calls."""
        if not self.knows("all"):
            return LockCost({"futex": self.futex_per_unit}, None, futex_alone=True)
        turns = self.calls_per_unit([PTH_TURN])
        pth = self.calls_per_unit(PTH_CALLS) + min(turns, self.calls_per_unit(["read"])) if turns else 0.0
        names = ["futex", "sched_yield", *(PTH_CALLS if turns else ())]
        syscalls = self.phases[self.counted].syscalls
        known_ns = [syscalls[name].ns for name in names if name in syscalls]
        times = [ns for ns in known_ns if ns is not None]
        return LockCost(
            {"futex": self.futex_per_unit, "sched_yield": self.calls_per_unit(["sched_yield"]), "pth": pth},
            sum(times) / self.units if self.deducted is None and len(times) == len(known_ns) else None,
        )

    def calls_shown(self, benchmark: Benchmark) -> float | None:
        """Return the figure of the benchmark's profile_metric; None without one, or if its calls were not counted."""
        if benchmark.profile_metric is None or not self.knows(benchmark.profile_syscalls):
            return None
        return benchmark.profile_metric.shown(self.calls_per_unit(benchmark.profile_syscalls))

    def _calls(self, phase: str, names: Sequence[str] | Literal["all"]) -> int:
        if names == "all":
            return self.phases[phase].total
        syscalls = self.phases[phase].syscalls
        return sum(syscalls[name].calls for name in names if name in syscalls)

    @property
    def futex_per_unit(self) -> float:
        """Return futex calls per unit of work."""
        return self.calls_per_unit(["futex"])


class CellProfile(Data):
    """The file WORKLOAD.profile.json of a cell."""

    schema_version: Literal[2] = 2
    benchmarks: dict[str, BenchmarkProfile]


UNNAMED = "unnamed"


class Site(Data):
    """A stack that ends in a call that waits or wakes, and what the calls from there cost.

    `python` are frames as `file:line function` and `c` are functions, both with the innermost first; `caller` is the
    first frame that is not inside the library of locks and queues.
    """

    call: str
    operation: str = ""
    lock: str
    caller: str
    python: list[str]
    c: list[str]
    calls: int
    ns: int
    max_ns: int
    errors: int = 0
    woke_nobody: int = 0

    @property
    def waits(self) -> bool:
        """Return whether the calls wait: a wake does not, but a yield does."""
        return self.operation not in FUTEX_WAKES


class Edge(Data):
    """How often and how long the first site waited until a call of the second woke it; both by index."""

    waiter: int
    waker: int
    waits: int
    ns: int


class Acquires(Data):
    """A place where a lock is taken: how often, how often it was found taken, and how long it was held from there.

    A contended acquire that did not park was resolved by spinning. Holds end at a call that gives the lock back; where
    there is no such call `held` counts none.
    """

    lock: str
    caller: str
    python: list[str]
    c: list[str]
    acquires: int
    contended: int
    parked: int
    wait_ns: int
    max_wait_ns: int
    held: int
    held_ns: int
    max_held_ns: int

    @property
    def is_hold_known(self) -> bool:
        """Return whether as good as all ends were seen: a compiler that inlines a call hides it from the probes."""
        return self.held > 0 and self.acquires - self.held <= max(1, self.acquires / 100)

    @property
    def spun(self) -> int:
        """Return the contended acquires that spinning resolved."""
        return self.contended - self.parked


class Pauses(Data):
    """A place that stops all threads: how often, how long until they stood, and until they could go on."""

    caller: str
    python: list[str]
    c: list[str]
    pauses: int
    stopping_ns: int
    ns: int
    max_ns: int


class Acquisitions(Data):
    """What probes on the interpreter's functions saw, in a run of its own: the probes slow what they watch."""

    units: int
    ns: int  # of the work, by the clock
    probed: list[str]
    ends_seen: bool = True  # if the end of an acquire is not seen there are no times, and nobody knows who spun
    acquires: list[Acquires]
    pauses: list[Pauses] = []


class LockSites(Data):
    """All sites of a benchmark's work, the costliest first."""

    units: int
    ns: int  # of the work, by the clock
    threads: int = 0  # threads that made a call in the work; 0 if that is not known
    waiting_share: float | None = None  # the share of all these threads' time that was spent waiting
    sites: list[Site]
    edges: list[Edge] = []
    no_frames: str = ""  # why no Python frames are known
    no_symbols: str = ""  # why functions that the image does not export have no names
    stands_still: str = (
        ""  # of a service that does not answer: then this is how it waits while it is asked, as one unit
    )
    acquisitions: Acquisitions | None = None

    def calls(self, sites: Iterable[Site] | None = None) -> int:
        """Return the number of calls, of all sites or of these."""
        return sum(site.calls for site in (self.sites if sites is None else sites))

    @property
    def waited_ns(self) -> int:
        """Return the time of all threads in calls that wait."""
        return sum(site.ns for site in self.sites if site.waits)

    @property
    def named_share(self) -> float:
        """Return the share of the calls whose lock has a name; 1 if there are no calls."""
        total = self.calls()
        return 1 - self.calls(site for site in self.sites if site.lock == UNNAMED) / total if total else 1.0
