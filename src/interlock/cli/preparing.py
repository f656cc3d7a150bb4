"""Makes this machine ready to measure: says what would change, asks, and then lets playbooks/host.yml do it."""

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
from ruamel.yaml import YAML

from interlock.catalog.project import Catalog, ProjectPaths
from interlock.catalog.variants import Base
from interlock.cli.announcing import announce
from interlock.cli.choosing import say_without_containers, this_machine
from interlock.cli.machine import print_checks
from interlock.cli.options import console
from interlock.engine import finding, protocol, system_packages
from interlock.engine.checks import CheckState, MachineCheck
from interlock.engine.docker import DockerEngine
from interlock.engine.finding import Found
from interlock.engine.host import profiler
from interlock.engine.system_packages import Installation
from interlock.errors import EngineError, FleetError
from interlock.fleet import ansible
from interlock.measure import doctor
from interlock.results.experiments import PRODUCTS, EngineName

PLAYBOOK = "playbooks/host.yml"
WAY = f"`interlock matrix --yes` does it, by {PLAYBOOK}."
GROUP = "docker"
NAMES = {**PRODUCTS, EngineName.DOCKER: "Docker"}  # Podman has its API too


@dataclass(frozen=True)
class PreparationPlan:
    """What has to change on this machine before anything is built, and which engine is used then."""

    engine: EngineName
    installs: Installation
    starts: bool = False  # whether Docker is started, now and at every boot
    tunes: bool = False
    rest: str = ""  # how long the rest takes at most

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
            who = "" if os.geteuid() == 0 else ", and lets this user talk to it"
            yield f"starts Docker, now and at every boot{who}"
        if self.tunes:
            yield "tunes the machine for timing (`pyperf system tune`) until the end"
        then = f"; then, if nothing is built yet: {self.rest}" if self.rest else ""
        yield f"uses {NAMES[self.engine]}, in about a minute and the time of the downloads{then}"


@contextmanager
def ready_machine(
    paths: ProjectPaths,
    known: Catalog,
    profiled: bool,
    *,
    agreed: bool,
    engine: EngineName | None = None,
    as_root: bool = False,
    rest: str = "",
    dry_run: bool = False,
) -> Iterator[protocol.Engine]:
    """Prepare this machine if necessary, give its engine to the block, and undo the tuning afterwards.

    `rest` is what a plan says of the time after it; with `dry_run` the plan is printed, and nothing is changed. If no
    container engine was named and none can be had, the engine is this machine itself. EngineError if the named engine
    does not answer, or for a problem that the playbook may not mend or does not mend.
    """
    with ExitStack() as undo:
        preparation = _Preparation(paths, profiled, agreed, rest, undo, dry_run)
        containers = preparation.find_containers(engine)
        if containers is None:
            yield preparation.ready_here(as_root=as_root)
        else:
            yield preparation.ready_containers(containers, next(iter(known.bases.values())))


