"""A registry that answers without end: who asked for it hears of it soon, whatever the engine goes on reading."""

from __future__ import annotations

import time
from contextlib import suppress
from io import BufferedIOBase
from typing import Any

import pytest

from interlock.engine import client as engines
from interlock.engine.registry import registry_digest
from interlock.errors import RegistryError
from tests.fakes import Answer, Asked, serving

ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.distribution.manifest.v2+json\r\n\r\n{"
PIECE, PAUSE_S = b" " * 4096, 0.05  # slowly: the engine, which is others' too, keeps all of it in memory
LIMIT_S, MOST_S = 4, 30


def answer(asked: Asked) -> Answer:
    """A registry whose manifests have no end."""
    if "/manifests/" in asked.path:
        return Answer(raw=ENDLESS, then=go_on)
    return Answer(body=b"{}", headers={"Docker-Distribution-Api-Version": "registry/2.0"})


def go_on(_: BufferedIOBase, sent: BufferedIOBase) -> None:
    end_s = time.monotonic() + MOST_S
    with suppress(OSError):
        while time.monotonic() < end_s:
            sent.write(PIECE)
            time.sleep(PAUSE_S)


@pytest.mark.promise
def test_a_registry_that_answers_without_end_is_one_sentence(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "REGISTRY_S", LIMIT_S)
    began_s = time.monotonic()
    with serving(answer) as port, pytest.raises(RegistryError, match=rf"127\.0\.0\.1:{port}\b"):
        registry_digest(client, f"127.0.0.1:{port}/team/python:3.14")
    assert LIMIT_S <= time.monotonic() - began_s < MOST_S
