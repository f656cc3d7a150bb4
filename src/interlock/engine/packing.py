"""Files and folders of this machine as a tar stream for a container, whatever machine its engine runs on."""

from __future__ import annotations

import io
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from interlock.errors import RequirementsError

# Of a project's folder: what was installed or made there is no part of it.
LEFT_OUT = {"__pycache__", "node_modules", ".tox", ".nox", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"}
OF_A_VENV = "pyvenv.cfg"


def tar_of_paths(places: Mapping[str, Path | bytes]) -> IO[bytes]:
    """A tar, on disk, of each file, folder or text at its absolute place; all of it belongs to root.

    RequirementsError names what cannot be read.
    """
    stream = tempfile.TemporaryFile()  # noqa: SIM115  the caller reads it
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for place, content in sorted(places.items()):
            name = place.lstrip("/")
            if isinstance(content, bytes):
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                tar.addfile(_owned_by_root(entry), io.BytesIO(content))
                continue
            try:
                _add(tar, content.resolve(), name)
            except OSError as error:
                raise RequirementsError(
                    file=str(error.filename or content),
                    found=f"the file cannot be read ({(error.strerror or str(error)).lower()})",
                    todo="Make it readable for this user.",
                ) from None
    stream.seek(0)
    return stream


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if not path.is_dir():
        tar.add(path, name, filter=_owned_by_root)
        return
    tar.add(path, name, recursive=False, filter=_owned_by_root)
    for inner in sorted(path.iterdir()):
        if inner.name in LEFT_OUT or (inner / OF_A_VENV).is_file():
            continue
        if inner.is_symlink():
            tar.add(inner, f"{name}/{inner.name}", recursive=False, filter=_owned_by_root)
        elif inner.is_dir() or inner.is_file():
            _add(tar, inner, f"{name}/{inner.name}")


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry
