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
    """Return the SHA-256 of each file that a workload runs: those that it names, what these import or name, and so on.

    Rather one too many than one too few: a file counts by the name of its module, or of its folder.
    """
    sums: dict[str, str] = {}
    texts = [workload.model_dump_json(indent=1)]
    while texts:
        named = _named(texts.pop())
        for path in programs.keys() - sums.keys():
            if path.partition("/")[0].removesuffix(".py") in named:
                sums[path] = hashlib.sha256(programs[path]).hexdigest()
                texts += [programs[path].decode(errors="replace")] if path.endswith(".py") else []
    return dict(sorted(sums.items()))


def _named(text: str) -> set[str]:
    """Return what may be names of modules or folders in a text: words of lines that import, of paths, and with .py."""
    imports = " ".join(line for line in text.replace("\\\n", " ").splitlines() if "import" in line)
    files = [word.removesuffix(".py") for word in re.findall(r"[\w-]+(?:\.py)?", text) if word.endswith(".py")]
    return {*re.findall(r"[\w-]+", imports), *re.findall(r"[\"'/]([\w-]+)", text), *files}
