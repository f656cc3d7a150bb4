"""What an engine says while it pushes or pulls: how far it is, the digest, or the error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from interlock.engine.registry_errors import explain

# Steps that move bytes, and what they are called here.
MOVES = {"Pushing": "pushing", "Downloading": "pulling"}
DIGEST = re.compile(r"[Dd]igest: (sha256:[0-9a-f]{64})")


def follow(events: Iterable[Mapping[str, Any]], host: str, on_step: Callable[[str], None]) -> str:
    """The digest that the engine names in the end; RegistryError for an error on the way. Steps say how far it is."""
    digest = ""
    moved: dict[str, tuple[int, int]] = {}
    for event in events:
        if "error" in event:
            raise explain(host, str(event["error"]))
        status, detail = event.get("status", ""), event.get("progressDetail") or {}
        if status in MOVES and detail.get("total"):
            moved[event["id"]] = (min(detail["current"], detail["total"]), detail["total"])
            on_step(f"{MOVES[status]} {_amount(moved)}")
        digest = (event.get("aux") or {}).get("Digest") or next(iter(DIGEST.findall(status)), digest)
    return digest


def _amount(moved: Mapping[str, tuple[int, int]]) -> str:
    done, total = (sum(one[part] for one in moved.values()) / 1e6 for part in (0, 1))
    return f"{done:.0f} of {total:.0f} MB"
