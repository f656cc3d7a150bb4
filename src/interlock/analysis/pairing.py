"""What the rows of a table are compared by: each process alone, or its values beside those taken with them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from interlock.analysis.statistics import NO_PART, BlockFigure, Key, fit_levels
from interlock.errors import LazyModule
from interlock.results.experiments import BenchmarkValues, Estimator

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
else:
    np = LazyModule("numpy", "measure")

# What was taken together is compared where that leaves less than this share of the variance between blocks. It is far
# below 1, so that chance does not choose: a variance that was chosen because it is the smaller one is too small.
CLEARLY_LESS = 0.5
# Sweeps of the median polish; more of them move no level by more than its error.
SWEEPS = 4


def compared_figures(rows: Mapping[Key, BenchmarkValues]) -> dict[Key, Sequence[BlockFigure]]:
    """Return what the rows of one table are compared by: one figure for each block, in seconds per unit of work.

    On a calm machine some values of each process are undisturbed, and the lower decile finds them. Beside a busy
    neighbour none is, and how many are disturbed by how much is chance; but the values that the rows take within a
    second are disturbed alike. What a row's values are beside those taken with them is compared then. Threads that wait
    for each other are slow for reasons of their own, and the mean of all of their values counts.
    """
    blocks = {key: values.blocks for key, values in rows.items()}
    alone = in_places(blocks, {key: values.block_figures for key, values in rows.items()})
    if len(rows) < 2 or any(values.estimator is not Estimator.LOWER_DECILE for values in rows.values()):
        return alone
    beside = _beside_each_other(rows)
    paired = in_places(blocks, {key: rows[key].block_figures_of(figures) for key, figures in beside.items()})
    return paired if _variance(paired) < CLEARLY_LESS * _variance(alone) else alone


def in_places(
    blocks: Mapping[Key, Sequence[int]], figures: Mapping[Key, Sequence[BlockFigure]]
) -> dict[Key, Sequence[BlockFigure]]:
    """Return rows' figures in the places that their blocks, of each process, have among all blocks of the table.

    A row that joined later, or whose block was cut off by the end, has no part in the other blocks.
    """
    numbers = sorted({number for of_row in blocks.values() for number in of_row})
    placed: dict[Key, Sequence[BlockFigure]] = {}
    for key, of_row in blocks.items():
        known = dict(zip(dict.fromkeys(of_row), figures[key], strict=True))
        last = max(of_row, default=-1)
        placed[key] = [known.get(number, NO_PART) for number in numbers if number <= last]
    return placed


def _variance(figures: Mapping[Key, Sequence[BlockFigure]]) -> float:
    """Return the geometric mean of the rows' variances of one figure; 1 of a single block, which shows none."""
    levels = fit_levels(figures)
    return math.exp(float(np.log(levels.variance).mean())) if levels.pooled > 0 else 1.0


def _beside_each_other(rows: Mapping[Key, BenchmarkValues]) -> dict[Key, list[float]]:
    """Return a figure for each process of each row, in the order of its processes."""
    figures = {key: [math.nan] * len(row.processes) for key, row in rows.items()}
    together: dict[tuple[int, int], list[tuple[Key, int]]] = {}
    for key, row in rows.items():
        parts = zip(row.blocks, row.groups or [0 for _ in row.blocks], strict=True)
        for place, part in enumerate(parts):
            together.setdefault(part, []).append((key, place))
    for places in together.values():
        levels = _levels([rows[key].processes[place] for key, place in places])
        for (key, place), level in zip(places, levels, strict=True):
            figures[key][place] = math.exp(level)
    return figures


def _levels(processes: Sequence[Sequence[float]]) -> Floats:
    """Return the logarithm of each process's value as if all values taken with it were middling.

    The logarithm of a value is its process's level, an effect that is common to what is taken together, and chance;
    both are fitted by medians, alternately (Tukey, Exploratory Data Analysis, Addison-Wesley 1977, chapter 11). A
    process may lack the last values.
    """
    logs = np.full((len(processes), max(map(len, processes))), np.nan)
    for number, values in enumerate(processes):
        logs[number, : len(values)] = np.log(values)
    median = np.median if np.isfinite(logs).all() else np.nanmedian
    levels = median(logs, axis=1)
    for _ in range(SWEEPS):
        levels = median(logs - median(logs - levels[:, None], axis=0), axis=1)
    return np.asarray(levels)
