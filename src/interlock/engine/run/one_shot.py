"""Containers in which an image is asked what it is: each has a deadline, and none outlives the asking process."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from docker import DockerClient
from requests.exceptions import RequestException

from interlock.engine.ended import Ended
from interlock.engine.run import leftovers
from interlock.engine.run.archives import log_of
from interlock.engine.run.rights import of_installation

TOKEN = secrets.token_hex(4)
# A build's proofs run in threads, which end with the process and clean nothing up.
_starting = threading.Lock()
_state = {"ended": False}


def owner() -> str:
    """Return the owner's name by which this process's proofs are found."""
    return f"proof-{os.getpid()}-{TOKEN}"


def ask(client: DockerClient, image_id: str, argv: Sequence[str], limit_s: float, **options: Any) -> Ended:
    """Run a program in a new container of the image without a network; errors are docker's own."""
    with ExitStack() as until_asked:
        with _starting:
            if _state["ended"] and threading.current_thread() is not threading.main_thread():
                raise SystemExit  # ends a build's thread, whose build has ended
            asked = leftovers.temporary_container(
                client, image_id, list(argv), owner(), network_mode="none", **of_installation(), **options
            )
            container = until_asked.enter_context(asked)
        container.start()
        code: int | None = None
        with suppress(RequestException):  # at the deadline, what was printed until then counts
            code = int(container.wait(timeout=limit_s)["StatusCode"])
        return Ended(code, log_of(container, stderr=False), log_of(container, stdout=False), timed_out=code is None)


def allow() -> None:
    """Let proofs start again after an earlier build's `end_all`."""
    _state["ended"] = False


def end_all(client: DockerClient) -> None:
    """Let no further proof start and remove those that run."""
    with _starting:
        _state["ended"] = True
    leftovers.clean_up(client, owner())
