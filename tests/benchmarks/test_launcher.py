"""The launcher beside a bare posix_spawn, and its figures beside pyperf's own for the same work. Printed, not asserted.

Needs the engine and cpython-3.13 built.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

import pyperf
import pytest

from interlock.engine.agent import LAUNCH
from interlock.measure import processes
from tests.benchmarks.cell import Cell, compiled, started_cell

STARTS, ROUNDS = 200, 5
BARE = """
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
extern char **environ;
int main(int count, char **arguments) {
    for (int number = 0; number < STARTS; number++) {
        struct timespec start, stop;
        pid_t pid;
        int status;
        clock_gettime(CLOCK_MONOTONIC, &start);
        if (count < 2 || posix_spawnp(&pid, arguments[1], NULL, NULL, arguments + 1, environ) || wait(&status) != pid)
            return 1;
        clock_gettime(CLOCK_MONOTONIC, &stop);
        printf("%.9f\\n", stop.tv_sec - start.tv_sec + (stop.tv_nsec - start.tv_nsec) / 1e9);
    }
    return 0;
}
"""
RESULT = "/tmp/pyperf.json"
FEW = ["--processes", "1", "--warmups", "1", "--quiet", "-o", RESULT, "--inherit-environ", "PYTHONPATH"]
COMMAND = ["command", *FEW, "--values", "20", "--", "python", "-c", "pass"]
TIMEIT = ["timeit", *FEW, "--values", "3", "-s", "import threading; lock = threading.Lock()"]
TIMEIT += ["-s", "acquire, release = lock.acquire, lock.release", "acquire(); release()"]


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Cell]:
    """A cell of 3.13 that has pyperf beside the workloads."""
    package = Path(pyperf.__file__).parent
    files = {f"pyperf/{path.relative_to(package)}": path.read_bytes() for path in package.rglob("*.py")}
    with started_cell({**files, "bare": compiled(tmp_path, BARE, STARTS=STARTS)}) as found:
        yield found


def launched_s(cell: Cell, *argv: str) -> list[float]:
    output = cell.run(LAUNCH, "--repeat", str(STARTS), "--discard-stdout", "--", *argv)
    return [cost.wall_s for cost in processes.parse_costs(output)]


def test_the_launcher_beside_a_bare_posix_spawn(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    cell.run("sh", "-c", "cp /interlock/workloads/bare /tmp/bare && chmod +x /tmp/bare")
    extra_us = []
    for _ in range(ROUNDS):
        bare_s = [float(line) for line in cell.run("/tmp/bare", "/bin/true").split()]
        extra_us.append((statistics.median(launched_s(cell, "/bin/true")) - statistics.median(bare_s)) * 1e6)
    with capsys.disabled():
        print(
            f"\nlauncher over a bare posix_spawn: {statistics.median(extra_us):.0f} us"
            f" [{min(extra_us):.0f}, {max(extra_us):.0f}] per start"
        )


def pyperf_s(cell: Cell, *argv: str) -> float:
    """The median of the values that pyperf measured in the cell."""
    cell.run("rm", "-f", RESULT)
    cell.run("python", "-m", "pyperf", *argv)
    (found,) = pyperf.BenchmarkSuite.loads(cell.run("cat", RESULT)).get_benchmarks()
    return float(statistics.median(found.get_values()))


def workload_s(cell: Cell) -> float:
    program = "/interlock/workloads/locks.py"
    output = cell.run("python", program, "--what", "uncontended", "--loops", "256", "--warmups", "1", "--values", "3")
    said = json.loads(output.strip().splitlines()[-1])
    return float(statistics.median(said["values"]) / (said["loops"] * said["inner_loops"]))


def show(what: str, pairs: list[tuple[float, float]], scale: float, unit: str) -> None:
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(column) * scale for column in zip(*pairs, strict=True))
    print(
        f"\n{what}: ours {ours:.4g} {unit}, pyperf's {theirs:.4g} {unit}, ratio {statistics.median(ratios):.3f}"
        f" [{min(ratios):.3f}, {max(ratios):.3f}] over {len(ratios)} rounds"
    )


def test_figures_beside_pyperfs(cell: Cell, capsys: pytest.CaptureFixture[str]) -> None:
    """The same work in the same container, in turns: `pyperf command` and `pyperf timeit`."""
    starts, locks = [], []
    for _ in range(ROUNDS):
        ours = statistics.median(launched_s(cell, "python", "-c", "pass"))
        starts.append((ours, pyperf_s(cell, *COMMAND)))
        locks.append((workload_s(cell), pyperf_s(cell, *TIMEIT)))
    with capsys.disabled():
        show("python -c pass", starts, 1e3, "ms")
        show("acquire and release", locks, 1e9, "ns")
