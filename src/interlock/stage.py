"""Where a workload is measured: its network and server, a container for each cell, and processes started in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import instruments
from interlock.engine import cells
from interlock.model import (
    Benchmark,
    BenchmarkProfile,
    Gil,
    Outcome,
    Probe,
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
    instruments_image_id: str
    probe: Probe | None  # none if nothing is profiled
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
    notes: list[str] = field(default_factory=list)
    gil: Gil | None = None  # the state in which its programs must start

    def note(self, text: str) -> None:
        """Each text once, whatever the number of processes that it is true of; nothing to say is empty."""
        if text and text not in self.notes:
            self.notes.append(text)

    def add(self, benchmark: Benchmark, run: Any) -> None:
        self.runs.setdefault(benchmark.name, []).append(run)

    def goes_on(self, benchmark: Benchmark) -> bool:
        return self.outcomes.get(benchmark.name, OK).state is State.OK


@dataclass(frozen=True)
class Start:
    """What is started in a cell."""

    argv: list[str]
    environment: Mapping[str, str]
    repeat: int = 1
    may_idle: bool = False  # asked for no unit of work: the set-up that is taken off
    count_instructions: bool = False


def open_container(stage: Stage, subject: Subject) -> Any:
    stand = stage.stand
    options = cells.CellOptions(stand.experiment, instruments.IDLE, stand.volume, stage.network, subject.surroundings)
    return cells.start_cell(stand.client, subject.image_id, options)


def interpreter_argv(stage: Stage, cell: Cell, benchmark: Benchmark, loops: str, take: Repetition | None) -> list[str]:
    """The interpreter's command line in this cell, its mode's options included."""
    argv = instruments.interpreter_argv(stage.workload, benchmark, stage.server_url, loops, take)
    return instruments.with_options(argv, cell.subject.options)


def run_in(
    stage: Stage, cell: Cell, benchmark: Benchmark, start: Start
) -> tuple[Outcome, ProgramOutput | None, cells.Ended]:
    """Starts a process under the launcher; a cell whose container was killed at the deadline gets a new one."""
    ended = cells.run_process(
        stage.stand.client,
        cell.container,
        instruments.launch_argv(start.argv, benchmark, start.repeat, count=start.count_instructions),
        stage.workload.deadline_s,
        start.environment,
    )
    if ended.timed_out:
        cell.container = open_container(stage, cell.subject)
    return *judge(stage.workload, benchmark, ended, may_idle=start.may_idle), ended
