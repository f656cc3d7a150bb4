"""Containers of a trial: a user's service, the load beside it, their tests; and what the engine says of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from docker.errors import APIError, DockerException
from docker.types import LogConfig
from docker.utils import parse_bytes
from requests.exceptions import RequestException

from interlock.engine import cells, witness
from interlock.engine.client import OWNER_LABEL, no_space
from interlock.engine.output import run_in
from interlock.errors import EngineError, UsageError, WorkloadError
from interlock.model import MOUNT

# For a second, or as long as one answer takes, until one is 2xx (or, where that is good enough, any at all). Prints the
# last one: 000 is none.
ASK = (
    'until=$(($(date +%s) + 1)); while :; do code=$(curl -s -o /dev/null -m 5 -w "%{http_code}" "$1"); '
    'case $code in 2??) exit 0 ;; 000) ;; *) [ "$2" = any ] && exit 0 ;; esac; '
    '[ "$(date +%s)" -gt "$until" ] && break; sleep 0.02; done; echo "$code"; exit 1'
)
ANSWER_S = 5
UNHEALTHY = "before it was healthy"
TIMED_OUT = 124  # of coreutils' timeout
# A time by the container's own clock, so that the engine's start of a process is not in it.
TIMED = 'start=$(date +%s%N); "$@"; code=$?; end=$(date +%s%N); echo "interlock $((end - start))" >&2; exit $code'
TOOK = "interlock "
LAST_LINES = 3
ADDRESSLESS = ("host", "none")
KILL_AFTER_S = 5


@dataclass(frozen=True)
class Stall:
    """Where services of a trial run: made once."""

    client: Any
    owner: str
    network: str
    loader: Any  # the container that asks and puts load on
    service_cpus: str = ""
    memory: str | None = None
    volume: str | None = None  # with the instruments, where a mode or the profiler needs them


@dataclass(frozen=True)
class Start:
    """What a container is started with."""

    image_id: str
    environment: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] | None = None  # in place of the image's own, its entrypoint left out
    alias: str = ""
    witnessed: bool = False


@dataclass(frozen=True)
class LoadRun:
    """One run of the load, by the clock of its container."""

    stdout: str
    duration_s: float


def open_network(client: Any, owner: str) -> str:
    """A network of the trial's own, with a way out: a service may need one to start."""
    name = f"interlock-{owner}"
    client.networks.create(name, driver="bridge", labels={OWNER_LABEL: owner})
    return name


def require_network(client: Any, name: str) -> None:
    """UsageError unless the engine has a network of this name in which containers have addresses."""
    found = [one.name for one in client.networks.list(names=[name])]
    if name not in found or name in ADDRESSLESS:
        what = "has no network" if name not in found else "gives containers no address in"
        raise UsageError(key="--network", found=f"the engine {what} '{name}'", todo="See `docker network ls`.")


def require_memory(text: str) -> None:
    """UsageError unless the engine takes it for a size."""
    try:
        parse_bytes(text)
    except DockerException:
        raise UsageError(key="--memory", found=f"'{text}' is no size", todo="Write it as 512m or 2g.") from None


def start_loader(client: Any, owner: str, image_id: str, network: str, cpus: str) -> Any:
    """The container that load comes from; it idles until it is told what to do."""
    options = {"init": True, "network": network, "cpuset_cpus": cpus, "labels": {OWNER_LABEL: owner}}
    try:
        return client.containers.run(image_id, detach=True, **options)
    except DockerException as error:
        raise EngineError(found=f"the engine cannot start the load: {_short(error)}", todo="See its log.") from None


@contextmanager
def started(stall: Stall, start: Start) -> Iterator[Any]:
    """A container of a user's image that runs, gone after the block; WorkloadError if the engine cannot start it."""
    container = None
    try:
        container = _create(stall, start)
        if start.witnessed:
            container.put_archive("/", witness.archive())
        container.start()
    except DockerException as error:
        if container is not None:
            cells.remove(container)
        if no_space(str(error)):
            raise EngineError(found=f"no space left: {error}", todo="Free some (`docker system df`).") from None
        raise WorkloadError(found=f"the engine cannot start it: {_short(error)}", todo="Correct its command.") from None
    try:
        yield container
    finally:
        cells.remove(container)


def _create(stall: Stall, start: Start) -> Any:
    client = stall.client
    named = client.api.create_endpoint_config(aliases=[start.alias] if start.alias else [])
    replaced = {} if start.command is None else {"command": list(start.command), "entrypoint": []}
    return client.containers.create(
        start.image_id,
        environment=dict(start.environment),
        network=stall.network,
        networking_config={stall.network: named},
        cpuset_cpus=stall.service_cpus,
        mem_limit=stall.memory,
        # Its log is read back, whatever the engine does with logs.
        log_config=LogConfig(type="json-file"),
        volumes={stall.volume: {"bind": MOUNT, "mode": "ro"}} if stall.volume else {},
        labels={OWNER_LABEL: stall.owner},
        **replaced,
    )


