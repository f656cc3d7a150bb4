"""The folders that commands use: the project's, its results, and the cache."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog.loading import find_root
from interlock.errors import UsageError


@dataclass(frozen=True)
class ProjectPaths:
    """The project's folder and the user's cache folder."""

    root: Path
    cache: Path

    @property
    def results(self) -> Path:
        """Return the folder of results."""
        return self.root / "results"

    @staticmethod
    def find() -> ProjectPaths:
        """Return the paths of the project around the current folder."""
        return ProjectPaths(find_root(Path.cwd()), cache_folder())

    @staticmethod
    def find_or_installed() -> ProjectPaths:
        """Return the paths of the project around the current folder, or else of the one that is installed."""
        try:
            return ProjectPaths.find()
        except UsageError:
            with suppress(UsageError):
                return ProjectPaths(find_root(Path(__file__).parent), cache_folder())
            raise


def cache_folder() -> Path:
    """Return the user's cache folder of Interlock (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "interlock"
