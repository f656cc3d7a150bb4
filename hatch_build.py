"""Puts the top-level folders into the wheel: they are the only copy, and what is installed reads the same files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

# Below src/interlock, as catalog/project.py finds them.
DATA = "interlock/data"
FOLDERS = ("variants", "workloads", "dockerfiles", "playbooks")
# Of an experiment that comes with Interlock, what a pick and the times of builds are read from: not its raw values.
RESULTS = ("experiment.json", "figures.json", "builds.json")
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s]+)\)")


def data_files(root: Path) -> list[Path]:
    """Return the files that what is installed reads, below the root: none that `interlock render` makes of others."""
    generated = {path.parent for path in (root / "dockerfiles").glob("*/build.sh")}
    found = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.is_file()]
    kept = [path for path in found if not generated & {*path.parents} and "__pycache__" not in path.parts]
    results = [path for name in RESULTS for path in sorted((root / "results" / "reference").glob(f"*/{name}"))]
    return [path.relative_to(root) for path in (*kept, *results)]


class DataHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the files to a wheel; one that is installed in place (`pip install -e`) reads those of its clone."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version != "editable" and self.target_name == "wheel":
            build_data["force_include"] |= {str(path): f"{DATA}/{path}" for path in data_files(Path(self.root))}


class ReadmeHook(MetadataHookInterface):
    """Takes README.md with links that work on a page elsewhere: relative ones lead to the project's own page."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        pages = metadata["urls"]["Source"]
        linked = LINK.sub(lambda found: f"]({pages}/blob/main/{found[1]})", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": linked}
