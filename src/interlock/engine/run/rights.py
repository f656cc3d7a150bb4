"""What containers may do.

What is run in them is somebody else's: a workload, a package's build, an interpreter whose proof is still to come. What
is measured has no right at all, what prepares it those that a root needs for files. By itself, because six modules
start containers, and who audits what these may do reads this one.
"""

from __future__ import annotations

from typing import Any

from docker.types import LogConfig, Ulimit

from interlock.catalog.types import SCRATCH
from interlock.engine.protocol import Surroundings

# Nobody's user, which every Debian image knows by a name. Its home is where it can write.
USER, ROOT = "65534:65534", "0:0"
# Threads count as processes. A fork bomb ends here; the largest workload has some 300.
PROCESSES = 4096
# Of one file: no engine limits a volume on every file system, so that only who asks for a disk has one. All else that a
# cell can write is in memory, and counts, unless it asked for an image's files.
FILE_BYTES = 8 * 2**30
# Of a workload's cell and server together at most 2 GiB.
SCRATCH_BYTES = 768 * 2**20
# All of a server's memory but what it needs itself: a file of 1 GB fits.
SERVER_FILES_BYTES = 960 * 2**20
TMP, TMP_BYTES = "/tmp", 64 * 2**20  # noqa: S108  a path in a container
# Where one limit is given Podman gives the others its own, which a root without CAP_SYS_RESOURCE cannot raise.
ULIMITS = {"fsize": FILE_BYTES, "nofile": 4096, "nproc": PROCESSES}
# What a container's first process prints, the engine writes on the host's disk, and whoever runs in the container can
# write there too. A log is read back, whatever the engine does with others, and of its end alone this much is kept.
LOG, NO_LOG = LogConfig(type="json-file", config={"max-size": "16m"}), LogConfig(type="none")
# What root does with files and processes of several users: unpack packages, become one of them, end what it left.
OF_ROOT = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]


def without_rights() -> dict[str, Any]:
    """Return a container's options with which nothing in it has, or gets, a right of the administrator."""
    refused = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    return {**refused, "pids_limit": PROCESSES, "log_config": LOG}


def of_cell(surroundings: Surroundings) -> dict[str, Any]:
    """Return the options of a cell: nobody's user, a read-only root, and what its workload asks for in its file."""
    return {
        **without_rights(),
        "log_config": NO_LOG,
        "user": ROOT if "root" in surroundings.rights else USER,
        "environment": {"HOME": SCRATCH},
        "read_only": "writable-root" not in surroundings.rights,
        # Programs may be run from it, as from an image's own.
        "tmpfs": {SCRATCH: f"size={SCRATCH_BYTES}", TMP: f"size={TMP_BYTES},mode=1777,exec"},
        "ulimits": [Ulimit(name=name, soft=value, hard=value) for name, value in ULIMITS.items()],
    }


def of_installation() -> dict[str, Any]:
    """Return the options of a container in which packages are built, installed and imported."""
    return {**without_rights(), "cap_add": OF_ROOT}
