"""A process that writes the journal of an experiment until it is killed, and says each block that is on the disk.

python -m tests.results.writer FOLDER FIRST_BLOCK
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from interlock.results import store
from interlock.results.experiments import EXPERIMENT_FILE, Experiment, Outcome, State, Times
from interlock.results.journal import KILLED, Journal, JournalEntry, RunData
from interlock.results.store import read_runs
from tests.builders import OK, make_cell, make_experiment, make_settings, make_workload

NOT_MEASURED = Outcome(state=State.NOT_MEASURED, reason="the end came first")
LABELS = ("base", "a")
NAMES = ["locks", "startup"]


def begun() -> Experiment:
    """An experiment of two workloads of which nothing is measured."""
    settings = make_settings(LABELS).model_copy(update={"workloads": NAMES})
    cells = [make_cell(label, name, NOT_MEASURED) for name in NAMES for label in LABELS]
    workloads = {name: make_workload(name) for name in NAMES}
    return make_experiment(LABELS, settings=settings, cells=cells, workloads=workloads, facts={}, ended_by=KILLED)


def value_of(block: int, label: str) -> float:
    return (block + 0.5) / 1000 + LABELS.index(label)


def can_mount() -> bool:
    """Whether a test may mount in a name space of its own."""
    return subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


def files_of(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def run_of(block: int, label: str, workload: str = "locks") -> RunData:
    """The run of a block, whose value says which one it is."""
    metadata = {
        "name": f"{workload} uncontended", "unit": "second", "loops": 1, "inner_loops": 1, "mem_max_rss": 1,
        "interlock_block": block, "interlock_process_user_s": 1.0, "interlock_process_sys_s": 0.5,
        "interlock_estimator": "mean",
    }  # fmt: skip
    return RunData(values=[value_of(block, label)], metadata=metadata)


def entry_of(first: int, block: int) -> JournalEntry:
    return JournalEntry(
        runs={label: {"uncontended": [run_of(block, label)]} for label in LABELS},
        cells=[make_cell(label, "locks", OK, benchmarks={"uncontended": OK}) for label in LABELS],
        order=[list(LABELS)] * (block - first + 1),
        times=Times(measuring_s=block - first + 1),
    )


def write(folder: Path, first: int) -> None:
    if not (folder / EXPERIMENT_FILE).is_file():
        store.write_json(folder / EXPERIMENT_FILE, begun())
    journal = Journal(folder)
    journal.begin(make_workload("locks"), {})
    block = first
    while True:
        journal.add(entry_of(first, block))
        print(block, flush=True)
        block += 1


if __name__ == "__main__":
    there = Path(sys.argv[1])
    known = read_runs(store.cell_path(there, "box", "base", None, "locks")).get("uncontended", [])
    write(there, len(known) + 1)
