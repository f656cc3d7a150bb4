"""The launcher beside a bare posix_spawn, and its figures beside pyperf's own for the same work. Printed, not asserted.

Needs the engine and cpython-3.13 built.
"""

from __future__ import annotations

import json
import statistics
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyperf
import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers, execution, leftovers
from interlock.measure import processes

ROOT = Path(__file__).parents[2]
OWNER = "launcher-cost"
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
def cell(tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """A cell of 3.13 that has pyperf beside the workloads, and the client."""
    client = connect().client
    build_options = BuildOptions(ROOT, ProjectPaths.find().cache)
    (built,) = DockerEngine(client).build(catalogs.load(ROOT), ["cpython-3.13"], build_options, lambda *_: None)
    assert built.base is not None
    (tmp_path / "bare.c").write_text(BARE)
    flags = ["-O2", "-static", f"-DSTARTS={STARTS}"]
    subprocess.run(["gcc", *flags, "-o", str(tmp_path / "bare"), str(tmp_path / "bare.c")], check=True)
    programs = {path.name: path.read_bytes() for path in (ROOT / "workloads").glob("*.py")}
    programs["bare"] = (tmp_path / "bare").read_bytes()
    package = Path(pyperf.__file__).parent
    programs |= {f"pyperf/{path.relative_to(package)}": path.read_bytes() for path in package.rglob("*.py")}
    try:
        image_id = ensure_helper(client, ROOT, "instruments", built.base)
        volume = containers.create_instruments_volume(client, OWNER, image_id, programs)
        options = containers.CellOptions(OWNER, volume, None)
        yield client, containers.start_cell(client, built.image_id, options)
    finally:
        leftovers.clean_up(client, OWNER)


def run(cell: tuple[Any, Any], *argv: str) -> str:
    client, container = cell
    environment = {"PYTHONPATH": "/interlock/workloads"}
    ended = execution.run_process(client, container, list(argv), 120, environment)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def launched_s(cell: tuple[Any, Any], *argv: str) -> list[float]:
    output = run(cell, processes.LAUNCH, "--repeat", str(STARTS), "--discard-stdout", "--", *argv)
    return [cost.wall_s for cost in processes.parse_costs(output)]


def test_the_launcher_beside_a_bare_posix_spawn(cell: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    run(cell, "sh", "-c", "cp /interlock/workloads/bare /tmp/bare && chmod +x /tmp/bare")
    extra_us = []
    for _ in range(ROUNDS):
        bare_s = [float(line) for line in run(cell, "/tmp/bare", "/bin/true").split()]
        extra_us.append((statistics.median(launched_s(cell, "/bin/true")) - statistics.median(bare_s)) * 1e6)
    with capsys.disabled():
        print(
            f"\nlauncher over a bare posix_spawn: {statistics.median(extra_us):.0f} us"
            f" [{min(extra_us):.0f}, {max(extra_us):.0f}] per start"
        )


def pyperf_s(cell: tuple[Any, Any], *argv: str) -> float:
    """The median of the values that pyperf measured in the cell."""
    run(cell, "rm", "-f", RESULT)
    run(cell, "python", "-m", "pyperf", *argv)
    (found,) = pyperf.BenchmarkSuite.loads(run(cell, "cat", RESULT)).get_benchmarks()
    return float(statistics.median(found.get_values()))


def workload_s(cell: tuple[Any, Any]) -> float:
    program = "/interlock/workloads/locks.py"
    output = run(cell, "python", program, "--what", "uncontended", "--loops", "256", "--warmups", "1", "--values", "3")
    said = json.loads(output.strip().splitlines()[-1])
    return float(statistics.median(said["values"]) / (said["loops"] * said["inner_loops"]))


def show(what: str, pairs: list[tuple[float, float]], scale: float, unit: str) -> None:
    ratios = [ours / theirs for ours, theirs in pairs]
    ours, theirs = (statistics.median(column) * scale for column in zip(*pairs, strict=True))
    print(
        f"\n{what}: ours {ours:.4g} {unit}, pyperf's {theirs:.4g} {unit}, ratio {statistics.median(ratios):.3f}"
        f" [{min(ratios):.3f}, {max(ratios):.3f}] over {len(ratios)} rounds"
    )


def test_figures_beside_pyperfs(cell: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    """The same work in the same container, in turns: `pyperf command` and `pyperf timeit`."""
    starts, locks = [], []
    for _ in range(ROUNDS):
        ours = statistics.median(launched_s(cell, "python", "-c", "pass"))
        starts.append((ours, pyperf_s(cell, *COMMAND)))
        locks.append((workload_s(cell), pyperf_s(cell, *TIMEIT)))
    with capsys.disabled():
        show("python -c pass", starts, 1e3, "ms")
        show("acquire and release", locks, 1e9, "ns")
