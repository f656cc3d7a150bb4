"""The profiler, in a container of its own beside the cell that it watches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from docker.errors import DockerException

from interlock.engine.cells import remove
from interlock.engine.client import OWNER_LABEL
from interlock.errors import EngineError, TracerError
from interlock.model import MOUNT, Method

PROFILER = f"{MOUNT}/profiler/profiler"
HOST_CGROUPS, CGROUPS = "/sys/fs/cgroup", "/host/cgroup"
READY_S = 60  # perf's tracepoints take some ten seconds to open
EXIT_OTHER_TRACER = 3
SIGNAL_STOP = "SIGTERM"


class Counting:
    """A profiler at work; `text` is what it printed after `stop`."""

    def __init__(self, container: Any) -> None:
        self._container = container
        self.text = ""

    def stop(self) -> None:
        self._container.kill(SIGNAL_STOP)
        self._container.wait(timeout=READY_S)
        self.text = self._container.logs(stderr=False).decode()


@contextmanager
def counting(client: Any, image_id: str, owner: str, cell: Any, method: Method) -> Iterator[Counting]:
    """Counts what happens in the cell's container from the first line of the block on, until `stop`.

    The profiler sees the host's processes, because it looks for other tracers, and needs SYS_ADMIN for BPF and perf;
    the cell needs nothing. TracerError names another tracer; EngineError says why this method is not to be had.
    """
    cell.reload()
    profiler = _start(client, image_id, owner, ["--method", method.value, "--pid", str(cell.attrs["State"]["Pid"])])
    try:
        _wait_until_ready(profiler)
        yield Counting(profiler)
    finally:
        remove(profiler)


def _start(client: Any, image_id: str, owner: str, arguments: list[str]) -> Any:
    try:
        return client.containers.run(
            image_id,
            [PROFILER, *arguments, "--cgroups", CGROUPS],
            detach=True,
            pid_mode="host",
            cgroupns="host",
            network_mode="none",
            cap_add=["SYS_ADMIN", "SYS_PTRACE"],
            security_opt=["apparmor=unconfined"],
            volumes={HOST_CGROUPS: {"bind": CGROUPS, "mode": "ro"}},
            labels={OWNER_LABEL: owner},
        )
    except DockerException as error:
        raise EngineError(found=f"the engine does not start the profiler: {error}", todo="See its log.") from None


def _wait_until_ready(profiler: Any) -> None:
    limit = time.monotonic() + READY_S
    while b"ready" not in profiler.logs(stderr=False):
        profiler.reload()
        if profiler.status == "exited" or time.monotonic() > limit:
            _explain(profiler)
        time.sleep(0.02)


def _explain(profiler: Any) -> None:
    said = profiler.logs(stdout=False).decode(errors="replace").strip().splitlines() or ["it said nothing"]
    reason = said[-1].removeprefix("profiler: ")
    if profiler.attrs["State"]["ExitCode"] == EXIT_OTHER_TRACER:
        raise TracerError(found=reason, todo="Stop it, or measure without a profile (--no-profile).")
    raise EngineError(found=reason, todo="See `interlock doctor`.")
