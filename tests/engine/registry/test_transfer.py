"""What an engine says while it pushes, event by event as a real one said it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.engine.registry.transfer import follow_transfer
from interlock.errors import RegistryError

DIGEST = f"sha256:{'1' * 64}"


def layer(name: str, current: int, total: int | None, status: str = "Pushing") -> dict[str, Any]:
    return {"status": status, "id": name, "progressDetail": {"current": current, **({"total": total} if total else {})}}


def test_steps_add_up_the_layers_and_the_digest_comes_last() -> None:
    steps: list[str] = []
    events: list[dict[str, Any]] = [
        {"status": "The push refers to repository [registry.example/team/python]"},
        {"status": "Preparing", "progressDetail": {}, "id": "a"},
        layer("a", 1_000_000, 4_000_000),
        layer("b", 512, None),
        layer("b", 3_000_000, 2_000_000),  # more than its total, as tar's padding makes it
        {"status": "Pushed", "progressDetail": {}, "id": "b"},
        {"progressDetail": {}, "aux": {"Tag": "x", "Digest": DIGEST, "Size": 529}},
    ]
    assert follow_transfer(events, "registry.example", steps.append) == DIGEST
    assert steps == ["pushing 1 of 4 MB", "pushing 3 of 6 MB"]


def test_a_pull_names_its_digest_in_words() -> None:
    steps: list[str] = []
    events: list[dict[str, Any]] = [
        layer("a", 5_000_000, 5_000_000, "Downloading"),
        {"status": f"Digest: {DIGEST}"},
        {"status": "Status: x"},
    ]
    assert follow_transfer(events, "registry.example", steps.append) == DIGEST
    assert steps == ["pulling 5 of 5 MB"]


def test_an_error_on_the_way_ends_it() -> None:
    events: list[dict[str, Any]] = [
        layer("a", 1, 2),
        {"errorDetail": {}, "error": "unauthorized: authentication required"},
    ]
    with pytest.raises(RegistryError, match=r"docker login registry\.example"):
        follow_transfer(events, "registry.example", lambda _: None)


@pytest.mark.parametrize(
    "event",
    [
        {"status": "Pushing", "progressDetail": {"total": 2}},
        {"status": "Pushing", "id": [], "progressDetail": {"current": "x", "total": -1}},
        {"status": ["Pushing"], "progressDetail": "x", "aux": "x"},
        {"aux": {"Digest": "../x"}},
    ],
)
def test_an_event_with_other_fields_says_nothing(event: dict[str, Any]) -> None:
    assert follow_transfer([event], "registry.example", lambda _: None) == ""
