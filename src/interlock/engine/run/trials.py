"""A user's own Dockerfile: built by their docker command, and run as a service with the load and their tests beside it.

Builds use BuildKit where the user has it, and the user's credentials.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import IO

from docker import DockerClient
from docker.errors import DockerException
from docker.models.containers import Container
from docker.types import LogConfig
from docker.utils import parse_bytes
from docker.utils.build import tar as tar_context
from requests.exceptions import RequestException

from interlock import untrusted
from interlock.catalog.types import MOUNT
from interlock.engine.build.image import build_with_steps_kept, keep_log
from interlock.engine.client import Address, disk_full, engine_errors, engine_words, environment_for, no_space
from interlock.engine.ownership import labels_of
from interlock.engine.protocol import Answer
from interlock.engine.run import cells, leftovers
from interlock.engine.run.cells import last_lines, run_in_workload
from interlock.engine.run.rights import PROCESSES, of_installation
from interlock.engine.run.workspace import ContainerSandbox, ContainerWorkspace, ask_service
from interlock.errors import BuildError, EngineError, UsageError, WorkloadError

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
class ContainerStart:
    """What a container is started with."""

    image_id: str
    environment: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] | None = None  # in place of the image's own, its entrypoint left out
    alias: str = ""
    gil_probed: bool = False


def open_network(client: DockerClient, owner: str) -> str:
    """Make a network for the trial, with access to the outside, which a service may need to start."""
    name = f"interlock-{owner}"
    client.networks.create(name, driver="bridge", labels=labels_of(owner))
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
    with engine_errors("the engine cannot start the load"):
        return client.containers.run(
            image_id,
            detach=True,
            init=True,
            network=network,
            cpuset_cpus=cpus,
            labels=labels_of(owner),
            **of_installation(),
        )


@contextmanager
def started(services: ServiceNetwork, start: ContainerStart) -> Iterator[ContainerSandbox]:
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
            raise disk_full("starting the service") from None
        raise WorkloadError(
            found=f"the engine cannot start it: {engine_words(error)}", todo="Correct the image's command or --cmd."
        ) from None
    try:
        yield services.workspace.sandbox(container, services.network)
    finally:
        cells.remove(container)


def _create(services: ServiceNetwork, start: ContainerStart) -> Container:
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
        pids_limit=PROCESSES,
        # Its log is read back, whatever the engine does with logs.
        log_config=LogConfig(type="json-file"),
        volumes={services.workspace.volume: {"bind": MOUNT, "mode": "ro"}} if services.workspace.volume else {},
        labels=labels_of(services.workspace.owner),
        **replaced,
    )


def start_alone(client: DockerClient, owner: str, image_id: str, watched_s: float) -> str:
    """Start a container as its image says and watch it; WorkloadError if it does not start or ends with an error."""
    with engine_errors("the engine cannot make a container"):
        container = client.containers.create(image_id, labels=labels_of(owner), log_config=LogConfig(type="json-file"))
    try:
        container.start()
        code = int(container.wait(timeout=watched_s)["StatusCode"])
        said = last_lines(untrusted.joined(container.logs(stream=True, follow=False)).decode(errors="replace"))
    except DockerException as error:  # before RequestException, which the SDK's own errors are too
        found = f"the engine cannot start it: {engine_words(error)}"
        raise WorkloadError(found=found, todo="Correct the image's command.") from None
    except RequestException:
        return f"runs after {watched_s:g} s"
    finally:
        cells.remove(container)
    if code:
        raise WorkloadError(found=f"it ended with exit code {code}: {said}", todo="Fix what its log says.")
    return f"ended with 0: {said}"


def exposed_ports(client: DockerClient, image_id: str) -> list[str]:
    """Return what an image EXPOSEs, as in 8000/tcp."""
    return list(client.images.get(image_id).attrs["Config"].get("ExposedPorts") or {})


def ask(services: ServiceNetwork, url: str, *, any_answer: bool) -> Answer:
    """Ask a service for about a second until its answer is 2xx, or until there is any; the body is thrown away."""
    return ask_service(partial(run_in_workload, services.loader.container), url, any_answer=any_answer, body=False)


def require_running(sandbox: ContainerSandbox, when: str) -> None:
    """Raise WorkloadError with the exit code and the last lines of the log if the container has ended."""
    sandbox.container.reload()
    if sandbox.container.status == "running":
        return
    state = sandbox.container.attrs["State"]
    why = "it ran out of memory (--memory)" if state["OOMKilled"] else f"exit code {state['ExitCode']}"
    raise WorkloadError(found=f"it ended {when}: {why}; {last_lines(log_of(sandbox))}", todo="Fix what its log says.")


def log_of(sandbox: ContainerSandbox) -> str:
    """Return everything that the container printed."""
    return untrusted.joined(sandbox.container.logs(stream=True, follow=False)).decode(errors="replace")


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
        with tarfile.open(fileobj=io.BytesIO(untrusted.joined(parts)), mode="r:") as tar:
            written = [tar.extractfile(entry) for entry in tar if entry.isfile() and entry.name.endswith(".gil")]
            return [stream.read().decode(errors="replace") for stream in written if stream]
    except (DockerException, tarfile.TarError, OSError, ValueError):
        return []


def image_environment(services: ServiceNetwork, image_id: str) -> dict[str, str]:
    """Return the ENV of an image."""
    settings = services.workspace.client.images.get(image_id).attrs["Config"].get("Env") or []
    return dict(setting.partition("=")[::2] for setting in settings)


DOCKER, DOCKERFILE = "docker", "Dockerfile"
IGNORE = ".dockerignore"
CLASSIC = "the engine's classic builder"
# What either builder prints when a step begins that takes time.
STEP = re.compile(
    r"^(?:Step [0-9]+/[0-9]+ : |#[0-9]+ \[[^\]]*[0-9]+/[0-9]+\] )((?:FROM|RUN|COPY|ADD)\b.*)$", re.IGNORECASE
)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# A step taken from the cache is of another build, which may be building on it right now.
MADE = re.compile(r"(?<! ---> Using cache\n)^ ---> ([0-9a-f]{12})$", re.MULTILINE)
# BuildKit repeats what the failed step said between two rules.
FAILED_STEP, NAMED, RULE = re.compile(r"^------\n > ", re.MULTILINE), ":\n", re.compile(r"^------$", re.MULTILINE)
TIME = re.compile(r"^#?[0-9. ]+ (?=\S)")
CAUSE = re.compile(r"error|fatal|cannot|failed|not found|no such", re.IGNORECASE)
NOISE = ("[notice]", " ---> ", "Removing intermediate", "note: This", "DEPRECATED: The legacy", " " * 12)
LAST_LINES, SEARCHED_LINES = 4, 40
KILLED_S = 10


@dataclass(frozen=True)
class Recipe:
    """What is built: the user's folder, their Dockerfile, and the options of `docker build` that they gave."""

    context: Path
    dockerfile: Path
    options: tuple[str, ...] = ()

    @property
    def ignore_file(self) -> Path | None:
        """Return the ignore file of this Dockerfile alone, which is read instead of the folder's .dockerignore."""
        path = self.dockerfile.with_name(self.dockerfile.name + IGNORE)
        return path if path.is_file() else None


