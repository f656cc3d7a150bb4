"""How long 80,000 cells take to be read, compared and reported, and how much memory. Prints; asserts no time.

200 hosts of four kinds x 20 variants x 20 workloads, made here. Needs 400 MB of disk, and five minutes in which nothing
else runs.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from interlock.analysis import cohorts, comparison
from interlock.analysis.cohorts import Extract, extract
from interlock.catalog.types import TWIN
from interlock.catalog.workloads import Workload
from interlock.report import comparisons
from interlock.report import experiment as report
from interlock.results import store
from interlock.results.experiments import BLOCK, ESTIMATOR, EXPERIMENT_FILE, Experiment
from tests.builders import make_cell, make_experiment, make_settings, make_workload

HOSTS, KINDS, VARIANTS, WORKLOADS = 200, 4, 20, 20
ROUNDS, VALUES = 10, 3
NAMES = [f"cpython-3.{number}" for number in range(VARIANTS)]
BASELINE = NAMES[0]
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each host's experiment."""
    folder, rng = tmp_path_factory.mktemp("fleet"), np.random.default_rng(11)
    for number in range(HOSTS):
        write_experiment(folder / f"host-{number:03}", number, rng)
    return folder


def write_experiment(folder: Path, number: int, rng: np.random.Generator) -> None:
    experiment = described(number)
    store.write_json(folder / EXPERIMENT_FILE, experiment)
    for cell in experiment.cells:
        path = store.cell_path(folder, "box", cell.variant, cell.mode, cell.workload)
        path.parent.mkdir(parents=True, exist_ok=True)
        speed = 1 + 0.05 * NAMES.index(cell.variant)
        path.write_text(suite(cell.workload, speed * np.exp(rng.normal(0, 0.03, (ROUNDS, VALUES)))), encoding="utf-8")


def described(number: int) -> Experiment:
    """One variant in four has a control besides the baseline: as many ratios a row as in the reference experiment."""
    workloads: dict[str, Workload] = {
        name: make_workload(name) for name in (f"load-{one:02}" for one in range(WORKLOADS))
    }
    host = {
        **make_experiment().host,
        "name": f"host-{number:03}",
        "cpu": f"Example CPU {9000 + number % KINDS}",
    }
    return make_experiment(
        NAMES,
        name=f"2026-11-21-{number:03}",
        started=f"2026-11-21T{number // 60:02}:{number % 60:02}:00+00:00",
        host=host,
        settings=make_settings(NAMES).model_copy(update={"workloads": list(workloads)}),
        workloads=workloads,
        controls=dict(zip(NAMES[3::4], NAMES[2::4], strict=True)),
        cells=[
            make_cell(name, load, mode=mode)
            for load in workloads
            for name, mode in [*((n, None) for n in NAMES), (BASELINE, TWIN)]
        ],
    )


def suite(workload: str, values: np.ndarray) -> str:
    """A cell's file as pyperf writes one of ours: a calibration and ten processes."""
    costs = {
        "interlock_process_involuntary_switches": 31.0,
        "interlock_process_sys_s": 0.011808,
        "interlock_process_user_s": 0.499849,
        "interlock_process_voluntary_switches": 310.0,
        "interlock_process_wall_s": 0.524819376,
        "mem_max_rss": 12414976,
    }
    first = {"metadata": {**costs, "calibrate_loops": 256}, "warmups": [[2**power, 7.4e-08] for power in range(9)]}
    rounds = [
        {"metadata": {**costs, BLOCK: block}, "values": row, "warmups": [[256, 5e-8]]}
        for block, row in enumerate((values * 1e-7).tolist())
    ]
    metadata = {"inner_loops": 10_000, "loops": 256, "name": f"{workload} uncontended", ESTIMATOR: "mean"}
    return json.dumps({"benchmarks": [{"metadata": metadata, "runs": [first, *rounds]}], "version": "1.0"})


def test_each_step_by_itself_on_one_core(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """CPU time of reading, comparing, every host's own report and the summary of each kind."""
    spent = dict.fromkeys(("read", "compare", "a report for each host", "summary of each kind"), 0.0)
    extracts: list[Extract] = []
    cells = 0
    for folder in store.experiments_in(fleet):
        start = time.process_time()
        experiment = store.read_experiment(folder)
        values = store.read_cell_values(folder, experiment)
        spent["read"] += (read := time.process_time()) - start
        tables = comparison.tables(experiment, values, {})
        extracts.append(extract(experiment, tables))
        spent["compare"] += (compared := time.process_time()) - read
        assert "cpython-3.19" in report.markdown(experiment, tables)
        spent["a report for each host"] += time.process_time() - compared
        cells += sum(cell.mode != TWIN for cell in experiment.cells)
    start = time.process_time()
    summaries = cohorts.kind_summaries(extracts)
    shown = comparisons.markdown([comparisons.hosts_document(one) for one in summaries])
    spent["summary of each kind"] += time.process_time() - start
    assert len(summaries) == KINDS
    assert shown.count("| cpython-3.19 | 1.9") == KINDS * (1 + WORKLOADS)
    with capsys.disabled():
        print(f"\n{cells} cells of {len(extracts)} hosts, CPU time")
        print(*(f"| {name} | {seconds:.1f} s |" for name, seconds in spent.items()), sep="\n")


@pytest.mark.parametrize("command", ["report", "report --markdown"])
def test_a_command_over_all_of_them(
    fleet: Path, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a user runs it, from nothing: the time by the clock, and the memory of all its processes together."""
    name, *options = command.split()
    arguments = [sys.executable, "-c", "from interlock.cli.main import main; main()", name, str(fleet), *options]
    cpu_s, start, peak_bytes = children_cpu_s(), time.perf_counter(), 0
    with (tmp_path / "output").open("wb") as output, subprocess.Popen(arguments, stdout=output) as process:
        while process.poll() is None:
            peak_bytes = max(peak_bytes, sum(rss_bytes(one) for one in family(process.pid)))
            time.sleep(0.02)
    seconds = time.perf_counter() - start
    assert process.returncode == 0
    assert "cpython-3.19" in (tmp_path / "output").read_text(encoding="utf-8")
    with capsys.disabled():
        used_s = children_cpu_s() - cpu_s
        print(f"\n| interlock {command} | {seconds:.1f} s | {used_s:.1f} s of CPU | {peak_bytes / 1e6:.0f} MB |")


def children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def family(pid: int) -> Iterator[int]:
    """A process and all that descend from it."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return
    for child in children:
        yield from family(int(child))


def rss_bytes(pid: int) -> int:
    """What of a process is in memory; pages that several share are counted for each."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0
