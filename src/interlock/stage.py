"""Where a workload is measured: its network and server, a container for each cell, and processes started in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import instruments
from interlock.engine import cells
from interlock.model import (
    Benchmark,
    BenchmarkProfile,
    Outcome,
    ProgramOutput,
    Repetition,
    Settings,
    State,
    Subject,
    Workload,
)
from interlock.runs import OK, judge


@dataclass(frozen=True)
class Step:
    """One process that is about to run, for the progress display."""

    stage: str
    workload: str
    subject: str
    number: int
    total: int


@dataclass(frozen=True)
class Stand:
    """What cells need to run: made once for an experiment."""

    client: Any
    experiment: str
    folder: Path
    host: str
    volume: str
    server_image_id: str
    settings: Settings
    on_step: Callable[[Step], None]


@dataclass(frozen=True)
class Stage:
    """One workload's surroundings: its network and server if it needs them."""

    stand: Stand
    workload: Workload
    network: str | None
    server: Any
    server_url: str | None

    def take(self) -> Repetition:
        return self.workload.quick if self.stand.settings.quick else self.workload.full


@dataclass
class Cell:
    """A cell while it is being measured: its container, and what came of each benchmark."""

    subject: Subject
    container: Any
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    loops: dict[str, int] = field(default_factory=dict)
    runs: dict[str, list[Any]] = field(default_factory=dict)
    profiles: dict[str, BenchmarkProfile] = field(default_factory=dict)
    profile_problem: str = ""

    def add(self, benchmark: Benchmark, run: Any) -> None:
        self.runs.setdefault(benchmark.name, []).append(run)

    def goes_on(self, benchmark: Benchmark) -> bool:
        return self.outcomes.get(benchmark.name, OK).state is State.OK


def open_container(stage: Stage, subject: Subject) -> Any:
    stand = stage.stand
    options = cells.CellOptions(stand.experiment, instruments.IDLE, stand.volume, stage.network)
    return cells.start_cell(stand.client, subject.image_id, options)


def run_in(
    stage: Stage, cell: Cell, benchmark: Benchmark, argv: list[str], repeat: int = 1
) -> tuple[Outcome, ProgramOutput | None, cells.Ended]:
    """Runs argv under the launcher; a cell whose container was killed at the deadline gets a new one."""
    ended = cells.run_process(
        stage.stand.client,
        cell.container,
        instruments.launch_argv(argv, benchmark, repeat),
        stage.workload.deadline_s,
    )
    if ended.timed_out:
        cell.container = open_container(stage, cell.subject)
    return *judge(stage.workload, benchmark, ended, traced=argv[0] == instruments.STRACE[0]), ended
