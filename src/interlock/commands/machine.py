"""Commands about this machine and this tool."""

from __future__ import annotations

from typing import Annotated

import typer

from interlock import __version__, doctor, leftovers
from interlock.commands.options import Engine
from interlock.engine.client import connect
from interlock.model import EngineName
from interlock.places import cache_folder
from interlock.routines import console, project, show


def doctor_command(engine: Engine = None) -> None:
    """Say what this machine can and cannot do, and how to mend each."""
    places, known = project()
    if engine is EngineName.HOST:
        checks = doctor.examine_host(places.results)
    else:
        checks = doctor.examine(places.root, next(iter(known.bases.values())), places.results, engine=engine)
    show(checks)
    raise typer.Exit(1 if doctor.blocking(checks) else 0)


def version() -> None:
    """Show the version of Interlock."""
    console.print(f"interlock {__version__}", highlight=False)


def clean_command(
    name: Annotated[str, typer.Argument(help="With what the names of the experiments begin.")],
    engine: Engine = None,
) -> None:
    """Remove what experiments that were killed left: processes, containers, networks, volumes and folders."""
    for one in leftovers.end_processes(name):
        console.print(f"ended   {one}", highlight=False)
    for one in leftovers.remove_here(cache_folder(), name):
        console.print(f"removed {one}", highlight=False)
    if engine is EngineName.HOST:
        return
    for one in leftovers.remove(connect(engine), name):
        console.print(f"removed {one}", highlight=False)