@dataclass(frozen=True)
class UserImage:
    """An image that was built, how long it took, and what else the build left in the engine, the last first."""

    image_id: str
    duration_s: float
    size_bytes: int
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildSetup:
    """What builds the images of a trial: client, address, builder, folders of copies and logs, and the owner."""

    client: DockerClient
    address: Address
    owner: str
    folder: Path  # for copies of the Dockerfile
    cache: Path  # for logs
    builder: str


def find_builder() -> str:
    """Return what `docker build` builds with; EngineError if the command is missing."""
    try:
        found = subprocess.run([DOCKER, "buildx", "version"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise EngineError(
            found="the command `docker`, which builds your Dockerfile, is not installed",
            todo="Install it: apt-get install docker-cli (docker.io before Debian 13).",
        ) from None
    if found.returncode != 0 or os.environ.get("DOCKER_BUILDKIT") == "0":
        return CLASSIC
    return f"BuildKit by {' '.join(found.stdout.split()[:2])}"


def build_user_image(
    workshop: BuildSetup, recipe: Recipe, name: str, text: str | None, on_step: Callable[[str], None]
) -> UserImage:
    """Build the user's Dockerfile, or `text` in its place; BuildError has the last lines of the log.

    The user's folder is only read.
    """
    log: list[str] = []
    built = recipe if text is None else replace(recipe, dockerfile=_write_copy(workshop.folder / name, recipe, text))
    made = build_with_steps_kept(lambda: _build(workshop, built, name, log, on_step), log)
    path = keep_log(workshop.cache, f"trial-{name}", log)
    if made is None:
        raise _failure("".join(log), recipe, path)
    return made


def _build(
    workshop: BuildSetup, recipe: Recipe, name: str, log: list[str], on_step: Callable[[str], None]
) -> UserImage | None:
    """Build once and return the image, None if that fails; the output is appended to `log`."""
    started = time.monotonic()
    answer = workshop.folder / f"{name}.id"
    before = _image_ids(workshop.client)
    labels = [word for name, value in labels_of(workshop.owner).items() for word in ("--label", f"{name}={value}")]
    words = [DOCKER, "build", *labels, "--iidfile", str(answer), "--force-rm"]
    done = False
    try:
        with _context(workshop, recipe) as (context, stdin):
            code = _run(workshop.address, [*words, *recipe.options, *context], stdin, log, on_step)
        done = code == 0 and answer.is_file()
    finally:
        left = _left("".join(log), before)
        if not done:
            leftovers.remove_images(workshop.client, left)
    if not done:
        return None
    image_id, duration_s = answer.read_text(encoding="utf-8").strip(), time.monotonic() - started
    return UserImage(image_id, duration_s, workshop.client.images.get(image_id).attrs["Size"], left)


def _left(log: str, before: set[str]) -> tuple[str, ...]:
    """Return the images of steps that the classic builder left; those that were there before are not ours."""
    return tuple(one for one in reversed(MADE.findall(log)) if not any(known.startswith(one) for known in before))


def _write_copy(folder: Path, recipe: Recipe, text: str) -> Path:
    """Write the Dockerfile as it is built, and next to it the ignore rules that belong to it."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / DOCKERFILE
    copy.write_bytes(text.encode("utf-8", "surrogateescape"))
    if recipe.ignore_file:
        (folder / f"{DOCKERFILE}{IGNORE}").write_bytes(recipe.ignore_file.read_bytes())
    return copy


@contextmanager
def _context(workshop: BuildSetup, recipe: Recipe) -> Iterator[tuple[list[str], IO[bytes] | None]]:
    """Yield the last arguments of the command, and its standard input.

    The classic builder does not know a Dockerfile's own ignore file: there the context is packed by its rules.
    """
    if workshop.builder != CLASSIC or recipe.ignore_file is None:
        yield ["--file", str(recipe.dockerfile), str(recipe.context)], None
        return
    lines = recipe.ignore_file.read_text(encoding="utf-8").splitlines()
    rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    name = f".interlock-{workshop.owner}.Dockerfile"
    # Packed with gzip, because the docker command takes a tar whose first header is an extended one for a Dockerfile.
    text = recipe.dockerfile.read_bytes().decode("utf-8", "replace")
    packed = tar_context(str(recipe.context), exclude=rules, dockerfile=(name, text), gzip=True)
    with packed:
        yield ["--file", name, "-"], packed


def _run(
    address: Address, words: Sequence[str], stdin: IO[bytes] | None, log: list[str], on_step: Callable[[str], None]
) -> int:
    """Run a command to its end and return its exit code; its output is appended to the log. An interrupt ends it."""
    process = subprocess.Popen(
        words,
        stdin=stdin or subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(address),
    )
    try:
        for line in process.stdout or ():
            text = COLOUR.sub("", line.decode("utf-8", "replace"))
            log.append(text)
            step = STEP.match(text.rstrip())
            if step:
                on_step(step[1])
        return process.wait()
    except BaseException:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(KILLED_S)
        process.kill()
        raise


def _environment(address: Address) -> dict[str, str]:
    """Return the user's environment with the trial's engine and its own builder, which has the variants' images."""
    kept = {name: value for name, value in environment_for(address).items() if name != "BUILDX_BUILDER"}
    return {**kept, "BUILDKIT_PROGRESS": "plain"}


def _failure(log: str, recipe: Recipe, path: Path) -> BuildError | EngineError:
    if no_space(log):
        return disk_full(f"building {recipe.dockerfile}")
    return BuildError(found=f"it does not build: {last_words(log)}", todo=f"{path} has the rest.")


def _failed_steps(log: str) -> Iterator[str]:
    """Yield what failed steps said; each part of the log is looked at once."""
    at = 0
    while start := FAILED_STEP.search(log, at):
        said = log.find(NAMED, start.end()) + len(NAMED)
        end = RULE.search(log, said) if said >= len(NAMED) else None
        if end is None:
            return
        yield log[said : end.start()]
        at = end.end()


def last_words(log: str) -> str:
    """Return why a build failed in its own words: the last lines that name a cause, and the very last line."""
    step = list(_failed_steps(log))
    lines = [TIME.sub("", line) for line in (step[-1] if step else log).splitlines()[-SEARCHED_LINES:]]
    said = [line.strip() for line in lines if line.strip() and not line.startswith(NOISE)]
    very_last = log.strip().splitlines()[-1:] if step else said[-1:]
    causes = [line for line in said if CAUSE.search(line)] or said
    return " / ".join(dict.fromkeys([*causes[-LAST_LINES:], *very_last])) or "its log is empty"


def _image_ids(client: DockerClient) -> set[str]:
    return {str(image["Id"]).removeprefix("sha256:") for image in client.api.images(all=True)}
