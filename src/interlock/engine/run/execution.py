"""Processes in a container that idles: started by the launcher as its agent, or one by one by the engine.

The engine starts what a profiler watches, because an agent's own calls would be counted with the work's. It also starts
what may take the container with it, and what asks whether that happened.
"""

from __future__ import annotations

import re
import struct
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from docker import DockerClient
from docker.errors import DockerException, create_api_error_from_http_exception
from docker.models.containers import Container
from requests.exceptions import HTTPError as RefusedError
from requests.exceptions import Timeout
from urllib3.exceptions import HTTPError

from interlock.engine.agent import LAUNCH, MOST_OUTPUT_BYTES, Agent, ProcessTimeoutError, flood, text_of
from interlock.engine.client import SEE_LOG, engine_errors
from interlock.engine.ended import Ended
from interlock.engine.protocol import NOTHING
from interlock.engine.run.leftovers import remove
from interlock.errors import EngineError, FloodError, WorkloadError

# Where cgroup v2 and v1 say how often the kernel killed one of the container's processes for want of memory.
OUT_OF_MEMORY = (
    "sed -n 's/^oom_kill //p' /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control 2>/dev/null"
)
# A number as a kernel prints it. The image's own `cat` answers, so anything else may come.
NUMBER = re.compile(r"[0-9]{1,20}")
# The header of a frame in the engine's output: the stream, and how many bytes of it follow.
HEADER = struct.Struct(">BxxxL")
STDOUT = 1
RECEIVE_BYTES = 1 << 16
# Reading a file or sending a signal takes milliseconds; asking a service takes a second, or as long as one answer.
SHORT_S = 60


