"""Containers of an experiment: cells, the server, their networks and volumes, and what a cgroup says of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from docker import DockerClient
from docker.errors import APIError, DockerException
from docker.models.containers import Container
from docker.types import Mount

from interlock.catalog.types import DISK, MOUNT, PREFIX
from interlock.engine.agent import LAUNCH
from interlock.engine.build.sources import tar_of
from interlock.engine.client import FREE_SPACE, SEE_LOG, name_of, no_space
from interlock.engine.ended import last_lines
from interlock.engine.ownership import labels_of
from interlock.engine.protocol import MEMORY_BYTES, USUAL, CpuUsed, Surroundings
from interlock.engine.run.archives import log_of
from interlock.engine.run.execution import NUMBER, execute
from interlock.engine.run.leftovers import remove, temporary_container
from interlock.engine.run.rights import ROOT, SERVER_FILES_BYTES, of_cell, of_installation
from interlock.errors import EngineError, WorkloadError
from interlock.results.experiments import EngineName

IDLE = [LAUNCH, "--idle"]
NO_ADDRESS = "com.docker.network.bridge.inhibit_ipv4"
SERVER_PORT = 8080
SERVER_FILES = "/srv/files"
SERVER_READY_S = 60
CPU_FILES = [
    "/sys/fs/cgroup/cpu.stat",
    "/sys/fs/cgroup/cpuacct/cpuacct.usage",
    "/sys/fs/cgroup/cpuacct/cpuacct.usage_user",
    "/sys/fs/cgroup/cpuacct/cpuacct.usage_sys",
]
MEMORY_FILES = ["/sys/fs/cgroup/memory.stat", "/sys/fs/cgroup/memory/memory.stat"]
# The words of cgroup v1 and v2 for memory that belongs to processes and not to files.
OF_PROCESSES = ("total_rss", "anon")


def memory_limits() -> dict[str, int]:
    """Return the memory limits of a container; swap is included, because a cell that swaps measures the disk."""
    return {"mem_limit": MEMORY_BYTES, "memswap_limit": MEMORY_BYTES}


def create_instruments_volume(
    client: DockerClient, experiment: str, image_id: str, programs: Mapping[str, bytes]
) -> str:
    """Make a volume with the instruments image's files and the workload programs; cells mount it read-only."""
    name = f"interlock-{experiment}-instruments"
    client.volumes.create(name, labels=labels_of(experiment))
    # An empty volume is filled with what the image has at the mount point: by Docker when a container is made, by
    # Podman when it starts.
    volumes = {name: {"bind": MOUNT, "mode": "rw"}}
    with temporary_container(client, image_id, ["true"], experiment, volumes=volumes) as carrier:
        carrier.start()
        carrier.wait(timeout=SERVER_READY_S)
        files = {f"workloads/{path}": data for path, data in programs.items()}
        carrier.put_archive(MOUNT, tar_of(files).getvalue())
    return name


def create_network(client: DockerClient, experiment: str, *, internal: bool = True) -> str:
    """Make a network and return its name; an internal one reaches neither the outside nor this machine."""
    name = f"interlock-{experiment}"
    # A machine without an address in the network cannot be reached from it. Podman has no such option.
    options = {NO_ADDRESS: "true"} if internal and name_of(client) is EngineName.DOCKER else {}
    client.networks.create(name, driver="bridge", internal=internal, options=options, labels=labels_of(experiment))
    return name


def start_helper(client: DockerClient, experiment: str, image_id: str, network: str, **options: Any) -> Container:
    """Start a container that cells talk to; it is pinned to CPU 0 if there are several CPUs."""
    return client.containers.run(
        image_id,
        detach=True,
        init=True,
        network=network,
        cpuset_cpus="0" if client.info()["NCPU"] > 1 else "",
        labels=labels_of(experiment),
        **memory_limits(),
        **options,
    )


def start_server(
    client: DockerClient, experiment: str, image_id: str, network: str, environment: dict[str, str]
) -> Container:
    """Start the server and wait until its files are ready."""
    files = {SERVER_FILES: f"size={SERVER_FILES_BYTES}"}
    container = start_helper(
        client, experiment, image_id, network, environment=environment, tmpfs=files, **of_installation()
    )
    limit = time.monotonic() + SERVER_READY_S
    while not _serves(container):
        container.reload()
        if container.status == "exited" or time.monotonic() > limit:
            failure = f"the server did not start: {last_lines(log_of(container))}"
            remove(container)
            raise WorkloadError(key="server", found=failure, todo="Fix dockerfiles/server/serve.sh or nginx.conf.")
        time.sleep(0.2)
    return container


def _serves(container: Container) -> bool:
    """Return whether the server's files are ready; False too if its container has ended."""
    try:
        return bool(container.exec_run(["test", "-f", f"{SERVER_FILES}/manifest"]).exit_code == 0)
    except APIError:
        return False


