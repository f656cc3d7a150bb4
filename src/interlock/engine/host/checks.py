"""The doctor's checks of this machine as the engine: what it has, and what it lacks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from interlock.catalog.project import cache_folder
from interlock.engine.checks import PROBES, CheckState, MachineCheck
from interlock.engine.host import account, memory, profiler, servers, toolchain
from interlock.engine.host.account import Account
from interlock.engine.host.toolchain import Need
from interlock.errors import UnsupportedHereError
from interlock.results.profiles import Method


def of_engine() -> Iterator[MachineCheck]:
    """Yield the checks of the engine itself, of the user it runs programs as, and of what it builds and serves with."""
    user = account.expected()
    yield _engine()
    yield _user(user)
    yield from _tools(user)


def of_probe() -> MachineCheck:
    """Return the check of how system calls are counted: by BPF, or by the probe that works without it."""
    try:
        profiler.require_bpf()
    except UnsupportedHereError as refused:
        if toolchain.missing(toolchain.PROBE):
            problem = f"no strace, and not {Method.BPF}: {refused.found}: system calls are not counted"
            return MachineCheck("probe", CheckState.WARNING, problem)
        problem = f"{PROBES[Method.STRACE_FUTEX]}; not {Method.BPF}, which `why` needs: {refused.found}"
        return MachineCheck("probe", CheckState.WARNING, problem, refused.todo.removesuffix("."))
    return MachineCheck("probe", CheckState.OK, PROBES[Method.BPF])


def _engine() -> MachineCheck:
    lost = "networks and memory are not isolated; services and cold caches need a container engine"
    return MachineCheck(
        "engine",
        CheckState.WARNING,
        f"this machine itself, without containers: {lost}",
        "Install Docker or Podman for them (docs/engines.md).",
    )


def _user(user: Account) -> MachineCheck:
    """Return the check of the user that builds and workloads run as."""
    if os.geteuid() != 0 or user.name:
        words = f"builds and workloads run as {user.name or 'this user'}"
        return MachineCheck("user", CheckState.OK, f"{words}, without rights" if user.name else words)
    if account.is_disposable():
        problem = "builds and workloads run as root: no user can be made for them"
        return MachineCheck("user", CheckState.WARNING, problem, "Install passwd and util-linux.")
    return MachineCheck(
        "user",
        CheckState.WARNING,
        "builds and workloads would run as root, which has to be said",
        "Run Interlock as another user, or with --as-root.",
    )


def _tools(user: Account) -> Iterator[MachineCheck]:
    """Yield the checks of the compilers, of the server, and of where cells write."""
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
    """Return the check of the download workloads' server, which names what is fetched for it."""
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


def of_packages() -> Iterator[MachineCheck]:
    """Yield one check with the command that installs all that is missing; nothing if nothing is."""
    lacking = toolchain.missing(toolchain.needs(traces=profiler.could_trace()))
    packages = toolchain.packages(lacking)
    if packages:
        count = f"{len(packages)} package{'s' * (len(packages) != 1)} would bring what is missing"
        yield MachineCheck("packages", CheckState.WARNING, count, toolchain.install_command(lacking))
