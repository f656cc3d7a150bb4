"""Decide which host measures what, what each does next, and who takes over from a host that failed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interlock.fleet.record import Ending, Kind, Shard

Plan = Mapping[str, Sequence[Shard]]


def shards(
    hosts: Mapping[str, str], workloads: Sequence[str], expected_s: Mapping[str, float], each: bool
) -> list[Shard]:
    """Return a shard of every workload for each kind, or with `each` for each host; `hosts` are kinds by host."""
    owners = (
        [(kind, name) for name, kind in hosts.items()]
        if each
        else [(kind, None) for kind in dict.fromkeys(hosts.values())]
    )
    return [
        Shard(kind=kind, workload=workload, host=host, expected_s=expected_s[workload])
        for kind, host in owners
        for workload in workloads
    ]


def assign(to_do: Iterable[Shard], hosts: Mapping[str, str]) -> dict[str, list[Shard]]:
    """Give each shard, longest first, to the host of its kind with the least load; leave out those without a host.

    This is longest processing time first: at most a third longer than the best plan (R. L. Graham, Bounds on
    multiprocessing timing anomalies, SIAM J. Appl. Math. 17, 1969).
    """
    plan: dict[str, list[Shard]] = {name: [] for name in hosts}
    for shard in sorted(to_do, key=lambda shard: -shard.expected_s):
        possible = [name for name, kind in hosts.items() if kind == shard.kind and shard.host in {None, name}]
        if possible:
            plan[min(possible, key=lambda name: load_s(plan[name]))].append(shard)
    return plan


def load_s(of_host: Iterable[Shard]) -> float:
    """Return how long shards take together, in seconds."""
    return sum(shard.expected_s for shard in of_host)


def expectations(guesses_s: Mapping[str, float], measured_s: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the expected seconds of each workload: the last time measured, else the guess.

    Guesses are scaled by how far off they are for the workloads that were measured.
    """
    known = dict(measured_s)
    both = [name for name in guesses_s if name in known]
    off = sum(known[name] for name in both) / sum(guesses_s[name] for name in both) if both else 1.0
    return {name: known.get(name, off * guess_s) for name, guess_s in guesses_s.items()}


def plan_lines(plan: Plan, hosts: Mapping[str, str]) -> list[str]:
    """Return the plan as text, a line for each kind and each host."""
    found = []
    for kind in dict.fromkeys(hosts.values()):
        found.append(f"kind {kind}")
        for name in (name for name, its_kind in hosts.items() if its_kind == kind):
            work = ", ".join(shard.workload for shard in plan[name]) or "nothing, unless another host fails"
            minutes, seconds = divmod(round(load_s(plan[name])), 60)
            about = f" (about {minutes}:{seconds:02d})" if plan[name] else ""
            found.append(f"  {name}: {work}{about}")
    return found


# A workload that fails on two hosts is at fault, not the hosts.
MOST_ATTEMPTS = 2


class Step(StrEnum):
    READY = "ready"
    MEASURE = "measure"
    RESTORE = "restore"


@dataclass(frozen=True)
class Job:
    """A step to run on a host."""

    host: str
    step: Step
    shard: Shard | None = None


@dataclass
class _Host:
    kind: str
    queue: list[Shard]
    dirty: bool = False  # something of an earlier run is still on it
    ready: bool = False
    touched: bool = False
    busy: bool = False
    out: bool = False
    restored: bool = False


@dataclass
class Dispatch:
    """Hands out jobs, one at a time to a host, and decides by how they ended what is next."""

    hosts: dict[str, _Host]
    lost: list[Shard] = field(default_factory=list)
    given_up: list[Shard] = field(default_factory=list)
    _tried: dict[str, list[str]] = field(default_factory=dict)

    @staticmethod
    def of(kinds: Mapping[str, str], plan: Plan, dirty: Collection[str] = ()) -> Dispatch:
        """Return the dispatch of a plan; `dirty` hosts, which an earlier run lost, are restored even without work."""
        return Dispatch({name: _Host(kind, list(plan[name]), name in dirty) for name, kind in kinds.items()})

    @property
    def touched(self) -> list[str]:
        """Return the hosts on which something was done and not undone."""
        return [name for name, host in self.hosts.items() if host.touched and not host.restored]

    def next(self) -> Job | None:
        """Return a job that can start now, None if the rest has to wait for running jobs."""
        for name, host in self.hosts.items():
            if host.busy or host.out:
                continue
            shard = self._take(name, host)
            if not host.ready and (shard is not None or host.dirty):
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
        """Return the host's next shard: its own, or one that another host of its kind lost."""
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
        """Record how a job ended, and reassign what its host can no longer measure."""
        host = self.hosts[job.host]
        host.busy = False
        if job.step is Step.READY:
            host.ready = ending is Ending.DONE
        if job.shard is not None and ending is not Ending.DONE:
            self._retry(job.shard)
        if job.step is not Step.RESTORE and (ending is Ending.LOST or not host.ready):
            host.out = True
            self.lost += host.queue
            host.queue = []

    def _retry(self, shard: Shard) -> None:
        """Offer a shard to other hosts, or give it up after the last attempt."""
        tried = len(self._tried[shard.title])
        (self.given_up if tried == MOST_ATTEMPTS or shard.host is not None else self.lost).append(shard)


FACTS = ("cpu", "cores", "kernel")


def kind_mismatch(kind: Kind, facts: Mapping[str, Any]) -> str:
    """Return how a host differs from its kind in one sentence, empty if it does not."""
    differ = [
        f"{fact} '{facts.get(fact)}' instead of '{getattr(kind, fact)}'"
        for fact in FACTS
        if facts.get(fact) != getattr(kind, fact)
    ]
    return f"it is not of the kind '{kind.name}': {', '.join(differ)}" if differ else ""