@dataclass(frozen=True)
class _Preparation:
    """Changes this machine before an experiment; `undo` takes back what must not stay."""

    paths: ProjectPaths
    profiled: bool
    agreed: bool
    rest: str
    undo: ExitStack
    dry_run: bool

    def find_containers(self, engine: EngineName | None) -> DockerEngine | None:
        """Return the container engine that answers, installed now if allowed; None if there is none."""
        outcome = finding.find_containers(engine)
        if outcome.containers is None and outcome.could_install(engine):
            wanted = engine or EngineName.DOCKER
            names = [*self._packages("tools", "tools_common", "tools_containers"), *self._engine_packages(wanted)]
            if self._does(wanted, names, starts=wanted is EngineName.DOCKER):
                outcome = finding.find_containers(engine)
                if _lacks_new_group(outcome):
                    self.undo.close()  # the restarted process finds nothing to tune, and would not undo it
                    _restart()
            elif self.agreed and self.dry_run:
                announce(dry_run=True)  # all further checks need an engine that is not there yet
        could = outcome.could_install(engine) and not self.agreed
        if outcome.refusal is not None and engine is not None:
            raise outcome.refusal.with_todo(WAY) if could else outcome.refusal
        if outcome.refusal is not None:
            say_without_containers(outcome, " (`--yes` installs Docker)" if could else "")
        return outcome.containers

    def ready_containers(self, containers: DockerEngine, base: Base) -> protocol.Engine:
        """Return the engine after adding what it lacks: the tools for the parent image, and the machine's tuning."""

        def examined() -> list[MachineCheck]:
            root, results = self.paths.root, self.paths.results
            return _shown(doctor.examine(containers, root, base, results, profiled=self.profiled))

        checks = examined()
        wrong = {check.subject for check in checks if check.by_playbook}
        names = self._packages("tools", "tools_common", "tools_containers") if "base image" in wrong else []
        may_install = not finding.why_no_packages()
        if wrong and self._does(containers.name, names):
            checks = examined()
        elif self.agreed and self.dry_run and names and may_install:
            announce(dry_run=True)  # nothing can be built before that
        # A user who agreed knows that the playbook did not mend it.
        _fail_on_blocking(checks, f" {WAY}" if may_install and not self.agreed else "")
        return containers

    def ready_here(self, *, as_root: bool) -> protocol.Engine:
        """Return this machine as the engine, with the packages that it lacks installed if allowed.

        EngineError if it cannot measure, or for a machine's root without --as-root.
        """
        here = this_machine(self.paths, as_root=as_root)
        traces = self.profiled and profiler.could_trace()
        names = self._packages("tools", "tools_common", "tools_host", *(["tools_tracing"] if traces else []))
        self._does(here.name, names, traces=traces)
        _fail_on_blocking(_shown(doctor.examine_host(self.paths.results, profiled=self.profiled)))
        return here

    def _plan(self, engine: EngineName, names: Sequence[str], *, starts: bool) -> PreparationPlan:
        """Return what has to be done to this machine for an engine that needs these packages."""
        tunes = any(check.by_playbook for check in doctor.examine_machine(self.paths.results))
        more = self._packages("tools", "tools_tuning") if tunes else []
        installs = system_packages.installation([*names, *more], recommended=engine is EngineName.PODMAN)
        return PreparationPlan(engine, installs, starts, tunes, self.rest)

    def _packages(self, role: str, *keys: str) -> list[str]:
        """Return the distribution's names of packages, from the file of the playbook's role; none if it has no file."""
        family = "RedHat" if shutil.which("dnf") else "Debian"
        path = self.paths.root / ansible.PLAYBOOKS / "roles" / role / "vars" / f"{family}.yml"
        if not path.is_file():  # a project with only variants and workloads
            return []
        named = YAML(typ="safe").load(path)
        return [name for key in keys for name in named[key]]

    def _engine_packages(self, engine: EngineName) -> list[str]:
        if engine is EngineName.PODMAN:
            return self._packages("podman", "podman_packages")
        known = system_packages.known(self._packages("engine", "engine_packages_where_known"))
        return [*self._packages("engine", "engine_packages"), *known]

    def _does(self, engine: EngineName, names: Sequence[str], *, starts: bool = False, traces: bool = False) -> bool:
        """Prepare this machine if it lacks anything, the user may do it and agrees; return whether it was tried.

        If the playbook fails, say what it has changed and how to undo that, and go on without the rest.
        """
        if finding.why_no_packages():
            return False
        plan = self._plan(engine, names, starts=starts)
        if not plan.changes or not _user_agrees(plan, self.agreed, dry_run=self.dry_run):
            return False
        before = system_packages.installed()
        if plan.tunes:
            self.undo.callback(_restore, self.paths.root)
        try:
            said = {"interlock_engine": engine.value, "interlock_tunes": plan.tunes, "interlock_traces": traces}
            ansible.play_here(self.paths.root, "host.yml", said)
        except FleetError as error:
            brought = sorted(system_packages.installed() - before)
            console.say(f"failed  {error}")
            if brought:
                console.say(f"failed  it had installed {len(brought)}; to undo: {system_packages.removal(brought)}")
        return True


def _restore(root: Path) -> None:
    with suppress(FleetError):  # the results are worth more than the tuning
        ansible.play_here(root, "restore.yml", {})


def _shown(checks: list[MachineCheck]) -> list[MachineCheck]:
    """Return the checks, and print those that are not OK."""
    print_checks([check for check in checks if check.state is not CheckState.OK])
    return checks


def _fail_on_blocking(checks: list[MachineCheck], way: str = "") -> None:
    """Raise EngineError for a check that prevents measuring; `way` says how the playbook can mend it."""
    for check in doctor.blocking(checks):
        raise EngineError(key=check.subject, found=check.found, todo=f"{check.fix}{way if check.by_playbook else ''}")


def _user_agrees(plan: PreparationPlan, agreed: bool, *, dry_run: bool) -> bool:
    """Say what would be done, and return whether the user agrees: by --yes, or when asked at a terminal.

    Where nothing is printed for people, nobody is asked.
    """
    if not agreed and not dry_run and (console.quiet or not sys.stdin.isatty()):
        return False
    for line in plan.lines:
        console.say(f"plan    {line}")
    if dry_run:
        return False
    return agreed or typer.confirm(f"Do it, by {PLAYBOOK}?", default=False)


def _lacks_new_group(outcome: Found) -> bool:
    """Return whether a restart would give this process the engine's group: it keeps the groups it started with."""
    denied = outcome.refusal is not None and "permission denied" in outcome.refusal.found
    return denied and "INTERLOCK_IN_GROUP" not in os.environ and bool(shutil.which("sg"))


def _restart() -> NoReturn:
    """Start this process again, in the engine's group."""
    os.environ["INTERLOCK_IN_GROUP"] = "1"
    sys.stdout.flush()
    os.execvp("sg", ["sg", GROUP, "-c", shlex.join(sys.orig_argv)])  # noqa: S606
