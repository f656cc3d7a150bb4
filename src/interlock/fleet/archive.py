"""Interlock itself as an archive, so that every host measures with the controller's version."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

from interlock import store

# What a project is to `pip install` and to `interlock matrix`.
FILES = ("pyproject.toml", "README.md", "LICENSE")
FOLDERS = ("src", "variants", "workloads", "dockerfiles")


def write(root: Path, cache: Path) -> tuple[Path, str]:
    """The archive and its SHA-256, which is the same for the same files."""
    content = pack(root)
    sha256 = hashlib.sha256(content).hexdigest()
    path = cache / "fleet" / f"interlock-{sha256}.tar.gz"
    if not path.is_file():
        store.write_whole(path, content)
    return path, sha256


def pack(root: Path) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        for path in _files(root):
            entry = tarfile.TarInfo(str(path.relative_to(root)))
            data = path.read_bytes()
            entry.size, entry.mode = len(data), path.stat().st_mode & 0o755
            tar.addfile(entry, io.BytesIO(data))
    return stream.getvalue()


def _files(root: Path) -> Iterator[Path]:
    yield from (root / name for name in FILES if (root / name).is_file())
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
