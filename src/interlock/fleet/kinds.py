"""Whether a host is of the kind that the inventory says. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interlock.fleet.record import Kind

FACTS = ("cpu", "cores", "kernel")


def refusal(kind: Kind, facts: Mapping[str, Any]) -> str:
    """In one sentence how the host differs from its kind; empty if it does not."""
    differ = [
        f"{fact} '{facts.get(fact)}' instead of '{getattr(kind, fact)}'"
        for fact in FACTS
        if facts.get(fact) != getattr(kind, fact)
    ]
    return f"it is not of the kind '{kind.name}': {', '.join(differ)}" if differ else ""
