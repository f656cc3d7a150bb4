"""A fleet of simulated hosts: this machine, by local connections.

The playbooks run as they are, but what only changes a host is a task that does nothing, and `interlock matrix` is
a program that sleeps as long as a cell might take. As a program it runs a fleet of one workload per host, or goes on
with it: python -m tests.simulated PROJECT FOLDER HOSTS
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

from interlock.cli.main import _interrupt
from interlock.engine import machine
from interlock.errors import Interrupted
from interlock.fleet import ansible, dispatch
from interlock.fleet.record import (
    FLEET_FILE,
    FleetRecord,
    HostRecord,
    merge_experiments,
    read_record,
    take_in_results,
)
from interlock.fleet.running import FleetRun, Limits, RunSettings
from interlock.measure import experiment
from tests.builders import ROOT, make_experiment, make_settings, make_workload

FORKS = 8
CELL_S = 1
# Roles that change a host.
CHANGING = ("tools", "engine", "account", "tuning", "project", "images")
NOTHING = "---\n- name: Do nothing\n  ansible.builtin.command: 'true'\n  changed_when: false\n"
STUB = """\
#!{python}
import os, sys, time
words = sys.argv[1:]
if words[0] == "matrix":
    name, results, workload = (words[words.index(key) + 1] for key in ("--name", "--results", "--workloads"))
    time.sleep({cell_s})
    folder = os.path.join(results, name)
    os.makedirs(folder, exist_ok=True)
    text = open({template!r}).read()
    open(os.path.join(folder, "experiment.json"), "w").write(text.replace("stubbed", workload))
"""


def make_project(folder: Path) -> Path:
    """Make the playbooks without what changes a host, and the stub in Interlock's place."""
    shutil.copytree(ROOT / "playbooks", folder / "playbooks")
    (folder / "src/interlock/engine").mkdir(parents=True)
    shutil.copy(ROOT / "src/interlock/engine/machine.py", folder / "src/interlock/engine")
    for role in CHANGING:
        for path in (folder / "playbooks/roles" / role / "tasks").glob("*.yml"):
            path.write_text(NOTHING)
    workload = make_workload("stubbed")
    described = make_experiment(["cpython-3.13"], workloads={"stubbed": workload}, cells=[])
    settings = described.settings.model_copy(update={"workloads": ["stubbed"]})
    template = folder / "experiment.json"
    template.write_text(described.model_copy(update={"settings": settings}).model_dump_json())
    stub = folder / "interlock"
    stub.write_text(STUB.format(python=sys.executable, cell_s=CELL_S, template=str(template)))
    stub.chmod(0o755)
    return folder


def run_of(project: Path, folder: Path, size: int) -> FleetRun:
    """Return a fleet of so many hosts, each with one workload, as its folder has it, or a new one."""
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
    if (folder / FLEET_FILE).is_file():
        record = read_record(folder)

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
    return FleetRun(settings, record)


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


def main() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        run = run_of(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
        run.examine_hosts()
        run.carry_out()
    except Interrupted as interrupted:
        sys.exit(interrupted.exit_code)


if __name__ == "__main__":
    main()
