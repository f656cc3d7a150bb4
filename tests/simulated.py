"""A fleet of simulated hosts: this machine, by local connections.

The playbooks run as they are, but what only changes a host does nothing, and `interlock` on a host is
this file: what it measures is made up, and a host fails as it is called.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from interlock.measure.assignment import planned_rounds
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Experiment, Times
from interlock.results.settings import Settings
from interlock.results.sums import write_sums
from tests.builders import ROOT, make_cell, make_experiment, make_workload

# Roles that change a host.
CHANGING = ("python", "tools", "engine", "account", "tuning", "project")
# A task that starts no Python on the host.
NOTHING = "---\n- name: Do nothing\n  ansible.builtin.meta: noop\n"
WORKLOAD, VARIANTS = "locks", ("cpython-2.7", "cpython-2.7-nothreads")
# What a fleet is asked for, so that the made-up answer is one to it.
ASKED = ("--variants", ",".join(VARIANTS), "--workloads", WORKLOAD, "--quick", "--rounds", "2", "--seed", "7")
# Here nothing is built and no engine is asked.
ENGINE = ("--engine", "host", "--no-profile")
SLOW_S = 30
STUB = f"""\
#!{sys.executable}
import sys
sys.path[:0] = {[str(ROOT / "src"), str(ROOT)]}
from tests import simulated
simulated.main()
"""


def make_project(folder: Path) -> Path:
    """Make a clone's files, the playbooks without what changes a host, and the stub in Interlock's place."""
    for name in ("variants", "workloads", "dockerfiles", "playbooks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for role in CHANGING:
        for path in (folder / "playbooks/roles" / role / "tasks").glob("*.yml"):
            path.write_text(NOTHING)
    (folder / "interlock").write_text(STUB)
    (folder / "interlock").chmod(0o755)
    return folder


def write_inventory(project: Path, *names: str, **of_host: dict[str, Any]) -> Path:
    """Write an inventory of hosts with these names, each with a folder of its own below homes/."""
    # Variables of hosts: those of the playbooks' group_vars outrank an inventory's groups.
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "interlock_command": str(project / "interlock"),
        "interlock_folder": str(project),
        "interlock_home": f"{project}/homes/{{{{ inventory_hostname }}}}",
    }
    hosts = {name: common | of_host.get(name, {}) for name in names}
    path = project / "inventory.json"
    path.write_text(json.dumps({"all": {"hosts": hosts}}))
    return path


def main() -> None:
    """What `interlock clean` and `interlock matrix` do on a simulated host, which is called as it behaves."""
    command, *words = sys.argv[1:]
    if command == "clean":
        sys.exit(2)
    results, resumes = Path(words[words.index("--results") + 1]), "--resume" in words
    name = words[words.index("--resume" if resumes else "--name") + 1]
    folder, host = results / name, name.rpartition(".")[2]
    with (results.parent / "said").open("a") as said:
        said.write(f"{' '.join(words)}\n")
    if host == "slow":
        time.sleep(SLOW_S)
    if host == "broken":
        sys.exit("warning: first\nerror: the disk is full")
    is_cut = host == "cut" and not resumes
    settings = store.read_experiment(folder).settings if resumes else _settings(words, host)
    _write(folder, _measured(settings, name, is_cut))
    if is_cut:
        sys.exit("error: the power went")


def _settings(words: list[str], host: str) -> Settings:
    least, limit = planned_rounds(quick="--quick" in words, wanted=int(words[words.index("--rounds") + 1]))
    return Settings(
        quick="--quick" in words,
        rounds=least,
        rounds_limit=limit,
        seed=int(words[words.index("--seed") + 1]) + (host == "liar"),
        baseline=words[words.index("--baseline") + 1],
        variants=words[words.index("--variants") + 1].split(","),
        workloads=words[words.index("--workloads") + 1].split(","),
        profiled="--no-profile" not in words,
    )


def _measured(settings: Settings, name: str, is_cut: bool) -> Experiment:
    return make_experiment(
        settings.variants,
        name=name,
        settings=settings,
        workloads={WORKLOAD: make_workload(WORKLOAD)},
        cells=[make_cell(variant, WORKLOAD) for variant in settings.variants],
        times={WORKLOAD: Times()},
        unfinished=[WORKLOAD] if is_cut else [],
    )


def _write(folder: Path, measured: Experiment) -> None:
    """Write an experiment, with one value more for each time that it goes on."""
    for cell in measured.cells:
        path = store.cell_path(folder, measured.host["folder"], cell.variant, cell.mode, cell.workload)
        path.parent.mkdir(parents=True, exist_ok=True)
        before = json.loads(path.read_text())["benchmarks"][0]["runs"][0]["values"] if path.is_file() else []
        runs = [{"values": [*before, 0.5]}]
        metadata = {"name": f"{WORKLOAD} uncontended", "unit": "second", "loops": 1, "inner_loops": 1, "mem_max_rss": 1}
        metadata |= {"interlock_process_user_s": 1.0, "interlock_process_sys_s": 0.5}
        metadata |= {"interlock_block": 1, "interlock_estimator": "mean"}
        path.write_text(json.dumps({"version": "1.0", "metadata": metadata, "benchmarks": [{"runs": runs}]}))
    store.write_json(folder / EXPERIMENT_FILE, measured)
    write_sums(folder)
