"""This machine made ready to measure: what would change is said and agreed to, then playbooks/host.yml does it."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer
from rich.text import Text
from ruamel.yaml import YAML

from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli.choosing import say_without_containers, this_machine
from interlock.cli.machine import print_checks
from interlock.cli.options import console
from interlock.engine import finding, protocol, system_packages
from interlock.engine.docker import DockerEngine
from interlock.engine.finding import Found
from interlock.engine.host import profiler
from interlock.engine.system_packages import Installation
from interlock.errors import EngineError, FleetError
from interlock.fleet import ansible
from interlock.measure import doctor
from interlock.measure.doctor import Check, CheckState
from interlock.results.experiments import PRODUCTS, EngineName

PLAYBOOK = "playbooks/host.yml"
GROUP = "docker"


@dataclass(frozen=True)
class Plan:
    """What is changed on this machine before anything is built, and which engine is used then."""

    engine: EngineName
    installs: Installation
    starts: bool = False  # Docker, now and at every boot
    tunes: bool = False
    traces: bool = False

    @property
    def changes(self) -> bool:
        """Return whether anything is to be done."""
        return bool(self.installs.names) or self.starts or self.tunes

    @property
    def lines(self) -> Iterator[str]:
        """Yield what would be done, in the order in which it is done."""
        if self.installs.names:
            yield f"installs {self.installs.words}"
        if self.starts:
            yield "starts Docker, now and at every boot, and lets this user talk to it"
        if self.tunes:
            yield "tunes the machine for timing (`pyperf system tune`) until the end"
        yield f"uses {PRODUCTS[self.engine]}; it takes about a minute and the downloads, then `expect` says the rest"

    @property
    def variables(self) -> dict[str, object]:
        """Return what the playbook is told."""
        engine = self.engine.value
        return {"interlock_engine": engine, "interlock_tunes": self.tunes, "interlock_traces": self.traces}


@contextmanager
def ready_machine(
    paths: ProjectPaths,
    known: Catalog,
    profiled: bool,
    *,
    agreed: bool,
    engine: EngineName | None = None,
    as_root: bool = False,
) -> Iterator[protocol.Engine]:
    """Prepare this machine if it has to be, give its engine to the block, and undo the tuning afterwards.

    Where no container engine was named and none can be had the engine is this machine itself. EngineError if the one
    that was named does not answer, or for a problem that the playbook may not mend, or does not.
    """
    with ExitStack() as undo:
        containers = None if engine is EngineName.HOST else _containers(paths, engine, agreed, undo)
        if containers is None:
            yield _this_machine(paths, profiled, agreed, undo, as_root=as_root)
        else:
            yield _with_containers(paths, known, profiled, containers, agreed, undo)


def _containers(paths: ProjectPaths, engine: EngineName | None, agreed: bool, undo: ExitStack) -> DockerEngine | None:
    """Return the container engine that answers, installed now where it may be; None if this machine takes its place."""
    found = finding.find_containers(engine)
    if found.containers is None and found.could_install(engine):
        wanted = engine or EngineName.DOCKER
        names = [*_packages(paths, "tools", "tools_common", "tools_containers"), *_engine_packages(paths, wanted)]
        plan = _plan(paths, wanted, names, starts=wanted is EngineName.DOCKER)
        if _user_agrees(plan, agreed):
            _prepare(paths, plan, undo)
            found = finding.find_containers(engine)
            _restart_in_new_group(found)
    if found.refusal is not None and engine is not None:
        raise (
            found.refusal.with_todo(f"`interlock matrix --yes` does it, by {PLAYBOOK}.")
            if found.could_install(engine)
            else found.refusal
        )
    if found.containers is None:
        more = "" if agreed or not found.could_install(engine) else " (`--yes` installs Docker)"
        say_without_containers(found, more)
    return found.containers


def _with_containers(
    paths: ProjectPaths, known: Catalog, profiled: bool, containers: DockerEngine, agreed: bool, undo: ExitStack
) -> protocol.Engine:
    """Return the engine once what it lacks is there: what makes the parent image, and the tuning of the machine."""
    base = next(iter(known.bases.values()))
    checks = _shown(doctor.examine(containers, paths.root, base, paths.results, profiled=profiled))
    wrong = {check.subject for check in checks if check.by_playbook}
    if wrong:
        names = _packages(paths, "tools", "tools_common", "tools_containers") if "base image" in wrong else []
        plan = _plan(paths, containers.name, names)
        if _user_agrees(plan, agreed):
            _prepare(paths, plan, undo)
            checks = _shown(doctor.examine(containers, paths.root, base, paths.results, profiled=profiled))
    _fail_on_blocking(checks, f" `interlock matrix --yes` does it, by {PLAYBOOK}.")
    return containers


def _this_machine(
    paths: ProjectPaths, profiled: bool, agreed: bool, undo: ExitStack, *, as_root: bool
) -> protocol.Engine:
    """Return this machine as the engine, with the packages that it lacks if it may have them.

    EngineError if it cannot measure, or for root of a machine who has not said --as-root.
    """
    found = this_machine(paths, as_root=as_root)
    if not finding.why_no_packages():
        traces = profiled and profiler.could_trace()
        keys = ("tools_common", "tools_host", *(["tools_tracing"] if traces else []))
        plan = _plan(paths, EngineName.HOST, _packages(paths, "tools", *keys), traces=traces)
        if plan.changes and _user_agrees(plan, agreed):
            _prepare(paths, plan, undo)
    _fail_on_blocking(_shown(doctor.examine_host(paths.results, profiled=profiled)))
    return found


def _plan(
    paths: ProjectPaths, engine: EngineName, names: Sequence[str], *, starts: bool = False, traces: bool = False
) -> Plan:
    """Return what has to be done to this machine for an engine that needs these packages."""
    tunes = any(check.by_playbook for check in doctor.examine_machine(paths.results))
    more = _packages(paths, "tools", "tools_tuning") if tunes else []
    installs = system_packages.installation([*names, *more], recommended=engine is EngineName.PODMAN)
    return Plan(engine, installs, starts, tunes, traces)


def _packages(paths: ProjectPaths, role: str, *keys: str) -> list[str]:
    """Return the distribution's names of packages, from the file that the playbook's role reads; none without it."""
    family = "RedHat" if shutil.which("dnf") else "Debian"
    path = paths.root / ansible.PLAYBOOKS / "roles" / role / "vars" / f"{family}.yml"
    if not path.is_file():  # a project of variants and workloads alone
        return []
    named = YAML(typ="safe").load(path)
    return [name for key in keys for name in named[key]]


def _engine_packages(paths: ProjectPaths, engine: EngineName) -> list[str]:
    if engine is EngineName.PODMAN:
        return _packages(paths, "podman", "podman_packages")
    known = system_packages.known(_packages(paths, "engine", "engine_packages_where_known"))
    return [*_packages(paths, "engine", "engine_packages"), *known]


def _prepare(paths: ProjectPaths, plan: Plan, undo: ExitStack) -> None:
    """Run the playbook. If it fails say what it has changed and how that is taken back, and go on without the rest."""
    before = system_packages.installed()
    if plan.tunes:
        undo.callback(_restore, paths.root)
    try:
        ansible.play_here(paths.root, "host.yml", plan.variables)
    except FleetError as error:
        brought = sorted(system_packages.installed() - before)
        console.print(Text(f"failed  {error}"), soft_wrap=True)
        if brought:
            removal = system_packages.removal(brought)
            console.print(Text(f"failed  it had installed {len(brought)}; to undo: {removal}"), soft_wrap=True)


def _restore(root: Path) -> None:
    with suppress(FleetError):  # the results are worth more than the tuning
        ansible.play_here(root, "restore.yml", {})


def _shown(checks: list[Check]) -> list[Check]:
    """Return the checks, and print those that are not OK."""
    print_checks([check for check in checks if check.state is not CheckState.OK])
    return checks


def _fail_on_blocking(checks: list[Check], way: str = "") -> None:
    """Raise EngineError for a check that prevents measuring; `way` says how the playbook mends it."""
    for check in doctor.blocking(checks):
        raise EngineError(key=check.subject, found=check.found, todo=f"{check.fix}{way if check.by_playbook else ''}")


def _user_agrees(plan: Plan, agreed: bool) -> bool:
    """Say what would be done, and return whether the user agrees: by --yes, or asked at a terminal."""
    if not agreed and not sys.stdin.isatty():
        return False
    for line in plan.lines:
        console.print(Text(f"plan    {line}"), soft_wrap=True)
    return agreed or typer.confirm(f"Do it, by {PLAYBOOK}?", default=False)


def _restart_in_new_group(found: Found) -> None:
    """Start this process again if it lacks the engine's group: a process keeps the groups that it started with."""
    denied = found.refusal is not None and "permission denied" in found.refusal.found
    if denied and "INTERLOCK_IN_GROUP" not in os.environ and shutil.which("sg"):
        _restart()


def _restart() -> NoReturn:
    os.environ["INTERLOCK_IN_GROUP"] = "1"
    sys.stdout.flush()
    os.execvp("sg", ["sg", GROUP, "-c", shlex.join(sys.orig_argv)])  # noqa: S606
