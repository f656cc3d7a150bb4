"""What a process that the engine started has printed, all of it.

docker's own `exec_start` upgrades the connection and then reads from the bare socket: what came in one packet with the
answer's headers was read already, and is lost. On a busy machine that was one output in seven.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, DockerException
from urllib3.exceptions import HTTPError

from interlock.errors import WorkloadError

HEADER = struct.Struct(">BxxxL")
STDOUT, STDERR = 1, 2


@dataclass(frozen=True)
class Done:
    """A process that has ended; what it printed is text, whatever its bytes."""

    exit_code: int | None
    stdout: str
    stderr: str


def execute(client: Any, container_id: str, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Done:
    """Runs argv in a container to its end; docker's own errors."""
    execution = client.api.exec_create(container_id, list(argv), environment=dict(environment or {}))["Id"]
    stdout, stderr = run_to_end(client, execution)
    code = client.api.exec_inspect(execution)["ExitCode"]
    return Done(code, stdout.decode(errors="replace"), stderr.decode(errors="replace"))


def run_in(container: Any, argv: Sequence[str]) -> Done:
    """As `execute`, in a container that knows its engine."""
    return execute(container.client, container.id, argv)


def run_in_workload(container: Any, argv: Sequence[str]) -> Done:
    """WorkloadError of a container that is gone, as one is that was killed at its deadline."""
    try:
        return run_in(container, argv)
    except APIError as error:
        raise WorkloadError(found=f"its container is gone: {error.explanation}", todo="See the engine's log.") from None


def run_to_end(client: Any, execution: str) -> tuple[bytes, bytes]:
    """Starts what was created and waits for its end: stdout and stderr."""
    api = client.api
    start = {"Tty": False, "Detach": False}
    # Without an upgrade it is an ordinary answer, which ends with its connection.
    answer = api._post_json(api._url("/exec/{0}/start", execution), data=start, stream=True)
    api._raise_for_status(answer)
    try:
        return demultiplexed(answer.raw.read())
    except HTTPError as error:
        raise DockerException(f"the output ended too early: {error}") from None


def demultiplexed(frames: bytes) -> tuple[bytes, bytes]:
    """The two streams that the engine's frames are of; the last one may be cut short."""
    streams = {STDOUT: bytearray(), STDERR: bytearray()}
    at = 0
    while at + HEADER.size <= len(frames):
        stream, length = HEADER.unpack_from(frames, at)
        at += HEADER.size
        streams[stream] += frames[at : at + length]
        at += length
    return bytes(streams[STDOUT]), bytes(streams[STDERR])
