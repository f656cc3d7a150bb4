"""Series without a change and with one, to find out how often change points are right."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from interlock.analysis.changes import LEVEL, find_splits

Floats = npt.NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Floats]
NOISE = 0.02  # of the logarithms, from one experiment to the next
ROWS = 20  # of a table, which share the chance of a false alarm


def normal(rng: np.random.Generator, size: int) -> Floats:
    return rng.normal(0, NOISE, size)


def heavy(rng: np.random.Generator, size: int) -> Floats:
    """Student's with three degrees of freedom: one in forty lies beyond four of its deviations."""
    return np.asarray(NOISE * rng.standard_t(3, size))


def disturbed(rng: np.random.Generator, size: int) -> Floats:
    """One in fifty takes half as long again."""
    return normal(rng, size) + math.log(1.5) * (rng.random(size) < 0.02)


def shown(series: Floats, rows: int = ROWS) -> list[int]:
    """Where a history would show a change of a row in a table of so many."""
    return [split.at for split in find_splits([series.tolist()], LEVEL / rows)[0]]


def false_alarms(noise: Noise, size: int, tables: int) -> int:
    """Tables of equals in which some row shows a change."""
    rng = np.random.default_rng(5)
    return sum(any(shown(noise(rng, size)) for _ in range(ROWS)) for _ in range(tables))


def found(step: float, size: int, after: int, series: int) -> int:
    """Series whose last experiments are slower by `step` and that show it, within one place of where it was made."""
    rng = np.random.default_rng(6)
    hits = 0
    for _ in range(series):
        points = normal(rng, size)
        points[size - after :] += math.log(step)
        hits += any(abs(place - (size - after)) <= 1 for place in shown(points))
    return hits
