"""What each host does next, and what becomes of a shard whose host failed. Pure: it runs nothing itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from interlock.fleet.planning import Plan
from interlock.fleet.record import Ending, Shard

# A workload that fails on a second host fails by itself.
MOST_ATTEMPTS = 2


class Step(StrEnum):
    READY = "ready"
    MEASURE = "measure"
    RESTORE = "restore"


@dataclass(frozen=True)
class Job:
    """One step on one host."""

    host: str
    step: Step
    shard: Shard | None = None


@dataclass
class _Host:
    kind: str
    queue: list[Shard]
    left: bool = False  # something of an earlier run is still on it
    ready: bool = False
    touched: bool = False
    busy: bool = False
    out: bool = False
    restored: bool = False


@dataclass
class Dispatch:
    """Asked for jobs and told how they ended. A host has one job at a time."""

    hosts: dict[str, _Host]
    lost: list[Shard] = field(default_factory=list)
    given_up: list[Shard] = field(default_factory=list)
    _tried: dict[str, list[str]] = field(default_factory=dict)

    @staticmethod
    def of(kinds: Mapping[str, str], plan: Plan, left: Collection[str] = ()) -> Dispatch:
        """Hosts that were `left` as they were when they were lost are taken back too, with work or without."""
        return Dispatch({name: _Host(kind, list(plan[name]), name in left) for name, kind in kinds.items()})

    @property
    def touched(self) -> list[str]:
        """Hosts on which something was done that is not undone yet."""
        return [name for name, host in self.hosts.items() if host.touched and not host.restored]

    def next(self) -> Job | None:
        """A job that can begin now; None if all that is left waits for jobs that run."""
        for name, host in self.hosts.items():
            if host.busy or host.out:
                continue
            shard = self._take(name, host)
            if not host.ready and (shard is not None or host.left):
                host.busy = host.touched = True
                return Job(name, Step.READY)
            if shard is not None:
                return self._begin(name, host, shard)
        if any(host.busy and not host.restored for host in self.hosts.values()):
            return None
        self.given_up += self.lost
        self.lost = []
        return self._restore()

    def _take(self, name: str, host: _Host) -> Shard | None:
        """The host's own next shard, or one that another host of its kind lost."""
        if host.queue:
            return host.queue[0]
        return next((shard for shard in self.lost if self._may_take(name, host, shard)), None)

    def _may_take(self, name: str, host: _Host, shard: Shard) -> bool:
        return shard.host is None and shard.kind == host.kind and name not in self._tried.get(shard.title, [])

    def _begin(self, name: str, host: _Host, shard: Shard) -> Job:
        host.busy = True
        (host.queue if host.queue else self.lost).remove(shard)
        self._tried.setdefault(shard.title, []).append(name)
        return Job(name, Step.MEASURE, shard)

    def _restore(self) -> Job | None:
        name = next(iter(self.touched), None)
        if name is None:
            return None
        self.hosts[name].busy = self.hosts[name].restored = True
        return Job(name, Step.RESTORE)

    def ended(self, job: Job, ending: Ending) -> None:
        host = self.hosts[job.host]
        host.busy = False
        if job.step is Step.READY:
            host.ready = ending is Ending.DONE
        if job.shard is not None and ending is not Ending.DONE:
            self._again(job.shard)
        if job.step is not Step.RESTORE and (ending is Ending.LOST or not host.ready):
            host.out = True
            self.lost += host.queue
            host.queue = []

    def _again(self, shard: Shard) -> None:
        tried = len(self._tried[shard.title])
        (self.given_up if tried == MOST_ATTEMPTS or shard.host is not None else self.lost).append(shard)
