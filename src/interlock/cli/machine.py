"""Commands about this machine, doctor and clean, and its preparation for measuring with playbooks/host.yml."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.text import Text

from interlock import __version__
from interlock.catalog.project import Catalog, ProjectPaths, cache_folder
from interlock.cli.images import choose_engine
from interlock.cli.options import Engine, console, open_project
from interlock.engine import protocol
from interlock.engine.docker import connect
from interlock.engine.host.engine import HostEngine, end_processes
from interlock.errors import EngineError, FleetError, UsageError
from interlock.fleet import ansible
from interlock.measure import doctor
from interlock.measure.doctor import Check, CheckState
from interlock.results.experiments import EngineName

NAMES = "Give the name of its folder in results/, or the start of it."


def doctor_command(engine: Engine = None) -> None:
    """Check this machine and suggest fixes.

    Exits with 1 if something prevents measuring.
    """
    paths, known = open_project()
    if engine is EngineName.HOST:
        checks = doctor.examine_host(paths.results)
    else:
        checks = doctor.examine(paths.root, next(iter(known.bases.values())), paths.results, engine=engine)
    print_checks([_project(paths), *checks])
    raise typer.Exit(1 if doctor.blocking(checks) else 0)


def _project(paths: ProjectPaths) -> Check:
    """Return where variants and workloads are read from, and which file of the user's was taken."""
    if paths.is_clone:
        return Check("project", CheckState.OK, str(paths.root))
    own = "; ".join(one.words for one in paths.own)
    found = f"Interlock {__version__} as it is installed{'; ' + own if own else ''}; results go to {paths.results}"
    return Check("project", CheckState.OK, found)


def clean_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Experiment name prefix.")], engine: Engine = None
) -> None:
    """Remove what killed experiments left behind.

    Ends their processes and removes their containers, networks, volumes and folders.
    """
    ended = end_processes(name)
    for one in ended:
        console.print(f"ended   {one}", highlight=False)
    removed = []
    for ready in _engines(engine):
        for owner in sorted(found for found in ready.owners() if found.startswith(name)):
            ready.clean_up(owner)
            removed.append(owner)
            console.print(f"removed {owner}", highlight=False)
    if not ended and not removed:
        raise UsageError(found=f"nothing is left of experiments with the prefix '{name}'", todo=NAMES)


def _engines(named: EngineName | None) -> list[protocol.Engine]:
    """Return this machine and, if one answers, the container engine."""
    found: list[protocol.Engine] = [HostEngine(Path(), cache_folder())]
    if named is EngineName.HOST:
        return found
    try:
        return [*found, connect(named)]
    except EngineError as error:
        if named is not None:
            raise
        console.print(Text(f"engine  {error.found}: nothing is removed from it"), soft_wrap=True)
        return found


def print_checks(checks: list[doctor.Check]) -> None:
    """Print a line for each check of the doctor."""
    for check in checks:
        fix = f"  -> {check.fix}" if check.fix else ""
        console.print(Text(f"{check.state.value:8} {check.subject}: {check.found}{fix}"), soft_wrap=True)


PLAYBOOK = "playbooks/host.yml"
GROUP = "docker"


@contextmanager
def ready_machine(
    paths: ProjectPaths, known: Catalog, profiled: bool, *, agreed: bool, engine: EngineName | None = None
) -> Iterator[protocol.Engine]:
    """Prepare this machine if it has to be, give its engine to the block, and undo the tuning afterwards.

    If no container engine is wanted or answers, the engine is this machine itself. EngineError for a problem that the
    playbook does not fix, or may not fix.
    """
    if engine is EngineName.HOST:
        yield _this_machine(paths, profiled)
        return
    checks = _examined(paths, known, profiled, engine)
    wrong = [check for check in checks if check.by_playbook]
    if not wrong or not _user_agrees(wrong, agreed):
        if engine is None and "DOCKER_HOST" not in os.environ and _lacks_engine(checks):
            yield _this_machine(paths, profiled)
            return
        _fail_on_blocking(checks, f" `interlock matrix --yes` does it, by {PLAYBOOK}.")
        yield connect(engine)
        return
    ansible.play_here(paths.root, "host.yml")
    try:
        _restart_in_new_group()
        _fail_on_blocking(_examined(paths, known, profiled, engine))
        yield connect(engine)
    finally:
        with suppress(FleetError):  # the results are worth more than the tuning
            ansible.play_here(paths.root, "restore.yml")


def _this_machine(paths: ProjectPaths, profiled: bool) -> protocol.Engine:
    """Return this machine as the engine; EngineError if it cannot compile."""
    checks = doctor.examine_host(paths.results, profiled=profiled)
    print_checks([check for check in checks if check.state is not doctor.CheckState.OK])
    _fail_on_blocking(checks)
    return choose_engine(paths, EngineName.HOST)


def _lacks_engine(checks: list[Check]) -> bool:
    return any(check.subject == "engine" for check in doctor.blocking(checks))


def _examined(paths: ProjectPaths, known: Catalog, profiled: bool, engine: EngineName | None) -> list[Check]:
    """Return the checks of this machine, and print those that are not OK."""
    base = next(iter(known.bases.values()))
    checks = doctor.examine(paths.root, base, paths.results, profiled=profiled, engine=engine)
    print_checks([check for check in checks if check.state is not doctor.CheckState.OK])
    return checks


def _fail_on_blocking(checks: list[Check], way: str = "") -> None:
    """Raise EngineError for a check that prevents measuring; `way` says how the playbook fixes it."""
    for check in doctor.blocking(checks):
        raise EngineError(key=check.subject, found=check.found, todo=f"{check.fix}{way if check.by_playbook else ''}")


def _user_agrees(wrong: list[Check], agreed: bool) -> bool:
    """Return whether the user agrees: by --yes, or asked at a terminal."""
    if agreed:
        return True
    if not sys.stdin.isatty():
        return False
    what = ", ".join(check.subject for check in wrong)
    console.print(Text(f"{PLAYBOOK} would fix: {what}. It installs packages, starts the engine and tunes the machine."))
    return typer.confirm("Run it on this machine?", default=False)


def _restart_in_new_group() -> None:
    """Start this process again if it lacks the engine's group: a process keeps the groups that it started with."""
    try:
        connect()
    except EngineError as error:
        if "permission denied" in error.found and "INTERLOCK_IN_GROUP" not in os.environ:
            _restart()


def _restart() -> NoReturn:
    os.environ["INTERLOCK_IN_GROUP"] = "1"
    sys.stdout.flush()
    os.execvp("sg", ["sg", GROUP, "-c", shlex.join(sys.orig_argv)])  # noqa: S606
