"""Checks of this machine: what it can and cannot do, with a fix for each problem."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from interlock.catalog.project import cache_folder
from interlock.catalog.variants import Base
from interlock.engine import machine
from interlock.engine.build.base import debian_mirrors, require_mmdebstrap
from interlock.engine.docker import DockerEngine
from interlock.engine.host import account, memory, profiler, servers, toolchain
from interlock.engine.host.account import Account
from interlock.engine.host.toolchain import Need
from interlock.errors import InterlockError, TracerError, UnsupportedHereError
from interlock.measure import lock
from interlock.measure.profiling import best_probe
from interlock.results.experiments import PRODUCTS, EngineName
from interlock.results.profiles import Method, Probe

WANTED_DISK_BYTES = 10 * 10**9
SLOW_DRIVERS = {"fuse-overlayfs", "vfs"}
PROBES = {
    Method.BPF: "BPF: every system call with its time, futex operations and waits; does not slow them",
    Method.TRACEPOINTS: "perf's tracepoints: calls without times; does not slow them",
    Method.STRACE_FUTEX: "strace by seccomp-bpf: futex calls only; slows what it counts",
    Method.STRACE: "strace: calls without times; slows what it counts",
}


class CheckState(StrEnum):
    """Whether a check is fine, makes figures worse, or stops measuring."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class MachineCheck:
    """A check of the machine. `fix` is a command or an edit; empty when there is nothing to fix."""

    subject: str
    state: CheckState
    found: str
    fix: str = ""
    by_playbook: bool = False  # whether playbooks/host.yml fixes it


def examine(
    containers: DockerEngine, root: Path, base: Base, results: Path, *, profiled: bool = True
) -> list[MachineCheck]:
    """Return all checks of a machine whose container engine answers; none of the probe if `profiled` is false."""
    probes = _probes(containers, root, base) if profiled else ()
    found = containers.facts()
    return [
        *_engine(found),
        *examine_machine(results),
        _base(containers, base),
        *probes,
        *_engine_disk(found, is_elsewhere=containers.is_elsewhere),
    ]


def examine_host(results: Path, *, profiled: bool = True) -> list[MachineCheck]:
    """Return all checks of a machine that measures without containers; one names all packages that are missing."""
    user = account.expected()
    probe = _host_probe() if profiled else ()
    return [*_host_engine(), _host_user(user), *_host_tools(user), *examine_machine(results), *probe, *_packages()]


def _host_engine() -> Iterator[MachineCheck]:
    lost = "networks and memory are not isolated; services, conditions and cold caches need a container engine"
    yield MachineCheck(
        "engine",
        CheckState.WARNING,
        f"this machine itself, without containers: {lost}",
        "Install Docker or Podman for them (docs/engines.md).",
    )


def _host_user(user: Account) -> MachineCheck:
    """Return the check of whom builds and workloads run as."""
    if os.geteuid() != 0 or user.name:
        words = f"builds and workloads run as {user.name or 'this user'}"
        return MachineCheck("user", CheckState.OK, f"{words}, without rights" if user.name else words)
    if account.is_disposable():
        found = "builds and workloads run as root: no user can be made for them"
        return MachineCheck("user", CheckState.WARNING, found, "Install passwd and util-linux.")
    return MachineCheck(
        "user",
        CheckState.WARNING,
        "builds and workloads would run as root, which has to be said",
        "Run Interlock as another user, or with --as-root.",
    )


def _host_tools(user: Account) -> Iterator[MachineCheck]:
    """Yield the checks of what is compiled with, what serves, and where cells write."""
    zig = f"Interlock's own programs are, by zig of pip's index ({toolchain.ZIG_BYTES / 1e6:.0f} MB, not kept)"
    uncompiled = f"only what others built is measured; {zig}" if toolchain.missing(toolchain.COMPILER) else ""
    yield _needed("compiler", toolchain.PROGRAMS, uncompiled or "only what others built is measured")
    yield _needed("libraries", toolchain.LIBRARIES, "modules that link them are missing in what is built")
    yield _needed("GNU pth", toolchain.PTH_NEEDS, "modes that preload it are unsupported")
    yield _server(account.cache_for(user, cache_folder()))
    yield _memory(user)