def run_process(
    container: Container,
    argv: list[str],
    deadline_s: float,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run argv in the container to its end.

    The container is killed, with all that is in it, at the deadline or once the process prints too much. A container
    that had no memory left does not survive either.
    """
    try:
        ended = run_until(container, argv, deadline_s, environment)
    except FloodError:
        ended = Ended(None, flooded=True)
    starved = not (ended.timed_out or ended.flooded or ended.ok) and ran_out_of_memory(container)
    ended = replace(ended, out_of_memory=starved)
    if ended.took_sandbox:
        remove(container)
    return ended


def run_until(
    container: Container,
    argv: list[str],
    deadline_s: float,
    environment: Mapping[str, str] | None = None,
    *,
    keeps_end: bool = False,
) -> Ended:
    """Run argv to its end; at the deadline kill the container. FloodError for too much output unless `keeps_end`."""
    late = threading.Event()

    def kill() -> None:
        late.set()
        with suppress(DockerException):
            container.kill()

    timer = threading.Timer(deadline_s, kill)
    timer.daemon = True
    timer.start()
    try:
        # An engine that hangs at the deadline cannot kill, and would be silent for as long as the longest call may be.
        output = Output(keeps_end, silent_s=deadline_s + SHORT_S)
        ended = execute(container, argv, environment, output=output)
    except (DockerException, Timeout) as error:
        if not late.is_set():
            raise EngineError(found=f"a process could not be started: {error}", todo=SEE_LOG) from None
        ended = Ended(None)
    finally:
        timer.cancel()
    return replace(ended, timed_out=late.is_set())


def ran_out_of_memory(container: Container) -> bool:
    """Return whether the kernel killed a process of the container for lack of memory; False without a container."""
    try:
        counted = execute(container, ["sh", "-c", OUT_OF_MEMORY])
    except DockerException:
        return False
    return any(int(count) > 0 for count in counted.stdout.split() if NUMBER.fullmatch(count))


def execute(
    container: Container,
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    user: str = "",
    output: Output | None = None,
) -> Ended:
    """Run argv in a container to its end; errors are docker's own, or FloodError."""
    client = container.client
    execution = client.api.exec_create(container.id, list(argv), environment=dict(environment or {}), user=user)["Id"]
    output = run_to_end(client, execution, output or Output())
    code = client.api.exec_inspect(execution)["ExitCode"]
    return Ended(code, text_of(output.stdout), text_of(output.stderr), flooded=output.is_cut)


class Output:
    """The stdout and stderr of a process, from the engine's frames as they come; the last frame may be cut short.

    With `keeps_end` only the end of a long stream is kept; `silent_s` is how long nothing may come.
    """

    def __init__(self, keeps_end: bool = False, silent_s: float | None = None) -> None:
        self._keeps_end, self.is_cut, self.silent_s = keeps_end, False, silent_s
        self.stdout, self.stderr = bytearray(), bytearray()
        self._header, self._left, self._stream = bytearray(), 0, self.stdout

    def feed(self, data: bytes) -> None:
        """Take the next bytes; if a stream is too long, raise FloodError or, with `keeps_end`, drop its beginning."""
        view = memoryview(data)
        while view:
            if not self._left:
                missing = HEADER.size - len(self._header)
                self._header += view[:missing]
                view = view[missing:]
                if len(self._header) == HEADER.size:
                    number, self._left = HEADER.unpack(self._header)
                    self._stream = self.stdout if number == STDOUT else self.stderr
                    self._header.clear()
                continue
            piece = view[: self._left]
            self._stream += piece
            self._left -= len(piece)
            view = view[len(piece) :]
            if len(self._stream) > MOST_OUTPUT_BYTES:
                if not self._keeps_end:
                    raise flood()
                self.is_cut = True
                del self._stream[: -MOST_OUTPUT_BYTES // 2]

    def take(self) -> bytes:
        """Return what came on stdout since the last call; stderr is left out."""
        data = bytes(self.stdout)
        self.stdout.clear()
        self.stderr.clear()
        return data


def run_to_end(client: DockerClient, execution: str, output: Output) -> Output:
    """Start a created execution, wait for its end, and return its output; FloodError if it prints too much.

    The SDK's own way upgrades the connection, and loses what a quick process prints together with the headers. Without
    the upgrade it is an ordinary answer, which ends with its connection.
    """
    api = client.api
    address = f"{api.base_url}/v{api.api_version}/exec/{execution}/start"
    with api.post(address, json={"Tty": False, "Detach": False}, stream=True, timeout=output.silent_s) as answer:
        try:
            answer.raise_for_status()
            while data := answer.raw.read(RECEIVE_BYTES):
                output.feed(data)
        except RefusedError as error:
            raise create_api_error_from_http_exception(error) from None
        except HTTPError as error:
            raise DockerException(f"the output ended too early: {error}") from None
    return output


class ExecutionChannel:
    """The stdin and the stdout of a process in a container, over a connection that the engine hands over."""

    def __init__(self, stream: Any) -> None:
        # docker returns the socket inside a file object, which closes it, or the socket itself.
        self._socket = getattr(stream, "_sock", stream)
        self._output = Output()
        weakref.finalize(self, hang_up, stream)

    def send(self, data: bytes) -> None:
        self._socket.settimeout(None)
        self._socket.sendall(data)

    def receive(self, limit_s: float) -> bytes:
        """Return the next bytes of its stdout; none once it has ended. TimeoutError after `limit_s` seconds."""
        limit = time.monotonic() + limit_s
        while not (data := self._output.take()):
            self._socket.settimeout(max(limit - time.monotonic(), 1e-3))
            received = self._socket.recv(RECEIVE_BYTES)
            if not received:
                break
            self._output.feed(received)
        return data


def hang_up(stream: Any) -> None:
    """Close a connection that the engine has handed over, by way of the answer that the SDK keeps with it.

    From Python 3.13 on an answer that is garbage-collected complains if its file was closed before it.
    """
    with suppress(OSError):
        getattr(stream, "_sock", stream).close()
        getattr(stream, "_response", stream).close()


def start_agent(container: Container) -> Agent:
    """Start the launcher as a container's agent; EngineError if the engine cannot."""
    api = container.client.api
    with engine_errors("the engine cannot start a cell's agent"):
        execution = api.exec_create(container.id, [LAUNCH, "--agent"], stdin=True)["Id"]
        return Agent(ExecutionChannel(api.exec_start(execution, socket=True)))


@dataclass
class Commands:
    """Runs short commands, one at a time, by the agent of a container that stays; the first one starts the agent."""

    container: Container
    agent: Agent | None = None

    def run(self, argv: Sequence[str], deadline_s: float = SHORT_S) -> Ended:
        """Run argv to its end, or leave it alone at the deadline; WorkloadError if the container is gone."""
        try:
            if self.agent is None:
                self.agent = start_agent(self.container)
            process = self.agent.start([], argv, NOTHING)
            process.wait(deadline_s)
            return process.ended
        except ProcessTimeoutError:
            return Ended(None, timed_out=True)
        except (EngineError, FloodError) as error:
            self.agent = None
            failure = f"{argv[0]} cannot be run in a container: {error.found}"
            raise WorkloadError(found=failure, todo=error.todo) from None
