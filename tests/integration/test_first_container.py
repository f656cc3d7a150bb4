"""Whether an engine starts a container is tried with one, of which nothing is left."""

from __future__ import annotations

import os
from typing import Any

import pytest

from interlock.engine.docker import connect
from interlock.engine.finding import find_containers
from interlock.engine.ownership import OWNER_LABEL, PID
from interlock.engine.run import first_container

pytestmark = pytest.mark.usefixtures("client")


def left() -> list[str]:
    """The owners of what is left of such tries; others may be trying."""
    client, mine = connect().client, {"label": f"{PID}={os.getpid()}"}
    found = [*client.containers.list(all=True, filters=mine, ignore_removed=True), *client.images.list(filters=mine)]
    return [owner for one in found if (owner := one.labels[OWNER_LABEL]).startswith("first-container-")]


def test_an_engine_that_starts_a_container_is_found_and_keeps_nothing_of_it() -> None:
    assert find_containers().containers is not None
    assert left() == []


def test_an_engine_that_starts_none_says_why_and_keeps_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_rights() -> dict[str, Any]:
        return {"runtime": "no-such-runtime"}

    monkeypatch.setattr(first_container, "without_rights", no_rights)
    found = find_containers()
    assert found.containers is None
    assert "no-such-runtime" in found.why_none
    assert left() == []