def exposed_ports(client: Any, image_id: str) -> list[str]:
    """What an image EXPOSEs, as in 8000/tcp."""
    return list(client.images.get(image_id).attrs["Config"].get("ExposedPorts") or {})


def address_of(stall: Stall, container: Any) -> str:
    """The container's address in the trial's network."""
    return cells.address_of(stall.client, container, stall.network)


def wait_until_healthy(stall: Stall, container: Any, url: str, limit_s: float, *, any_answer: bool) -> float:
    """Seconds from now to its first good answer; WorkloadError has its last answer and its log's last words."""
    start = time.monotonic()
    while True:
        ask = ["timeout", f"{limit_s + ANSWER_S:g}", "sh", "-c", ASK, "ask", url, "any" if any_answer else "good"]
        done = run_in(stall.loader, ask)
        passed_s = time.monotonic() - start
        if done.exit_code == 0:
            return passed_s
        require_running(container, UNHEALTHY)
        if passed_s > limit_s:
            said = _answer(done.stdout.strip(), url)
            raise WorkloadError(
                found=f"it is not healthy after {limit_s:g} s: {said}; {log_words(container)}",
                todo="See its log, or give it longer (--healthy-within).",
            )


def _answer(code: str, url: str) -> str:
    return f"nothing answers at {url}" if code in {"", "000"} else f"{url} answers {code}"


def require_running(container: Any, when: str) -> None:
    """WorkloadError with its exit code and its log's last words if the container has ended."""
    container.reload()
    if container.status == "running":
        return
    state = container.attrs["State"]
    why = "it had no memory left (--memory)" if state["OOMKilled"] else f"exit code {state['ExitCode']}"
    raise WorkloadError(found=f"it ended {when}: {why}; {log_words(container)}", todo="See its log.")


def log_of(container: Any) -> str:
    """All that it printed."""
    return str(container.logs().decode(errors="replace"))


def log_words(container: Any) -> str:
    """Its log's last words."""
    lines = [line.strip() for line in log_of(container).splitlines() if line.strip()]
    return f"its log ends: {' / '.join(lines[-LAST_LINES:])}" if lines else "its log is empty"


def put_load(stall: Stall, words: Sequence[str], limit_s: float) -> LoadRun:
    """Runs the load to its end; WorkloadError if its exit code is not 0 or it takes longer than the limit."""
    limited = ["timeout", "-k", str(KILL_AFTER_S), f"{limit_s:g}", "sh", "-c", TIMED, "sh", *words]
    ended = cells.run_process(stall.client, stall.loader, limited, limit_s + 4 * KILL_AFTER_S)
    if ended.timed_out or ended.exit_code in {TIMED_OUT, 128 + 9}:
        raise WorkloadError(key="--load", found=f"it had not ended after {limit_s:g} s", todo="Raise --deadline.")
    said = [line for line in ended.stderr.splitlines() if line.strip()]
    took = [line for line in said if line.startswith(TOOK)]
    if ended.exit_code != 0:
        words_ = [line for line in said + ended.stdout.splitlines() if line not in took]
        last = words_[-1].strip() if words_ else "it said nothing"
        raise WorkloadError(
            key="--load", found=f"it ended with exit code {ended.exit_code}: {last}", todo="Correct the command."
        )
    return LoadRun(ended.stdout, int(took[-1].removeprefix(TOOK)) / 1e9)


def wait_for_end(container: Any, limit_s: float) -> tuple[int, float] | None:
    """The exit code and the seconds that it ran, by the engine's clock; None if the limit came first."""
    try:
        container.wait(timeout=limit_s)
    except RequestException:
        return None
    container.reload()
    state = container.attrs["State"]
    return int(state["ExitCode"]), _moment(state["FinishedAt"]) - _moment(state["StartedAt"])


def _moment(text: str) -> float:
    """The engine's nanoseconds are more than datetime takes."""
    whole, _, rest = text.rstrip("Z").partition(".")
    digits = rest.partition("+")[0]
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{digits or 0}")


@contextmanager
def work_marked(client: Any, container: Any, launcher: str) -> Iterator[None]:
    """For a profiler that tells phases apart: what the container does within the block is one phase.

    The launcher's program begins it and its end ends it: a `cat` that waits until its input is closed.
    """
    execution = client.api.exec_create(container.id, [launcher, "--", "cat"], stdin=True)["Id"]
    stream = client.api.exec_start(execution, socket=True)
    limit = time.monotonic() + KILL_AFTER_S
    while not client.api.exec_inspect(execution)["Pid"] and time.monotonic() < limit:
        time.sleep(0.02)
    try:
        yield
    finally:
        _hang_up(stream)
        limit = time.monotonic() + KILL_AFTER_S
        while client.api.exec_inspect(execution)["Running"] and time.monotonic() < limit:
            time.sleep(0.02)


def _hang_up(stream: Any) -> None:
    with suppress(OSError, APIError):
        getattr(stream, "_sock", stream).close()
    with suppress(OSError):
        stream.close()


def _short(error: Exception) -> str:
    return str(getattr(error, "explanation", None) or error).strip().splitlines()[-1]
