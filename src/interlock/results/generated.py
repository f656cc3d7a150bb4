"""The project's generated files: finds those that differ from what they are generated from, and writes them.

This is a module of its own because nothing else removes files of a clone: the proof that a file may go should be easy
to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from interlock.catalog.types import GENERATED
from interlock.results.files import write_atomically

# Scripts that build contexts have copies of, and the contexts' folder of profiles of optimisation.
SCRIPTS, PROFILES = {"fetch.sh", "optimise.sh"}, "profiles/"


def sync(root: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Write generated files that differ, remove those that nothing generates any more, and return both lists."""
    drifted = drift(root, files)
    for path in drifted:
        if path in files:
            write_atomically(root / path, files[path])
        else:
            (root / path).unlink()
    return drifted


def drift(root: Path, files: Mapping[str, str | bytes]) -> list[str]:
    """Return the paths below `root` of generated files that differ, are missing, or are left over."""
    changed = [path for path, content in files.items() if _read_or_none(root / path) != _bytes(content)]
    return sorted({*changed, *_left_over(root, files)})


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _left_over(root: Path, files: Mapping[str, str | bytes]) -> set[str]:
    """Return files in variants' folders of dockerfiles/ that are proved to be generated and that nothing generates now.

    All else there belongs to somebody: folders of helpers, and what a user put into a variant's folder.
    """
    dockerfiles = [
        path for path in (root / "dockerfiles").glob("*/Dockerfile") if _is_generated(path, path.parent.name)
    ]
    there = [(made.parent, path) for made in dockerfiles for path in made.parent.rglob("*") if path.is_file()]
    left = {str(path.relative_to(root)): (folder, path) for folder, path in there}
    return {name for name, place in left.items() if name not in files and _was_written(root, *place)}


def _was_written(root: Path, folder: Path, path: Path) -> bool:
    """Return whether a variant's file says that it is generated, or is a copy of a file that contexts share."""
    name = str(path.relative_to(folder))
    if name in {"Dockerfile", "build.sh", "finish.sh"}:
        return _is_generated(path)
    if name.startswith(PROFILES):  # the original may be gone
        return True
    part = root / ("dockerfiles" if name in SCRIPTS else "variants") / name
    return _read_or_none(part) == path.read_bytes()


def _is_generated(path: Path, variant: str = "") -> bool:
    """Return whether a file's first two lines say that it is generated (from this variant, if one is given)."""
    head = b"\n".join((_read_or_none(path) or b"").split(b"\n")[:2])
    before, _, after = GENERATED.partition("{name}")
    return f"{before}{variant}{after if variant else ''}".encode() in head


def _read_or_none(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None
