"""What this machine is: read from /proc and /sys, recorded with every experiment and shown by doctor."""

from __future__ import annotations

import os
import platform
import shutil
from pathlib import Path
from typing import Any

SYS_CPU = Path("/sys/devices/system/cpu")
PROC = Path("/proc")
# The bit of each capability (linux/capability.h).
CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_CHROOT": 18, "CAP_SYS_ADMIN": 21, "CAP_SYS_RESOURCE": 24}


def facts() -> dict[str, Any]:
    """Return processor, memory, kernel, system, frequency settings and load; what cannot be read is left out."""
    known = {
        "name": platform.node(),
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes(),
        "kernel": platform.release(),
        "system": operating_system(),
        "architecture": platform.machine(),
        "governor": text_of(SYS_CPU / "cpu0/cpufreq/scaling_governor"),
        "no_turbo": text_of(SYS_CPU / "intel_pstate/no_turbo"),
        "smt": text_of(SYS_CPU / "smt/active"),
        "load_1min": round(os.getloadavg()[0], 2),
    }
    return {key: value for key, value in known.items() if value is not None}


def cpu_model() -> str:
    for line in (text_of(Path("/proc/cpuinfo")) or "").splitlines():
        if line.lower().startswith(("model name", "cpu model")):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def operating_system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()


def capabilities(kind: str, proc: Path = PROC) -> set[str]:
    """Return which of CAPABILITIES this process has (CapEff), or could have by any program that it starts (CapBnd)."""
    lines = (text_of(proc / "self/status") or "").splitlines()
    bits = next((int(line.split()[1], 16) for line in lines if line.startswith(f"{kind}:")), 0)
    return {name for name, bit in CAPABILITIES.items() if bits >> bit & 1}


def free_bytes(folder: Path) -> int | None:
    """Return the free space of the nearest folder that exists; None if there is none (on a remote engine)."""
    for candidate in (folder, *folder.parents):
        if os.path.exists(candidate):  # noqa: PTH110  `Path.exists` raises PermissionError on 3.11
            return shutil.disk_usage(candidate).free
    return None


def text_of(path: Path) -> str | None:
    """Return what a file of the kernel's says; None if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
