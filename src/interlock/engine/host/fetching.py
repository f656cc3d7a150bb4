"""Programs that this machine lacks, fetched into a folder: nothing is installed, and no rights are needed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from interlock.errors import last_line

FETCH_S = 600


def wheels(requirements: Path, folder: Path) -> str:
    """Unpack wheels of pip's index by their hashes, and return why that fails; an empty text if it does not."""
    has_pip = importlib.util.find_spec("pip") is not None
    pip = [sys.executable, "-m", "pip"] if has_pip else ["uv", "pip"]
    wanted = ["--target", str(folder), "--no-deps", "--require-hashes", "-r", str(requirements)]
    return run([*pip, "install", "-q", *wanted], folder.parent)


def packages(names: Sequence[str], folder: Path) -> str:
    """Unpack packages of the distribution, and return why that fails; an empty text if it does not."""
    said = run(["apt-get", "download", "-q", *names], folder.parent)
    for package in folder.parent.glob("*.deb"):
        said = said or run(["dpkg-deb", "-x", str(package), str(folder)], folder.parent)
    return said


def run(argv: Sequence[str], folder: Path) -> str:
    """Run a command in a folder, and return what it says if it fails."""
    try:
        ended = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False, timeout=FETCH_S)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return (last_line(ended.stderr) or f"{argv[0]} ends with {ended.returncode}") if ended.returncode else ""
