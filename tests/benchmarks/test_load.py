"""How seconds of CPU and memory grow with an experiment's cells: planned, resumed, reported, exported. Prints.

A cell is variant x workload x host: 60 variants by 14 workloads, four rounds each, on 1, 12 and 119 hosts are 840,
10,080 and 99,960. SIGKILL cut the last workload of the last host: its cells are in the journal, all others in a file
each. Each command is a process of its own, so that its peak of memory is its own. `INTERLOCK_HOSTS=1,12` leaves the
largest out; `INTERLOCK_ROWS=60,120,240` measures one host of more variants instead. Needs an engine; nothing is built.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.workloads import Workload
from interlock.engine.machine import facts
from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, CellResult, Experiment, Times
from interlock.results.journal import KILLED, Journal, JournalEntry, RunData
from interlock.results.settings import Settings
from tests.apart import command
from tests.builders import OK, ROOT, make_built, make_cell, make_experiment, make_facts
from tests.integration.images import QUICK
from tests.integration.toys import copy_project

NAME, BENCHMARK, ROUNDS = "load", "one", 4
WORKLOADS = [f"work-{number:02}" for number in range(14)]
HOSTS = [int(hosts) for hosts in os.environ.get("INTERLOCK_HOSTS", "1,12,119").split(",")]
ROWS = [int(rows) for rows in os.environ.get("INTERLOCK_ROWS", "60").split(",")]
WORKLOAD = """\
summary = "A workload"
program = "locks.py"
unit = "operation"
deadline_s = 60
quick = { warmups = 1, values = 5 }
full = { warmups = 1, values = 5 }

[[benchmarks]]
name = "one"
arguments = ["--what", "uncontended", "--min-time", "0.0012"]
metric = { label = "ns per lock", scale = 1e9 }
"""
# Prints what a command's process took as the kernel counts it: exit code, seconds of CPU, and MiB at its peak.
MEASURE = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""


def make_project(folder: Path, variants: list[str]) -> Path:
    """A project of these variants and workloads alone."""
    project = copy_project(ROOT, folder, [QUICK], [])
    path = project / "variants" / f"{QUICK}.toml"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    for name in variants:
        own = text.replace('tag = "', f'tag = "{name}-', 1)
        (project / "variants" / f"{name}.toml").write_text(own, encoding="utf-8")
    for name in WORKLOADS:
        (project / "workloads" / f"{name}.toml").write_text(WORKLOAD, encoding="utf-8")
    return project


def make_run(workload: str, block: int, chance: random.Random) -> RunData:
    """A process of a block: five values, and what the launcher read."""
    metadata = {
        "name": f"{workload} {BENCHMARK}", "unit": "second", "loops": 16, "inner_loops": 1000,
        "mem_max_rss": 12_537_856, "interlock_block": block, "interlock_process_user_s": 0.064694,
        "interlock_process_sys_s": 0.004976, "interlock_process_wall_s": 1.419305823, "interlock_estimator": "mean",
    }  # fmt: skip
    return RunData(values=[chance.lognormvariate(-17, 0.03) for _ in range(5)], metadata=metadata)


def record_of(host: str, variants: list[str], workloads: dict[str, Workload], *, is_cut: bool) -> Experiment:
    """The record of a host's experiment; of one that was cut the last workload has begun."""
    settings = Settings(
        quick=True, rounds=ROUNDS, seed=7, baseline=variants[0], variants=variants, workloads=WORKLOADS,
        profiled=False, variants_word="all", workloads_word="all",
    )  # fmt: skip
    engine = {"name": "docker", "version": "28.0", "storage_driver": "overlay2"}
    done = WORKLOADS[:-1] if is_cut else WORKLOADS
    return make_experiment(
        variants,
        name=NAME,
        settings=settings,
        host={**facts(), "folder": host, "engine": engine},
        images=[make_built(name) for name in variants],
        workloads=workloads,
        facts={label: make_facts() for label in variants},
        cells=[cell_of(label, name) for name in done for label in variants],
        order={name: [variants] * ROUNDS for name in done},
        times={name: Times(measuring_s=60) for name in done},
        unfinished=WORKLOADS[-1:] if is_cut else [],
        ended_by=KILLED if is_cut else "",
    )


def cell_of(label: str, workload: str) -> CellResult:
    return make_cell(label, workload, OK, benchmarks={BENCHMARK: OK}, times=Times(measuring_s=1))


def make_results(project: Path, host: str, variants: list[str], *, is_cut: bool) -> None:
    """Write a host's experiment: a file for each cell, and a journal of a workload that was cut."""
    chance, folder = random.Random(host), project / "results" / NAME / host
    known = {name: one for name, one in catalogs.load(project).workloads.items() if name in WORKLOADS}
    store.write_json(folder / EXPERIMENT_FILE, record_of(host, variants, known, is_cut=is_cut))
    for name in WORKLOADS[:-1] if is_cut else WORKLOADS:
        for label in variants:
            path = store.cell_path(folder, host, label, None, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            runs = [make_run(name, block, chance).model_dump() for block in range(1, ROUNDS + 1)]
            suite = {"version": "1.0", "benchmarks": [{"metadata": runs[0]["metadata"], "runs": runs}]}
            path.write_text(json.dumps(suite), encoding="utf-8")
    if is_cut:
        write_journal(folder, known[WORKLOADS[-1]], variants, chance)


def write_journal(folder: Path, cut: Workload, variants: list[str], chance: random.Random) -> None:
    journal = Journal(folder)
    journal.begin(cut, {})
    for block in range(1, ROUNDS):
        journal.add(
            JournalEntry(
                runs={label: {BENCHMARK: [make_run(cut.name, block, chance)]} for label in variants},
                cells=[cell_of(label, cut.name) for label in variants],
                order=[variants] * block,
                times=Times(measuring_s=block),
            )
        )
    journal.close()


def measured(project: Path, *words: str) -> str:
    """Run a command; return its seconds and MiB."""
    asked = [sys.executable, "-c", MEASURE, *command(*words)]
    done = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=True)
    code, took_s, peak_mib = json.loads(done.stdout)
    assert code == 0, done.stderr
    return f"{took_s:.1f} s, {peak_mib:.0f} MiB"


def took(project: Path, last: str, baseline: str) -> Iterator[str]:
    options = ["--variants", "all", "--workloads", "all", "--quick", "--baseline", baseline, "--no-profile"]
    yield measured(project, "matrix", *options, "--dry-run")
    yield measured(project, "matrix", "--resume", f"results/{NAME}/{last}", "--dry-run")
    yield measured(project, "report", f"{NAME}/{last}", "--html")
    yield measured(project, "report", NAME)
    yield measured(project, "export", NAME)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("hosts", HOSTS)
def test_what_commands_take(hosts: int, rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variants = [f"load-{number}" for number in range(rows)]
    project = make_project(tmp_path / "project", variants)
    names = [f"host-{number}" for number in range(hosts)]
    for name in names:
        make_results(project, name, variants, is_cut=name == names[-1])
    with capsys.disabled():
        print("\n| cells | hosts | plan | resume | page of a host | report | export |", flush=True)
        figures = " | ".join(took(project, names[-1], variants[0]))
        print(f"| {hosts * rows * len(WORKLOADS):,} | {hosts} | {figures} |", flush=True)
    shutil.rmtree(project)
