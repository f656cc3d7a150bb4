"""What each probe costs the program that it watches, and the one beside it: ratios from interleaved rounds, printed.

Needs the engine and cpython-3.13 built; takes about five minutes in which nothing else should run.
"""

from __future__ import annotations

import statistics
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.project import ProjectPaths
from interlock.engine.build.helper_images import ensure_helper
from interlock.engine.docker import DockerEngine, connect
from interlock.engine.protocol import BuildOptions
from interlock.engine.run import containers, execution, leftovers
from interlock.engine.run.profiler import counting
from interlock.measure import processes
from interlock.results.profiles import Method

ROOT = Path(__file__).parents[2]
OWNER = "probe-overhead"
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


class Bench:
    """Two cells of 3.13: the one that is watched, and a neighbour."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        build_options = BuildOptions(ROOT, ProjectPaths.find().cache)
        (built,) = DockerEngine(client).build(catalogs.load(ROOT), ["cpython-3.13"], build_options, lambda *_: None)
        assert built.base is not None
        self.instruments_id = ensure_helper(client, ROOT, "instruments", built.base)
        (folder / "loop.c").write_text(LOOP)
        flags = ["-O2", "-static", f"-DREADS={READS}"]
        subprocess.run(["gcc", *flags, "-o", str(folder / "loop"), str(folder / "loop.c")], check=True)
        programs = {path.name: path.read_bytes() for path in (ROOT / "workloads").glob("*.py")}
        programs["loop"] = (folder / "loop").read_bytes()
        volume = containers.create_instruments_volume(client, OWNER, self.instruments_id, programs)
        options = containers.CellOptions(OWNER, volume, None)
        self.watched, self.neighbour = (containers.start_cell(client, built.image_id, options) for _ in range(2))

    def wall_s(self, cell: Any, argv: list[str], tracer: list[str]) -> float:
        ended = execution.run_process(self.client, cell, [processes.LAUNCH, "--", *tracer, *argv], 300)
        assert ended.exit_code == 0, ended.stderr
        return processes.parse_costs(ended.stdout)[-1].wall_s

    def probe(self, method: Method) -> AbstractContextManager[Any]:
        return counting(self.client, self.instruments_id, OWNER, self.watched, method)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    client = connect().client
    try:
        yield Bench(client, tmp_path)
    finally:
        leftovers.clean_up(client, OWNER)


Way = tuple[Callable[[], AbstractContextManager[Any]], list[str]]


def interleaved(
    bench: Bench, cell: Any, argv: list[str], ways: dict[str, Way], rounds: int = ROUNDS
) -> dict[str, list[float]]:
    """Each way's wall times divided by that of the first way in the same round."""
    ratios = defaultdict[str, list[float]](list)
    for _ in range(rounds):
        walls = {}
        for name, (context, tracer) in ways.items():
            with context():
                walls[name] = bench.wall_s(cell, argv, tracer)
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


def test_what_a_probe_costs_its_cell(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    ways: dict[str, Way] = {
        "without": (nullcontext, []),
        "without, again": (nullcontext, []),
        "bpf": (lambda: bench.probe(Method.BPF), []),
        "strace-futex": (nullcontext, processes.STRACE_FUTEX),
    }
    # On the queue strace would take minutes.
    slow: dict[str, Way] = {"strace": (nullcontext, processes.STRACE)}
    for title, argv in PROGRAMS.items():
        ratios = interleaved(bench, bench.watched, argv, ways | (slow if title == "1-byte reads" else {}))
        with capsys.disabled():
            show(title, ratios)


def test_what_perfs_tracepoints_cost_their_cell(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    """Fewer rounds: to open and to close them takes half a minute each time."""
    ways: dict[str, Way] = {
        "without": (nullcontext, []),
        "tracepoints": (lambda: bench.probe(Method.TRACEPOINTS), []),
    }
    for title, argv in PROGRAMS.items():
        ratios = interleaved(bench, bench.watched, argv, ways, rounds=2)
        with capsys.disabled():
            show(title, ratios)


def test_what_bpf_costs_the_cell_beside(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    ways: dict[str, Way] = {
        "without": (nullcontext, []),
        "without, again": (nullcontext, []),
        "bpf on another cell": (lambda: bench.probe(Method.BPF), []),
    }
    for title, argv in PROGRAMS.items():
        ratios = interleaved(bench, bench.neighbour, argv, ways)
        with capsys.disabled():
            show(title, ratios)
