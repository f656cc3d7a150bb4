"""The blocks of all rounds, in their random order: one task of all candidates that go on with it after the other."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from interlock.analysis.verdicts import LOOKS

Task = TypeVar("Task")
Candidate = TypeVar("Candidate")


@dataclass(frozen=True)
class Schedule:
    """How many rounds are run, and the seed of their orders."""

    seed: str
    least: int
    limit: int
    first: int = 1  # 0 if a round that calibrates comes before the others
    looks: Collection[int] = tuple(LOOKS)  # the numbers of rounds after which is looked


@dataclass(frozen=True)
class PlannedBlock(Generic[Task, Candidate]):
    """One task of all candidates that go on with it, in a round.

    `done` runs came before it, of `total` if none of those that go on now is decided before the limit.
    """

    round: int
    title: str
    task: Task
    candidates: Sequence[Candidate]
    done: int
    total: int


def planned_blocks(
    schedule: Schedule,
    tasks: Sequence[Task],
    candidates: Sequence[Candidate],
    undecided: Callable[[Task, Sequence[Candidate]], Sequence[Candidate]],
) -> Iterator[PlannedBlock[Task, Candidate]]:
    """Yield the blocks of all rounds; in each round all candidates in a random order, one task after the other.

    Candidates of one task run as close together in time as they can, in an order of each round's own, as Google
    Benchmark's random interleaving does (https://github.com/google/benchmark/blob/main/docs/random_interleaving.md).
    After each look only the candidates that are `undecided` in a task go on with it. The seed alone decides a round's
    order, whatever the number of rounds.
    """
    rng = random.Random(schedule.seed)  # noqa: S311  an order, not a secret
    done = 0
    going_on = [(task, list(candidates)) for task in tasks]
    for number in range(schedule.first, schedule.limit + 1):
        if number > schedule.least and number - 1 in schedule.looks:
            going_on = [(task, list(undecided(task, some))) for task, some in going_on]
        if not any(some for _, some in going_on):
            break
        total = done + (schedule.limit - number + 1) * sum(len(some) for _, some in going_on)
        ordered = rng.sample(candidates, len(candidates))
        more = f" to {schedule.limit}" if schedule.limit > schedule.least else ""
        title = f"round {number} of {schedule.least}{more}"
        for task, some in going_on:
            block = [one for one in ordered if one in some]
            yield PlannedBlock(number, title, task, block, done, total)
            done += len(block)
