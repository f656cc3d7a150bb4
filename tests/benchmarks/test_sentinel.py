"""Whether some fixed work before and after a slice explains what disturbs the slice, live. Prints.

Two equal rows take turns at slices as in a block; a sentinel of about 1.5 ms stands before and after each. What the
sentinels say is of use if ratios spread less once they are corrected by them, or once slices beside a slow one are left
out. Three minutes; needs no engine.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest

from tests.benchmarks.test_decisions import NEIGHBOUR

PAIRS = 300
# A sentinel that took more than this times its median says that its slice was disturbed.
SLOW = 1.1
ROW = """
import sys, time
def work(loops):
    for _ in range(loops):
        import os
def timed(loops, clock=time.perf_counter):
    start_s = clock()
    work(loops)
    return clock() - start_s
loops = 1000
while timed(loops) < 0.07:
    loops *= 2
sentinel = max(1, int(loops * 0.0015 / timed(loops)))
for _ in sys.stdin:
    start_s = time.process_time()
    times = timed(sentinel), timed(loops), timed(sentinel)
    print(*times, time.process_time() - start_s, flush=True)
"""


@dataclass(frozen=True)
class Slice:
    """Seconds of a slice, of the sentinels before and after it, and of CPU time in all three."""

    before_s: float
    wall_s: float
    after_s: float
    cpu_s: float

    @property
    def log(self) -> float:
        return math.log(self.wall_s)

    @property
    def sentinel_s(self) -> float:
        return (self.before_s + self.after_s) / 2


@contextmanager
def started(program: str, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    rows = [
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    try:
        yield rows
    finally:
        for row in rows:
            row.kill()
            row.wait()


def take(row: subprocess.Popen[str]) -> Slice:
    assert row.stdin
    assert row.stdout
    row.stdin.write("slice\n")
    row.stdin.flush()
    return Slice(*map(float, row.stdout.readline().split()))


def take_pairs(rng: random.Random) -> list[tuple[Slice, Slice]]:
    """Return slices of two rows side by side, in a random order."""
    pairs = []
    with started(ROW, 2) as rows:
        for _ in range(PAIRS):
            taken = {number: take(rows[number]) for number in rng.sample(range(2), 2)}
            pairs.append((taken[0], taken[1]))
    return pairs


def spread(logs: np.ndarray) -> str:
    """Return the standard deviation of ratios, and half the range that holds 90 % of them."""
    low, high = np.quantile(logs, [0.05, 0.95])
    return f"{logs.std():6.1%} {(high - low) / 2:6.1%}"


@pytest.mark.parametrize("neighbours", [0, 1, 2])
def test_what_sentinels_explain(neighbours: int, capsys: pytest.CaptureFixture[str]) -> None:
    with started(NEIGHBOUR, neighbours):
        pairs = take_pairs(random.Random(neighbours))
    ratios = np.array([one.log - other.log for one, other in pairs])
    said = np.array([math.log(one.sentinel_s / other.sentinel_s) for one, other in pairs])
    slope = float(np.cov(ratios, said)[0, 1] / said.var(ddof=1))
    share = float(np.corrcoef(ratios, said)[0, 1] ** 2)
    limits = [SLOW * float(np.median([pair[number].sentinel_s for pair in pairs])) for number in (0, 1)]
    quiet = [max(pair[n].before_s, pair[n].after_s) <= limits[n] for pair in pairs for n in (0, 1)]
    kept = ratios[np.array(quiet).reshape(-1, 2).all(axis=1)]
    gated = ratios[[all(one.cpu_s >= 0.9 * (one.wall_s + 2 * one.sentinel_s) for one in pair) for pair in pairs]]
    with capsys.disabled():
        print(f"\n{neighbours} neighbours, {len(pairs)} pairs of slices, sentinel {said.std():.1%} spread")
        print(f"  ratios as they are                  {spread(ratios)}")
        print(f"  corrected by sentinels (R2 {share:4.2f})    {spread(ratios - slope * said)}")
        print(f"  without slow sentinels ({len(kept) / len(ratios):4.0%} kept)  {spread(kept)}")
        print(f"  with 90 % of the CPU   ({len(gated) / len(ratios):4.0%} kept)  {spread(gated)}")
    assert len(pairs) == PAIRS
