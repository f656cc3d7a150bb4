"""What this machine can and cannot do, and how to mend each."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from docker.errors import DockerException

from interlock import host, turns
from interlock.engine.base import debian_mirrors, find_base, may_be_root
from interlock.engine.cells import clean_up
from interlock.engine.client import connect, engine_facts
from interlock.engine.helpers import find_helper
from interlock.engine.host import toolchain
from interlock.errors import InterlockError, TracerError
from interlock.model import PRODUCTS, Base, EngineName, Method, Probe
from interlock.probes import best_probe
from interlock.stability import engine_is_elsewhere

WANTED_DISK_BYTES = 10 * 10**9
SLOW_DRIVERS = {"fuse-overlayfs", "vfs"}
PROBES = {
    Method.BPF: "BPF: every system call with its time, futex operations and waits; does not perturb",
    Method.TRACEPOINTS: "perf's tracepoints: calls without times; does not perturb",
    Method.STRACE_FUTEX: "strace by seccomp-bpf: futex calls alone; perturbs",
    Method.STRACE: "strace: calls without times; perturbs",
}


class Verdict(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at. `mend` is empty when there is nothing to mend."""

    subject: str
    verdict: Verdict
    found: str
    mend: str = ""
    by_playbook: bool = False  # whether playbooks/host.yml mends it


def examine(
    root: Path, base: Base, results: Path, *, profiled: bool = True, engine: EngineName | None = None
) -> list[Check]:
    """All checks; those that need the engine are left out when it does not answer, the probe's if none is wanted."""
    checks = list(_machine(results))
    try:
        client = connect(engine)
    except InterlockError as error:
        return [Check("engine", Verdict.PROBLEM, error.found, error.todo, by_playbook=True), *checks]
    probes = _probes(client, root, base) if profiled else ()
    found = engine_facts(client)
    return [*_engine(found), *checks, _base(client, base), *probes, *_engine_disk(found)]


def examine_host(results: Path, *, profiled: bool = True) -> list[Check]:
    """All checks of a machine that does without containers."""
    return [*_host_engine(), *_machine(results), *(_host_probe() if profiled else ())]


def _host_engine() -> Iterator[Check]:
    lost = "networks and memory are not fenced; services, conditions and cold caches need a container engine"
    yield Check("engine", Verdict.WARNING, f"this machine itself, without containers: {lost}", "See docs/engines.md.")
    for subject, needs, verdict in (
        ("compiler", toolchain.PROGRAMS, Verdict.PROBLEM),
        ("libraries", toolchain.LIBRARIES, Verdict.WARNING),
        ("server", toolchain.SERVER, Verdict.WARNING),
    ):
        lacking = toolchain.missing(needs)
        found = f"no {', '.join(need.what for need in lacking)}" if lacking else "all there"
        mend = toolchain.install_command(lacking) if lacking else ""
        yield Check(subject, verdict if lacking else Verdict.OK, found, mend)


def _host_probe() -> Iterator[Check]:
    lacking = toolchain.missing(toolchain.PROBE)
    if lacking:
        yield Check(
            "probe",
            Verdict.PROBLEM,
            "no strace, and no other probe without containers",
            f"{toolchain.install_command(lacking)}, or measure without a profile (--no-profile)",
        )
    else:
        yield Check("probe", Verdict.OK, "strace: calls without times; perturbs, in a pass of its own")


def blocking(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.verdict is Verdict.PROBLEM]


def _machine(results: Path) -> Iterator[Check]:
    facts = host.facts()
    cores = facts["cores"]
    yield Check(
        "cores",
        Verdict.OK if cores > 1 else Verdict.WARNING,
        f"{cores} x {facts['cpu']}",
        "" if cores > 1 else "With one core the server and the client of `download` share it: measure elsewhere.",
    )
    yield from _tuning(facts)
    yield _disk("disk for results", results)


def _tuning(facts: dict[str, Any]) -> Iterator[Check]:
    governor = facts.get("governor")
    if governor is None:
        found = "the frequency of the processor cannot be seen (a virtual machine): other guests may change it"
        yield Check(
            "tuning", Verdict.WARNING, found, "Trust ratios from one experiment only, or measure on real hardware."
        )
    elif governor != "performance" or facts.get("no_turbo") == "0":
        found = f"governor {governor}, turbo {'on' if facts.get('no_turbo') == '0' else 'off or unknown'}"
        yield Check("tuning", Verdict.WARNING, found, "sudo python -m pyperf system tune", by_playbook=True)
    else:
        yield Check("tuning", Verdict.OK, f"governor {governor}")
    load = facts["load_1min"]
    busy = load > facts["cores"] / 2
    yield Check(
        "load",
        Verdict.WARNING if busy else Verdict.OK,
        f"{load} over the last minute on {facts['cores']} cores",
        "Stop what else runs: it widens every spread." if busy else "",
    )


