"""Containers of a user's own images: with the images' own user, environment and command, and the limits of a trial."""

from __future__ import annotations

import io
import ipaddress
import re
import tarfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from docker import DockerClient
from docker.errors import DockerException
from docker.models.containers import Container
from docker.utils import parse_bytes
from requests.exceptions import RequestException

from interlock.catalog.types import MOUNT
from interlock.engine.client import disk_full, engine_errors, engine_words, no_space
from interlock.engine.ended import last_lines
from interlock.engine.ownership import labels_of
from interlock.engine.protocol import OwnStart, UserSurroundings
from interlock.engine.run import leftovers
from interlock.engine.run.archives import ContentError, archive, log_of
from interlock.engine.run.rights import LOG, PROCESSES
from interlock.errors import UsageError, WorkloadError

GIL_FOLDER = "/interlock-gil"
GIL_PROBE = files("interlock.engine").joinpath("inside/gil_probe.py").read_bytes()
ADDRESSLESS = ("host", "none")


@dataclass(frozen=True)
class Place:
    """Where containers of a user's images are made: their owner, network, limits and instruments."""

    client: DockerClient
    owner: str
    network: str
    volume: str | None
    users: UserSurroundings


def require_network(client: DockerClient, name: str) -> None:
    """Raise UsageError unless the engine has this network and containers get an address in it."""
    networks = [network.name for network in client.networks.list(names=[name])]
    if name not in networks or name in ADDRESSLESS:
        what = "has no network" if name not in networks else "gives containers no address in"
        raise UsageError(
            key="--network", found=f"the engine {what} '{name}'", todo="Choose one of `docker network ls`."
        )


def require_memory(text: str) -> None:
    """Raise UsageError unless the engine accepts the text as a size of memory."""
    try:
        parse_bytes(text)
    except DockerException:
        raise UsageError(key="--memory", found=f"'{text}' is not a size", todo="Write it as 512m or 2g.") from None


def start_container(place: Place, start: OwnStart) -> Container:
    """Start a container; WorkloadError if it does not start."""
    container = None
    try:
        container = _create(place, start)
        if start.gil_probed:
            container.put_archive("/", gil_probe_archive())
        container.start()
    except DockerException as error:
        if container is not None:
            leftovers.remove(container)
        if no_space(str(error)):
            raise disk_full("starting the service") from None
        raise WorkloadError(
            found=f"the engine cannot start it: {engine_words(error)}", todo="Correct the image's command or --cmd."
        ) from None
    return container


def _create(place: Place, start: OwnStart) -> Container:
    client, users = place.client, place.users
    # The name must lead to the service, not to a container that idles or tests beside it.
    aliases = [users.alias] if users.alias and start.command is None else []
    named = client.api.create_endpoint_config(aliases=aliases)
    replaced: dict[str, Any] = {} if start.command is None else {"command": list(start.command), "entrypoint": []}
    environment = {**users.environment, **start.environment}
    if start.gil_probed:
        there = {**_image_environment(client, start.image_id), **environment}
        environment["PYTHONPATH"] = python_path(there, GIL_FOLDER)
    return client.containers.create(
        start.image_id,
        environment=environment,
        network=place.network,
        networking_config={place.network: named},
        cpuset_cpus=start.cpus or users.cpus,
        mem_limit=users.memory,
        pids_limit=PROCESSES,
        log_config=LOG,
        volumes={place.volume: {"bind": MOUNT, "mode": "ro"}} if place.volume else {},
        labels=labels_of(place.owner),
        **replaced,
    )


def python_path(environment: Mapping[str, str], folder: str) -> str:
    """Return PYTHONPATH with the GIL probe's folder before the image's own."""
    return ":".join(part for part in (folder, environment.get("PYTHONPATH", "")) if part)


def _image_environment(client: DockerClient, image_id: str) -> dict[str, str]:
    settings = client.images.get(image_id).attrs["Config"].get("Env") or []
    return dict(setting.partition("=")[::2] for setting in settings)


def start_alone(client: DockerClient, owner: str, image_id: str, watched_s: float) -> str:
    """Start a container as its image says and watch it; WorkloadError if it does not start or ends with an error."""
    with ExitStack() as until_watched:
        with engine_errors("the engine cannot make a container"):
            made = leftovers.temporary_container(client, image_id, None, owner, log_config=LOG)
            container = until_watched.enter_context(made)
        try:
            container.start()
            code = int(container.wait(timeout=watched_s)["StatusCode"])
            said = last_lines(log_of(container))
        except DockerException as error:  # before RequestException, because the SDK's own errors are of both kinds
            failure = f"the engine cannot start it: {engine_words(error)}"
            raise WorkloadError(found=failure, todo="Correct the image's command.") from None
        except RequestException:
            return f"runs after {watched_s:g} s"
    if code:
        raise WorkloadError(found=f"it ended with exit code {code}: {said}", todo="Fix what its log says.")
    return f"ended with 0: {said}"


SOCKETS = ("/proc/net/tcp", "/proc/net/tcp6")
LISTENING = re.compile(r"^ *[0-9]+: ([0-9A-F]{8}|[0-9A-F]{32}):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A ", re.MULTILINE)
# Docker's name server, which listens in each container of a network.
NAME_SERVER = "127.0.0.11"


def parse_listening(text: str) -> list[str]:
    """Read the kernel's tables of TCP sockets; return the addresses and ports that are listened on, each once."""
    sockets = {(int(port, 16), _address(words)) for words, port in LISTENING.findall(text)}
    return [f"{address}:{port}" for port, address in sorted(sockets) if address != NAME_SERVER]


def _address(words: str) -> str:
    """Return the address that the kernel writes as words in the machine's byte order."""
    data = b"".join(bytes.fromhex(words[place : place + 8])[::-1] for place in range(0, len(words), 8))
    address = str(ipaddress.ip_address(data))
    return address if len(data) == 4 else f"[{address}]"


def gil_probe_archive() -> bytes:
    """Return a tar with the GIL probe as sitecustomize, in a folder that every user may write to."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        folder = tarfile.TarInfo(GIL_FOLDER.strip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
        entry = tarfile.TarInfo(f"{folder.name}/sitecustomize.py")
        entry.size, entry.mode = len(GIL_PROBE), 0o644
        tar.addfile(entry, io.BytesIO(GIL_PROBE))
    return stream.getvalue()


def read_gil_probe(container: Container) -> list[str]:
    """Return the lines that the GIL probe wrote, one for each process."""
    try:
        with archive(container, GIL_FOLDER) as tar:
            written = [tar.extractfile(entry) for entry in tar if entry.isfile() and entry.name.endswith(".gil")]
            return [stream.read().decode(errors="replace") for stream in written if stream]
    except (ContentError, DockerException, OSError, ValueError):
        return []
