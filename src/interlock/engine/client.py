"""Which container engine it is and where: the one place that decides, and the connection to it."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from socket import gaierror
from ssl import SSLError
from traceback import walk_tb
from typing import Any

from docker import APIClient, DockerClient
from docker.context import ContextAPI
from docker.context.config import get_current_context_name
from docker.errors import DockerException
from docker.models.images import Image
from docker.utils import kwargs_from_env
from requests.exceptions import ConnectionError as ConnectionFailed
from requests.exceptions import RequestException, Timeout
from urllib3.exceptions import HTTPError

from interlock.engine.ownership import PREFIX, mark
from interlock.errors import ENDING_SIGNALS, EngineError, NoEngineError, last_line
from interlock.results.experiments import EngineName

# How long the engine may be silent within a call before it counts as gone. Calls that only ask or set are quick even
# on a busy disk; removals are as slow as the disk; a build step may be silent for minutes (training).
PING_S, SHORT_S, REMOVAL_S, LONG_S = 30, 120, 900, 3600
PINGS = re.compile(r"/(_ping|version|info)(\?|$)")
# Docker's engine reads a registry's answer into memory, however long it is, even when nobody waits for it any more.
# While it moves an image it reports progress, except for the manifest before that and for the last file of a layer.
REGISTRY_S, MOVE_S = 15, 300
REGISTRIES = re.compile(r"/distribution/.+/json$")
PUSHES = re.compile(r"/images/.+/push(\?|$)")
LONG_CALLS = re.compile(
    r"/(build|commit|images/(create|load|get|.+/get)|exec/[^/]+/start"
    r"|containers/[^/]+/(wait|attach|archive|export))(\?|$)"
)
# What these calls make is labelled with its owner, so a clean-up finds it as soon as it exists.
CREATING_CALLS = re.compile(r"/(containers|networks|volumes)/create(\?|$)")
DEFAULT_HOST, DEFAULT_CONTEXT = "unix:///var/run/docker.sock", "default"
# Podman's service ends by itself when nobody has asked it anything for this long: a killed run leaves nothing behind.
IDLE_S = 600
READY_S = 20

ERRNO = re.compile(r"\[Errno \d+\] ([^'\")]+)")
TIMED_OUT = re.compile(r"[Rr]ead (timed out)")
QUOTED = re.compile(r"'([^']+)'")

NETWORK = (RequestException, HTTPError, HTTPException, SSLError, ConnectionError, TimeoutError, gaierror)
START_ONE = (
    "Start Docker (`systemctl start docker`, or `dockerd`), install podman, or set DOCKER_HOST to an engine that runs."
)
SEE_LOG = "See the engine's log (of Docker: `journalctl -u docker`)."
STOPPED = f"{SEE_LOG} Once it answers, `interlock clean` removes what was started."
FREE_SPACE = "Free space on the engine's disk: `docker system df` shows what takes it."

ENGINE = "INTERLOCK_ENGINE"
# The label with the hash of what an experiment owns; an image's hash covers all that went into it.
HASH_LABEL = "interlock.hash"


@dataclass(frozen=True)
class Address:
    """Where a container engine answers. Programs that are started beside the SDK get its `environment`."""

    host: str
    context: str | None = None  # docker's, which may have certificates of its own

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables that point a docker command at this engine; the others of their kind must be unset."""
        return {"DOCKER_CONTEXT": self.context} if self.context else {"DOCKER_HOST": self.host}

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the engine is not reached by a socket of this machine."""
        return "://" in self.host and not self.host.startswith("unix://")


class SilentError(DockerException, RequestException):  # type: ignore[misc]  # the SDK has no types
    """The engine says nothing, or is gone. It has both of the SDK's base classes, so a handler of either catches it."""


class _Api(APIClient):  # type: ignore[misc]
    """The engine's API, with a limit to how long each call may wait for a sign of life."""

    def request(self, method: str, url: str, **options: Any) -> Any:
        limit_s = MOVE_S if "fromImage" in (options.get("params") or {}) else silence_limit_s(method, url)
        given_s = options.get("timeout") or limit_s
        # The caller sets the limit of a long call: it may wait for hours for a user's own tests.
        timeout_s = given_s if limit_s == LONG_S else min(given_s, limit_s)
        try:
            with uninterrupted() if CREATING_CALLS.search(url) else nullcontext():
                return super().request(method, url, **{**options, "timeout": timeout_s})
        except (ConnectionFailed, Timeout) as error:
            is_late = isinstance(error, Timeout) or TIMED_OUT.search(str(error))
            if is_late and timeout_s == given_s != limit_s:  # by the caller's own limit: no failure
                raise
            raise SilentError(last_cause(str(error))) from None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C, SIGTERM and SIGHUP back until the block has ended.

    The engine carries on with a call that nobody waits for any more: what it makes would appear after the clean-up.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread is interrupted
        yield
        return
    caught: list[int] = []
    # Blocking them is not enough: another thread would be handed the signal, and this one would run its handler.
    before = {number: signal.signal(number, lambda number, _: caught.append(number)) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)
        for number in caught:
            signal.raise_signal(number)


