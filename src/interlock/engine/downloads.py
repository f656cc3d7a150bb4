"""Files that a build needs and that this machine has, or can get where a build cannot: they go into its context."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from interlock.engine.log import MIRROR
from interlock.errors import EngineError
from interlock.model import Download, Variant

PIP = "pip/"
# What follows the version in a wheel's name (PEP 425: the first where it names several), and pip's options for it.
WHEEL = re.compile(r"-[a-z]+([0-9]+)[^-]*-([^-.]+)[^-]*-([^-.]+)[^-]*\.whl$")
TAGS = ("--python-version", "--abi", "--platform")


def local_files(variant: Variant, cache: Path) -> dict[str, bytes]:
    """What fetch.sh finds beside the scripts, by path in the build context.

    From the folder that INTERLOCK_SOURCE_MIRROR names, and from pip's index, asked with this machine's settings.
    """
    folder = _mirror_folder()
    files = {}
    groups: dict[str, Sequence[Download]] = {
        "sources": variant.parts,
        "finish-sources": variant.finish.downloads if variant.finish else [],
    }
    for place, downloads in groups.items():
        for download in downloads:
            data = _from_folder(folder, download) or _from_pip(download, cache)
            if data is not None:
                files[f"{place}/{download.file}"] = data
            signature = folder / f"{download.file}.asc" if folder else None
            if signature and signature.is_file():
                files[f"{place}/{signature.name}"] = signature.read_bytes()
    return files


def mirror_url() -> str:
    """What builds are told of INTERLOCK_SOURCE_MIRROR: nothing if it is a folder of this machine."""
    mirror = os.environ.get(MIRROR, "")
    return mirror if "://" in mirror else ""


def _mirror_folder() -> Path | None:
    mirror = os.environ.get(MIRROR, "")
    if not mirror or "://" in mirror:
        return None
    folder = Path(mirror)
    if not folder.is_dir():
        raise EngineError(
            key=MIRROR, found=f"'{mirror}' is neither a URL nor a directory", todo="Correct it or unset it."
        )
    return folder


def _from_folder(folder: Path | None, download: Download) -> bytes | None:
    if folder is None or not (folder / download.file).is_file():
        return None
    return (folder / download.file).read_bytes()


def _from_pip(download: Download, cache: Path) -> bytes | None:
    """The wheel if pip's index has it with the declared sum; whatever goes wrong is left to the build to say."""
    releases = [place.removeprefix(PIP) for place in download.places if place.startswith(PIP)]
    kept, tags = cache / "downloads" / download.sha256, _tags(download.file)
    if not releases or not tags:
        return None
    if kept.is_file():
        return kept.read_bytes()
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", folder]
        subprocess.run([*command, *tags, releases[0]], capture_output=True, check=False)
        data = _from_folder(Path(folder), download)
        if data is None or hashlib.sha256(data).hexdigest() != download.sha256:
            return None
        (Path(folder) / download.file).replace(kept)
    return data


def _tags(file: str) -> list[str]:
    """pip's options for the interpreter that a wheel is for, which is not the one that runs pip; none if it is none."""
    found = WHEEL.search(file)
    return [word for pair in zip(TAGS, found.groups(), strict=True) for word in pair] if found else []
