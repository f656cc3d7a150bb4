"""Checks of this machine: what it can and cannot do, with a fix for each problem."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from interlock.catalog.variants import Base
from interlock.engine import machine
from interlock.engine.build.one_build import buildx_for
from interlock.engine.checks import PROBES, CheckState, MachineCheck
from interlock.engine.docker import DockerEngine
from interlock.engine.host import checks
from interlock.errors import InterlockError, StoreError, TracerError
from interlock.measure import lock
from interlock.measure.probes import best_probe
from interlock.results.experiments import PRODUCTS, EngineName
from interlock.results.profiles import Probe

WANTED_DISK_BYTES = 10 * 10**9
SLOW_DRIVERS = {"fuse-overlayfs", "vfs"}


def examine(
    containers: DockerEngine, root: Path, base: Base, results: Path, *, profiled: bool = True
) -> list[MachineCheck]:
    """Return all checks of a machine whose container engine answers; none of the probe if `profiled` is false."""
    probes = _probes(containers, root, base) if profiled else ()
    engine = containers.facts()
    return [
        *_engine(engine),
        _buildkit(containers),
        *examine_machine(results),
        _base(containers, base),
        *probes,
        *_engine_disk(engine, is_elsewhere=containers.is_elsewhere),
    ]


def examine_host(results: Path, *, profiled: bool = True) -> list[MachineCheck]:
    """Return all checks of a machine that measures without containers; one names all packages that are missing."""
    probe = [checks.of_probe()] if profiled else []
    return [*checks.of_engine(), *examine_machine(results), *probe, *checks.of_packages()]


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
    try:
        lock.holder()
    except StoreError as error:
        yield MachineCheck("lock", CheckState.PROBLEM, f"{error.file}: {error.found}", error.todo)


def _tuning(facts: dict[str, Any]) -> Iterator[MachineCheck]:
    governor = facts.get("governor")
    if governor is None:
        tuning = "the processor's frequency is not visible (a virtual machine): other guests may change it"
        yield MachineCheck(
            "tuning", CheckState.WARNING, tuning, "Compare within one experiment only, or measure on real hardware."
        )
    elif governor != "performance" or facts.get("no_turbo") == "0":
        tuning = f"governor {governor}, turbo {'on' if facts.get('no_turbo') == '0' else 'off or unknown'}"
        yield MachineCheck("tuning", CheckState.WARNING, tuning, "sudo python -m pyperf system tune", by_playbook=True)
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


def _disk(subject: str, folder: Path, shows: str = "") -> MachineCheck:
    free = machine.free_bytes(folder)
    if free is None:
        fix = f"Check on the engine's machine: df -h {folder}"
        return MachineCheck(subject, CheckState.WARNING, f"{folder} is not visible from here", fix)
    space = f"{free // 10**9} GB free at {folder}"
    if free >= WANTED_DISK_BYTES:
        return MachineCheck(subject, CheckState.OK, space)
    return MachineCheck(subject, CheckState.WARNING, space, f"Have {WANTED_DISK_BYTES // 10**9} GB free there{shows}.")


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


def _buildkit(containers: DockerEngine) -> MachineCheck:
    """Return whether Dockerfiles of a service may use what BuildKit alone builds; the project's own use none of it."""
    version = buildx_for(containers.client)
    if version or containers.name is EngineName.PODMAN:
        return MachineCheck("BuildKit", CheckState.OK, version or "Podman builds what it builds")
    # No warning: it makes no figure worse, and the project's own builds need it not.
    found = "not there, so a trial of a Dockerfile with RUN --mount or a heredoc is refused: install docker-buildx"
    return MachineCheck("BuildKit", CheckState.OK, found)


def _engine_disk(engine: dict[str, Any], *, is_elsewhere: bool) -> Iterator[MachineCheck]:
    if engine["data_root"] and not is_elsewhere:
        shows = f": `{engine['name']} system df` shows what images take"
        yield _disk("disk for images", Path(engine["data_root"]), shows)


def _base(engine: DockerEngine, base: Base) -> MachineCheck:
    try:
        return MachineCheck("base image", CheckState.OK, engine.base_words(base))
    except InterlockError as error:
        problem = f"no registry answers, and {error.found}"
        return MachineCheck("base image", CheckState.PROBLEM, problem, error.todo, by_playbook=True)


def _probes(engine: DockerEngine, root: Path, base: Base) -> Iterator[MachineCheck]:
    # An owner of its own, so that what an interrupted doctor leaves can be told from an experiment's and removed.
    owner = f"doctor-{uuid.uuid4().hex[:12]}"
    workspace = engine.find_workspace(owner, root, base)
    if workspace is None:
        yield MachineCheck("probe", CheckState.OK, "is tried once `interlock matrix` has built the instruments")
        return
    try:
        who = lock.holder()
    except StoreError:  # there is a check of that
        return
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
    """Yield the checks of how system calls are counted, and why not better."""
    words = PROBES[probe.method]
    for method, reason in probe.refused.items():
        words += f"; not {method}: {reason}"
    fix = (
        ""
        if not probe.refused
        else "Let the engine start a container with BPF, PERFMON, SYS_PTRACE and the host's PIDs."
    )
    yield MachineCheck("probe", CheckState.WARNING if probe.refused else CheckState.OK, words, fix)
