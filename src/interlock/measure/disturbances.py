"""What disturbed a measurement: differences between two samples of this machine, and processes that were slow."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from interlock.results.experiments import TOO_DISTURBED

# Share of all CPU time. A guest that waits for its CPU stands still while CLOCK_MONOTONIC goes on.
STEAL_LIMIT = 0.01
# Share of one core. A process that shares a core for a twentieth of the time adds about as much to a value, which is
# more than many variants differ; what the kernel and the engine use by themselves stays below.
BUSY_LIMIT = 0.05
# Above these nothing is decided: an audit beside six rows turned 1.133x into 3.857x [3.340, 4.456].
STEAL_MOST, BUSY_MOST = 0.1, 0.5

# The engine's processes work for the experiment, as their names begin. Podman's is last.
SUPERVISORS = ("containerd-shim", "conmon")
ENGINE = ("dockerd", "containerd", "docker-proxy", "fuse-overlayfs", "conmon", "podman")
INIT = 1

REMOTE = (
    "The engine is on another machine, which cannot be watched from here: "
    "check with `top` there that nothing else runs, or measure with a local engine."
)


@dataclass(frozen=True)
class RunningProcess:
    """A row of the process table. Times are CPU seconds since it started: its own, and of children that ended."""

    name: str
    parent: int
    started_s: float  # a process id may be used again
    own_s: float
    ended_children_s: float
    command: str  # of a container's supervisor, which names the container's id


@dataclass(frozen=True)
class Sample:
    """What was read at one moment. CPU times are seconds since boot over all CPUs."""

    clock_s: float
    total_s: float = 0.0
    busy_s: float = 0.0  # in processes; time in interrupts belongs to none
    steal_s: float = 0.0
    swapped_in_bytes: int = 0
    swapped_out_bytes: int = 0
    throttles: Mapping[str, int] = field(default_factory=dict)  # by CPU and counter, where the machine has them
    processes: Mapping[int, RunningProcess] = field(default_factory=dict)


def sample() -> Sample:
    """Read the state of the machine."""
    cpu, swap = psutil.cpu_times(), psutil.swap_memory()
    return Sample(
        clock_s=time.monotonic(),
        total_s=sum(cpu[:8]),  # guests' time is part of user and nice
        busy_s=cpu.user + cpu.nice + cpu.system,
        steal_s=cpu.steal,
        swapped_in_bytes=swap.sin,
        swapped_out_bytes=swap.sout,
        throttles=dict(_throttles(Path("/sys/devices/system/cpu"))),
        processes=dict(_processes()),
    )


def _throttles(folder: Path) -> Iterator[tuple[str, int]]:
    for path in folder.glob("cpu[0-9]*/thermal_throttle/*_throttle_count"):
        with suppress(OSError, ValueError):
            yield str(path.relative_to(folder)), int(path.read_text(encoding="utf-8"))


def _processes() -> Iterator[tuple[int, RunningProcess]]:
    for process in psutil.process_iter():
        # It may end meanwhile, or be another user's.
        with suppress(psutil.Error), process.oneshot():
            name, times = process.name(), process.cpu_times()
            own_s, ended_s = times.user + times.system, times.children_user + times.children_system
            command = " ".join(process.cmdline()) if name.startswith(SUPERVISORS) else ""
            yield process.pid, RunningProcess(name, process.ppid(), process.create_time(), own_s, ended_s, command)


def own_processes(after: Sample, containers: Collection[str]) -> set[int] | None:
    """Return the ids of Interlock's process and of everything in the containers with these ids.

    Return None if a container's supervisor is not visible (an engine in a virtual machine, another user's processes
    hidden): then it is unknown whose a process is.
    """
    supervisors = [_supervisors(after, container) for container in containers]
    if not all(supervisors):
        return None
    own = {os.getpid()}.union(*supervisors)
    while more := {pid for pid, process in after.processes.items() if process.parent in own} - own:
        own |= more
    return own


def _supervisors(after: Sample, container: str) -> set[int]:
    """Return its supervisors: Podman has one for the container, and one for each process started in it later."""
    return {pid for pid, process in after.processes.items() if container in process.command}


def experiments_cpu_s(before: Sample, after: Sample, own: Collection[int], launched_s: float) -> float:
    """Return the CPU seconds of the experiment between two samples: its processes and the engine's.

    A supervisor's ended children are what was started in its container and the engine's own starters. Where it does
    not wait for them (Podman), `launched_s` is their lower bound: the sum of what the launcher read of each process.
    """
    used = _used(before, after)
    running_s = sum(now[0] for pid, now in used.items() if pid in own or after.processes[pid].name.startswith(ENGINE))
    return running_s + max(launched_s, sum(used[pid][1] for pid in own if pid in used))


def _used(before: Sample, after: Sample) -> dict[int, tuple[float, float]]:
    """Return the CPU seconds between the samples by process id: its own, and those of children that ended.

    What a child had used before the first sample is subtracted from its parent, who inherits it when the child ends,
    or from the first process, which inherits it of an orphan.
    """
    earlier: dict[int, float] = {}
    for pid, process in before.processes.items():
        if not _same(before, after, pid):
            heir = process.parent
            while heir in before.processes and not _same(before, after, heir):
                heir = before.processes[heir].parent
            earlier[heir] = earlier.get(heir, 0.0) + process.own_s + process.ended_children_s
    used, of_orphans_s = {}, sum(earlier.values())
    for pid, now in after.processes.items():
        then = before.processes[pid] if _same(before, after, pid) else None
        own_s, ended_s = (then.own_s, then.ended_children_s) if then else (0.0, 0.0)
        inherited_s = now.ended_children_s - ended_s
        earlier_s = min(inherited_s, earlier.get(pid, 0.0))
        of_orphans_s -= earlier_s
        used[pid] = (now.own_s - own_s, inherited_s - earlier_s)
    if INIT in used:
        own_s, inherited_s = used[INIT]
        used[INIT] = (own_s, max(0.0, inherited_s - of_orphans_s))
    return used


def _same(before: Sample, after: Sample, pid: int) -> bool:
    """Return whether both samples have the same process with this id; ids are reused."""
    then, now = before.processes.get(pid), after.processes.get(pid)
    return then is not None and now is not None and then.started_s == now.started_s


def busiest(before: Sample, after: Sample, own: Collection[int]) -> list[str]:
    """Return up to three names of other processes than the experiment's and the engine's, with their share of a core.

    Processes of one name count together, ended children with their parent; those below 1 % are left out.
    """
    by_name: dict[str, float] = {}
    for pid, (own_s, ended_s) in _used(before, after).items():
        name = after.processes[pid].name
        if pid not in own and not name.startswith(ENGINE):
            by_name[name] = by_name.get(name, 0.0) + own_s + ended_s
    span_s = after.clock_s - before.clock_s
    ranked = sorted(by_name.items(), key=lambda item: -item[1])[:3]
    return [f"{name} {used_s / span_s:.0%}" for name, used_s in ranked if used_s >= 0.01 * span_s]


def disturbances(
    before: Sample, after: Sample, containers: Collection[str], launched_s: float | None, removed_s: float = 0.0
) -> list[str]:
    """Return the warnings for the time between two samples in which the experiment used these containers.

    `launched_s` are the CPU seconds of the processes that were started in them; None if unknown. `removed_s` are those
    of further containers, which are removed.
    """
    if launched_s is None or (own := own_processes(after, containers)) is None:
        return warnings(before, after, None)
    own_s = experiments_cpu_s(before, after, own, launched_s) + removed_s
    return warnings(before, after, own_s, busiest(before, after, own))


def warnings(before: Sample, after: Sample, own_cpu_s: float | None, disturbers: Collection[str] = ()) -> list[str]:
    """Return one sentence for each disturbance between two samples: the figure, and what to do.

    `own_cpu_s` are the CPU seconds of the experiment itself; None if unknown. `disturbers` are shown with the time that
    other processes used.
    """
    sentences = [
        _stolen(before, after),
        _throttled(before, after),
        _swapped(before, after),
        _busy(before, after, own_cpu_s, disturbers),
    ]
    return [sentence for sentence in sentences if sentence]


def _stolen(before: Sample, after: Sample) -> str:
    total_s = after.total_s - before.total_s
    share = (after.steal_s - before.steal_s) / total_s if total_s > 0 else 0.0
    if share <= STEAL_LIMIT:
        return ""
    return (
        f"{share:.1%} of the CPU time was stolen by other guests of the physical host (steal in /proc/stat)"
        f"{_too_much(share > STEAL_MOST)}: repeat at another time, and trust ratios only."
    )


def _throttled(before: Sample, after: Sample) -> str:
    """Return the warning if a package throttled itself: each of its CPUs counts all events, so the highest counts."""
    then, now = before.throttles, after.throttles
    events = max((now[path] - then[path] for path in then.keys() & now.keys()), default=0)
    if events <= 0:
        return ""
    return f"the processor throttled itself {events} times because of heat: improve its cooling, and repeat."


def _swapped(before: Sample, after: Sample) -> str:
    swapped_in = after.swapped_in_bytes - before.swapped_in_bytes
    swapped_out = after.swapped_out_bytes - before.swapped_out_bytes
    if swapped_in + swapped_out <= 0:
        return ""
    return (
        f"{swapped_in / 1e3:.0f} kB were swapped in and {swapped_out / 1e3:.0f} kB out: stop programs that use memory, "
        "and repeat."
    )


def _busy(before: Sample, after: Sample, own_cpu_s: float | None, disturbers: Collection[str]) -> str:
    if own_cpu_s is None:
        return ""
    share = (after.busy_s - before.busy_s - own_cpu_s) / (after.clock_s - before.clock_s)
    if share <= BUSY_LIMIT:
        return ""
    who = ", ".join(disturbers) or "all have ended"
    return f"other processes used {share:.0%} of a core ({who}){_too_much(share > BUSY_MOST)}: stop them, and repeat."


def _too_much(holds: bool) -> str:
    return f", {TOO_DISTURBED}" if holds else ""


# The share of a cell's processes that may be slow before a warning says that the work or the machine is unsteady.
UNSTEADY = 1 / 6
# How many times its cell's median a slow process takes; a neighbour that shares a core makes it 1.3 to 1.8.
SLOW = 1.2
# A warning names up to this many cells: where the machine was unsteady, it is nearly all of them.
NAMED = 5


def unsteady(benchmark: str, figures: Mapping[str, Sequence[float]]) -> list[str]:
    """Return a warning that names the cells of which more than a sixth of the processes were slow."""
    disturbed = [label for label, of_cell in figures.items() if of_cell and _slow(of_cell) > UNSTEADY * len(of_cell)]
    if not disturbed:
        return []
    return [
        f"in '{benchmark}' more than a sixth of the processes took {SLOW:g} times their cell's median "
        f"({len(disturbed)} of {len(figures)} cells: {_named(disturbed)}): unsteady work, or other guests of the "
        "physical host that no counter shows; repeat at another time, or with more rounds."
    ]


def _named(labels: Sequence[str]) -> str:
    more = len(labels) - NAMED
    return ", ".join(labels[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _slow(figures: Sequence[float]) -> int:
    return sum(figure > SLOW * statistics.median(figures) for figure in figures)
