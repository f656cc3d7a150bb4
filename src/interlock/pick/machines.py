"""How far this machine is from an experiment's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from interlock.model import Apart

# What a fact is called where it would not be understood alone.
WORDS = {"cores": "{} cores", "kernel": "Linux {}", "storage driver": "storage driver {}"}


@dataclass(frozen=True)
class Here:
    """This machine: what an experiment would record of it, its engine only if one answers."""

    host: Mapping[str, Any]
    engine: Mapping[str, Any] | None = None

    @property
    def notes(self) -> list[str]:
        if self.engine is not None:
            return []
        return ["no container engine answers here: its version and storage driver are not compared"]


def described(host: Mapping[str, Any]) -> str:
    """A machine in one line."""
    facts = _facts(host, host.get("engine"))
    return ", ".join(WORDS.get(what, "{}").format(fact) for what, fact in facts.items())


def apart(there: Mapping[str, Any], here: Here) -> list[Apart]:
    """What is known of both and differs."""
    theirs, ours = _facts(there, there.get("engine")), _facts(here.host, here.engine)
    return [
        Apart(what=what, there=theirs[what], here=ours[what])
        for what in theirs
        if what in ours and theirs[what] != ours[what]
    ]


def _facts(host: Mapping[str, Any], engine: Mapping[str, Any] | None) -> dict[str, str]:
    """What makes the figures of one machine differ from another's; what is not known is left out."""
    memory_bytes = host.get("memory_bytes")
    found = {
        "cores": host.get("cores"),
        "processor": host.get("cpu"),
        "memory": f"{memory_bytes / 2**30:.0f} GiB" if memory_bytes else None,
        "kernel": host.get("kernel"),
        "system": host.get("system"),
        "engine": f"{engine.get('name', 'docker')} {engine.get('version', '')}" if engine else None,
        "storage driver": engine.get("storage_driver") if engine else None,
    }
    return {what: str(fact) for what, fact in found.items() if fact is not None}
