"""Commands about this machine and Interlock itself: doctor and clean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from interlock.catalog.paths import cache_folder
from interlock.cli.console import console, open_project
from interlock.cli.options import Engine
from interlock.engine import protocol
from interlock.engine.docker import connect
from interlock.engine.host.engine import HostEngine, end_processes
from interlock.errors import EngineError, UsageError
from interlock.measure import doctor
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
    print_checks(checks)
    raise typer.Exit(1 if doctor.blocking(checks) else 0)


def clean_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Experiment name prefix.")],
    engine: Engine = None,
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
