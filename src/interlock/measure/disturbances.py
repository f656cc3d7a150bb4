"""What disturbed a measurement: differences between two samples of /proc and /sys, and processes that were slow.

The files are described in proc(5) and in https://docs.kernel.org/admin-guide/pm/cpufreq.html.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")

# Share of all CPU time. A guest that waits for its CPU stands still while CLOCK_MONOTONIC goes on.
STEAL_LIMIT = 0.01
# Share of one core. A process that shares a core for a twentieth of the time adds about as much to a value, which is
# more than many variants differ; what the kernel and the engine use by themselves stays below.
BUSY_LIMIT = 0.05

# The engine's processes work for the experiment; a name in /proc has 15 characters. Podman's is last.
SUPERVISORS = {"containerd-shim", "conmon"}
ENGINE = SUPERVISORS | {"dockerd", "containerd", "docker-proxy", "fuse-overlayfs", "podman"}

REMOTE = (
    "The engine is on another machine, which cannot be watched from here: "
    "check with `top` there that nothing else runs, or measure with a local engine."
)


@dataclass(frozen=True)
class RunningProcess:
    """A row of the process table. Times are CPU seconds since it started: its own, and of children that ended."""

    name: str
    parent: int
    started_ticks: int  # after boot: a process id may be used again
    own_s: float
    ended_children_s: float
    command: str  # of a container's supervisor, which names the container's id


@dataclass(frozen=True)
class Sample:
    """What was read at one moment; None is what could not be read. CPU times are seconds since boot over all CPUs."""

    clock_s: float
    total_s: float | None = None
    busy_s: float | None = None  # in processes: time in interrupts is nobody's
    steal_s: float | None = None
    swapped_in_pages: int | None = None
    swapped_out_pages: int | None = None
    throttles: Mapping[str, int] | None = None  # by CPU and counter
    governors: Mapping[str, str] | None = None  # by CPU
    max_frequencies_khz: Mapping[str, int] | None = None
    processes: Mapping[int, RunningProcess] = field(default_factory=dict)


class Watch:
    """Watches the machine from its creation until `warnings` is called. An engine on another machine is not watched."""

    def __init__(self, *, is_elsewhere: bool) -> None:
        self._before = None if is_elsewhere else sample()

    def warnings(self, containers: Collection[str], launched_s: float | None) -> list[str]:
        """Return a sentence for each disturbance in between; the arguments are those of `disturbances`."""
        return [] if self._before is None else disturbances(self._before, sample(), containers, launched_s)


def sample(root: Path = Path("/")) -> Sample:
    """Read the state of the machine from the files below `root`; takes a few milliseconds."""
    cpu = _cpu_times(root)
    memory = _pairs(_text(root / "proc/vmstat"))
    return Sample(
        clock_s=time.monotonic(),
        total_s=cpu.get("total"),
        busy_s=cpu.get("busy"),
        steal_s=cpu.get("steal"),
        swapped_in_pages=memory.get("pswpin"),
        swapped_out_pages=memory.get("pswpout"),
        throttles=_numbers(_per_cpu(root, "thermal_throttle/*_throttle_count")),
        governors=_per_cpu(root, "cpufreq/scaling_governor"),
        max_frequencies_khz=_numbers(_per_cpu(root, "cpufreq/scaling_max_freq")),
        processes=dict(_processes(root)),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _cpu_times(root: Path) -> dict[str, float]:
    """Return seconds since boot from the first line of /proc/stat; guests' time is part of user and nice."""
    words = _text(root / "proc/stat").partition("\n")[0].split()
    if len(words) < 9 or not all(map(_is_number, words[1:9])):
        return {}
    user, nice, system, idle, iowait, irq, softirq, steal = (int(word) / TICKS_PER_S for word in words[1:9])
    total = user + nice + system + idle + iowait + irq + softirq + steal
    return {"total": total, "busy": user + nice + system, "steal": steal}