def address_of(container: Container, network: str) -> str:
    """Return the IP address of a container, so that no name is looked up while timing."""
    container.reload()
    return str(container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"])


def server_url(container: Container, network: str) -> str:
    return f"http://{address_of(container, network)}:{SERVER_PORT}"


@dataclass(frozen=True)
class CellOptions:
    """What a cell is started with: its owner, the volume of instruments, its network and its surroundings."""

    experiment: str
    volume: str | None
    network: str | None
    surroundings: Surroundings = USUAL
    packages: Mapping[str, str] = field(default_factory=dict)  # places of volumes with packages, by their names


# A new volume belongs to root with Docker, as the image's files do; with Podman it already is the cell's own user's.
OPEN_DISK = f"mkdir -p {DISK} && if [ -O {DISK} ]; then chmod 1777 {DISK}; fi"


def start_cell(client: DockerClient, image_id: str, options: CellOptions) -> Container:
    """Start a container that idles; `run_process` starts processes in it."""
    try:
        container = _run(client, image_id, options)
        if "disk" in options.surroundings.rights:
            _open_disk(container)
        return container
    except DockerException as error:
        todo = FREE_SPACE if no_space(str(error)) else SEE_LOG
        raise EngineError(found=f"the engine cannot start a cell: {error}", todo=todo) from None


def _run(client: DockerClient, image_id: str, options: CellOptions) -> Container:
    """Start a container without an init process: the launcher is one, and makes no system call while it idles."""
    network = _online(options.network) if options.network else {"network_mode": "none"}
    # A volume without a name is removed with the container; a new one is filled with what the image has at its place.
    wanted = {DISK: "disk" in options.surroundings.rights, PREFIX: options.surroundings.prefix_on_volume}
    places = {**({options.volume: MOUNT} if options.volume else {}), **options.packages}
    read_only = {name: {"bind": place, "mode": "ro"} for name, place in places.items()}
    return client.containers.run(
        image_id,
        IDLE,
        entrypoint=[],
        detach=True,
        volumes=read_only,
        mounts=[Mount(place, None) for place, is_wanted in wanted.items() if is_wanted],
        labels=labels_of(options.experiment),
        **of_cell(options.surroundings),
        **memory_limits(),
        **network,
    )


def _online(network: str) -> dict[str, Any]:
    """Return a container's options in this network, where no name server answers: a lookup fails after 1 s, not 10.

    0.0.0.0 has a name, because a server that listens at all addresses may look one up.
    """
    known = {"all-addresses": "0.0.0.0"}  # noqa: S104
    return {"network": network, "dns_opt": ["timeout:1", "attempts:1"], "extra_hosts": known}


def _open_disk(container: Container) -> None:
    """Open a cell's disk to its user. This runs as the owner of the image's files, without any other right."""
    done = execute(container, ["sh", "-c", OPEN_DISK], user=ROOT)
    if not done.ok:
        said = (done.stdout + done.stderr).strip()
        raise EngineError(found=f"the disk of a cell cannot be opened to its user: {said}", todo=SEE_LOG)


def remove_network(client: DockerClient, name: str) -> None:
    """Remove a network. One with a container whose start was interrupted stays until `clean_up` removes both."""
    with suppress(APIError):
        client.networks.get(name).remove()


def parse_cpu_used(text: str) -> CpuUsed:
    """Read names and microseconds (cgroup v2), or three numbers of nanoseconds: all, user and system (v1).

    Linux counts v1's user and system in ticks of some milliseconds: they only share out the first number.
    """
    lines = [line.split() for line in text.splitlines()]
    named = {line[0]: int(line[1]) for line in lines if len(line) == 2 and NUMBER.fullmatch(line[1])}
    if "user_usec" in named and "system_usec" in named:
        return CpuUsed(named["user_usec"] / 1e6, named["system_usec"] / 1e6)
    numbers = [int(line[0]) for line in lines if len(line) == 1 and NUMBER.fullmatch(line[0])]
    if len(numbers) == 3:
        total_s, user, system = numbers[0] / 1e9, numbers[1], numbers[2]
        user_s = total_s * user / ((user + system) or 1)
        return CpuUsed(user_s, total_s - user_s)
    raise _without_cgroups("CPU time")


def parse_memory_bytes(text: str) -> int:
    """Read the lines `name bytes` of either version of cgroups."""
    named = dict(line.split(" ", 1) for line in text.splitlines() if " " in line)
    for name in OF_PROCESSES:
        if NUMBER.fullmatch(named.get(name, "")):
            return int(named[name])
    raise _without_cgroups("memory")


def _without_cgroups(key: str) -> WorkloadError:
    return WorkloadError(
        key=key,
        found="the cgroup of the container has no such file",
        todo="Mount cgroups in containers, at /sys/fs/cgroup.",
    )
