"""Containers of an experiment: cells that idle until a process is started in them, the server, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, DockerException, NotFound

from interlock.engine.client import OWNER_LABEL, no_space
from interlock.engine.context import tar_of
from interlock.errors import EngineError
from interlock.model import MOUNT, SCRATCH

SERVER_PORT = 8080
SERVER_FILES = "/srv/files"
SERVER_READY_S = 60


@dataclass(frozen=True)
class Ended:
    """How a process in a cell ended. A timed-out one took its container with it."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool


def _labels(experiment: str) -> dict[str, str]:
    return {OWNER_LABEL: experiment}


def create_instruments_volume(client: Any, experiment: str, image_id: str, programs: Mapping[str, bytes]) -> str:
    """A volume with the instruments image's files and the workload programs; cells mount it read-only."""
    name = f"interlock-{experiment}-instruments"
    client.volumes.create(name, labels=_labels(experiment))
    # An empty volume takes over what the image has at the mount point when a container is made.
    carrier = client.containers.create(
        image_id, ["true"], volumes={name: {"bind": MOUNT, "mode": "rw"}}, labels=_labels(experiment)
    )
    try:
        files = {f"workloads/{path}": data for path, data in programs.items()}
        carrier.put_archive(MOUNT, tar_of(files).getvalue())
    finally:
        carrier.remove(force=True)
    return name


def create_network(client: Any, experiment: str) -> str:
    """A network without a way out."""
    name = f"interlock-{experiment}"
    client.networks.create(name, driver="bridge", internal=True, labels=_labels(experiment))
    return name


def start_server(client: Any, experiment: str, image_id: str, network: str, environment: dict[str, str]) -> Any:
    """The server with its files ready; it has CPU 0 to itself unless the client is let loose on all."""
    container = client.containers.run(
        image_id,
        detach=True,
        init=True,
        network=network,
        environment=environment,
        tmpfs={SERVER_FILES: ""},
        cpuset_cpus="0" if client.info()["NCPU"] > 1 else "",
        labels=_labels(experiment),
    )
    limit = time.monotonic() + SERVER_READY_S
    while container.exec_run(["test", "-f", f"{SERVER_FILES}/manifest"]).exit_code != 0:
        container.reload()
        if container.status == "exited" or time.monotonic() > limit:
            log = container.logs(tail=3).decode(errors="replace").strip()
            raise EngineError(found=f"the server did not start: {log}", todo="See dockerfiles/server/.")
        time.sleep(0.2)
    return container


def server_url(client: Any, container: Any, network: str) -> str:
    """By address, so that no name is looked up while timing."""
    settings = client.api.inspect_container(container.id)["NetworkSettings"]["Networks"][network]
    return f"http://{settings['IPAddress']}:{SERVER_PORT}"


@dataclass(frozen=True)
class CellOptions:
    """What all cells of a workload have in common: who owns them, what they idle in, and what they are given."""

    experiment: str
    idle: list[str]
    volume: str
    network: str | None


def start_cell(client: Any, image_id: str, options: CellOptions) -> Any:
    """A container that idles; processes are started in it by `run_process`."""
    where = {"network": options.network} if options.network else {"network_mode": "none"}
    try:
        return client.containers.run(
            image_id,
            options.idle,
            entrypoint=[],
            detach=True,
            init=True,
            volumes={options.volume: {"bind": MOUNT, "mode": "ro"}},
            tmpfs={SCRATCH: ""},
            labels=_labels(options.experiment),
            **where,
        )
    except DockerException as error:
        todo = "Free some (`docker system df`)." if no_space(str(error)) else "See the engine's log."
        raise EngineError(found=f"the engine cannot start a cell: {error}", todo=todo) from None


def run_process(client: Any, container: Any, argv: list[str], deadline_s: float) -> Ended:
    """Runs argv in the container to its end. At the deadline the container is killed: nothing in it survives."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        with suppress(APIError):
            container.kill()

    timer = threading.Timer(deadline_s, kill)
    timer.daemon = True
    timer.start()
    try:
        execution = client.api.exec_create(container.id, argv, stdout=True, stderr=True)["Id"]
        stdout, stderr = client.api.exec_start(execution, demux=True)
        code = client.api.exec_inspect(execution)["ExitCode"]
    except DockerException as error:
        if not late.is_set():
            raise EngineError(found=f"a process could not be started: {error}", todo="See the engine's log.") from None
        stdout, stderr, code = b"", b"", None
    finally:
        timer.cancel()
    if late.is_set():
        remove(container)
    return Ended(code, _text(stdout), _text(stderr), late.is_set())


def _text(data: bytes | None) -> str:
    return (data or b"").decode("utf-8", errors="replace")


def remove(container: Any) -> None:
    """Gone, with what belongs to it alone; one that is gone already is fine."""
    with suppress(NotFound):
        container.remove(force=True, v=True)


def remove_network(client: Any, name: str) -> None:
    with suppress(NotFound):
        client.networks.get(name).remove()


def clean_up(client: Any, experiment: str) -> None:
    """Removes every container, network and volume of the experiment."""
    owned = {"label": f"{OWNER_LABEL}={experiment}"}
    for container in client.containers.list(all=True, filters=owned):
        remove(container)
    for network in client.networks.list(filters=owned):
        network.remove()
    for volume in client.volumes.list(filters=owned):
        volume.remove(force=True)
