"""Containers of a trial: a user's service, the load beside it, their tests; and what the engine says of them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files

from docker import DockerClient
from docker.errors import DockerException
from docker.models.containers import Container
from docker.types import LogConfig
from docker.utils import parse_bytes
from requests.exceptions import RequestException

from interlock.catalog.types import MOUNT
from interlock.engine.client import OWNER_LABEL, engine_words, no_space
from interlock.engine.protocol import Answer
from interlock.engine.run import cells
from interlock.engine.run.cells import last_lines
from interlock.engine.run.workspace import ContainerSandbox, ContainerWorkspace, ask_service
from interlock.errors import EngineError, UsageError, WorkloadError

GIL_FOLDER = "/interlock-gil"
GIL_PROBE = files("interlock.engine").joinpath("inside/gil_probe.py").read_bytes()
UNHEALTHY = "before it was healthy"
ADDRESSLESS = ("host", "none")


@dataclass(frozen=True)
class ServiceNetwork:
    """Where services of a trial run: a network, the container that load comes from, and each service's limits."""

    workspace: ContainerWorkspace
    network: str
    loader: ContainerSandbox  # that asks and puts load on
    service_cpus: str = ""
    memory: str | None = None


@dataclass(frozen=True)
class Start:
    """What a container is started with."""

    image_id: str
    environment: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] | None = None  # in place of the image's own, its entrypoint left out
    alias: str = ""
    gil_probed: bool = False


def open_network(client: DockerClient, owner: str) -> str:
    """Make a network for the trial, with access to the outside, which a service may need to start."""
    name = f"interlock-{owner}"
    client.networks.create(name, driver="bridge", labels={OWNER_LABEL: owner})
    return name


def require_network(client: DockerClient, name: str) -> None:
    """Raise UsageError unless the engine has this network and containers get an address in it."""
    found = [one.name for one in client.networks.list(names=[name])]
    if name not in found or name in ADDRESSLESS:
        what = "has no network" if name not in found else "gives containers no address in"
        raise UsageError(
            key="--network", found=f"the engine {what} '{name}'", todo="Choose one of `docker network ls`."
        )


def require_memory(text: str) -> None:
    """Raise UsageError unless the engine takes the text for a size."""
    try:
        parse_bytes(text)
    except DockerException:
        raise UsageError(key="--memory", found=f"'{text}' is not a size", todo="Write it as 512m or 2g.") from None


def start_loader(client: DockerClient, owner: str, image_id: str, network: str, cpus: str) -> Container:
    """Start the container that load comes from; it idles until a load is run in it."""
    options = {"init": True, "network": network, "cpuset_cpus": cpus, "labels": {OWNER_LABEL: owner}}
    try:
        return client.containers.run(image_id, detach=True, **options)
    except DockerException as error:
        raise EngineError(
            found=f"the engine cannot start the load: {engine_words(error)}",
            todo="Look for the cause in the engine's log.",
        ) from None


@contextmanager
def started(services: ServiceNetwork, start: Start) -> Iterator[ContainerSandbox]:
    """Start a container of a user's image and remove it after the block; WorkloadError if it does not start."""
    container = None
    try:
        container = _create(services, start)
        if start.gil_probed:
            container.put_archive("/", gil_probe_archive())
        container.start()
    except DockerException as error:
        if container is not None:
            cells.remove(container)
        if no_space(str(error)):
            raise EngineError(found=f"no space left: {error}", todo="Free some (`docker system df`).") from None
        raise WorkloadError(
            found=f"the engine cannot start it: {engine_words(error)}", todo="Correct the image's command or --cmd."
        ) from None
    try:
        yield services.workspace.sandbox(container, services.network)
    finally:
        cells.remove(container)


def _create(services: ServiceNetwork, start: Start) -> Container:
    client = services.workspace.client
    named = client.api.create_endpoint_config(aliases=[start.alias] if start.alias else [])
    replaced = {} if start.command is None else {"command": list(start.command), "entrypoint": []}
    return client.containers.create(
        start.image_id,
        environment=dict(start.environment),
        network=services.network,
        networking_config={services.network: named},
        cpuset_cpus=services.service_cpus,
        mem_limit=services.memory,
        # Its log is read back, whatever the engine does with logs.
        log_config=LogConfig(type="json-file"),
        volumes={services.workspace.volume: {"bind": MOUNT, "mode": "ro"}} if services.workspace.volume else {},
        labels={OWNER_LABEL: services.workspace.owner},
        **replaced,
    )


def exposed_ports(client: DockerClient, image_id: str) -> list[str]:
    """Return what an image EXPOSEs, as in 8000/tcp."""
    return list(client.images.get(image_id).attrs["Config"].get("ExposedPorts") or {})


def ask(services: ServiceNetwork, url: str, *, any_answer: bool) -> Answer:
    """Ask a service for about a second until its answer is 2xx, or until there is any; the body is thrown away."""
    return ask_service(services.loader.container, url, any_answer=any_answer, body=False)


def require_running(sandbox: ContainerSandbox, when: str) -> None:
    """Raise WorkloadError with the exit code and the last lines of the log if the container has ended."""
    sandbox.container.reload()
    if sandbox.container.status == "running":
        return
    state = sandbox.container.attrs["State"]
    why = "it had no memory left (--memory)" if state["OOMKilled"] else f"exit code {state['ExitCode']}"
    raise WorkloadError(found=f"it ended {when}: {why}; {last_lines(log_of(sandbox))}", todo="Fix what its log says.")


def log_of(sandbox: ContainerSandbox) -> str:
    """Return everything that the container printed."""
    return str(sandbox.container.logs().decode(errors="replace"))


def wait_for_end(sandbox: ContainerSandbox, limit_s: float) -> tuple[int, float] | None:
    """Return the exit code and the seconds that it ran, by the engine's clock; None after limit_s seconds."""
    try:
        sandbox.container.wait(timeout=limit_s)
    except RequestException:
        return None
    sandbox.container.reload()
    state = sandbox.container.attrs["State"]
    return int(state["ExitCode"]), _moment(state["FinishedAt"]) - _moment(state["StartedAt"])


def _moment(text: str) -> float:
    """Return a time of the engine's in seconds since 1970; datetime reads no nanoseconds."""
    whole, _, rest = text.rstrip("Z").partition(".")
    digits = rest.partition("+")[0]
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{digits or 0}")


def gil_probe_archive() -> bytes:
    """Return the GIL probe as the sitecustomize of a folder that every user may write to."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        folder = tarfile.TarInfo(GIL_FOLDER.strip("/"))
        folder.type, folder.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(folder)
        entry = tarfile.TarInfo(f"{folder.name}/sitecustomize.py")
        entry.size, entry.mode = len(GIL_PROBE), 0o644
        tar.addfile(entry, io.BytesIO(GIL_PROBE))
    return stream.getvalue()


def read_gil_probe(sandbox: ContainerSandbox) -> list[str]:
    """Return the lines that the GIL probe wrote, one for each process."""
    try:
        parts, _ = sandbox.container.get_archive(GIL_FOLDER)
        with tarfile.open(fileobj=io.BytesIO(b"".join(parts))) as tar:
            written = [tar.extractfile(entry) for entry in tar if entry.isfile() and entry.name.endswith(".gil")]
            return [stream.read().decode(errors="replace") for stream in written if stream]
    except (DockerException, tarfile.TarError):
        return []


def image_environment(services: ServiceNetwork, image_id: str) -> dict[str, str]:
    """Return the ENV of an image."""
    settings = services.workspace.client.images.get(image_id).attrs["Config"].get("Env") or []
    return dict(setting.partition("=")[::2] for setting in settings)
