"""Containers of an experiment: cells that idle until a process is started in them, the server, and their end."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from docker.errors import APIError, DockerException, NotFound
from docker.types import Mount
from requests.exceptions import RequestException

from interlock.engine.client import OWNER_LABEL, no_space
from interlock.engine.context import tar_of
from interlock.engine.output import Done, execute, run_in
from interlock.errors import EngineError, WorkloadError
from interlock.model import DISK, MOUNT, PREFIX, PRODUCTION, SCRATCH, Surroundings

SERVER_PORT = 8080
SERVER_FILES = "/srv/files"
SERVER_READY_S = 60
CONFLICT = 409
# What a container of an experiment has at most. What it writes to a tmpfs is of this: who fills the one still has some.
MEMORY_BYTES = 2**30
# Of a workload's cell and server together at most 2 GiB.
SCRATCH_BYTES = SERVER_FILES_BYTES = 768 * 2**20
PREFIX_BYTES = 512 * 2**20
# How often the kernel killed one of the container's processes for want of memory, in words of cgroup v2 or v1.
OUT_OF_MEMORY = (
    "sed -n 's/^oom_kill //p' /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null"
)
REMOVAL_S = 30


@dataclass(frozen=True)
class Ended:
    """How a process in a cell ended. One that timed out or had no memory left took its container with it."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool
    out_of_memory: bool = False

    @property
    def took_container(self) -> bool:
        return self.timed_out or self.out_of_memory


def memory_limits() -> dict[str, int]:
    """Swap included: a cell that swaps measures the disk."""
    return {"mem_limit": MEMORY_BYTES, "memswap_limit": MEMORY_BYTES}


def _labels(experiment: str) -> dict[str, str]:
    return {OWNER_LABEL: experiment}


def create_instruments_volume(client: Any, experiment: str, image_id: str, programs: Mapping[str, bytes]) -> str:
    """A volume with the instruments image's files and the workload programs; cells mount it read-only."""
    name = f"interlock-{experiment}-instruments"
    client.volumes.create(name, labels=_labels(experiment))
    # An empty volume takes over what the image has at the mount point: with Docker when a container is made, with
    # Podman when it starts.
    carrier = client.containers.create(
        image_id, ["true"], volumes={name: {"bind": MOUNT, "mode": "rw"}}, labels=_labels(experiment)
    )
    try:
        carrier.start()
        carrier.wait()
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
        tmpfs={SERVER_FILES: f"size={SERVER_FILES_BYTES}"},
        **memory_limits(),
        cpuset_cpus="0" if client.info()["NCPU"] > 1 else "",
        labels=_labels(experiment),
    )
    limit = time.monotonic() + SERVER_READY_S
    while not _serves(container):
        container.reload()
        if container.status == "exited" or time.monotonic() > limit:
            log = " / ".join(container.logs(tail=3).decode(errors="replace").strip().splitlines())
            remove(container)
            found = f"the server did not start: {log or 'its log is empty'}"
            raise WorkloadError(key="server", found=found, todo="See dockerfiles/server/.")
        time.sleep(0.2)
    return container


def _serves(container: Any) -> bool:
    """The engine starts nothing in a container that has ended."""
    try:
        return bool(container.exec_run(["test", "-f", f"{SERVER_FILES}/manifest"]).exit_code == 0)
    except APIError:
        return False


def address_of(client: Any, container: Any, network: str) -> str:
    """By number, so that no name is looked up while timing."""
    return str(client.api.inspect_container(container.id)["NetworkSettings"]["Networks"][network]["IPAddress"])


def server_url(client: Any, container: Any, network: str) -> str:
    return f"http://{address_of(client, container, network)}:{SERVER_PORT}"


@dataclass(frozen=True)
class CellOptions:
    """What a cell is given: who owns it, what it idles in, its volume and network, and its surroundings."""

    experiment: str
    idle: list[str]
    volume: str
    network: str | None
    surroundings: Surroundings = PRODUCTION
    packages: Mapping[str, str] = field(default_factory=dict)  # places of volumes with packages, by their names


def start_cell(client: Any, image_id: str, options: CellOptions) -> Any:
    """A container that idles; processes are started in it by `run_process`."""
    try:
        on = {"image": _run, "volume": _run_with_prefix_on_volume, "tmpfs": _run_with_prefix_in_memory}
        container = on[options.surroundings.interpreter](client, image_id, options)
        if options.surroundings.scratch == "image":
            _must_work(container, ["mkdir", "-p", SCRATCH])
        return container
    except DockerException as error:
        todo = "Free some (`docker system df`)." if no_space(str(error)) else "See the engine's log."
        raise EngineError(found=f"the engine cannot start a cell: {error}", todo=todo) from None


