"""Who measures what: the hosts of a kind share the workloads. Pure.

All variants of a workload stay on one host, because ratios may not cross machines, not even equal ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from interlock.fleet.record import Shard

Plan = Mapping[str, Sequence[Shard]]


def shards(
    hosts: Mapping[str, str], workloads: Sequence[str], expected_s: Mapping[str, float], each: bool
) -> list[Shard]:
    """Every workload once for each kind, or, if `each`, once for each host. `hosts` are their kinds by name."""
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
    """The longest first, each to the host of its kind that has least to do; what has no host is left out.

    Graham's rule (LPT): the last host is done at most a third later than with the best plan.
    """
    plan: dict[str, list[Shard]] = {name: [] for name in hosts}
    for shard in sorted(to_do, key=lambda shard: -shard.expected_s):
        possible = [name for name, kind in hosts.items() if kind == shard.kind and shard.host in {None, name}]
        if possible:
            plan[min(possible, key=lambda name: load_s(plan[name]))].append(shard)
    return plan


def load_s(of_host: Iterable[Shard]) -> float:
    return sum(shard.expected_s for shard in of_host)


def expectations(guesses_s: Mapping[str, float], measured_s: Iterable[tuple[str, float]]) -> dict[str, float]:
    """How long each workload may take: as it last did; of one never measured the guess, as far off as the others'."""
    known = dict(measured_s)
    both = [name for name in guesses_s if name in known]
    off = sum(known[name] for name in both) / sum(guesses_s[name] for name in both) if both else 1.0
    return {name: known.get(name, off * guess_s) for name, guess_s in guesses_s.items()}


def lines(plan: Plan, hosts: Mapping[str, str]) -> list[str]:
    """The plan as text: a line for each host, by kind."""
    found = []
    for kind in dict.fromkeys(hosts.values()):
        found.append(f"kind {kind}")
        for name in (name for name, its in hosts.items() if its == kind):
            work = ", ".join(shard.workload for shard in plan[name]) or "nothing; stands in for the others"
            minutes, seconds = divmod(round(load_s(plan[name])), 60)
            about = f" (about {minutes}:{seconds:02d})" if plan[name] else ""
            found.append(f"  {name}: {work}{about}")
    return found
