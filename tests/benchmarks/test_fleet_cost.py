"""What a fleet costs its controller by the number of hosts, with simulated hosts: this machine, by local connections.

The playbooks run as they are, but what only changes a host is a task that does nothing, and `interlock matrix` is
a program that sleeps as long as a cell might take. CPU time is that of the controller and of all simulated hosts.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair
import pytest

from interlock.engine import machine
from interlock.fleet import ansible, dispatch
from interlock.fleet.record import FleetRecord, HostRecord, merge_experiments, take_in_results
from interlock.fleet.running import Limits, Run, RunSettings
from interlock.measure import experiment
from tests.builders import ROOT, make_experiment, make_settings, make_workload

SIZES = [int(size) for size in os.environ.get("INTERLOCK_FLEET_SIZES", "10,50,200").split(",")]
FORKS = 8
CELL_S = 1
FIGURE = ROOT / ".benchmarks/fleet-cost.svg"
# Roles that change a host.
CHANGING = ("tools", "engine", "account", "tuning", "project", "images")
HEAD = f"\n| hosts | CPU s | CPU s per host | to linear | wall s, {FORKS} at once |\n|---|---|---|---|---|"
NOTHING = "---\n- name: Do nothing\n  ansible.builtin.command: 'true'\n  changed_when: false\n"
STUB = """\
#!{python}
import os, sys, time
words = sys.argv[1:]
if words[0] == "matrix":
    name, results, workload = (words[words.index(key) + 1] for key in ("--name", "--results", "--workloads"))
    time.sleep({cell_s})
    folder = os.path.join(results, name)
    os.makedirs(folder)
    text = open({template!r}).read()
    open(os.path.join(folder, "experiment.json"), "w").write(text.replace("stubbed", workload))
"""


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
    """The playbooks without what changes a host, and the stub in Interlock's place."""
    shutil.copytree(ROOT / "playbooks", tmp_path / "playbooks")
    (tmp_path / "src/interlock/engine").mkdir(parents=True)
    shutil.copy(ROOT / "src/interlock/engine/machine.py", tmp_path / "src/interlock/engine")
    for role in CHANGING:
        for path in (tmp_path / "playbooks/roles" / role / "tasks").glob("*.yml"):
            path.write_text(NOTHING)
    workload = make_workload("stubbed")
    described = make_experiment(["cpython-3.13"], workloads={"stubbed": workload}, cells=[])
    settings = described.settings.model_copy(update={"workloads": ["stubbed"]})
    template = tmp_path / "experiment.json"
    template.write_text(described.model_copy(update={"settings": settings}).model_dump_json())
    stub = tmp_path / "interlock"
    stub.write_text(STUB.format(python=sys.executable, cell_s=CELL_S, template=str(template)))
    stub.chmod(0o755)
    return tmp_path


def cost_of(project: Path, size: int) -> Cost:
    """A fleet of so many hosts, each with one workload, from the facts to the last tuning taken back."""
    folder = project / f"fleet-{size}"
    folder.mkdir()
    listed = _inventory(project, folder, size)
    names = [f"workload-{number}" for number in range(size)]
    kinds = {name: kind.name for name, kind in listed.kinds.items()}
    record = FleetRecord(
        name=folder.name,
        token="stub",  # noqa: S106
        tool_version="0",
        command="",
        started="2026-11-21T00:00:00+00:00",
        duration_s=0,
        settings=make_settings(["cpython-3.13"]),
        each=False,
        images={},
        hosts={name: HostRecord(kind=kind) for name, kind in listed.kinds.items()},
        shards=dispatch.shards(kinds, names, dict.fromkeys(names, float(CELL_S)), each=False),
    )

    def take_in(archive: Path, name: str, workload: str) -> None:
        take_in_results(
            archive,
            folder / name,
            workload,
            lambda before, new: merge_experiments(before, new, record.name, name, experiment.repeat_command),
        )

    variables = {
        "interlock_version": "stub",
        "interlock_command": str(project / "interlock"),
        "interlock_folder": str(project),
        "interlock_home": str(folder / "homes") + "/{{ inventory_hostname }}",
    }
    settings = RunSettings(
        root=project,
        folder=folder,
        inventory=listed,
        limits=Limits(FORKS, 3600),
        variables=variables,
        options_of=lambda workload: ["--workloads", workload],
        take_in=take_in,
        print_line=lambda _: None,
    )
    run = Run(settings, record)
    before, start = _cpu_s(), time.monotonic()
    run.examine_hosts()
    run.carry_out()
    cost = Cost(size, time.monotonic() - start, _cpu_s() - before)
    assert all(shard.done_by for shard in run.record.shards)
    assert len(list(folder.glob("*/experiment.json"))) == size
    return cost


def _inventory(project: Path, folder: Path, size: int) -> ansible.Inventory:
    facts = machine.facts()
    variables = {
        "ansible_connection": "local",
        # As by ssh: one process on the host for each task.
        "ansible_pipelining": True,
        "kind": {"name": "here", "cpu": facts["cpu"], "cores": facts["cores"], "kernel": facts["kernel"]},
    }
    path = folder / "inventory.json"
    path.write_text(json.dumps({"all": {"hosts": {f"host{n}": {} for n in range(size)}, "vars": variables}}))
    return ansible.read_inventory(path, project)


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
