"""Which engine a command has here, and why no other: found out before anything is installed or changed.

What comes in is the engine that was named, if one was; what goes out is the container engine that answers and starts
containers, or why there is none and whether one could be had.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from interlock.engine import machine
from interlock.engine.client import no_space, podman_is_installed
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.ended import run_here
from interlock.engine.host import features
from interlock.engine.protocol import Feature
from interlock.errors import EngineError, NoEngineError, UnsupportedHereError
from interlock.results.engines import EngineName

PROC = Path("/proc")
# What a container engine's daemon needs; the last one because its service raises the limit of open files.
NEEDED = ("CAP_NET_ADMIN", "CAP_SYS_CHROOT", "CAP_SYS_ADMIN", "CAP_SYS_RESOURCE")
EVERY_ID = "4294967295"
SYSTEMD = Path("/run/systemd/system")
ASK_S = 10


@dataclass(frozen=True)
class Found:
    """The container engine that answers, or what is in the way of one; neither where none was looked for."""

    containers: DockerEngine | None
    refusal: NoEngineError | None = None  # why none answers
    no_start: str = ""  # why none can run here, whoever installs it
    no_packages: str = ""  # why this user cannot install packages
    answers: bool = False  # one does, but starts no container: installing another would not help

    def could_install(self, named: EngineName | None = None) -> bool:
        """Return whether the named engine, or Docker, can be installed and would run.

        Without a name, Docker does not replace an engine that the user chose by DOCKER_HOST or by installing Podman.
        """
        if self.refusal is None:
            return False
        chosen = "DOCKER_HOST" in os.environ if named else _user_chose()
        return not (self.containers or self.answers or self.no_start or self.no_packages or chosen)

    @property
    def why_none(self) -> str:
        """Return why there is no container engine, in one line; empty if there is one."""
        if self.refusal is None:
            return ""
        where = self.refusal.file or self.refusal.key
        said = f"{where}: {self.refusal.found}" if where else self.refusal.found
        if not self.no_start:
            return said
        return f"no container engine can run here ({self.no_start}{f'; {said}' if _user_chose() else ''})"


def _user_chose() -> bool:
    """Return whether the user has chosen an engine without naming one."""
    return "DOCKER_HOST" in os.environ or podman_is_installed()


def find_containers(named: EngineName | None = None) -> Found:
    """Return the container engine that answers and starts a container, or what is in the way of one.

    If this machine itself is the named engine, nothing is looked for and there is no refusal.
    """
    if named is EngineName.HOST:
        return Found(None)
    try:
        containers = connect(named)
    except NoEngineError as error:
        return Found(None, error, why_no_start(), why_no_packages())
    try:
        require_containers(containers)
    except NoEngineError as error:
        return Found(None, error, no_packages=why_no_packages(), answers=True)
    return Found(containers)


def is_led_by_environment(used: EngineName) -> bool:
    """Return whether DOCKER_HOST leads to this engine; its name alone may lead to another."""
    return "DOCKER_HOST" in os.environ and used is not EngineName.HOST


def cannot(named: EngineName | None, feature: Feature) -> UnsupportedHereError | None:
    """Return the error if the named engine cannot do this, before connecting; None if it can or none is named."""
    return features.cannot(feature) if named is EngineName.HOST else None


def require_containers(engine: DockerEngine) -> None:
    """Raise NoEngineError if an engine of this machine answers but cannot start a container.

    An engine on another machine is believed: what is tried here need not run there.
    """
    if engine.is_elsewhere:
        return
    refused = engine.try_container()
    if no_space(refused):
        raise EngineError(
            file=engine.address.host, found=f"no space for a container: {refused}", todo="Free space there."
        )
    if refused:
        problem = f"the engine that answers there starts no container ({refused})"
        raise NoEngineError(file=engine.address.host, found=problem, todo="Read its log, and mend that.")


def why_no_start() -> str:
    """Return why a container engine cannot run on this machine, whoever installs it; empty if no reason is known."""
    lacking = [name for name in NEEDED if name not in machine.capabilities("CapBnd", PROC)]
    if not _has_writable_cgroups(machine.text_of(PROC / "self/mountinfo") or ""):
        return "read-only cgroups"
    if lacking:
        return f"no {' and no '.join(lacking)}"
    if (machine.text_of(PROC / "self/uid_map") or "").split()[2:3] != [EVERY_ID]:
        return "a user namespace"
    if not SYSTEMD.is_dir() and shutil.which("service", path="/usr/sbin:/sbin") is None:
        return "no service manager"
    return ""


def _has_writable_cgroups(mounts: str) -> bool:
    """Return whether one of these mounts (lines of /proc/self/mountinfo) is a writable cgroup hierarchy."""
    words = (line.split() for line in mounts.splitlines() if " - " in line)
    return any(mount[mount.index("-") + 1] in {"cgroup", "cgroup2"} and "rw" in mount[5].split(",") for mount in words)


def why_no_packages() -> str:
    """Return why this user cannot install packages; empty if they can, be it with a password at a terminal."""
    if shutil.which("apt-get") is None and shutil.which("dnf") is None:
        return "neither apt-get nor dnf is here"
    if os.geteuid() == 0:
        return ""
    if shutil.which("sudo") is None:
        return "this user is not root, and there is no sudo"
    if sys.stdin.isatty() or not sudo_asks():
        return ""
    return "sudo asks this user for a password, and there is no terminal to give it at"


def sudo_asks() -> bool:
    """Return whether sudo asks this user for a password; root needs none."""
    return os.geteuid() != 0 and not run_here(["sudo", "-n", "true"], limit_s=ASK_S).ok
