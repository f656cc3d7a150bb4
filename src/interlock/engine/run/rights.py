"""What containers may do.

They run the code of others: a workload, a package's build, an interpreter that is not proved yet. What is measured for
a matrix has no right at all; what prepares it has those that root needs for files. The rights of a profiler are in
`profiler`; a user's own containers have the engine's usual ones (`user_containers`).
"""

from __future__ import annotations

from typing import Any

from docker.types import LogConfig, Ulimit

from interlock.catalog.types import SCRATCH
from interlock.engine.protocol import Surroundings

# Nobody's user, for which every Debian image has a name. Its home is a folder that it can write to.
USER, ROOT = "65534:65534", "0:0"
# Threads count as processes. A fork bomb ends here; the largest workload has some 300.
PROCESSES = 4096
# The limit for one file. No engine limits volumes on every file system, so a cell has a disk only if its workload asks
# for one. All else that it can write is in memory, and counts there, unless it asks for the image's files.
FILE_BYTES = 8 * 2**30
# A workload's cell and server have at most 2 GiB together.
SCRATCH_BYTES = 768 * 2**20
# A server's memory less what it needs itself: a file of 1 GB fits.
SERVER_FILES_BYTES = 960 * 2**20
TMP, TMP_BYTES = "/tmp", 64 * 2**20  # noqa: S108  a path in a container
# All are set: if one is missing Podman sets its own, which a root without CAP_SYS_RESOURCE cannot raise.
ULIMITS = {"fsize": FILE_BYTES, "nofile": 4096, "nproc": PROCESSES}
# The engine writes what a container's first process prints to the host's disk, and all that runs in the container can
# print there too. So a log keeps only this much of its end, in a form that can be read back with any engine's settings.
LOG, NO_LOG = LogConfig(type="json-file", config={"max-size": "16m"}), LogConfig(type="none")
# What root does with files and processes of several users: unpack packages, become one of them, end what it left.
OF_ROOT = ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]


def without_rights() -> dict[str, Any]:
    """Return options for a container in which nothing has, or can get, a right of the administrator."""
    refused = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    return {**refused, "pids_limit": PROCESSES, "log_config": LOG}


def of_cell(surroundings: Surroundings) -> dict[str, Any]:
    """Return the options of a cell: nobody's user, a read-only root, and the rights that its workload asks for."""
    return {
        **without_rights(),
        "log_config": NO_LOG,
        "user": ROOT if "root" in surroundings.rights else USER,
        "environment": {"HOME": SCRATCH},
        "read_only": "writable-root" not in surroundings.rights,
        # Programs may be run from /tmp, as from an image's own.
        "tmpfs": {SCRATCH: f"size={SCRATCH_BYTES}", TMP: f"size={TMP_BYTES},mode=1777,exec"},
        "ulimits": [Ulimit(name=name, soft=value, hard=value) for name, value in ULIMITS.items()],
    }


def of_installation() -> dict[str, Any]:
    """Return the options of a container in which packages are built, installed and imported."""
    return {**without_rights(), "cap_add": OF_ROOT}
