"""Throughput by number of workers -> the Universal Scalability Law that fits it, with intervals. Pure.

Gunther, Guerrilla Capacity Planning (Springer 2007), chapters 4 to 6: N workers do

    X(N) = rate N / (1 + contention (N - 1) + coherence N (N - 1))

units of work in a second. Contention is the share of the work that one worker alone can do at a time; coherence is what
each pair of workers costs to keep each other's data up to date, and makes throughput fall after a peak.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from interlock import resampling
from interlock.statistics import Interval, expanded_level, trimmed

Floats = npt.NDArray[np.float64]

# With fewer numbers of workers than terms some terms cannot be known.
FOR_COHERENCE = 3
# A further term has to explain more than the rounding of doubles: squares of relative errors of 1e-12.
ROUNDING = 1e-24


@dataclass(frozen=True)
class Fit:
    """The law's three terms, where throughput is highest, and what a reader must know of them.

    One round leaves intervals open. Coherence is none if it cannot be told from contention; a peak that is not there is
    infinite.
    """

    rate: Interval  # units of work in a second by one worker
    contention: Interval
    coherence: Interval | None
    peak_workers: Interval
    says: tuple[str, ...] = field(default=())

    def throughput(self, workers: float) -> float:
        coherence = self.coherence.estimate if self.coherence else 0.0
        slowed = 1 + self.contention.estimate * (workers - 1) + coherence * workers * (workers - 1)
        return self.rate.estimate * workers / slowed


def fit(throughputs: Mapping[int, Sequence[float]]) -> Fit | None:
    """Of throughputs by number of workers, one for each round; None without two numbers of workers that have one.

    The rounds that all numbers have are resampled together: what disturbs a round disturbs all of them. Of the rounds
    the trimmed geometric mean counts, as in every ratio.
    """
    known = {workers: some for workers, some in sorted(throughputs.items()) if some}
    if len(known) < 2:
        return None
    rounds = min(map(len, known.values()))
    workers = np.array(list(known), dtype=np.float64)
    logs = trimmed(np.log([some[:rounds] for some in known.values()]))
    best = _terms(workers, np.exp(logs.mean(axis=1, keepdims=True)))[:, 0]
    if rounds == 1:
        bounds = np.array([[0.0, math.inf]] * 4)
    else:
        resampled = _terms(workers, np.exp(resampling.means(logs)))
        tail = (1 - expanded_level(rounds)) / 2
        bounds = np.quantile(resampled, [tail, 1 - tail], axis=1, method="closest_observation").T
    rate, contention, coherence, peak = (
        Interval(float(one), float(low), float(high)) for one, (low, high) in zip(best, bounds, strict=True)
    )
    told = len(known) >= FOR_COHERENCE
    return Fit(rate, contention, coherence if told else None, peak, tuple(_says(contention, coherence, peak, told)))


def _terms(workers: Floats, throughputs: Floats) -> Floats:
    """Rate, contention, coherence and peak (rows) of each column of throughputs, a row for each number of workers.

    The time that a worker takes for a unit, N / X(N), is linear in terms that cannot be negative. Their least squares,
    relative to that time, are those of the best set of them of which none is negative.
    """
    times = workers[:, None] / throughputs
    columns = np.stack([np.ones_like(workers), workers - 1, workers * (workers - 1)])
    sizes = columns.max(axis=1)
    found = np.zeros((3, throughputs.shape[1]))
    least = np.full(throughputs.shape[1], math.inf)
    for terms in _sets(len(workers)):
        # Cases, numbers of workers, terms.
        design = (columns[terms] / sizes[terms][:, None]).T[None] / times.T[:, :, None]
        solved = np.linalg.solve(np.swapaxes(design, 1, 2) @ design, design.sum(axis=1)[:, :, None])[:, :, 0]
        squares = ((design @ solved[:, :, None])[:, :, 0] - 1) ** 2
        better = (squares.sum(axis=1) < least - ROUNDING) & (solved >= 0).all(axis=1)
        least[better] = squares.sum(axis=1)[better]
        found[:, better] = 0.0
        found[np.ix_(terms, better)] = (solved / sizes[terms])[better].T
    rate, contention, coherence = 1 / found[0], found[1] / found[0], found[2] / found[0]
    return np.stack([rate, contention, coherence, _peaks(contention, coherence)])


def _sets(points: int) -> list[list[int]]:
    """Which terms may be other than 0; the rate always, and of two numbers of workers contention alone."""
    others = [1] if points < FOR_COHERENCE else [1, 2]
    return [[0, *some] for size in range(len(others) + 1) for some in combinations(others, size)]


def _peaks(contention: Floats, coherence: Floats) -> Floats:
    """Where throughput is highest; 1 if every further worker lowers it, infinite if none does."""
    rising = np.clip(1 - contention, 0, None)
    with np.errstate(divide="ignore", invalid="ignore"):
        peaks = np.sqrt(rising / coherence)
    return np.where(contention > 1, 1.0, np.where(coherence > 0, np.maximum(peaks, 1.0), math.inf))


def _says(contention: Interval, coherence: Interval, peak: Interval, told: bool) -> list[str]:
    says = []
    if not told:
        says.append("two numbers of workers: all loss is called contention")
    if contention.estimate == 0 and coherence.estimate == 0:
        says.append("no loss was seen: both terms are at their bound, 0")
    elif contention.estimate == 0:
        says.append("contention is at its bound, 0")
    if peak.estimate <= 1:
        says.append("more workers do less than one")
    return says
