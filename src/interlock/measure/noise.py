"""How noisy this machine is, which is asked before a reference is measured on it."""

from __future__ import annotations

import math
import os
import timeit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from statistics import fmean

from interlock.errors import UnsupportedHereError

# Values of the loop on each CPU, and about how long one takes on a usual machine.
VALUES, VALUE_S = 60, 0.02
# With more than this the error of a ratio over 14 rounds is above 1 %.
MOST_NOISE = 0.03


def of_values(seconds: Sequence[float]) -> float:
    """Return a value's standard deviation as a share of it, by differences of neighbouring values (von Neumann, 1941).

    A machine that slowly becomes faster or slower does not count as noisy: rows are compared within a round.
    """
    differences = [math.log(later / earlier) for earlier, later in pairwise(seconds)]
    return math.sqrt(fmean(difference**2 for difference in differences) / 2)


def of_this_machine() -> dict[int, float]:
    """Return the noise of a loop on each CPU that this process may use; about a second each."""
    noise_by_cpu, loop = {}, timeit.Timer()
    for cpu in sorted(os.sched_getaffinity(0)):
        with _pinned(cpu):
            loops, took_s = loop.autorange()
            noise_by_cpu[cpu] = of_values(loop.repeat(VALUES, round(loops * VALUE_S / took_s)))
    return noise_by_cpu


def require_quiet(noise: dict[int, float]) -> None:
    """Raise UnsupportedHereError if a CPU is noisier than a reference may be."""
    worst = max(noise, key=noise.__getitem__)
    if noise[worst] > MOST_NOISE:
        raise UnsupportedHereError(
            key="--for-reference",
            found=f"one value of an equal loop is off by {noise[worst]:.1%} on CPU {worst}, more than {MOST_NOISE:.0%}",
            todo="Stop other programs (`top` shows them), or measure on a machine with fewer guests.",
        )


@contextmanager
def _pinned(cpu: int) -> Iterator[None]:
    before = os.sched_getaffinity(0)
    with suppress(OSError):
        os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
