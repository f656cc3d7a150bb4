"""Programs that this machine lacks, fetched into a folder: nothing is installed, and no rights are needed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.engine.ended import run_here

FETCH_S = 600


def wheels(requirements: Path, folder: Path) -> str:
    """Unpack wheels of pip's index by their hashes; return why that failed, or an empty text."""
    has_pip = importlib.util.find_spec("pip") is not None
    pip = [sys.executable, "-m", "pip"] if has_pip else ["uv", "pip"]
    wanted = ["--target", str(folder), "--no-deps", "--require-hashes", "-r", str(requirements)]
    return run_here([*pip, "install", "-q", *wanted], folder=folder.parent, limit_s=FETCH_S).why


def packages(names: Sequence[str], folder: Path) -> str:
    """Unpack packages of the distribution; return why that failed, or an empty text."""
    said = run_here(["apt-get", "download", "-q", *names], folder=folder.parent, limit_s=FETCH_S).why
    for package in folder.parent.glob("*.deb"):
        said = said or run_here(["dpkg-deb", "-x", str(package), str(folder)], limit_s=FETCH_S).why
    return said
