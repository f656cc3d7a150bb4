"""The profiler, in a container of its own beside the cell that it watches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from docker.types import LogConfig
from requests.exceptions import RequestException

from interlock.catalog.types import MOUNT
from interlock.engine.client import OWNER_LABEL
from interlock.engine.run.cells import remove
from interlock.errors import EngineError, TracerError
from interlock.results.profiles import Method

PROFILER = f"{MOUNT}/profiler/profiler"
HOST_CGROUPS, CGROUPS = "/sys/fs/cgroup", "/host/cgroup"
# perf's tracepoints, one for each call and CPU, take some ten seconds to open and to close on two cores.
READY_S, READY_S_PER_CPU = 30, 15
EXIT_OTHER_TRACER = 3
SIGNAL_STOP = "SIGTERM"
END_S = 10  # seconds for the process that marks the work to start, and to end


class Counting:
    """A profiler at work; `text` is what it printed after `stop`."""

    def __init__(self, container: Container, limit_s: float) -> None:
        self._container = container
        self._limit_s = limit_s
        self.text = ""

    def stop(self) -> None:
        with _said_plainly("the profiler did not end well"):
            self._container.kill(SIGNAL_STOP)
            code = self._container.wait(timeout=self._limit_s)["StatusCode"]
            self.text = self._container.logs(stderr=False).decode()
        if code != 0:
            _explain(self._container)


@contextmanager
def counting(client: DockerClient, image_id: str, owner: str, cell: Container, method: Method) -> Iterator[Counting]:
    """Count what happens in the cell's container from the first line of the block on, until `stop`.

    The profiler sees the host's processes, because it looks for other tracers, and needs SYS_ADMIN for BPF and perf;
    the cell needs nothing. TracerError names another tracer; EngineError says why this method does not work here.
    """
    with _said_plainly("the engine does not start the profiler"):
        cell.reload()
        limit_s = READY_S + READY_S_PER_CPU * client.info()["NCPU"]
        profiler = _create(client, image_id, owner, ["--method", method, "--pid", str(cell.attrs["State"]["Pid"])])
    try:
        with _said_plainly("the engine does not start the profiler"):
            profiler.start()
            _wait_until_ready(profiler, limit_s)
        yield Counting(profiler, limit_s)
    finally:
        # perf's events take longer to close than the engine waits for a container that it removes.
        with suppress(DockerException, RequestException):
            profiler.kill()
            profiler.wait(timeout=limit_s)
        remove(profiler)


@contextmanager
def _said_plainly(what: str) -> Iterator[None]:
    try:
        yield
    except (DockerException, RequestException) as error:
        raise EngineError(found=f"{what}: {error}", todo="Look for the cause in the engine's log.") from None


def _create(client: DockerClient, image_id: str, owner: str, arguments: list[str]) -> Container:
    return client.containers.create(
        image_id,
        [PROFILER, *arguments, "--cgroups", CGROUPS],
        pid_mode="host",
        cgroupns="host",
        network_mode="none",
        cap_add=["SYS_ADMIN", "SYS_PTRACE"],
        # What keeps containers from mounting tracefs and from looking at processes outside.
        security_opt=["apparmor=unconfined", "label=disable"],
        # What it prints is read back, whatever the engine does with logs.
        log_config=LogConfig(type="json-file"),
        volumes={HOST_CGROUPS: {"bind": CGROUPS, "mode": "ro"}},
        labels={OWNER_LABEL: owner},
    )


def _wait_until_ready(profiler: Container, limit_s: float) -> None:
    limit = time.monotonic() + limit_s
    while b"ready" not in profiler.logs(stderr=False):
        profiler.reload()
        if profiler.status == "exited":
            _explain(profiler)
        if time.monotonic() > limit:
            raise EngineError(
                found=f"the profiler was not ready after {limit_s:g} s",
                todo="Stop what else runs on this machine, or measure without a profile (--no-profile).",
            )
        time.sleep(0.02)


def _explain(profiler: Container) -> None:
    profiler.reload()
    said = profiler.logs(stdout=False).decode(errors="replace").strip().splitlines() or ["it printed nothing"]
    reason = said[-1].removeprefix("profiler: ")
    if profiler.attrs["State"]["ExitCode"] == EXIT_OTHER_TRACER:
        raise TracerError(found=reason, todo="Stop it, or measure without a profile (--no-profile).")
    raise EngineError(found=reason, todo="Run `interlock doctor`: it says how to allow it.")


@contextmanager
def work_marked(client: DockerClient, container: Container, launcher: str) -> Iterator[None]:
    """Mark what the container does in the block as one phase, for a profiler that tells phases apart.

    The launcher's program begins it and its end ends it: a `cat` that waits until its input is closed.
    """
    execution = client.api.exec_create(container.id, [launcher, "--", "cat"], stdin=True)["Id"]
    stream = client.api.exec_start(execution, socket=True)
    limit = time.monotonic() + END_S
    while not client.api.exec_inspect(execution)["Pid"] and time.monotonic() < limit:
        time.sleep(0.02)
    try:
        yield
    finally:
        _hang_up(stream)
        limit = time.monotonic() + END_S
        while client.api.exec_inspect(execution)["Running"] and time.monotonic() < limit:
            time.sleep(0.02)


def _hang_up(stream: Any) -> None:
    with suppress(OSError, APIError):
        getattr(stream, "_sock", stream).close()
    with suppress(OSError):
        stream.close()
