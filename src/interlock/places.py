"""Where things are: the project's folder, its results, and the cache."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from interlock.catalog import find_root


@dataclass(frozen=True)
class Places:
    root: Path
    cache: Path

    @property
    def results(self) -> Path:
        return self.root / "results"

    @staticmethod
    def here() -> Places:
        """The project around the current folder, and the user's cache folder (XDG base directory specification)."""
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Places(find_root(Path.cwd()), Path(home) / "interlock")