def _run_with_prefix_on_volume(client: Any, image_id: str, options: CellOptions) -> Any:
    """The container with a copy of the image's /usr/local on the engine's own file system, bind-mounted.

    A volume that is new takes over what the image has at its place; one without a name goes with the container.
    """
    return _run(client, image_id, options, Mount(PREFIX, None))


def _run(client: Any, image_id: str, options: CellOptions, *volumes: Mount) -> Any:
    """No init process: the launcher is one, and unlike the engine's it makes no system call while it idles."""
    network = _online(options.network) if options.network else {"network_mode": "none"}
    places = {options.volume: MOUNT, **options.packages}
    read_only = {name: {"bind": place, "mode": "ro"} for name, place in places.items()}
    surroundings = options.surroundings
    return client.containers.run(
        image_id,
        options.idle,
        entrypoint=[],
        detach=True,
        volumes=read_only,
        # Without a name it goes with the container.
        mounts=[Mount(DISK, None), *volumes],
        tmpfs={SCRATCH: f"size={SCRATCH_BYTES}"} if surroundings.scratch == "tmpfs" else {},
        security_opt=["seccomp=unconfined"] if surroundings.seccomp == "unconfined" else [],
        labels=_labels(options.experiment),
        **memory_limits(),
        **network,
    )


def _online(network: str) -> dict[str, Any]:
    """No name server is to be reached there: a question to one takes a second, which would be ten.

    A server that listens at all addresses may ask what their name is: that is known.
    """
    known = {"all-addresses": "0.0.0.0"}  # noqa: S104
    return {"network": network, "dns_opt": ["timeout:1", "attempts:1"], "extra_hosts": known}


def _run_with_prefix_in_memory(client: Any, image_id: str, options: CellOptions) -> Any:
    """The container with a copy of the image's /usr/local on a tmpfs.

    The engine's tmpfs mounts start empty and cannot be copied into from outside. A volume that is a tmpfs keeps its
    content as long as any container mounts it: one fills it and holds it until the cell mounts it as well.
    """
    tmpfs = {"type": "tmpfs", "device": "tmpfs", "o": f"size={PREFIX_BYTES}"}
    volume = client.volumes.create(driver="local", driver_opts=tmpfs, labels=_labels(options.experiment))
    holder = _run(client, image_id, options, Mount("/prefix", volume.name))
    try:
        _must_work(holder, ["cp", "-a", f"{PREFIX}/.", "/prefix/"])
        return _run(client, image_id, options, Mount(PREFIX, volume.name))
    finally:
        remove(holder)


def _must_work(container: Any, argv: list[str]) -> None:
    done = run_in(container, argv)
    if done.exit_code != 0:
        said = (done.stdout + done.stderr).strip()
        raise EngineError(found=f"{argv[0]} failed in a cell: {said}", todo="See workloads/conditions.toml.")


def run_process(
    client: Any, container: Any, argv: list[str], deadline_s: float, environment: Mapping[str, str] | None = None
) -> Ended:
    """Runs argv in the container to its end.

    At the deadline the container is killed: nothing in it survives. Nor does one that had no memory left.
    """
    late = threading.Event()

    def kill() -> None:
        late.set()
        with suppress(APIError):
            container.kill()

    timer = threading.Timer(deadline_s, kill)
    timer.daemon = True
    timer.start()
    try:
        done = execute(client, container.id, argv, environment)
    except DockerException as error:
        if not late.is_set():
            raise EngineError(found=f"a process could not be started: {error}", todo="See the engine's log.") from None
        done = Done(None, "", "")
    finally:
        timer.cancel()
    starved = not late.is_set() and done.exit_code != 0 and _ran_out_of_memory(container)
    if late.is_set() or starved:
        remove(container)
    return Ended(done.exit_code, done.stdout, done.stderr, late.is_set(), starved)


def _ran_out_of_memory(container: Any) -> bool:
    """One that is gone has other reasons."""
    try:
        counted = run_in(container, ["sh", "-c", OUT_OF_MEMORY])
    except DockerException:
        return False
    return any(int(count) > 0 for count in counted.stdout.split() if count.isdigit())


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
        *((container, remove) for container in client.containers.list(all=True, filters=owned, ignore_removed=True)),
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