class _Client(DockerClient):  # type: ignore[misc]
    def __init__(self, address: Address, **options: Any) -> None:
        self.api = _Api(**options)
        self.address = address


def silence_limit_s(method: str, url: str) -> int:
    """Return how many seconds the engine may be silent in this call."""
    if LONG_CALLS.search(url):
        return LONG_S
    if PINGS.search(url):
        return PING_S
    if REGISTRIES.search(url):
        return REGISTRY_S
    if PUSHES.search(url):
        return MOVE_S
    return REMOVAL_S if method == "DELETE" else SHORT_S


def docker_address() -> Address:
    """Return where Docker is: as DOCKER_HOST says, else the current context (DOCKER_CONTEXT, `docker context use`)."""
    host = os.environ.get("DOCKER_HOST")
    if host:
        return Address(host)
    name = os.environ.get("DOCKER_CONTEXT") or get_current_context_name()
    if name == DEFAULT_CONTEXT:
        return Address(DEFAULT_HOST)
    return Address(str(ContextAPI.kwargs_from_context(name).get("base_url", "")), name)


def environment_for(address: Address) -> dict[str, str]:
    """Return this process's environment with the variables that lead to this engine, and to no other."""
    kept = {name: value for name, value in os.environ.items() if name not in {"DOCKER_HOST", "DOCKER_CONTEXT"}}
    return kept | address.environment


def open_client(engine: EngineName | None = None) -> tuple[DockerClient, Address]:
    """Return a docker SDK client whose engine answers, and its address; NoEngineError says why none does.

    Without a name it is the engine that INTERLOCK_ENGINE names, or else Docker at its `docker_address`. If nothing was
    named and Docker does not answer, it is Podman.
    """
    engine = engine or _named()
    if engine is EngineName.HOST:
        raise NoEngineError(key=ENGINE, found="'host' has no containers", todo="Set it to docker or podman.")
    if engine is EngineName.PODMAN:
        return _open(podman_address())
    try:
        return _open(docker_address())
    except NoEngineError:
        if engine is not None or "DOCKER_HOST" in os.environ or not podman_is_installed():
            raise
    return _open(podman_address())


def _named() -> EngineName | None:
    name = os.environ.get(ENGINE)
    if not name:
        return None
    if name not in list(EngineName):
        raise EngineError(key=ENGINE, found=f"'{name}' is not an engine", todo=f"Set it to {', '.join(EngineName)}.")
    return EngineName(name)


def _open(address: Address) -> tuple[DockerClient, Address]:
    if not address.host:
        problem = f"there is no docker context '{address.context}', or it names no engine"
        todo = "Choose one of `docker context ls`: by DOCKER_CONTEXT, or `docker context use NAME`."
        raise NoEngineError(key="DOCKER_CONTEXT", found=problem, todo=todo)
    try:
        # Certificates come from DOCKER_CERT_PATH or from the context.
        settings = ContextAPI.kwargs_from_context(address.context) if address.context else kwargs_from_env()
        client = _Client(address, **{**settings, "base_url": address.host}, timeout=LONG_S)
        if not client.ping():
            raise NoEngineError(file=address.host, found="what answers there is not a container engine", todo=START_ONE)
    except (DockerException, RequestException) as error:
        raise _explain(str(error), address) from None
    return client, address


def name_of(client: DockerClient) -> EngineName:
    """Return whether Docker or Podman answers; both have the same API."""
    parts = [part.get("Name", "") for part in client.version().get("Components") or []]
    return EngineName.PODMAN if any("podman" in part.lower() for part in parts) else EngineName.DOCKER


def _explain(message: str, address: Address) -> NoEngineError:
    where = address.host
    if "Permission denied" in message or "PermissionError" in message:
        return NoEngineError(
            file=where,
            found="this user may not talk to the container engine (permission denied)",
            todo="Add the user to the group 'docker' and log in again, or run as root.",
        )
    return NoEngineError(
        file=where,
        found=f"no container engine answers ({last_cause(message)})",
        todo=START_ONE,
    )


def last_cause(message: str) -> str:
    """Return the system's own words, which the SDK wraps several times."""
    bare = message.removeprefix("Error while fetching server API version: ")
    causes = ERRNO.findall(bare) or TIMED_OUT.findall(bare) or QUOTED.findall(bare) or [bare]
    return str(causes[-1]).strip()


