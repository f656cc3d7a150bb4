"""Where a series changed its level, and how sure that is. Pure.

Seeded binary segmentation (Kovács, Bühlmann, Li and Munk, Seeded Binary Segmentation, Biometrika 110, 2023): every
split of every seeded interval is tried by a t-test, the surest one is taken, the intervals that hold it are dropped,
and so on. It sees a step that was taken back, which a search for one step at a time misses. p-values are multiplied
by the number of splits tried, which bounds the chance of a false alarm (Worsley, On the Likelihood Ratio Test for a
Shift in Location of Normal Populations, JASA 74, 1979).

A split has three points on each side and has to stand whichever one point of its interval is left out: so one or two
odd experiments, of which a shared machine makes some, are no change, and one is seen with the third that shows it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import scipy  # loads scipy.special only where it is used

from interlock.statistics import alike

Floats = npt.NDArray[np.float64]

# Each layer of intervals is shorter than the one before by this, as the authors advise.
DECAY = 1 / math.sqrt(2)
SHORTEST = 3  # points on each side of a split
SHORTEST_INTERVAL = 2 * SHORTEST
# Series are tried together as long as what that needs stays in the processor's cache.
TOGETHER = 20_000


@dataclass(frozen=True)
class Split:
    """The first point of a new level, and p, adjusted for all the splits that were tried in the series."""

    at: int
    p: float


def find(series: Sequence[float], level: float) -> list[Split]:
    """The changes of level whose adjusted p is below `level`, in their order."""
    return find_each([series], level)[0]


def find_each(many: Sequence[Sequence[float]], level: float) -> list[list[Split]]:
    """`find` of each; those of one length are tried together, which takes a fraction of the time."""
    found: dict[int, list[Split]] = {}
    for size, numbers in alike(map(len, many)).items():
        step = max(1, TOGETHER // max(1, size) ** 2)
        for start in range(0, len(numbers), step):
            part = numbers[start : start + step]
            rows = np.asarray([many[number] for number in part], dtype=np.float64)
            found |= dict(zip(part, _found(rows, level), strict=True))
    return [found[number] for number in range(len(many))]


def _found(rows: Floats, level: float) -> list[list[Split]]:
    """Of each row."""
    intervals = seeded(rows.shape[1])
    tried = sum(end - start - 2 * SHORTEST + 1 for start, end in intervals)
    best = [_best(rows[:, start:end]) for start, end in intervals]
    return [
        _surest(
            [
                (float(p[row]) * tried, start + int(places[row]), start, end)
                for (start, end), (places, p) in zip(intervals, best, strict=True)
            ],
            level,
        )
        for row in range(len(rows))
    ]


def _surest(splits: list[tuple[float, int, int, int]], level: float) -> list[Split]:
    """Of the splits with their p and their intervals: the surest, then that of the intervals that do not hold it ..."""
    found: list[Split] = []
    while splits and (surest := min(splits))[0] < level:
        p, at, _, _ = surest
        found.append(Split(at, p))
        splits = [split for split in splits if not split[2] < at < split[3]]
    return sorted(found, key=lambda split: split.at)


@cache
def seeded(size: int) -> list[tuple[int, int]]:
    """Intervals from `start` to before `end`: all of the points, and ever more of ever shorter ones that overlap."""
    found: dict[tuple[int, int], None] = {}
    length = float(size)
    while length >= SHORTEST_INTERVAL:
        number = 2 * math.ceil(size / length) - 1
        shift = (size - length) / (number - 1) if number > 1 else 0.0
        for index in range(number):
            found[math.floor(index * shift), min(size, math.ceil(index * shift + length))] = None
        length *= DECAY
    return list(found)


def _best(rows: Floats) -> tuple[npt.NDArray[np.intp], Floats]:
    """Of each row of an interval: the split with the smallest p, whichever point is left out; and that p."""
    size = rows.shape[1]
    # An axis each for the rows, for the point that is left out, and for the splits.
    points = (rows - rows.mean(axis=1, keepdims=True))[:, :, None]
    splits = np.arange(SHORTEST, size - SHORTEST + 1)
    on_the_left = np.arange(size)[:, None] < splits
    left = splits - on_the_left
    right = (size - 1) - left
    sums = np.cumsum(points, axis=1)[:, splits - 1].transpose(0, 2, 1) - np.where(on_the_left, points, 0.0)
    total = points.sum(axis=1, keepdims=True) - points
    squares = (points**2).sum(axis=1, keepdims=True) - points**2
    within = np.maximum(squares - sums**2 / left - (total - sums) ** 2 / right, 0.0)
    apart = np.abs(sums / left - (total - sums) / right)
    errors = np.sqrt(within / (size - 3) * (1 / left + 1 / right))
    # Of what is equal but for the rounding of doubles nothing is told apart.
    floor = 1e-9 * np.maximum(1.0, np.abs(points).max(axis=1, keepdims=True))
    statistic = np.where(apart > floor, apart / np.maximum(errors, floor * 1e-9), 0.0).min(axis=1)
    best = statistic.argmax(axis=1)
    return splits[best], 2 * scipy.special.stdtr(size - 3, -statistic[np.arange(len(rows)), best])