def _needed(subject: str, needs: Sequence[Need], without: str) -> MachineCheck:
    lacking = toolchain.missing(needs)
    if not lacking:
        return MachineCheck(subject, CheckState.OK, "all found")
    return MachineCheck(subject, CheckState.WARNING, f"no {', '.join(need.what for need in lacking)}: {without}")


def _server(cache: Path) -> MachineCheck:
    """Return the check of the download workloads' server; what is fetched for it is said."""
    try:
        chosen = servers.choose(cache)
    except UnsupportedHereError as error:
        return MachineCheck("server", CheckState.WARNING, f"{error.found}: workloads with a server are unsupported")
    return MachineCheck("server", CheckState.WARNING if chosen.fetches else CheckState.OK, chosen.words)


def _memory(user: Account) -> MachineCheck:
    """Return the check of where cells write."""
    place = memory.choose(user)
    if memory.is_memory(place) and memory.has_room(place):
        return MachineCheck("memory", CheckState.OK, f"cells write to {memory.words(place)}")
    wanted = f"{memory.WANTED_BYTES // 2**20} MiB are not free in {memory.SHARED_MEMORY}"
    fix = "Give it room: `mount -o remount,size=1g /dev/shm`, or --shm-size=1g where the container is started."
    return MachineCheck("memory", CheckState.WARNING, f"cells write to {memory.words(place)}: {wanted}", fix)


def _packages() -> Iterator[MachineCheck]:
    """Yield one command for all that is missing; nothing if nothing is."""
    lacking = toolchain.missing(toolchain.needs(traces=profiler.could_trace()))
    if lacking:
        count = f"{len(lacking)} package{'s' * (len(lacking) != 1)} would bring what is missing"
        yield MachineCheck("packages", CheckState.WARNING, count, toolchain.install_command(lacking))


def _host_probe() -> Iterator[MachineCheck]:
    try:
        profiler.require_bpf()
    except UnsupportedHereError as error:
        yield _host_strace(error)
    else:
        yield MachineCheck("probe", CheckState.OK, PROBES[Method.BPF])


def _host_strace(refused: UnsupportedHereError) -> MachineCheck:
    """Return the check of the probe that is left without BPF."""
    if toolchain.missing(toolchain.PROBE):
        found = f"no strace, and not {Method.BPF}: {refused.found}: system calls are not counted"
        return MachineCheck("probe", CheckState.WARNING, found)
    found = f"{PROBES[Method.STRACE]}; not {Method.BPF}, which `why` needs: {refused.found}"
    return MachineCheck("probe", CheckState.WARNING, found, refused.todo.removesuffix("."))


def blocking(checks: list[MachineCheck]) -> list[MachineCheck]:
    """Return the checks that stop measuring."""
    return [check for check in checks if check.state is CheckState.PROBLEM]


def examine_machine(results: Path) -> Iterator[MachineCheck]:
    """Yield the checks of what measures, whatever the engine."""
    facts = machine.facts()
    cores = facts["cores"]
    yield MachineCheck(
        "cores",
        CheckState.OK if cores > 1 else CheckState.WARNING,
        f"{cores} x {facts['cpu']}",
        "" if cores > 1 else "Use a machine with two cores: here server and client of `download` share one.",
    )
    yield from _tuning(facts)
    yield _disk("disk for results", results)


def _tuning(facts: dict[str, Any]) -> Iterator[MachineCheck]:
    governor = facts.get("governor")
    if governor is None:
        found = "the processor's frequency is not visible (a virtual machine): other guests may change it"
        yield MachineCheck(
            "tuning", CheckState.WARNING, found, "Compare within one experiment only, or measure on real hardware."
        )
    elif governor != "performance" or facts.get("no_turbo") == "0":
        found = f"governor {governor}, turbo {'on' if facts.get('no_turbo') == '0' else 'off or unknown'}"
        yield MachineCheck("tuning", CheckState.WARNING, found, "sudo python -m pyperf system tune", by_playbook=True)
    else:
        yield MachineCheck("tuning", CheckState.OK, f"governor {governor}")
    load = facts["load_1min"]
    busy = load > facts["cores"] / 2
    yield MachineCheck(
        "load",
        CheckState.WARNING if busy else CheckState.OK,
        f"{load} over the last minute on {facts['cores']} cores",
        "Stop other programs (`top` shows them): they widen every interval." if busy else "",
    )


