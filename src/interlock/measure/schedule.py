"""The blocks of all rounds, in their random order: one benchmark of all rows that go on with it after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from interlock.analysis.verdicts import LOOKS


class Labelled(Protocol):
    """One benchmark of one row, which has this label."""

    @property
    def label(self) -> str: ...


Member = TypeVar("Member", bound=Labelled)


@dataclass(frozen=True)
class Schedule:
    """How many rounds are run, and the seed of their orders."""

    seed: str
    least: int
    limit: int
    first: int = 1  # 0 if a round that calibrates comes before the others
    looks: Collection[int] = tuple(LOOKS)  # the numbers of rounds after which is looked


@dataclass(frozen=True)
class PlannedBlock(Generic[Member]):
    """One benchmark of all rows that go on with it, in a round.

    `done` runs came before it, of `total` if none of those that go on now is decided before the limit.
    """

    round: int
    title: str
    members: Sequence[Member]
    done: int
    total: int


def planned_blocks(
    schedule: Schedule,
    labels: Sequence[str],
    benchmarks: Sequence[Sequence[Member]],
    undecided: Callable[[Sequence[Member]], Sequence[Member]],
) -> Iterator[PlannedBlock[Member]]:
    """Yield the blocks of all rounds; in each round all rows in a random order, one benchmark after the other.

    Rows of one benchmark run as close together in time as they can, in an order of each round's own, as Google
    Benchmark's random interleaving does (https://github.com/google/benchmark/blob/main/docs/random_interleaving.md).
    After each look only those of its members go on that are `undecided`. The seed alone decides a round's order,
    whatever the number of rounds.
    """
    rng = random.Random(schedule.seed)  # noqa: S311  an order, not a secret
    done = 0
    going_on = [list(members) for members in benchmarks]
    for number in range(schedule.first, schedule.limit + 1):
        if number > schedule.least and number - 1 in schedule.looks:
            going_on = [list(undecided(members)) for members in going_on if members]
        if not any(going_on):
            break
        total = done + (schedule.limit - number + 1) * sum(map(len, going_on))
        place = {label: index for index, label in enumerate(rng.sample(labels, len(labels)))}
        more = f" to {schedule.limit}" if schedule.limit > schedule.least else ""
        title = f"round {number} of {schedule.least}{more}"
        for members in filter(None, going_on):
            yield PlannedBlock(number, title, sorted(members, key=lambda member: place[member.label]), done, total)
            done += len(members)
