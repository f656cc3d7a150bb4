"""fleet.json: what a fleet was asked for, its hosts, and where each workload was measured. Written after every step."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field

from interlock.model import Data, EngineName, Name, Settings


class Kind(Data):
    """What the inventory says that all hosts of a kind are; the facts are named as in an experiment's record."""

    name: Name
    cpu: str
    cores: int
    kernel: str


class Ending(StrEnum):
    """How a step on a host ended."""

    DONE = "done"
    FAILED = "failed"  # the host answers; what it ran did not end well
    LOST = "lost"  # the host does not answer any more, or is late


class Attempt(Data):
    """One workload on one host."""

    host: str
    started: str
    duration_s: float
    ending: Ending
    reason: str = ""


class Shard(Data):
    """A workload with all its variants, which one host of the kind measures; `host` if it must be that one."""

    kind: str
    workload: str
    host: str | None = None
    expected_s: float
    attempts: list[Attempt] = Field(default_factory=list)

    @property
    def done_by(self) -> str | None:
        """The host that measured it."""
        return next((attempt.host for attempt in self.attempts if attempt.ending is Ending.DONE), None)

    @property
    def title(self) -> str:
        return f"{self.workload} ({self.host or self.kind})"


class HostRecord(Data):
    """A host of the inventory: its kind, its facts, and in one sentence each why it was refused or given up."""

    kind: Kind
    facts: dict[str, Any] = Field(default_factory=dict)
    refused: str = ""
    given_up: str = ""
    not_restored: str = ""


class FleetRecord(Data):
    """All that a fleet is, so that `--resume` goes on where it stopped."""

    schema_version: Literal[1] = 1
    name: str
    token: str  # begins the names of its experiments on the hosts, which no other fleet's do
    tool_version: str
    command: str
    started: str
    duration_s: float
    settings: Settings
    each: bool
    engine: EngineName | None = None  # none if none was named, which is Docker
    images: dict[str, str]  # their ids by their tags; of the host engine hashes of what builds read, by variant
    hosts: dict[str, HostRecord]
    shards: list[Shard]
