"""Containers of an experiment: cells that idle until a process is started in them, the server, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from interlock.engine.client import OWNER_LABEL, no_space
from interlock.engine.context import tar_of
from interlock.errors import EngineError
from interlock.model import MOUNT, PRODUCTION, SCRATCH, Surroundings

PREFIX = "/usr/local"
SERVER_PORT = 8080
SERVER_FILES = "/srv/files"
SERVER_READY_S = 60
CONFLICT = 409
REMOVAL_S = 30


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
    """What a cell is given: who owns it, what it idles in, its volume and network, and its surroundings."""

    experiment: str
    idle: list[str]
    volume: str
    network: str | None
    surroundings: Surroundings = PRODUCTION


def start_cell(client: Any, image_id: str, options: CellOptions) -> Any:
    """A container that idles; processes are started in it by `run_process`."""
    try:
        if options.surroundings.interpreter == "tmpfs":
            container = _run_with_prefix_in_memory(client, image_id, options)
        else:
            container = _run(client, image_id, options, {})
        if options.surroundings.scratch == "image":
            _must_work(container, ["mkdir", "-p", SCRATCH])
        return container
    except DockerException as error:
        todo = "Free some (`docker system df`)." if no_space(str(error)) else "See the engine's log."
        raise EngineError(found=f"the engine cannot start a cell: {error}", todo=todo) from None


def _run(client: Any, image_id: str, options: CellOptions, more_volumes: Mapping[str, str]) -> Any:
    """`more_volumes` are places in the container by the volume's name.

    No init process: the launcher is one, and unlike the engine's it makes no system call while it idles.
    """
    network = {"network": options.network} if options.network else {"network_mode": "none"}
    writable = {name: {"bind": place, "mode": "rw"} for name, place in more_volumes.items()}
    surroundings = options.surroundings
    return client.containers.run(
        image_id,
        options.idle,
        entrypoint=[],
        detach=True,
        volumes={options.volume: {"bind": MOUNT, "mode": "ro"}, **writable},
        tmpfs={SCRATCH: ""} if surroundings.scratch == "tmpfs" else {},
        security_opt=["seccomp=unconfined"] if surroundings.seccomp == "unconfined" else [],
        labels=_labels(options.experiment),
        **network,
    )


def _run_with_prefix_in_memory(client: Any, image_id: str, options: CellOptions) -> Any:
    """The container with a copy of the image's /usr/local on a tmpfs.

    The engine's tmpfs mounts start empty and cannot be copied into from outside. A volume that is a tmpfs keeps its
    content as long as any container mounts it: one fills it and holds it until the cell mounts it as well.
    """
    volume = client.volumes.create(
        driver="local", driver_opts={"type": "tmpfs", "device": "tmpfs"}, labels=_labels(options.experiment)
    )
    holder = _run(client, image_id, options, {volume.name: "/prefix"})
    try:
        _must_work(holder, ["cp", "-a", f"{PREFIX}/.", "/prefix/"])
        return _run(client, image_id, options, {volume.name: PREFIX})
    finally:
        remove(holder)


def _must_work(container: Any, argv: list[str]) -> None:
    ended = container.exec_run(argv)
    if ended.exit_code != 0:
        said = ended.output.decode(errors="replace").strip()
        raise EngineError(found=f"{argv[0]} failed in a cell: {said}", todo="See workloads/conditions.toml.")


def run_process(
    client: Any, container: Any, argv: list[str], deadline_s: float, environment: Mapping[str, str] | None = None
) -> Ended:
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
        execution = client.api.exec_create(
            container.id, argv, stdout=True, stderr=True, environment=dict(environment or {})
        )["Id"]
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
    """Gone, with what belongs to it alone; one that is gone already, or is going, is fine."""
    try:
        container.remove(force=True, v=True)
    except NotFound:
        pass
    except APIError as error:
        if error.status_code != CONFLICT:
            raise
        # A removal that was interrupted goes on in the engine.
        with suppress(APIError, RequestException):
            container.wait(condition="removed", timeout=REMOVAL_S)


def remove_network(client: Any, name: str) -> None:
    with suppress(NotFound):
        client.networks.get(name).remove()


def clean_up(client: Any, experiment: str) -> None:
    """Removes every container, network and volume of the experiment; EngineError names what stays, if anything does."""
    owned = {"label": f"{OWNER_LABEL}={experiment}"}
    found = [
        *((container, remove) for container in client.containers.list(all=True, filters=owned)),
        *((network, _remove) for network in client.networks.list(filters=owned)),
        *((volume, _remove_volume) for volume in client.volumes.list(filters=owned)),
    ]
    stays = []
    for one, gone in found:
        try:
            gone(one)
        except DockerException as error:
            stays.append(f"{one.id} ({error})")
    if stays:
        raise EngineError(found=f"cannot be removed: {'; '.join(stays)}", todo="Remove it with the engine's tools.")


def _remove(network: Any) -> None:
    with suppress(NotFound):
        network.remove()


def _remove_volume(volume: Any) -> None:
    with suppress(NotFound):
        volume.remove(force=True)
