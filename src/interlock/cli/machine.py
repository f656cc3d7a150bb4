"""The commands about this machine, `doctor` and `clean`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from interlock import __version__
from interlock.catalog.project import Catalog, ProjectPaths
from interlock.cli.options import Engine, Json, console, open_project
from interlock.engine import finding, left_behind, protocol
from interlock.engine.checks import CheckState, MachineCheck
from interlock.engine.ownership import Life
from interlock.errors import UsageError
from interlock.measure import doctor
from interlock.results.commands import runnable
from interlock.results.experiments import PRODUCTS, EngineName
from interlock.results.json_documents import Examined

# How long an idle engine takes to finish what a killed process had asked it to make.
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
    checks = [_project(paths), *_examined(paths, known, engine)]
    blocked = bool(doctor.blocking(checks))
    if as_json:
        document = Examined.model_validate({"can_measure": not blocked, "checks": checks}, from_attributes=True)
        sys.stdout.write(document.model_dump_json(indent=1) + "\n")
    else:
        print_checks(checks)
    raise typer.Exit(1 if blocked else 0)


def _examined(paths: ProjectPaths, known: Catalog, engine: EngineName | None) -> list[MachineCheck]:
    """Return what `matrix` would use here, and the checks of that."""
    outcome = finding.find_containers(engine)
    if outcome.containers is not None:
        where = f"{PRODUCTS[outcome.containers.name]} at {outcome.containers.address.host}"
        base = next(iter(known.bases.values()))
        used = MachineCheck("used by matrix", CheckState.OK, where)
        return [used, *doctor.examine(outcome.containers, paths.root, base, paths.results)]
    if outcome.refusal is None or engine is None:
        why = f", because {outcome.why_none}" if outcome.refusal else ""
        used = MachineCheck("used by matrix", CheckState.OK, f"{PRODUCTS[EngineName.HOST]}{why}")
        return [used, *doctor.examine_host(paths.results)]
    fix = f"{outcome.refusal.todo}{' Or: interlock matrix --yes' if outcome.could_install(engine) else ''}"
    return [MachineCheck("engine", CheckState.PROBLEM, outcome.why_none, fix), *doctor.examine_machine(paths.results)]


def _project(paths: ProjectPaths) -> MachineCheck:
    """Return where variants and workloads are read from, and which of the user's files are used."""
    if paths.is_clone:
        return MachineCheck("project", CheckState.OK, str(paths.root))
    own = "; ".join(own_file.words for own_file in paths.own)
    project = f"Interlock {__version__} as it is installed{'; ' + own if own else ''}; results go to {paths.results}"
    return MachineCheck("project", CheckState.OK, project)


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
    engines, why_none = left_behind.engines(engine)
    ended = left_behind.end_processes(name, engines) if end else []
    for process in ended:
        console.say(f"ended   {process}")
    kept: dict[str, Life] = {}
    if why_none:
        console.say(f"engine  {why_none}: nothing is removed from it")
    removed = [owner for ready in engines for owner in _remove_twice(ready, name, kept)]
    if not name:
        removed += map(str, left_behind.remove_folders())
    for owner in removed:
        console.say(f"removed {owner}")
    for owner, life in kept.items():
        console.say(f"kept    {owner}: {KEPT[life].format(owner)}")
    if name and kept:
        how = "Ctrl-C where it runs, as another user has started it" if end else f"interlock clean --end {name}"
        raise UsageError(found=f"{next(iter(kept))} still runs", todo=f"End it: {how}")
    if name and not ended and not removed:
        raise UsageError(found=f"nothing has the name '{name}', or a name that begins with it", todo=NAMES)


def _remove_twice(engine: protocol.Engine, name: str, kept: dict[str, Life]) -> list[str]:
    """Remove what is left, and a moment later what the engine was still making for a killed process."""
    removed = list(_remove_left(engine, name, kept))
    if removed:
        time.sleep(IN_FLIGHT_S)
        removed += _remove_left(engine, name, kept)
    return list(dict.fromkeys(removed))


def _remove_left(engine: protocol.Engine, name: str, kept: dict[str, Life]) -> Iterator[str]:
    """Remove what owners with this prefix have left, and yield the owners; those that stay are added to `kept`."""
    for owner, life in sorted(engine.owners().items()):
        if not owner.startswith(name):
            continue
        if life is Life.LIVING or (life is Life.UNKNOWN and not name):
            kept[owner] = life
            continue
        engine.clean_up(owner)
        yield owner


def print_checks(checks: list[MachineCheck]) -> None:
    """Print each check of the doctor: a line, or on a terminal a paragraph with its fix below."""
    if console.is_terminal:
        table = Table.grid(padding=(0, 2))
        for check in checks:
            words = Text(f"{check.subject}: {check.found}")
            table.add_row(Text(check.state.value, style=STYLES[check.state]), words)
            if check.fix:
                table.add_row("", Text(f"-> {runnable(check.fix)}", style="dim"))
        console.print(table)
        return
    for check in checks:
        fix = f"  -> {runnable(check.fix)}" if check.fix else ""
        console.say(f"{check.state.value:8} {check.subject}: {check.found}{fix}")
