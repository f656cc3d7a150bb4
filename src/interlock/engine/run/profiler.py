"""The profiler in a container beside a cell's, whose processes it sees, and the rights that it has for that."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from docker.types import LogConfig, Mount
from requests.exceptions import RequestException

from interlock import untrusted
from interlock.catalog.types import MOUNT
from interlock.engine.agent import LAUNCH
from interlock.engine.client import engine_errors
from interlock.engine.ownership import labels_of
from interlock.engine.profilers import not_ready, refusal
from interlock.engine.protocol import StackOptions
from interlock.engine.run.archives import log_of
from interlock.engine.run.execution import hang_up
from interlock.engine.run.leftovers import remove
from interlock.engine.symbols import symbols_of
from interlock.errors import InterlockError

PROFILER = f"{MOUNT}/profiler/profiler"
SYMBOLS = "/symbols"
HOST_CGROUPS, CGROUPS = "/sys/fs/cgroup", "/host/cgroup"
# Limit for its start and for its end: probes on a program's functions take some seconds to close.
LIMIT_S = 60
BPF_SINCE = (5, 8)
LOOKS_FOR_TRACERS = ["SYS_PTRACE", "DAC_READ_SEARCH"]
SIGNAL_STOP = "SIGTERM"
END_S = 10  # seconds for the process that marks the work to start, and to end


class ContainerProfiler:
    """A profiler at work; `text` is what it printed after `stop`."""

    def __init__(self, container: Container) -> None:
        self._container = container
        self.text = ""

    def stop(self) -> None:
        with engine_errors("the profiler failed"):
            with suppress(APIError):  # it has ended, and its exit code and its words say why
                self._container.kill(SIGNAL_STOP)
            code = self._container.wait(timeout=LIMIT_S)["StatusCode"]
            self.text = log_of(self._container, untrusted.MOST_RECORD, stderr=False)
        if code != 0:
            raise _refusal(self._container)


@contextmanager
def counting(
    image_id: str, owner: str, cell: Container, stacks: StackOptions | None = None
) -> Iterator[ContainerProfiler]:
    """Count what happens in the cell's container from the first line of the block on, until `stop`.

    The profiler sees the host's processes, because it looks for other tracers, and may use BPF and perf; the cell needs
    no rights. TracerError names another tracer; EngineError says why BPF does not work here.
    """
    with engine_errors("the engine does not start the profiler"):
        cell.reload()
        watched = ["--pid", str(cell.attrs["State"]["Pid"])]
        symbols = symbols_of(cell.client, cell.image, owner) if stacks else None
        watched += [*(stacks.arguments() if stacks else []), *(["--symbols", f"{SYMBOLS}/debug"] if symbols else [])]
        profiler = _create(cell.client, image_id, owner, watched)
    try:
        with engine_errors("the engine does not start the profiler"):
            if symbols:
                profiler.put_archive(SYMBOLS, symbols)
            profiler.start()
            _wait_until_ready(profiler)
        yield ContainerProfiler(profiler)
    finally:
        # Its probes may take longer to close than the engine waits for a container that it removes.
        with suppress(DockerException, RequestException):
            profiler.kill()
            profiler.wait(timeout=LIMIT_S)
        remove(profiler)


def profiler_rights(kernel: str) -> list[list[str]]:
    """Return the capabilities of the profiler's container, the fewest first; every other one is dropped.

    Since Linux 5.8 BPF and perf have their own capabilities, which engines of that time do not know yet. Before, and
    with such engines, it is SYS_ADMIN.
    """
    release = tuple(map(int, re.findall(r"\d+", kernel)[:2]))
    few = [["BPF", "PERFMON"]] if release >= BPF_SINCE else []
    return [[*counts, *LOOKS_FOR_TRACERS] for counts in (*few, ["SYS_ADMIN"])]


def _create(client: DockerClient, image_id: str, owner: str, arguments: list[str]) -> Container:
    """Make the profiler's container with the fewest capabilities that the engine knows."""
    *fewer, most = profiler_rights(client.info()["KernelVersion"])
    arguments = [PROFILER, *arguments, "--cgroups", CGROUPS]
    for capabilities in fewer:
        with suppress(APIError):
            return _create_with(client, image_id, owner, arguments, capabilities)
    return _create_with(client, image_id, owner, arguments, most)


def _create_with(
    client: DockerClient, image_id: str, owner: str, arguments: list[str], capabilities: list[str]
) -> Container:
    # Even if BPF has its own capability, the engine's list of system calls may allow it only with SYS_ADMIN.
    unlisted = [] if "SYS_ADMIN" in capabilities else ["seccomp=unconfined"]
    return client.containers.create(
        image_id,
        arguments,
        pid_mode="host",
        cgroupns="host",
        network_mode="none",
        cap_drop=["ALL"],
        cap_add=capabilities,
        # AppArmor and SELinux keep containers from looking at processes outside.
        security_opt=["apparmor=unconfined", "label=disable", "no-new-privileges", *unlisted],
        read_only=True,
        # With a read-only root, only a volume takes files before the start; this one is removed with the container.
        mounts=[Mount(SYMBOLS, None)] if "--symbols" in arguments else [],
        log_config=LogConfig(type="json-file", config={"max-size": f"{untrusted.MOST_RECORD}"}),  # no more than is read
        volumes={HOST_CGROUPS: {"bind": CGROUPS, "mode": "ro"}},
        labels=labels_of(owner),
    )


def _wait_until_ready(profiler: Container) -> None:
    limit = time.monotonic() + LIMIT_S
    while b"ready" not in profiler.logs(stderr=False):
        profiler.reload()
        if profiler.status == "exited":
            raise _refusal(profiler)
        if time.monotonic() > limit:
            raise not_ready(LIMIT_S)
        time.sleep(0.02)


def _refusal(profiler: Container) -> InterlockError:
    profiler.reload()
    return refusal(log_of(profiler, stdout=False), profiler.attrs["State"]["ExitCode"])


@contextmanager
def work_marked(container: Container) -> Iterator[None]:
    """Mark what the container does in the block as one phase, for a profiler that tells phases apart.

    The phase is the life of a program under the launcher: a `cat` that waits until its input is closed.
    """
    api = container.client.api
    execution = api.exec_create(container.id, [LAUNCH, "--", "cat"], stdin=True)["Id"]
    stream = api.exec_start(execution, socket=True)
    limit = time.monotonic() + END_S
    while not api.exec_inspect(execution)["Pid"] and time.monotonic() < limit:
        time.sleep(0.02)
    try:
        yield
    finally:
        hang_up(stream)
        limit = time.monotonic() + END_S
        while api.exec_inspect(execution)["Running"] and time.monotonic() < limit:
            time.sleep(0.02)