def _pairs(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and _is_number(pair[1])}


def _is_number(word: str) -> bool:
    """Return whether it is a number as kernels print them; anything else counts as unknown and ends no experiment."""
    return word.isascii() and word.isdecimal() and len(word) <= 20


def _per_cpu(root: Path, pattern: str) -> dict[str, str] | None:
    folder = root / "sys/devices/system/cpu"
    texts = {str(path.relative_to(folder)): _text(path).strip() for path in folder.glob(f"cpu[0-9]*/{pattern}")}
    return {path: text for path, text in sorted(texts.items()) if text} or None


def _numbers(texts: Mapping[str, str] | None) -> dict[str, int] | None:
    return None if texts is None else {path: int(text) for path, text in texts.items() if _is_number(text)}


def _processes(root: Path) -> Iterator[tuple[int, RunningProcess]]:
    for folder in (root / "proc").glob("[0-9]*"):
        name, _, rest = _text(folder / "stat").partition("(")[2].rpartition(")")
        words = rest.split()
        # One that has ended in the meantime has none.
        if len(words) < 20 or not all(_is_number(words[index]) for index in (1, 11, 12, 13, 14, 19)):
            continue
        own_s = (int(words[11]) + int(words[12])) / TICKS_PER_S
        ended_s = (int(words[13]) + int(words[14])) / TICKS_PER_S
        command = _text(folder / "cmdline") if name in SUPERVISORS else ""
        yield int(folder.name), RunningProcess(name, int(words[1]), int(words[19]), own_s, ended_s, command)


def own_processes(after: Sample, containers: Collection[str]) -> set[int] | None:
    """Return the ids of Interlock's process and of everything in the containers with these ids.

    Return None if a container's supervisor is not visible (an engine in a virtual machine, another user's processes
    hidden): then it is unknown whose a process is.
    """
    marks = {container: _supervisor(after, container) for container in containers}
    if None in marks.values():
        return None
    own = {os.getpid(), *(pid for pid in marks.values() if pid is not None)}
    while more := {pid for pid, process in after.processes.items() if process.parent in own} - own:
        own |= more
    return own


def _supervisor(after: Sample, container: str) -> int | None:
    return next((pid for pid, process in after.processes.items() if container in process.command), None)


def experiments_cpu_s(before: Sample, after: Sample, own: Collection[int], launched_s: float) -> float:
    """Return the CPU seconds of the experiment between two samples: its processes and the engine's.

    A supervisor's ended children are what was started in its container and the engine's own starters. Where it does
    not wait for them (Podman), `launched_s` is their lower bound: the sum of what the launcher read of each process.
    """
    used = _used(before, after)
    running_s = sum(now[0] for pid, now in used.items() if pid in own or after.processes[pid].name in ENGINE)
    return running_s + max(launched_s, sum(used[pid][1] for pid in own if pid in used))


def _used(before: Sample, after: Sample) -> dict[int, tuple[float, float]]:
    """Return the CPU seconds between the samples by process id: its own, and those of children that ended.

    What a child had used before the first sample is subtracted from its parent, who inherits it when the child ends.
    """
    earlier: dict[int, float] = {}
    for pid, process in before.processes.items():
        if not _same(before, after, pid):
            heir = process.parent
            while heir in before.processes and not _same(before, after, heir):
                heir = before.processes[heir].parent
            earlier[heir] = earlier.get(heir, 0.0) + process.own_s + process.ended_children_s
    used = {}
    for pid, now in after.processes.items():
        then = before.processes[pid] if _same(before, after, pid) else None
        own_s, ended_s = (then.own_s, then.ended_children_s) if then else (0.0, 0.0)
        used[pid] = (now.own_s - own_s, max(0.0, now.ended_children_s - ended_s - earlier.get(pid, 0.0)))
    return used


