"""A registry that answers without end: who asked for it hears of it soon, whatever the engine goes on reading."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from interlock.engine import client as engines
from interlock.engine.registry import registry_digest
from interlock.errors import RegistryError

VERSION = b"HTTP/1.1 200 OK\r\nDocker-Distribution-Api-Version: registry/2.0\r\nContent-Length: 2\r\n\r\n{}"
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.distribution.manifest.v2+json\r\n\r\n{"
PIECE, PAUSE_S = b" " * 4096, 0.05  # slowly: the engine, which is others' too, keeps all of it in memory
LIMIT_S, MOST_S = 4, 30


def answer(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while asked := connection.recv(65536):
            if b"/manifests/" not in asked:
                connection.sendall(VERSION)
                continue
            connection.sendall(ENDLESS)
            end_s = time.monotonic() + MOST_S
            while time.monotonic() < end_s:
                connection.sendall(PIECE)
                time.sleep(PAUSE_S)
            return


@pytest.fixture
def endless() -> Iterator[str]:
    """The address of a registry whose manifests have no end."""

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.promise
def test_a_registry_that_answers_without_end_is_one_sentence(
    client: Any, endless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "REGISTRY_S", LIMIT_S)
    began_s = time.monotonic()
    with pytest.raises(RegistryError) as caught:
        registry_digest(client, f"{endless}/team/python:3.14")
    assert LIMIT_S <= time.monotonic() - began_s < MOST_S
    assert endless in str(caught.value)
