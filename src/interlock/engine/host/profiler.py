"""The profiler as a process of this machine: it watches a cgroup, which all that a cell starts meanwhile joins."""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, cast

from interlock.engine import machine
from interlock.engine.host import toolchain
from interlock.engine.host.toolchain import NOT_COMPILED
from interlock.engine.profilers import not_ready, refusal
from interlock.errors import EngineError, InterlockError, UnsupportedHereError

# Where cgroups of version 2 are mounted: alone, or beside version 1.
HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
READY_S, END_S, GONE_S = 30, 60, 5
# Puts itself into a cgroup and becomes another program.
JOIN = ["/bin/sh", "-c", 'echo $$ >"$0"/cgroup.procs && exec "$@"']


def require_bpf() -> None:
    """Raise UnsupportedHereError if this machine lacks something to count by BPF that can be known beforehand."""
    if os.geteuid() != 0:
        raise UnsupportedHereError(
            found="only root may load BPF programs and make cgroups", todo="Run as root, with --as-root."
        )
    lacking = toolchain.missing(toolchain.PROFILER)
    if lacking:
        problem = f"this machine has no {', '.join(need.what for need in lacking)}"
        raise UnsupportedHereError(found=problem, todo=f"{toolchain.install_command(lacking)}.")
    if _own_cgroup() is None:
        raise UnsupportedHereError(
            found=f"no cgroup v2 is mounted at {' or '.join(map(str, HIERARCHIES))}",
            todo=f"mkdir -p {HIERARCHIES[1]} && mount -t cgroup2 none {HIERARCHIES[1]}.",
        )


def could_trace() -> bool:
    """Return whether BPF programs could be loaded here if their compiler were installed."""
    return "CAP_SYS_ADMIN" in machine.capabilities("CapEff") and _own_cgroup() is not None


def _hierarchy() -> Path | None:
    """Return where cgroups of version 2 are mounted."""
    return next((root for root in HIERARCHIES if (root / "cgroup.controllers").is_file()), None)


def _own_cgroup() -> Path | None:
    """Return the folder of this process's own cgroup (version 2), whose limits hold for all cgroups below it."""
    root = _hierarchy()
    if root is None:
        return None
    lines = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    mine = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    # A cgroup outside of what this process sees of the hierarchy begins with "..".
    return root / mine if (root / mine).is_dir() and ".." not in mine else root


def remove_cgroups(beginning: str) -> None:
    """Remove the cgroups with this prefix that killed experiments left; no process is in them any more."""
    root = _hierarchy()
    for folder in root.rglob(f"{beginning}*") if root else ():
        with suppress(OSError):
            folder.rmdir()


class HostProfiler:
    """A profiler at work; `text` is what it printed after `stop`."""

    def __init__(self, process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
        self._process, self._said = process, said
        self.text = ""

    def wait_until_ready(self) -> None:
        stdout = cast(IO[bytes], self._process.stdout)
        ready, _, _ = select.select([stdout], [], [], READY_S)
        if not ready:
            raise not_ready(READY_S)
        if stdout.readline() != b"ready\n":
            self._process.wait()
            raise self._refusal()

    def stop(self) -> None:
        self._process.terminate()
        try:
            printed, _ = self._process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            problem = f"the profiler did not end within {END_S} s"
            raise EngineError(found=problem, todo="Stop other programs, then repeat.") from None
        if self._process.returncode != 0:
            raise self._refusal()
        self.text = printed.decode()

    def _refusal(self) -> InterlockError:
        self._said.seek(0)
        return refusal(self._said.read().decode(errors="replace"), self._process.returncode, " --engine host")


@contextmanager
def counting(program: Path, cgroup: Path, words: Sequence[str], folder: Path) -> Iterator[HostProfiler]:
    """Count what processes of the cgroup do from the first line of the block on, until `stop`; run in the folder.

    TracerError names another tracer; EngineError says why it does not work here.
    """
    if not program.is_file():
        said = program.with_name(NOT_COMPILED)
        reason = (
            said.read_text() if said.is_file() else "a header or a compiler was missing when the instruments were built"
        )
        raise EngineError(found=f"the profiler does not compile here: {reason}", todo="Choose --engine docker.")
    argv = [str(program), "--cgroup", str(cgroup), *words]
    with (
        tempfile.TemporaryFile() as said_to,
        subprocess.Popen(
            argv,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said_to,
            start_new_session=True,
            bufsize=0,
        ) as process,
    ):
        try:
            at_work = HostProfiler(process, said_to)
            at_work.wait_until_ready()
            yield at_work
        finally:
            process.kill()


@contextmanager
def cgroup_of_its_own(name: str) -> Iterator[Path]:
    """Make a cgroup and remove it after the block; UnsupportedHereError if it cannot be made."""
    require_bpf()
    folder = cast(Path, _own_cgroup()) / name
    try:
        folder.mkdir()
    except OSError as error:
        raise UnsupportedHereError(
            found=f"a cgroup cannot be made: {error}", todo="Run as root, where /sys/fs/cgroup may be written."
        ) from None
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    """Remove a cgroup once its processes are gone; if it stays, it is removed with the experiment."""
    limit = time.monotonic() + GONE_S
    while time.monotonic() < limit:
        with suppress(OSError):
            folder.rmdir()
            return
        time.sleep(0.02)