def _same(before: Sample, after: Sample, pid: int) -> bool:
    """Return whether both samples have the same process with this id; ids are reused."""
    then, now = before.processes.get(pid), after.processes.get(pid)
    return then is not None and now is not None and then.started_ticks == now.started_ticks


def busiest(before: Sample, after: Sample, own: Collection[int]) -> list[str]:
    """Return up to three names of other processes than the experiment's and the engine's, with their share of a core.

    Processes of one name count together, ended children with their parent; those below 1 % are left out.
    """
    by_name: dict[str, float] = {}
    for pid, (own_s, ended_s) in _used(before, after).items():
        name = after.processes[pid].name
        if pid not in own and name not in ENGINE:
            by_name[name] = by_name.get(name, 0.0) + own_s + ended_s
    span_s = after.clock_s - before.clock_s
    ranked = sorted(by_name.items(), key=lambda item: -item[1])[:3]
    return [f"{name} {used_s / span_s:.0%}" for name, used_s in ranked if used_s >= 0.01 * span_s]


def disturbances(before: Sample, after: Sample, containers: Collection[str], launched_s: float | None) -> list[str]:
    """Return the warnings for the time between two samples in which the experiment used these containers.

    `launched_s` are the CPU seconds of the processes that were started in them; None if unknown.
    """
    own = None if launched_s is None else own_processes(after, containers)
    if own is None or launched_s is None:
        return warnings(before, after, None)
    own_s = experiments_cpu_s(before, after, own, launched_s)
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
        _changed("frequency governor", before.governors, after.governors),
        _changed("highest frequency (kHz)", before.max_frequencies_khz, after.max_frequencies_khz),
        _busy(before, after, own_cpu_s, disturbers),
    ]
    return [sentence for sentence in sentences if sentence]


def _gained(before: float | None, after: float | None) -> float:
    return 0.0 if before is None or after is None else after - before


def _stolen(before: Sample, after: Sample) -> str:
    total_s = _gained(before.total_s, after.total_s)
    share = _gained(before.steal_s, after.steal_s) / total_s if total_s > 0 else 0.0
    if share <= STEAL_LIMIT:
        return ""
    return (
        f"{share:.1%} of the CPU time was stolen by other guests of the physical host (steal in /proc/stat): "
        "repeat at another time, and trust ratios only."
    )


def _throttled(before: Sample, after: Sample) -> str:
    """Return the warning if a package throttled itself: each of its CPUs counts all events, so the highest counts."""
    then, now = before.throttles or {}, after.throttles or {}
    events = max((now[path] - then[path] for path in then.keys() & now.keys()), default=0)
    if events <= 0:
        return ""
    return f"the processor throttled itself {events} times because of heat: improve its cooling, and repeat."


def _swapped(before: Sample, after: Sample) -> str:
    pages_in = _gained(before.swapped_in_pages, after.swapped_in_pages)
    pages_out = _gained(before.swapped_out_pages, after.swapped_out_pages)
    if pages_in + pages_out <= 0:
        return ""
    return f"{pages_in:.0f} pages were swapped in and {pages_out:.0f} out: stop programs that use memory, and repeat."


def _changed(what: str, before: Mapping[str, object] | None, after: Mapping[str, object] | None) -> str:
    if before is None or after is None or before == after:
        return ""
    then, now = (", ".join(sorted({str(value) for value in values.values()})) for values in (before, after))
    return f"the {what} changed from {then} to {now}: run `sudo python -m pyperf system tune`, and repeat."


def _busy(before: Sample, after: Sample, own_cpu_s: float | None, disturbers: Collection[str]) -> str:
    if own_cpu_s is None or before.busy_s is None or after.busy_s is None:
        return ""
    share = (after.busy_s - before.busy_s - own_cpu_s) / (after.clock_s - before.clock_s)
    if share <= BUSY_LIMIT:
        return ""
    who = ", ".join(disturbers) or "all have ended"
    return f"other processes used {share:.0%} of a core ({who}): stop them, and repeat."


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
