"""What a fleet costs its controller by the number of hosts, with simulated hosts (tests/simulated.py).

CPU time is that of the controller and of all simulated hosts.
"""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair
import pytest

from tests.builders import ROOT
from tests.simulated import FORKS, make_project, run_of

SIZES = [int(size) for size in os.environ.get("INTERLOCK_FLEET_SIZES", "10,50,200").split(",")]
FIGURE = ROOT / ".benchmarks/fleet-cost.svg"
HEAD = f"\n| hosts | CPU s | CPU s per host | to linear | wall s, {FORKS} at once |\n|---|---|---|---|---|"


@dataclass(frozen=True)
class Cost:
    """Of one fleet."""

    hosts: int
    wall_s: float
    cpu_s: float

    @property
    def cpu_s_per_host(self) -> float:
        return self.cpu_s / self.hosts

    def row(self, ratio: float) -> str:
        """Of the table; `ratio` is to what the smallest fleet's cost per host would make of it."""
        return f"| {self.hosts} | {self.cpu_s:.0f} | {self.cpu_s_per_host:.2f} | {ratio:.2f} | {self.wall_s:.0f} |"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_project(tmp_path)


def cost_of(project: Path, size: int) -> Cost:
    """A fleet of so many hosts, each with one workload, from the facts to the last tuning taken back."""
    folder = project / f"fleet-{size}"
    folder.mkdir()
    run = run_of(project, folder, size)
    before, start = _cpu_s(), time.monotonic()
    run.examine_hosts()
    run.carry_out()
    cost = Cost(size, time.monotonic() - start, _cpu_s() - before)
    assert all(shard.done_by for shard in run.record.shards)
    assert len(list(folder.glob("*/experiment.json"))) == size
    return cost


def _cpu_s() -> float:
    return sum(
        spent.ru_utime + spent.ru_stime
        for spent in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def test_the_cost_of_a_fleet_by_its_size(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    costs: list[Cost] = []
    with capsys.disabled():
        print(HEAD)
        for size in SIZES:
            costs.append(cost_of(project, size))
            ratio = costs[-1].cpu_s_per_host / costs[0].cpu_s_per_host
            print(costs[-1].row(ratio), flush=True)
    FIGURE.parent.mkdir(exist_ok=True)
    draw(costs).save(FIGURE)


def draw(costs: list[Cost]) -> Any:
    """CPU time over hosts, with the line that the smallest fleet's cost per host would make."""
    rows = [{"hosts": cost.hosts, "CPU s": cost.cpu_s} for cost in costs]
    line = [{"hosts": hosts, "CPU s": costs[0].cpu_s_per_host * hosts} for hosts in (0, costs[-1].hosts)]
    x = altair.X("hosts:Q", title="hosts")
    y = altair.Y("CPU s:Q", title="CPU time of the controller, s")
    linear = altair.Chart(altair.InlineData(values=line)).mark_line(color="#888", strokeDash=[4, 3]).encode(x, y)
    measured = altair.Chart(altair.InlineData(values=rows)).mark_line(point=True, color="#2a5db0").encode(x, y)
    return altair.layer(linear, measured).properties(width=360, height=220)