def _disk(subject: str, folder: Path) -> MachineCheck:
    free = machine.free_bytes(folder)
    if free is None:
        fix = f"Check on the engine's machine: df -h {folder}"
        return MachineCheck(subject, CheckState.WARNING, f"{folder} is not visible from here", fix)
    found = f"{free / 1e9:.0f} GB free at {folder}"
    if free >= WANTED_DISK_BYTES:
        return MachineCheck(subject, CheckState.OK, found)
    fix = f"Free {WANTED_DISK_BYTES / 1e9:.0f} GB: `docker system df` shows what images take."
    return MachineCheck(subject, CheckState.WARNING, found, fix)


def _engine(engine: dict[str, Any]) -> Iterator[MachineCheck]:
    product = PRODUCTS[EngineName(engine["name"])]
    yield MachineCheck(
        "engine", CheckState.OK, f"{product}, version {engine['version']}, cgroup v{engine['cgroup_version']}"
    )
    driver = engine["storage_driver"]
    slow = driver in SLOW_DRIVERS
    yield MachineCheck(
        "storage driver",
        CheckState.WARNING if slow else CheckState.OK,
        driver,
        "Configure overlay2, which production hosts use: start-up and import figures contain this driver's cost."
        if slow
        else "",
    )


def _engine_disk(engine: dict[str, Any], *, is_elsewhere: bool) -> Iterator[MachineCheck]:
    if engine["data_root"] and not is_elsewhere:
        yield _disk("disk for images", Path(engine["data_root"]))


def _base(engine: DockerEngine, base: Base) -> MachineCheck:
    there = engine.find_base(base)
    if there is not None:
        return MachineCheck("base image", CheckState.OK, f"{there.reference} is here (from {there.origin})")
    if engine.registry_has(base.reference):
        return MachineCheck("base image", CheckState.OK, f"the registry has {base.reference}")
    try:
        require_mmdebstrap()
        mirror, _ = debian_mirrors()
    except InterlockError as error:
        found = f"no registry answers, and {error.found}"
        return MachineCheck("base image", CheckState.PROBLEM, found, error.todo, by_playbook=True)
    return MachineCheck(
        "base image", CheckState.OK, f"no registry answers; mmdebstrap will make {base.suite} from {mirror}"
    )


def _probes(engine: DockerEngine, root: Path, base: Base) -> Iterator[MachineCheck]:
    # An owner of its own, so that what an interrupted doctor leaves can be told from an experiment's and removed.
    owner = f"doctor-{uuid.uuid4().hex[:12]}"
    workspace = engine.find_workspace(owner, root, base)
    if workspace is None:
        yield MachineCheck("probe", CheckState.OK, "is tried once `interlock matrix` has built the instruments")
        return
    who = lock.holder()
    if who:  # two probes exclude each other, and a probe here would disturb its timing
        yield MachineCheck("probe", CheckState.OK, f"is tried once {who} releases the lock")
        return
    try:
        yield from probe_checks(best_probe(workspace))
    except TracerError as error:
        yield MachineCheck("probe", CheckState.PROBLEM, error.found, error.todo)
    except InterlockError as error:
        yield MachineCheck("probe", CheckState.WARNING, error.found, error.todo)
    finally:
        engine.clean_up(owner)


def probe_checks(probe: Probe) -> Iterator[MachineCheck]:
    """Yield the checks of how system calls are counted, and why not better, and whether instructions can be."""
    found = PROBES[probe.method]
    for method, reason in probe.refused.items():
        found += f"; not {method}: {reason}"
    fix = (
        ""
        if not probe.refused
        else "Let the engine start a container with BPF, PERFMON, SYS_PTRACE and the host's PIDs."
    )
    yield MachineCheck("probe", CheckState.WARNING if probe.refused else CheckState.OK, found, fix)
    if probe.no_instructions:
        fix = (
            "sudo sysctl kernel.perf_event_paranoid=2"
            if "sysctl" in probe.no_instructions
            else "Measure on real hardware, if you need instructions."
        )
        yield MachineCheck("counters", CheckState.WARNING, probe.no_instructions, fix)
    else:
        yield MachineCheck("counters", CheckState.OK, "instructions in user mode can be counted")
