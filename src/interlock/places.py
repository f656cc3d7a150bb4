"""Where things are: the project's folder, its results, and the cache."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog import find_root
from interlock.errors import UsageError


@dataclass(frozen=True)
class Places:
    root: Path
    cache: Path

    @property
    def results(self) -> Path:
        return self.root / "results"

    @staticmethod
    def here() -> Places:
        """The project around the current folder, and the user's cache folder."""
        return Places(find_root(Path.cwd()), cache_folder())

    @staticmethod
    def for_service() -> Places:
        """The same, or in a folder of the user's own the project that this command was installed from."""
        try:
            return Places.here()
        except UsageError:
            with suppress(UsageError):
                return Places(find_root(Path(__file__).parent), cache_folder())
            raise


def cache_folder() -> Path:
    """The user's (XDG base directory specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "interlock"
