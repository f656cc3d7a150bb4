"""What the rows of a table are compared by: each process alone, or its slices beside those of the same pass. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
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

# Slices are compared pass by pass where that leaves less than this share of the variance between blocks. It is far
# below 1, so that chance does not choose: a variance that was chosen because it is the smaller one is too small.
CLEARLY_LESS = 0.5
# Sweeps of the median polish; more of them move no level by more than its error.
SWEEPS = 4


def compared_figures(rows: Mapping[Key, BenchmarkValues]) -> dict[Key, Sequence[BlockFigure]]:
    """Return what the rows of one table are compared by: one figure for each block, in seconds per unit of work.

    On a calm machine some slices of each process are undisturbed, and the lower decile finds them. Beside a busy
    neighbour none is, and how many are disturbed by how much is chance; but the slices of one pass, which are less than
    a second apart, are disturbed alike. What a row's slices take beside those of their passes is compared then. Threads
    that wait for each other are slow for reasons of their own, and the mean of all of their slices counts.
    """
    alone = in_places(rows, {key: one.turns for key, one in rows.items()})
    if len(rows) < 2 or any(one.estimator is not Estimator.LOWER_DECILE for one in rows.values()):
        return alone
    beside = _beside_their_passes(rows)
    paired = in_places(rows, {key: rows[key].turns_of(figures) for key, figures in beside.items()})
    return paired if _variance(paired) < CLEARLY_LESS * _variance(alone) else alone


def in_places(
    rows: Mapping[Key, BenchmarkValues], figures: Mapping[Key, Sequence[BlockFigure]]
) -> dict[Key, Sequence[BlockFigure]]:
    """Return rows' figures in the places that their blocks have among all blocks of the table.

    A row that joined later, or that an end kept from a block, has no part in the others.
    """
    numbers = sorted({number for one in rows.values() for number in one.blocks})
    places = {number: place for place, number in enumerate(numbers)}
    return {key: _placed(figures[key], [places[number] for number in one.blocks]) for key, one in rows.items()}


def _placed(figures: Sequence[BlockFigure], places: Sequence[int]) -> Sequence[BlockFigure]:
    """Return one row's figures in their places."""
    known = dict(zip(dict.fromkeys(places), figures, strict=True))
    return [known.get(place, NO_PART) for place in range(max(places, default=-1) + 1)]


def _variance(figures: Mapping[Key, Sequence[BlockFigure]]) -> float:
    """Return the geometric mean of the rows' variances of one figure; 1 of a single block, which shows none."""
    levels = fit_levels(figures)
    return math.exp(float(np.log(levels.variance).mean())) if levels.pooled > 0 else 1.0


def _beside_their_passes(rows: Mapping[Key, BenchmarkValues]) -> dict[Key, list[float]]:
    """Return a figure for each process of each row, in the order of its processes."""
    found = {key: [math.nan] * len(one.processes) for key, one in rows.items()}
    turns: dict[tuple[int, int], list[tuple[Key, int]]] = {}
    for key, one in rows.items():
        for place, turn in enumerate(_turns(one)):
            turns.setdefault(turn, []).append((key, place))
    for together in turns.values():
        values = [rows[key].processes[place] for key, place in together]
        for (key, place), level in zip(together, _levels(values), strict=True):
            found[key][place] = math.exp(level)
    return found


def _turns(row: BenchmarkValues) -> Iterator[tuple[int, int]]:
    """Yield the block and the group of each process of a row."""
    return zip(row.blocks, row.groups or [0 for _ in row.blocks], strict=True)


def _levels(processes: Sequence[Sequence[float]]) -> Floats:
    """Return the logarithm of what a slice of each process takes in a middling pass.

    The logarithms of slices are a process's level and a pass's effect, fitted by medians in turns (Tukey, Exploratory
    Data Analysis, Addison-Wesley 1977, chapter 11), and something that is chance. A process may lack the last passes.
    """
    logs = np.full((len(processes), max(map(len, processes))), np.nan)
    for number, values in enumerate(processes):
        logs[number, : len(values)] = np.log(values)
    median = np.median if np.isfinite(logs).all() else np.nanmedian
    levels = median(logs, axis=1)
    for _ in range(SWEEPS):
        levels = median(logs - median(logs - levels[:, None], axis=0), axis=1)
    return np.asarray(levels)
