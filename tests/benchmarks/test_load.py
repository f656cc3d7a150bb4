"""How seconds of CPU and memory grow with an experiment's cells: planned, resumed, reported, exported. Prints.

60 variants in 1, 12 and 119 modes by 14 workloads, four rounds each: 840, 10,080 and 99,960 cells. SIGKILL cut the
last workload: its cells are in the journal, the others in a file each. Each command is a process of its own, so that
its peak of memory is its own. `INTERLOCK_MODES=1,12` leaves the largest out. Needs an engine, which builds nothing.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlock.catalog import project as catalogs
from interlock.catalog.types import split_label
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
VARIANTS = [f"load-{number}" for number in range(60)]
WORKLOADS = [f"work-{number:02}" for number in range(14)]
MODES = [int(modes) for modes in os.environ.get("INTERLOCK_MODES", "1,12,119").split(",")]
MODE = '\n[[modes]]\nname = "m{0}"\nsummary = "mode {0}"\nenvironment = {{ MODE = "{0}" }}\n'
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


def make_project(folder: Path, modes: int) -> Path:
    """A project of these variants, modes and workloads alone."""
    project = copy_project(ROOT, folder, [QUICK], [])
    path = project / "variants" / f"{QUICK}.toml"
    text = path.read_text(encoding="utf-8")
    path.unlink()
    for name in VARIANTS:
        more = "".join(MODE.format(number) for number in range(1, modes))
        own = text.replace('tag = "', f'tag = "{name}-', 1)
        (project / "variants" / f"{name}.toml").write_text(own + more, encoding="utf-8")
    for name in WORKLOADS:
        (project / "workloads" / f"{name}.toml").write_text(WORKLOAD, encoding="utf-8")
    return project


def make_run(workload: str, block: int, chance: random.Random) -> RunData:
    """A process of a block: five values, and what the launcher read."""
    metadata = {
        "name": f"{workload} {BENCHMARK}", "unit": "second", "loops": 16, "inner_loops": 1000,
        "mem_max_rss": 12_537_856, "interlock_block": block, "interlock_process_user_s": 0.064694, "interlock_process_sys_s": 0.004976,
        "interlock_process_wall_s": 1.419305823, "interlock_estimator": "median",
    }  # fmt: skip
    return RunData(values=[chance.lognormvariate(-17, 0.03) for _ in range(5)], metadata=metadata)


def record_of(labels: list[str], workloads: dict[str, Workload]) -> Experiment:
    """The record of an experiment whose last workload has begun."""
    settings = Settings(
        quick=True, rounds=ROUNDS, seed=7, baseline=labels[0], variants=labels, workloads=WORKLOADS, profiled=False,
        variants_word="all", workloads_word="all",
    )  # fmt: skip
    engine = {"name": "docker", "version": "28.0", "storage_driver": "overlay2"}
    done = WORKLOADS[:-1]
    return make_experiment(
        VARIANTS,
        name=NAME,
        settings=settings,
        host={**facts(), "folder": "box", "engine": engine},
        images=[make_built(name) for name in VARIANTS],
        workloads=workloads,
        facts={label: make_facts() for label in labels},
        cells=[cell_of(label, name) for name in done for label in labels],
        order={name: [labels] * ROUNDS for name in done},
        times={name: Times(measuring_s=60) for name in done},
        unfinished=WORKLOADS[-1:],
        ended_by=KILLED,
    )


def cell_of(label: str, workload: str) -> CellResult:
    variant, mode = split_label(label)
    return make_cell(variant, workload, OK, mode=mode, benchmarks={BENCHMARK: OK}, times=Times(measuring_s=1))


def make_results(project: Path, labels: list[str]) -> None:
    """Write the experiment: a file for each cell of thirteen workloads, a journal of the last one."""
    chance, folder = random.Random(7), project / "results" / NAME
    folder.mkdir()
    known = catalogs.load(project).workloads
    store.write_json(folder / EXPERIMENT_FILE, record_of(labels, {name: known[name] for name in WORKLOADS}))
    for name in WORKLOADS[:-1]:
        for label in labels:
            path = store.cell_path(folder, "box", *split_label(label), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            runs = [make_run(name, block, chance).model_dump() for block in range(1, ROUNDS + 1)]
            path.write_text(
                json.dumps({"version": "1.0", "benchmarks": [{"metadata": runs[0]["metadata"], "runs": runs}]}),
                encoding="utf-8",
            )
    cut, journal = WORKLOADS[-1], Journal(folder)
    journal.begin(known[cut], {})
    for block in range(1, ROUNDS):
        journal.add(
            JournalEntry(
                runs={label: {BENCHMARK: [make_run(cut, block, chance)]} for label in labels},
                cells=[cell_of(label, cut) for label in labels],
                order=[labels] * block,
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


def took(project: Path) -> Iterator[str]:
    options = ["--variants", "all", "--workloads", "all", "--quick", "--baseline", VARIANTS[0], "--no-profile"]
    yield measured(project, "matrix", *options, "--dry-run")
    yield measured(project, "matrix", "--resume", NAME, "--dry-run")
    yield measured(project, "report", NAME)
    yield measured(project, "report", NAME, "--html")
    yield measured(project, "export", NAME)


@pytest.mark.parametrize("modes", MODES)
def test_what_commands_take(modes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = make_project(tmp_path / "project", modes)
    labels = [f"{name}+m{mode}" if mode else name for name in VARIANTS for mode in range(modes)]
    make_results(project, labels)
    with capsys.disabled():
        print("\n| cells | plan | resume | report | page | export |" if modes == MODES[0] else "", flush=True)
        print(f"| {len(labels) * len(WORKLOADS):,} | {' | '.join(took(project))} |", end="", flush=True)
