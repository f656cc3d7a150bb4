"""The programs of workloads: what cells get, and which of it a workload runs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from interlock.catalog.workloads import Workload


def programs_of(root: Path) -> dict[str, bytes]:
    """Return the workloads' programs and the files of their folders, by path below workloads/."""
    folder = root / "workloads"
    files = sorted(path for glob in ("*.py", "*/**/*") for path in folder.glob(glob) if path.is_file())
    names = {path.relative_to(folder): path for path in files}
    return {str(name): path.read_bytes() for name, path in names.items() if "__pycache__" not in name.parts}


def sums_of(workload: Workload, programs: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of each file that a workload runs: those that it names, those that they name, and so on.

    Rather one too many than one too few: what is named in a text may be imported or read by that name.
    """
    sums: dict[str, str] = {}
    texts = [workload.model_dump_json(indent=1)]
    while texts:
        text = texts.pop()
        for path in programs.keys() - sums.keys():
            if _names(text, path.partition("/")[0].removesuffix(".py")):
                sums[path] = hashlib.sha256(programs[path]).hexdigest()
                texts.append(programs[path].decode(errors="replace"))
    return dict(sorted(sums.items()))


def _names(text: str, name: str) -> bool:
    """Return whether a text imports a module or a folder of this name, or has it as a path."""
    name = re.escape(name)
    return re.search(rf"(?:import|from).*\b{name}\b|[\"'/]{name}\b|\b{name}\.py\b", text) is not None
