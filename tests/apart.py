"""What keeps tests apart from the user: a home with caches, a configuration and results of their own, and a lock.

All workers have the same, so that what one of them fetched is there for the others.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from interlock.engine.client import DEFAULT_HOST, docker_address
from interlock.measure import lock

# What a user has set for Interlock. Where sources and packages come from is the machine's, as a proxy is, and stays.
SETTINGS = tuple(f"INTERLOCK_{name}" for name in ("AS_ROOT", "ENGINE", "EXPERIMENT", "IN_GROUP", "PROCESS"))
FOLDERS = tuple(f"XDG_{name}_HOME" for name in ("CACHE", "CONFIG", "DATA", "STATE"))
# Of a home, what another one cannot do without: programs, and how they reach the network.
BROUGHT = {
    "CARGO_HOME": (".cargo",),
    "PIP_CONFIG_FILE": (".config/pip/pip.conf", ".pip/pip.conf"),
    "PLAYWRIGHT_BROWSERS_PATH": (".cache/ms-playwright",),
    "PYENV_ROOT": (".pyenv",),
    "RUSTUP_HOME": (".rustup",),
}
# Where bootstrap.sh unpacks programs whose packages would start services.
PROGRAMS = Path(__file__).parents[1] / ".nox/programs"
LOCKS, LOCKS_OF_ALL = "locks", lock.LOCKS


def move_out() -> Path:
    """Leave the user's home for an empty one, which is returned; what is started from now on has it too."""
    home = Path(tempfile.mkdtemp(prefix="tests-of-interlock-"))
    (home / LOCKS).mkdir()
    (home / LOCKS).chmod(0o1777)
    brought = _brought(Path.home())
    for name in (*SETTINGS, *FOLDERS):
        os.environ.pop(name, None)
    path = os.pathsep.join([os.environ["PATH"], *(str(PROGRAMS / folder) for folder in ("usr/bin", "usr/sbin"))])
    os.environ |= brought | {"HOME": str(home), "PATH": path}
    return home


def _brought(home: Path) -> dict[str, str]:
    """Return what leads to the engine and to parts of the user's home, unless a variable does already."""
    engine = docker_address().host
    found = {"DOCKER_HOST": engine} if engine != DEFAULT_HOST else {}
    for name, paths in BROUGHT.items():
        there = next((path for path in paths if (home / path).exists()), None)
        if there and name not in os.environ:
            found[name] = str(home / there)
    return found


def take_own_lock() -> None:
    """Let this process hold a lock that the user's experiments do not wait for, and for which it does not wait."""
    lock.LOCKS = Path.home() / LOCKS


def command(*words: str) -> list[str]:
    """Return the command line of this very Interlock, whatever PATH says, with the lock that the tests have."""
    program = f"import pathlib; from interlock.measure import lock; lock.LOCKS = pathlib.Path({str(lock.LOCKS)!r}); "
    return [sys.executable, "-c", f"{program}from interlock.cli.main import main; main()", *words]
