"""Which modules installed packages have, from the RECORD of each. Pure.

RECORD: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from packaging.utils import canonicalize_name

# Parts of a module's name that are there for the package's own developers.
FOR_DEVELOPERS = re.compile(
    r"^(tests?|testing|conftest|test_.*|.*_tests?|_test.*|examples?|docs?|benchmarks?|setup|noxfile|tasks)$"
)
SOURCE, EXTENSION = ".py", ".so"


@dataclass(frozen=True)
class Distribution:
    """An installed package and its files, by their paths below the folder that it is installed in."""

    name: str
    version: str
    files: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        return canonicalize_name(self.name)


def parse(output: str) -> list[Distribution]:
    """What inside/audit_distributions.py prints: a JSON object on each line."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [Distribution(one["name"], one["version"], one["files"]) for one in lines]


def top_modules(files: Sequence[str]) -> list[str]:
    """Top-level modules that people import; below a namespace package, what it holds of this distribution.

    Private ones (a leading underscore) and those for the package's developers are left out.
    """
    modules = dict(_modules(files))
    packages = {name for name, path in modules.items() if path.stem.split(".")[0] == "__init__"}
    found = [name for name in modules if not any(parent in packages for parent in _parents(name))]
    return sorted(name for name in found if _is_public(name))


def extension_modules(files: Sequence[str]) -> list[str]:
    """Every extension module, private ones included: each may switch the GIL on. Those for tests are left out."""
    found = [name for name, path in _modules(files) if path.suffix == EXTENSION]
    return sorted(name for name in dict.fromkeys(found) if not _is_for_developers(name))


def owners(distributions: Iterable[Distribution]) -> dict[str, str]:
    """The canonical name of the distribution that each module is a file of."""
    return {name: one.key for one in distributions for name, _ in _modules(one.files)}


def owner_of(module: str, owned: Mapping[str, str]) -> str:
    """The distribution that has this module, or the nearest of its parents; empty if none has."""
    return next((owned[name] for name in (module, *reversed(_parents(module))) if name in owned), "")


def _modules(files: Sequence[str]) -> Iterator[tuple[str, PurePosixPath]]:
    """The name and the file of each module; a package's file is its __init__."""
    for file in files:
        path = PurePosixPath(file)
        if path.suffix not in {SOURCE, EXTENSION} or path.is_absolute():
            continue
        # An extension module's name ends at the first dot: the rest says for which interpreter it was built.
        names = [*path.parent.parts, path.name.split(".")[0]]
        names = names[:-1] if names[-1] == "__init__" else names
        if names and all(name.isidentifier() for name in names):
            yield ".".join(names), path


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _is_for_developers(module: str) -> bool:
    return any(FOR_DEVELOPERS.match(part) for part in module.split("."))


def _is_public(module: str) -> bool:
    parts = module.split(".")
    return not any(part.startswith("_") or FOR_DEVELOPERS.match(part) for part in parts)
