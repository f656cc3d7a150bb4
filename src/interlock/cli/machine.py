"""Commands about this machine, doctor and clean, and its preparation for measuring with playbooks/host.yml."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.table import Table
from rich.text import Text

from interlock import __version__
from interlock.catalog.project import Catalog, ProjectPaths, cache_folder
from interlock.cli.images import this_machine
from interlock.cli.options import Engine, Json, console, open_project
from interlock.engine import protocol
from interlock.engine.docker import connect
from interlock.engine.host.engine import HostEngine, end_processes
from interlock.engine.ownership import Life, remove_dead
from interlock.errors import EngineError, FleetError, UsageError
from interlock.fleet import ansible
from interlock.measure import doctor
from interlock.measure.doctor import Check, CheckState
from interlock.results.experiments import EngineName
from interlock.results.json_documents import DoctorCheck, Examined

# How long an engine that is not busy takes to make what a killed process had asked it for.
IN_FLIGHT_S = 1
KEPT = {
    Life.LIVING: "it still runs",
    Life.UNKNOWN: "made elsewhere or by an older version; to remove it: interlock clean {}",
}
STYLES = {CheckState.OK: "", CheckState.WARNING: "yellow", CheckState.PROBLEM: "bold red"}
NAMES = "Give the name of an experiment, as its folder in results/ is called, or a prefix of the name."


def doctor_command(engine: Engine = None, as_json: Json = False) -> None:
    """Check this machine and suggest fixes.

    Exits with 1 if something prevents measuring.
    """
    paths, known = open_project()
    if engine is EngineName.HOST:
        checks = doctor.examine_host(paths.results)
    else:
        checks = doctor.examine(paths.root, next(iter(known.bases.values())), paths.results, engine=engine)
    checks = [_project(paths), *checks]
    blocked = bool(doctor.blocking(checks))
    if as_json:
        sys.stdout.write(_document(checks, blocked).model_dump_json(indent=1) + "\n")
    else:
        print_checks(checks)
    raise typer.Exit(1 if blocked else 0)


def _document(checks: list[Check], blocked: bool) -> Examined:
    shown = [DoctorCheck(subject=one.subject, state=one.state, found=one.found, fix=one.fix) for one in checks]
    return Examined(can_measure=not blocked, checks=shown)


def _project(paths: ProjectPaths) -> Check:
    """Return where variants and workloads are read from, and which file of the user's was taken."""
    if paths.is_clone:
        return Check("project", CheckState.OK, str(paths.root))
    own = "; ".join(one.words for one in paths.own)
    found = f"Interlock {__version__} as it is installed{'; ' + own if own else ''}; results go to {paths.results}"
    return Check("project", CheckState.OK, found)


def clean_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Experiment name prefix (default: all whose process has ended).")
    ] = "",
    engine: Engine = None,
    end: Annotated[bool, typer.Option("--end", help="End the experiments of NAME first if they still run.")] = False,
) -> None:
    """Remove what killed runs left behind.

    Removes containers, networks, volumes, images and folders of processes that have ended. Give NAME to remove what
    another machine or an older version made. Keeps experiments that still run, unless --end ends them.
    """
    if end and not name:
        raise UsageError(
            key="--end", found="is given without NAME", todo="Name the experiment: interlock clean --end NAME"
        )
    ended = end_processes(name) if end else []
    for one in ended:
        console.print(f"ended   {one}", highlight=False)
    kept: dict[str, Life] = {}
    removed = [one for ready in _engines(engine) for one in _remove_twice(ready, name, kept)]
    if not name:
        removed += [str(folder) for folder in remove_dead(Path(tempfile.gettempdir()), cache_folder())]
    for one in removed:
        console.print(f"removed {one}", highlight=False)
    for owner, found in kept.items():
        console.print(f"kept    {owner}: {KEPT[found].format(owner)}", highlight=False)
    if name and kept:
        raise UsageError(found=f"{next(iter(kept))} still runs", todo=f"End it: interlock clean --end {name}")
    if name and not ended and not removed:
        raise UsageError(found=f"nothing has the name '{name}', or a name that begins with it", todo=NAMES)


def _remove_twice(engine: protocol.Engine, name: str, kept: dict[str, Life]) -> list[str]:
    """Remove what is left, and a moment later what the engine was still making for a process that was killed."""
    found = list(_remove_left(engine, name, kept))
    if found:
        time.sleep(IN_FLIGHT_S)
        found += _remove_left(engine, name, kept)
    return list(dict.fromkeys(found))


def _remove_left(engine: protocol.Engine, name: str, kept: dict[str, Life]) -> Iterator[str]:
    """Remove what is left of owners whose name has this prefix, and yield them; those that stay are added to `kept`."""
    for owner, found in sorted(engine.owners().items()):
        if not owner.startswith(name):
            continue
        if found is Life.LIVING or (found is Life.UNKNOWN and not name):
            kept[owner] = found
            continue
        engine.clean_up(owner)
        yield owner


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
    """Print each check of the doctor: a line, or on a terminal a paragraph with its fix below."""
    if console.is_terminal:
        table = Table.grid(padding=(0, 2))
        for check in checks:
            words = Text(f"{check.subject}: {check.found}")
            table.add_row(Text(check.state.value, style=STYLES[check.state]), words)
            if check.fix:
                table.add_row("", Text(f"-> {check.fix}", style="dim"))
        console.print(table)
        return
    for check in checks:
        fix = f"  -> {check.fix}" if check.fix else ""
        console.print(Text(f"{check.state.value:8} {check.subject}: {check.found}{fix}"), soft_wrap=True)


PLAYBOOK = "playbooks/host.yml"
GROUP = "docker"


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

    If no container engine is wanted or answers, the engine is this machine itself. EngineError for a problem that the
    playbook does not fix, or may not fix.
    """
    if engine is EngineName.HOST:
        yield _this_machine(paths, profiled, as_root=as_root)
        return
    checks = _examined(paths, known, profiled, engine)
    wrong = [check for check in checks if check.by_playbook]
    if not wrong or not _user_agrees(wrong, agreed):
        if engine is None and "DOCKER_HOST" not in os.environ and _lacks_engine(checks):
            yield _this_machine(paths, profiled, as_root=as_root)
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


def _this_machine(paths: ProjectPaths, profiled: bool, *, as_root: bool) -> protocol.Engine:
    """Return this machine as the engine; EngineError if it cannot compile, or if root has not said --as-root."""
    found = this_machine(paths, as_root=as_root)
    checks = doctor.examine_host(paths.results, profiled=profiled)
    print_checks([check for check in checks if check.state is not doctor.CheckState.OK])
    _fail_on_blocking(checks)
    return found


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
