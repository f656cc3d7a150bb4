"""What the machine can do without an interpreter, measured in the rounds of a workload's cells."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from interlock import instruments, limits
from interlock.engine import cells
from interlock.model import Benchmark, Limit, State, Workload
from interlock.stage import Cell, Stage
from tests.builders import make_benchmark, make_cost, make_ended, make_stand, make_workload

LIMIT = {
    "name": "curl",
    "command": ["curl", "-o", "{scratch}/f", "{server}/single.bin"],
    "benchmarks": ["single"],
    "unit_count": 4,
}


def stage_of(workload: Workload) -> Stage:
    return Stage(make_stand(limits_image_id="sha256:limits"), workload, None, None, "http://10.0.0.2:8080")


@pytest.fixture
def workload() -> Workload:
    benchmarks = [make_benchmark("single", cpus="one", expected=[]), make_benchmark("many")]
    return make_workload(benchmarks=benchmarks, limits=[LIMIT])


@pytest.fixture
def stage(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> Stage:
    def start(client: Any, image_id: str, options: cells.CellOptions) -> Any:
        return SimpleNamespace(id=image_id)

    monkeypatch.setattr(cells, "start_cell", start)
    return stage_of(workload)


def answering(monkeypatch: pytest.MonkeyPatch, ended: cells.Ended) -> list[list[str]]:
    """What was started; each process ends so."""
    started: list[list[str]] = []

    def run(client: Any, container: Any, argv: list[str], *_: Any) -> cells.Ended:
        started.append(argv)
        return ended

    monkeypatch.setattr(cells, "run_process", run)
    return started


def costs(*walls: float) -> str:
    return "".join(f'{{"interlock_process": {make_cost(wall).model_dump_json()}}}\n' for wall in walls)


def test_each_limit_has_a_cell_in_the_image_of_limits_that_goes_on_in_its_benchmarks_alone(
    stage: Stage, workload: Workload
) -> None:
    (cell,) = limits.open_limits(stage)
    assert (cell.subject.label, cell.container.id) == ("limit+curl", "sha256:limits")
    assert [cell.goes_on(one) for one in workload.benchmarks] == [True, False]


def visit(stage: Stage, *, calibrate: bool = False) -> tuple[Cell, Benchmark]:
    (cell,) = limits.open_limits(stage)
    benchmark = stage.workload.benchmarks[0]
    limits.visit(stage, benchmark, cell, Limit.model_validate(LIMIT), calibrate=calibrate)
    return cell, benchmark


def test_a_visit_is_a_row_of_runs_pinned_as_the_benchmark_with_its_places_filled_in(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = answering(monkeypatch, make_ended(costs(8.0, 4.0, 6.0)))
    cell, benchmark = visit(stage)
    (argv,) = started
    assert argv[0] == instruments.LAUNCH
    assert argv[argv.index("--repeat") + 1] == "3"
    assert argv[argv.index("--cpu") + 1] == "last"
    assert argv[argv.index("--") + 1 :] == ["curl", "-o", "/scratch/f", "http://10.0.0.2:8080/single.bin"]
    (run,) = cell.runs[benchmark.name]
    # Seconds per unit of work: a run does four; the first one is a warm-up.
    assert run.values == (1.0, 1.5)


def test_the_first_round_only_shows_that_it_runs(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    started = answering(monkeypatch, make_ended(costs(8.0)))
    cell, benchmark = visit(stage, calibrate=True)
    assert started[0][started[0].index("--repeat") + 1] == "1"
    assert cell.runs == {}
    assert cell.goes_on(benchmark)


def test_output_that_was_cut_short_is_no_figure(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, make_ended(costs(8.0)))
    cell, benchmark = visit(stage)
    assert cell.outcomes[benchmark.name].reason == (
        "'single': its output was cut short: the launcher told of 1 of 3 processes"
    )
    assert cell.runs == {}


def test_a_limit_that_fails_says_why_and_is_not_visited_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, make_ended(stderr="curl: (7) Failed to connect\n", exit_code=7))
    cell, benchmark = visit(stage)
    outcome = cell.outcomes[benchmark.name]
    assert (outcome.state, outcome.reason) == (
        State.FAILED,
        "'single' ended with exit code 7: curl: (7) Failed to connect",
    )
    assert not cell.goes_on(benchmark)
