"""What the kernel has counted of a container's processes.

Read from its cgroup, in the container: an engine's own statistics are zero on some machines, and not every engine has
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from interlock.engine.output import run_in_workload
from interlock.errors import WorkloadError

CPU_FILES = [
    "/sys/fs/cgroup/cpu.stat",
    "/sys/fs/cgroup/cpuacct/cpuacct.usage_user",
    "/sys/fs/cgroup/cpuacct/cpuacct.usage_sys",
]
MEMORY_FILES = ["/sys/fs/cgroup/memory.stat", "/sys/fs/cgroup/memory/memory.stat"]
# cgroup v1 and v2 have different words for what belongs to processes and not to files.
OF_PROCESSES = ("total_rss", "anon")


@dataclass(frozen=True)
class CpuUsed:
    """By all processes of a container since its start, in seconds."""

    user_s: float
    sys_s: float

    @property
    def total_s(self) -> float:
        return self.user_s + self.sys_s

    def since(self, before: CpuUsed) -> CpuUsed:
        return CpuUsed(self.user_s - before.user_s, self.sys_s - before.sys_s)


def cpu_used(container: Any) -> CpuUsed:
    """Until now; WorkloadError if the container is gone or shows none."""
    return parse_cpu_used(run_in_workload(container, ["cat", *CPU_FILES]).stdout)


def memory_bytes(container: Any) -> int:
    """That is no file's, now; WorkloadError if the container is gone or shows none."""
    return parse_memory_bytes(run_in_workload(container, ["cat", *MEMORY_FILES]).stdout)


def parse_cpu_used(text: str) -> CpuUsed:
    """Of cgroup v2 names and microseconds, of v1 two numbers of nanoseconds."""
    lines = [line.split() for line in text.splitlines()]
    named = {line[0]: int(line[1]) for line in lines if len(line) == 2}
    if "user_usec" in named and "system_usec" in named:
        return CpuUsed(named["user_usec"] / 1e6, named["system_usec"] / 1e6)
    numbers = [int(line[0]) for line in lines if len(line) == 1]
    if len(numbers) == 2:
        return CpuUsed(numbers[0] / 1e9, numbers[1] / 1e9)
    raise WorkloadError(found="the kernel shows no CPU time of a container", todo="See /sys/fs/cgroup in a container.")


def parse_memory_bytes(text: str) -> int:
    """Of either version of cgroups the lines `name bytes`."""
    named = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    for name in OF_PROCESSES:
        if name in named:
            return int(named[name])
    raise WorkloadError(found="the kernel shows no memory of a container", todo="See /sys/fs/cgroup in a container.")