def _disk(subject: str, folder: Path) -> Check:
    free = host.free_bytes(folder)
    if free is None:
        return Check(subject, Verdict.WARNING, f"{folder} cannot be seen from here", "Look on the engine's machine.")
    enough = free >= WANTED_DISK_BYTES
    found = f"{free / 1e9:.0f} GB free at {folder}"
    return Check(subject, Verdict.OK if enough else Verdict.WARNING, found, "" if enough else "Free 10 GB.")


def _engine(engine: dict[str, Any]) -> Iterator[Check]:
    product = PRODUCTS[EngineName(engine["name"])]
    yield Check("engine", Verdict.OK, f"{product}, version {engine['version']}, cgroup v{engine['cgroup_version']}")
    driver = engine["storage_driver"]
    slow = driver in SLOW_DRIVERS
    yield Check(
        "storage driver",
        Verdict.WARNING if slow else Verdict.OK,
        driver,
        "Start-up and import figures contain its cost; overlay2 is what production hosts use." if slow else "",
    )


def _engine_disk(engine: dict[str, Any]) -> Iterator[Check]:
    if engine["data_root"] and not engine_is_elsewhere():
        yield _disk("disk for images", Path(engine["data_root"]))


def _base(client: Any, base: Base) -> Check:
    there = find_base(client, base)
    if there is not None:
        return Check("base image", Verdict.OK, f"{there.reference} is here (from {there.origin})")
    if _answers(lambda: client.images.get_registry_data(base.reference)):
        return Check("base image", Verdict.OK, f"the registry has {base.reference}")
    if shutil.which("debootstrap") is None:
        found = "no registry answers and debootstrap is not installed"
        return Check("base image", Verdict.PROBLEM, found, "apt-get install debootstrap.", by_playbook=True)
    if not may_be_root():
        mend = "Run as root or with sudo, or do without containers (--engine host)."
        return Check("base image", Verdict.PROBLEM, "no registry answers, and only root may run debootstrap", mend)
    try:
        mirror, _ = debian_mirrors()
    except InterlockError as error:
        return Check("base image", Verdict.PROBLEM, error.found, error.todo, by_playbook=True)
    return Check("base image", Verdict.OK, f"no registry answers; debootstrap will make {base.suite} from {mirror}")


def _answers(question: Callable[[], object]) -> bool:
    try:
        question()
    except DockerException:
        return False
    return True


def _probes(client: Any, root: Path, base: Base) -> Iterator[Check]:
    image_id = find_helper(client, root, "instruments", base)
    if image_id is None:
        yield Check("probe", Verdict.OK, "will be tried when the next matrix has built the instruments")
        return
    who = turns.holder()
    if who:  # its probe would be in the way of a trial here, and a trial here in the way of its timing
        yield Check("probe", Verdict.OK, f"will be tried after the turn of {who}")
        return
    # A name of its own, so that whatever is interrupted here can be told from an experiment's and removed.
    owner = f"doctor-{uuid.uuid4().hex[:12]}"
    try:
        yield from probe_checks(best_probe(client, image_id, owner))
    except TracerError as error:
        yield Check("probe", Verdict.PROBLEM, error.found, error.todo)
    except InterlockError as error:
        yield Check("probe", Verdict.WARNING, error.found, error.todo)
    finally:
        clean_up(client, owner)


def probe_checks(probe: Probe) -> Iterator[Check]:
    """What system calls are counted with and why with nothing better; whether instructions can be counted."""
    found = PROBES[probe.method]
    for method, reason in probe.refused.items():
        found += f"; not {method}: {reason}"
    mend = "" if not probe.refused else "The engine must allow SYS_ADMIN and the host's PIDs to a container of its own."
    yield Check("probe", Verdict.WARNING if probe.refused else Verdict.OK, found, mend)
    if probe.no_instructions:
        mend = "Set it, or do without." if "sysctl" in probe.no_instructions else "Measure on hardware, or do without."
        yield Check("counters", Verdict.WARNING, probe.no_instructions, mend)
    else:
        yield Check("counters", Verdict.OK, "instructions in user mode can be counted")