def engine_facts(client: DockerClient) -> dict[str, Any]:
    """Return what an experiment records of the engine."""
    info = client.info()
    return {
        "name": name_of(client).value,
        "version": info.get("ServerVersion", ""),
        "storage_driver": info.get("Driver", ""),
        "cgroup_version": info.get("CgroupVersion", ""),
        "cpus": info.get("NCPU", 0),
        "memory_bytes": info.get("MemTotal", 0),
        "architecture": info.get("Architecture", ""),
        "data_root": info.get("DockerRootDir", ""),
    }


def engine_words(error: Exception) -> str:
    """Return the engine's own words for what went wrong, or the network's, without the SDK's around them."""
    if not isinstance(error, DockerException):
        return last_cause(str(error))
    return last_line(str(getattr(error, "explanation", None) or error))


@contextmanager
def engine_errors(what: str, key: str = "") -> Iterator[None]:
    """Turn every failure of the engine within the block into an EngineError whose text begins with `what`."""
    try:
        yield
    except (DockerException, *NETWORK) as error:
        raise EngineError(key=key, found=f"{what}: {engine_words(error)}", todo=STOPPED) from None


def require_answer(client: DockerClient) -> None:
    """Raise EngineError if the engine is gone, or going: one that is being stopped answers on old connections."""
    with engine_errors("the container engine stopped answering"):
        client.api.close()
        client.ping()


def engine_failure(error: BaseException) -> EngineError | None:
    """Return the EngineError for a failure of the engine or the network; None for any other exception.

    An answer that the SDK cannot read counts as a failure of the engine.
    """
    if isinstance(error, DockerException) and not isinstance(error, SilentError):
        return EngineError(found=f"the container engine failed: {engine_words(error)}", todo=STOPPED)
    modules = {frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in walk_tb(error.__traceback__)}
    if isinstance(error, NETWORK):
        is_engine = "docker" in modules or isinstance(error, SilentError)
        who, todo = ("the container engine", STOPPED) if is_engine else ("the other side", SEE_LOG)
        return EngineError(found=f"{who} does not answer ({last_cause(str(error))})", todo=todo)
    if "docker" in modules and not isinstance(error, OSError | MemoryError):
        kind = type(error).__name__
        return EngineError(found=f"the container engine's answer cannot be read ({kind}: {error})", todo=SEE_LOG)
    return None


def no_space(message: str) -> bool:
    """Return whether a message says that the engine's disk is full, in the engine's words or in curl's."""
    return "no space left on device" in message.lower() or "curl: (23)" in message


def disk_full(what: str) -> EngineError:
    """Return the error for `what`, which found the engine's disk full."""
    return EngineError(found=f"{what}: no space left on the engine's disk", todo=FREE_SPACE)


def put_tag(image: Image, name: str) -> None:
    """Tag the image, with repository and tag apart, because Podman takes no tag within a name."""
    repository, _, tag = name.rpartition(":")
    image.tag(repository, tag)


def podman_is_installed() -> bool:
    return shutil.which("podman") is not None


def podman_address() -> Address:
    """Return the socket of Podman's service, which is started if none runs; EngineError if that fails."""
    path = next((path for path in known_sockets() if answers(path)), None) or _serve()
    return Address(f"unix://{path}")


def known_sockets() -> list[Path]:
    """Return the paths of systemd's podman.socket, this user's before root's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    own, system = Path(runtime) / "podman/podman.sock", Path("/run/podman/podman.sock")
    return [system] if os.geteuid() == 0 else [own, system]


def answers(path: Path) -> bool:
    """Return whether a server listens at this socket and lets this user connect."""
    with socket.socket(socket.AF_UNIX) as client:
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True


def _serve() -> Path:
    if not podman_is_installed():
        raise NoEngineError(found="podman is not installed", todo="Install it: apt-get install podman.")
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}podman-"))
    mark(folder, "podman")
    path, log = folder / "podman.sock", folder / "log"
    with log.open("wb") as said:
        service = subprocess.Popen(
            ["podman", "system", "service", f"--time={IDLE_S}", f"unix://{path}"],
            stdout=said,
            stderr=said,
            start_new_session=True,  # Ctrl-C would end it too, and this process needs it to clean up
        )
    atexit.register(_stop, service, folder)
    limit = time.monotonic() + READY_S
    while not answers(path):
        if service.poll() is not None or time.monotonic() > limit:
            raise NoEngineError(
                found=f"podman's service does not start: {last_line(log.read_text(errors='replace'))}",
                todo="Run `podman info` and fix what it reports.",
            )
        time.sleep(0.05)
    return path


def _stop(service: subprocess.Popen[bytes], folder: Path) -> None:
    service.terminate()
    with suppress(subprocess.TimeoutExpired):
        service.wait(timeout=5)
    shutil.rmtree(folder, ignore_errors=True)
