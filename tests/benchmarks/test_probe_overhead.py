"""What a probe costs the program that it watches: ratios from interleaved rounds, printed.

Needs the engine and cpython-3.13 built; takes about five minutes in which nothing else should run.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from interlock.engine.agent import LAUNCH
from interlock.engine.run.profiler import counting
from interlock.measure import processes
from tests.benchmarks.cell import OWNER, Cell, compiled, started_cell

ROUNDS = 5
READS = 200_000
LOOP = """
#include <fcntl.h>
#include <unistd.h>
int main(void) {
    char byte;
    int zero = open("/dev/zero", O_RDONLY);
    for (int count = 0; count < READS; count++)
        if (read(zero, &byte, 1) != 1)
            return 1;
    return 0;
}
"""
# 200,000 items.
QUEUE = "python /interlock/workloads/locks.py --what queue --threads 4 --loops 2000 --warmups 0 --values 1"
PROGRAMS = {
    # The volume has no executable files.
    "1-byte reads": ["sh", "-c", "cp /interlock/workloads/loop /tmp/loop; chmod +x /tmp/loop; exec /tmp/loop"],
    "queue, 4 threads": QUEUE.split(),
}


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    with started_cell({"loop": compiled(tmp_path, LOOP, READS=READS)}) as found:
        yield found


Way = tuple[Callable[[], AbstractContextManager[Any]], list[str]]


def interleaved(cell: Cell, argv: list[str], ways: dict[str, Way]) -> dict[str, list[float]]:
    """Each way's wall times divided by that of the first way in the same round."""
    ratios = defaultdict[str, list[float]](list)
    for _ in range(ROUNDS):
        walls = {}
        for name, (context, tracer) in ways.items():
            with context():
                walls[name] = processes.parse_costs(cell.run(LAUNCH, "--", *tracer, *argv))[-1].wall_s
        plain = next(iter(walls.values()))
        for name, wall in walls.items():
            ratios[name].append(wall / plain)
    return ratios


def show(title: str, ratios: dict[str, list[float]]) -> None:
    for name, values in ratios.items():
        print(
            f"\n{title:18} {name:24} {statistics.median(values):6.2f}x [{min(values):.2f}, {max(values):.2f}]", end=""
        )
    print()


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_a_probe_costs_its_cell(program: str, cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    ways: dict[str, Way] = {
        "without": (nullcontext, []),
        "without, again": (nullcontext, []),
        "bpf": (lambda: counting(cell.instruments_id, OWNER, cell.container), []),
        "strace-futex": (nullcontext, processes.STRACE),
    }
    ratios = interleaved(cell, PROGRAMS[program], ways)
    with capsys.disabled():
        show(program, ratios)
