"""Where a workload is measured: its network and server, a container for each cell, and processes started in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock import bring, instruments
from interlock.engine import cells
from interlock.engine.running import InContainers, OnHost, Running
from interlock.model import (
    Benchmark,
    BenchmarkProfile,
    Gil,
    Limit,
    Outcome,
    PackageSet,
    Probe,
    ProgramOutput,
    Repetition,
    Settings,
    State,
    Subject,
    Workload,
)
from interlock.provision import Provisions
from interlock.runs import OK, as_expected, judge, judge_set_up, told_of_all

PYTHON_PATH = "PYTHONPATH"
NOTHING_RUN = cells.Ended(0, "", "", False)


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

    client: Any  # of a container engine, or OnHost
    experiment: str
    folder: Path
    host: str
    volume: str
    server_image_id: str
    instruments_image_id: str
    limits_image_id: str
    load_image_id: str
    probe: Probe | None  # none if nothing is profiled
    settings: Settings
    on_step: Callable[[Step], None]
    provisions: Provisions = field(default_factory=Provisions)
    programs: frozenset[str] = frozenset()  # that cells have, by path below workloads/

    @property
    def running(self) -> Running:
        return self.client if isinstance(self.client, OnHost) else InContainers(self.client)


@dataclass(frozen=True)
class Stage:
    """One workload's surroundings: its network and server if it needs them."""

    stand: Stand
    workload: Workload
    network: str | None
    server: Any
    server_url: str | None
    loader: Any = None  # what puts load on a service

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
    limit: Limit | None = None  # that is measured instead of an interpreter
    ready: set[tuple[str, str]] = field(default_factory=set)  # containers with the benchmarks that are set up in them
    on_volume: Any = None  # another container of it, for benchmarks that are cold

    @property
    def containers(self) -> list[Any]:
        return [self.container, *([self.on_volume] if self.on_volume else [])]

    def note(self, text: str) -> None:
        """Each text once, whatever the number of processes that it is true of; nothing to say is empty."""
        if text and text not in self.notes:
            self.notes.append(text)

    def add(self, benchmark: Benchmark, run: Any) -> None:
        self.runs.setdefault(benchmark.name, []).append(run)

    def goes_on(self, benchmark: Benchmark) -> bool:
        if self.limit and benchmark.name not in self.limit.benchmarks:
            return False
        return self.outcomes.get(benchmark.name, OK).state is State.OK


@dataclass(frozen=True)
class Start:
    """What is started in a cell."""

    argv: list[str]
    environment: Mapping[str, str]
    repeat: int = 1
    parallel: int = 1
    may_idle: bool = False  # asked for no unit of work: the set-up that is taken off
    count_instructions: bool = False
    checks_output: bool = False  # of a command: whether it is as expected


def open_container(stage: Stage, subject: Subject) -> Any:
    stand = stage.stand
    packages = {one.volume: one.place for one in stand.provisions.of_workload(subject.variant, stage.workload)}
    options = cells.CellOptions(
        stand.experiment, instruments.IDLE, stand.volume, stage.network, subject.surroundings, packages
    )
    return stand.running.open(subject.image_id, options)


def interpreter_argv(stage: Stage, cell: Cell, benchmark: Benchmark, loops: str, take: Repetition | None) -> list[str]:
    """The interpreter's command line in this cell, its mode's options included."""
    argv = instruments.interpreter_argv(stage.workload, benchmark, _places(stage, cell, benchmark), loops, take)
    return bring.apart(stage.workload, instruments.with_options(argv, cell.subject.options))


def _places(stage: Stage, cell: Cell, benchmark: Benchmark) -> Mapping[str, str]:
    return instruments.places_of(stage.server_url, packages_of(stage, cell.subject, benchmark).site)


def packages_of(stage: Stage, subject: Subject, benchmark: Benchmark) -> PackageSet:
    return stage.stand.provisions.of(subject.variant, stage.workload, benchmark)


def _surrounded(stage: Stage, cell: Cell, benchmark: Benchmark, environment: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with which the benchmark's packages are found; a benchmark that has none gets nothing more."""
    packages = packages_of(stage, cell.subject, benchmark)
    return {**environment, PYTHON_PATH: packages.site} if packages.volume else environment


def run_in(
    stage: Stage, cell: Cell, benchmark: Benchmark, start: Start
) -> tuple[Outcome, ProgramOutput | None, cells.Ended]:
    """Starts a process under the launcher, once what the benchmark needs before is done in its container."""
    argv = instruments.launch_argv(
        start.argv,
        benchmark,
        start.repeat,
        parallel=start.parallel,
        count=start.count_instructions,
        keep_output=start.checks_output,
    )
    outcome, ended = _set_up(stage, cell, benchmark)
    if outcome.state is not State.OK:
        return outcome, None, ended
    ended = start_in(stage, cell, benchmark, argv, start.environment)
    outcome, output = judge(stage.workload, benchmark, ended, may_idle=start.may_idle)
    if outcome.state is State.OK:
        outcome = told_of_all(benchmark, ended, start.repeat)
    if start.checks_output and outcome.state is State.OK:
        outcome = as_expected(benchmark, ended)
    return outcome, output, ended


def _set_up(stage: Stage, cell: Cell, benchmark: Benchmark) -> tuple[Outcome, cells.Ended]:
    """What the benchmark needs before it can run: once in each container, not measured."""
    ready = (_container_for(stage, cell, benchmark).id, benchmark.name)
    if not benchmark.set_up or ready in cell.ready:
        return OK, NOTHING_RUN
    argv = instruments.set_up_argv(benchmark, _places(stage, cell, benchmark))
    argv = instruments.with_options(argv, cell.subject.options)
    ended = start_in(stage, cell, benchmark, argv, cell.subject.environment)
    cell.ready.add(ready)
    return judge_set_up(stage.workload, benchmark, ended), ended


def start_in(
    stage: Stage, cell: Cell, benchmark: Benchmark, argv: list[str], environment: Mapping[str, str]
) -> cells.Ended:
    """Runs a command line with the benchmark's packages; a cell that lost its container with it gets a new one."""
    ended = stage.stand.running.run(
        _container_for(stage, cell, benchmark),
        argv,
        stage.workload.deadline_of(benchmark),
        _surrounded(stage, cell, benchmark, environment),
    )
    if ended.took_container and benchmark.cold:
        cell.on_volume = None
    elif ended.took_container:
        cell.container = open_container(stage, cell.subject)
    return ended


def _container_for(stage: Stage, cell: Cell, benchmark: Benchmark) -> Any:
    """The cell's container; a cold benchmark gets one in which /usr/local is a volume.

    What a storage driver keeps in memory is out of sight, and the files of an image's layers are those of other
    containers too. A condition that has the interpreter elsewhere keeps it there.
    """
    if not benchmark.cold:
        return cell.container
    if cell.on_volume is None:
        surroundings = cell.subject.surroundings
        if surroundings.interpreter == "image":
            surroundings = surroundings.model_copy(update={"interpreter": "volume"})
        cell.on_volume = open_container(stage, cell.subject.model_copy(update={"surroundings": surroundings}))
    return cell.on_volume
