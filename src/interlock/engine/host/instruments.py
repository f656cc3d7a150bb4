"""The instruments on a machine without containers: compiled once below the cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from interlock.engine.context import read_context
from interlock.engine.downloads import mirror_url
from interlock.engine.host.toolchain import require_tools
from interlock.engine.log import MIRROR
from interlock.errors import EngineError

PROGRAM = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-s", "-o"]
PRELOADED = ["gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]
NO_SOURCE = 69


def ensure(root: Path, cache: Path) -> Path:
    """The folder with the launcher and what modes preload, made if dockerfiles/instruments changed."""
    require_tools()
    source = root / "dockerfiles" / "instruments"
    files = read_context(source) | read_context(root / "dockerfiles" / "limits")
    identified = hashlib.sha256(b"".join(path.encode() + data for path, data in sorted(files.items()))).hexdigest()
    folder = cache / "instruments" / identified[:12]
    if folder.is_dir():
        return folder
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    shutil.rmtree(making, ignore_errors=True)
    making.mkdir(parents=True)
    try:
        _compile([*PROGRAM, str(making / "launch"), *(str(source / name) for name in ("launch.c", "evict.c"))])
        _compile([*PRELOADED, str(making / "waking_sem_post.so"), str(source / "waking_sem_post.c")])
        _make_pth(source, making)
        _copy_strace(making / "strace")
        (making / "limits").mkdir()
        for program in (root / "dockerfiles" / "limits").glob("*.c"):
            _compile([*PROGRAM, str(making / "limits" / program.stem), str(program)])
        making.rename(folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _compile(argv: list[str]) -> None:
    ended = subprocess.run(argv, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = ended.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise EngineError(file=argv[-1], found=f"the compiler refuses it: {said[0]}", todo="See `interlock doctor`.")


def _make_pth(source: Path, folder: Path) -> None:
    """GNU pth for the modes that preload it; where its source or config.guess is not to be had there is none."""
    work = folder / "build"
    work.mkdir()
    settings = {"PREFIX": str(folder), "BUILD_DIR": str(work), MIRROR: mirror_url()}
    ended = subprocess.run(
        ["sh", str(source / "pth.sh")], env={**os.environ, **settings}, capture_output=True, text=True, check=False
    )
    shutil.rmtree(work)
    if ended.returncode not in {0, NO_SOURCE} and not _lacks_config_guess(ended.stderr):
        raise EngineError(
            file="dockerfiles/instruments/pth.sh",
            found=f"GNU pth cannot be built: {(ended.stderr.strip().splitlines() or ['it said nothing'])[-1]}",
            todo="See `interlock doctor`.",
        )


def _lacks_config_guess(said: str) -> bool:
    return "config.guess" in said


def _copy_strace(folder: Path) -> None:
    """This machine's strace where a container's is, with its loader and libraries; none if it has none.

    So that a mode's library, which its own loader would take too, reaches the interpreter alone.
    """
    strace = shutil.which("strace")
    if strace is None:
        return
    folder.mkdir()
    listed = subprocess.run(["ldd", strace], capture_output=True, text=True, check=True).stdout
    libraries = [Path(word) for line in listed.splitlines() for word in line.split() if word.startswith("/")]
    for library in libraries:
        shutil.copy(library, folder / ("ld.so" if library.name.startswith("ld-") else library.name))
    shutil.copy(strace, folder / "strace")


def put_programs(tools: Path, programs: Mapping[str, bytes], folder: Path) -> Path:
    """A folder that has the instruments and the workload programs where a cell has them."""
    folder.mkdir(parents=True)
    for path in tools.iterdir():
        (folder / path.name).symlink_to(path)
    for name, data in programs.items():
        target = folder / "workloads" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return folder
