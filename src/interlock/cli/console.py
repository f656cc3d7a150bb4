"""Where commands print, and which project and experiment they are about."""

from __future__ import annotations

import os
from pathlib import Path

from rich.console import Console

from interlock.catalog import loading
from interlock.catalog.catalog import Catalog
from interlock.catalog.paths import ProjectPaths
from interlock.results import store

# Where the width is unknown (a pipe, a log) lines are long rather than folded.
console = Console(width=None if Console().is_terminal or "COLUMNS" in os.environ else 160)


def open_project() -> tuple[ProjectPaths, Catalog]:
    """Return the paths of the project around the current folder, and what its files declare."""
    paths = ProjectPaths.find()
    return paths, loading.load(paths.root)


def experiment_folder(folder: Path | None, results: Path | None) -> Path:
    """Return the folder that was named, or that of the latest experiment."""
    return folder or store.latest_experiment(results or ProjectPaths.find().results)
