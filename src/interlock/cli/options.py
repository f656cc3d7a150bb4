"""What commands share: options and arguments, what they are turned into, the project and where to print."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from interlock.catalog import loading
from interlock.catalog.loading import Catalog, ProjectPaths
from interlock.results import store
from interlock.results.experiments import EngineName

Engine = Annotated[
    EngineName | None,
    typer.Option(
        envvar="INTERLOCK_ENGINE",
        help="What builds and measures (default: Docker, else Podman, else this machine without containers).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, errors too.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed for the order (default: random).")]
Profiled = Annotated[bool, typer.Option(help="Count system calls, in a separate pass.")]
Release = Annotated[
    bool,
    typer.Option("--release", help="Use the profile 'release' (PGO and LTO) instead of 'standard'."),
]
Results = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder of the experiments (default: results/ of the project).")
]
Variants = Annotated[list[str] | None, typer.Argument(metavar="VARIANT", help="Names of variants (default: all).")]
VariantNames = Annotated[str | None, typer.Option(metavar="A,B", help="Names of variants (default: all).")]
WorkloadNames = Annotated[str | None, typer.Option(metavar="X,Y", help="Names of workloads (default: all).")]
Folder = Annotated[
    Path | None, typer.Argument(metavar="FOLDER", help="Folder of an experiment (default: the latest one).")
]


def split_names(names: str | None) -> list[str] | None:
    """Return the names of a comma-separated list, or None if the option was not given."""
    return None if names is None else [name.strip() for name in names.split(",") if name.strip()]


def profile_name(release: bool) -> str:
    """Return the optimisation profile that --release selects."""
    return "release" if release else "standard"


# Where the width is unknown (a pipe, a log) lines are long rather than folded.
console = Console(width=None if Console().is_terminal or "COLUMNS" in os.environ else 160)


def open_project() -> tuple[ProjectPaths, Catalog]:
    """Return the paths of the project around the current folder, and what its files declare."""
    paths = ProjectPaths.find()
    return paths, loading.load(paths.root)


def experiment_folder(folder: Path | None, results: Path | None) -> Path:
    """Return the folder that was named, or that of the latest experiment."""
    return folder or store.latest_experiment(results or ProjectPaths.find().results)
