"""Limits in the real engine: measured in the rounds of the cells, in an image of their own, beside no variant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from interlock import catalog as catalogs
from interlock import compare, experiment, store
from interlock.model import Built, Settings, State
from interlock.skipped import skipped
from tests.integration.toys import copy_project

# What a program of any kind takes at least: a sleep of a known length, for two units of work.
WORKLOAD = """
summary = "locks that nobody else wants, beside two commands"
program = "locks.py"
unit = "loop"
deadline_s = 60
quick = { warmups = 0, values = 2 }
full = { warmups = 0, values = 2 }
details = [{ label = "switches per loop", of = "work_voluntary_switches", per = "unit" }]
[[benchmarks]]
name = "uncontended"
arguments = ["--what", "uncontended"]
metric = { label = "ns", scale = 1e9 }
[[benchmarks]]
name = "slow"
full_only = true
arguments = ["--what", "queue"]
metric = { label = "ns", scale = 1e9 }
[[limits]]
name = "sleep"
command = ["sh", "-c", "sleep 0.2 && echo > {scratch}/done"]
benchmarks = ["uncontended", "slow"]
unit_count = 2
[[limits]]
name = "broken"
command = ["sh", "-c", "echo no such disk >&2; exit 3"]
benchmarks = ["uncontended"]
unit_count = 1
"""


@pytest.mark.usefixtures("nothing_left")
def test_a_limit_is_measured_in_every_round_and_one_that_fails_stops_nothing(
    client: Any, root: Path, built: dict[str, Built], tmp_path: Path
) -> None:
    project = copy_project(root, tmp_path / "project", ["cpython-2.7"], [])
    (project / "workloads/few-locks.toml").write_text(WORKLOAD)
    settings = Settings(
        quick=True, rounds=2, seed=1, baseline="cpython-2.7", profile="standard", variants=["cpython-2.7"],
        workloads=["few-locks"], profiled=False,
    )  # fmt: skip
    assignment = experiment.Assignment(
        catalogs.load(project), project, project / "results", [built["cpython-2.7"]], settings, "a test"
    )
    folder = experiment.run(client, assignment, lambda _: None)
    described = store.read_experiment(folder)
    assert {cell.label: cell.outcome.state for cell in described.limits} == {
        "limit+sleep": State.OK,
        "limit+broken": State.FAILED,
    }
    assert [cell.label for cell in described.cells] == ["cpython-2.7", "cpython-2.7+twin"]
    assert [sorted(visited) for visited in described.order["few-locks"]] == [
        ["cpython-2.7", "cpython-2.7+twin", "limit+broken", "limit+sleep"]
    ] * 3
    assert described.left_out == {"few-locks": ["slow"]}
    values, profiles = store.read_cells(folder, described)
    sleep = values["limit+sleep", "few-locks"]["uncontended"]
    # Two rounds of two values: a tenth of a second for each of two units, and what the start takes.
    assert [len(process) for process in sleep.processes] == [2, 2]
    assert all(0.1 <= value < 0.5 for process in sleep.processes for value in process)
    (table,) = compare.tables(described, values, profiles)
    assert table.best_limit
    assert table.best_limit.label == "limit+sleep"
    assert all(row.share and row.share.estimate > 100 for row in table.rows)
    # A sleep and its shell wait at least once for each other; a lock that nobody wants never waits.
    figures = {row.label: row.details[0] for row in (*table.rows, *table.limits)}
    sleeping, own = figures["limit+sleep"], figures["cpython-2.7"]
    assert sleeping
    assert own
    assert sleeping.value >= 0.5
    assert own.value < 0.01
    assert skipped(described) == ["limit+broken / few-locks / uncontended: failed: "
                                  "'uncontended' ended with exit code 3: no such disk"]  # fmt: skip
