"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interlock.model import EngineName

Engine = Annotated[
    EngineName | None,
    typer.Option(envvar="INTERLOCK_ENGINE", help="Docker first, then Podman, then this machine itself by default."),
]
Names = Annotated[str | None, typer.Option(help="Comma-separated names; all of them without this option.")]
Release = Annotated[bool, typer.Option("--release", help="The profile 'release' (PGO and LTO) instead of 'standard'.")]
Variants = Annotated[list[str] | None, typer.Argument(help="Variants; all of them by default.")]
Folder = Annotated[Path | None, typer.Argument(help="An experiment's folder; the latest by default.")]
Results = Annotated[Path | None, typer.Option(help="Folder of the experiments; the project's results/ by default.")]
