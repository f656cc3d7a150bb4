"""Commands about this machine and this tool."""

from __future__ import annotations

import typer

from interlock import __version__, doctor
from interlock.routines import console, project, show


def doctor_command() -> None:
    """Say what this machine can and cannot do, and how to mend each."""
    places, known = project()
    checks = doctor.examine(places.root, next(iter(known.bases.values())), places.results)
    show(checks)
    raise typer.Exit(1 if doctor.blocking(checks) else 0)


def version() -> None:
    """Show the version of Interlock."""
    console.print(f"interlock {__version__}", highlight=False)
