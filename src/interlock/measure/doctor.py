"""Checks of this machine: what it can and cannot do, with a fix for each problem."""

from __future__ import annotations

import os
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
RESULTS = "disk for results"
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
    fix = "" if cores > 1 else "Use a machine with two cores: here server and client of `download` share one."
    yield _check("cores", f"{cores} x {facts['cpu']}", fix)
    yield from _tuning(facts)
    yield _results(results)
    try:
        lock.holder()
    except StoreError as error:
        yield MachineCheck("lock", CheckState.PROBLEM, f"{error.file}: {error.found}", error.todo)


def _check(subject: str, observation: str, fix: str = "", *, by_playbook: bool = False) -> MachineCheck:
    """Return a check that warns where there is something to mend."""
    return MachineCheck(subject, CheckState.WARNING if fix else CheckState.OK, observation, fix, by_playbook)


def _tuning(facts: dict[str, Any]) -> Iterator[MachineCheck]:
    governor = facts.get("governor")
    if governor is None:
        tuning = "the processor's frequency is not visible (a virtual machine): other guests may change it"
        yield _check("tuning", tuning, "Compare within one experiment only, or measure on real hardware.")
    elif governor != "performance" or facts.get("no_turbo") == "0":
        tuning = f"governor {governor}, turbo {'on' if facts.get('no_turbo') == '0' else 'off or unknown'}"
        yield _check("tuning", tuning, "sudo python -m pyperf system tune", by_playbook=True)
    else:
        yield _check("tuning", f"governor {governor}")
    load, cores = facts["load_1min"], facts["cores"]
    fix = "Stop other programs (`top` shows them): they widen every interval." if load > cores / 2 else ""
    yield _check("load", f"{load} over the last minute on {cores} cores", fix)


def _results(folder: Path) -> MachineCheck:
    """Return the check of where experiments are kept, a folder that may not be there yet."""
    # `Path.exists` raises PermissionError on 3.11.
    there = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)  # noqa: PTH110
    if os.access(there, os.W_OK | os.X_OK):
        return _disk(RESULTS, folder)
    todo = "Name another folder with --results, or set XDG_DATA_HOME or HOME to a folder of yours."
    return _check(RESULTS, f"{folder} cannot be written", todo)


def _disk(subject: str, folder: Path, shows: str = "") -> MachineCheck:
    free = machine.free_bytes(folder)
    if free is None:
        return _check(subject, f"{folder} is not visible from here", f"Check on the engine's machine: df -h {folder}")
    fix = f"Have {WANTED_DISK_BYTES // 10**9} GB free there{shows}." if free < WANTED_DISK_BYTES else ""
    return _check(subject, f"{free // 10**9} GB free at {folder}", fix)


def _engine(engine: dict[str, Any]) -> Iterator[MachineCheck]:
    product = PRODUCTS[EngineName(engine["name"])]
    yield _check("engine", f"{product}, version {engine['version']}, cgroup v{engine['cgroup_version']}")
    driver = engine["storage_driver"]
    fix = "Configure overlay2, which production hosts use: start-up and import figures contain this driver's cost."
    yield _check("storage driver", driver, fix if driver in SLOW_DRIVERS else "")


def _buildkit(containers: DockerEngine) -> MachineCheck:
    """Return whether Dockerfiles of a service may use what BuildKit alone builds; the project's own use none of it."""
    version = buildx_for(containers.client)
    if version or containers.name is EngineName.PODMAN:
        return _check("BuildKit", version or "Podman builds what it builds")
    # No warning: it makes no figure worse, and the project's own builds need it not.
    refusal = "not there, so a trial of a Dockerfile with RUN --mount or a heredoc is refused: install docker-buildx"
    return _check("BuildKit", refusal)


def _engine_disk(engine: dict[str, Any], *, is_elsewhere: bool) -> Iterator[MachineCheck]:
    if engine["data_root"] and not is_elsewhere:
        shows = f": `{engine['name']} system df` shows what images take"
        yield _disk("disk for images", Path(engine["data_root"]), shows)


def _base(engine: DockerEngine, base: Base) -> MachineCheck:
    try:
        return _check("base image", engine.base_words(base))
    except InterlockError as error:
        problem = f"no registry answers, and {error.found}"
        return MachineCheck("base image", CheckState.PROBLEM, problem, error.todo, by_playbook=True)


def _probes(engine: DockerEngine, root: Path, base: Base) -> Iterator[MachineCheck]:
    # An owner of its own, so that what an interrupted doctor leaves can be told from an experiment's and removed.
    owner = f"doctor-{uuid.uuid4().hex[:12]}"
    workspace = engine.find_workspace(owner, root, base)
    if workspace is None:
        yield _check("probe", "is tried once `interlock matrix` has built the instruments")
        return
    try:
        who = lock.holder()
    except StoreError:  # there is a check of that
        return
    if who:  # two probes exclude each other, and a probe here would disturb its timing
        yield _check("probe", f"is tried once {who} releases the lock")
        return
    try:
        yield probe_check(best_probe(workspace))
    except TracerError as error:
        yield MachineCheck("probe", CheckState.PROBLEM, error.found, error.todo)
    except InterlockError as error:
        yield _check("probe", error.found, error.todo)
    finally:
        engine.clean_up(owner)


def probe_check(probe: Probe) -> MachineCheck:
    """Return the check of how system calls are counted, and why not better."""
    words = "; ".join([PROBES[probe.method], *(f"not {method}: {reason}" for method, reason in probe.refused.items())])
    fix = "Let the engine start a container with BPF, PERFMON, SYS_PTRACE and the host's PIDs."
    return _check("probe", words, fix if probe.refused else "")
