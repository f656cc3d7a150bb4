"""A build context as a tar stream, and the hash of everything that goes into an image."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path


def content_hash(files: Mapping[str, bytes], base_image_id: str, profile: str) -> str:
    """SHA-256 over the context's files, the parent image and the profile."""
    parts = {
        "base": base_image_id,
        "profile": profile,
        "files": {path: hashlib.sha256(data).hexdigest() for path, data in sorted(files.items())},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def read_context(folder: Path) -> dict[str, bytes]:
    """The files of a build context by path below it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def tar_of(files: Mapping[str, bytes], mode: int = 0o644) -> io.BytesIO:
    """A tar with fixed owners and times, so that equal files are equal bytes."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    stream.seek(0)
    return stream
