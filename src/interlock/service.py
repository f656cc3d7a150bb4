"""A visit to a service: it is started in its cell, asked, warmed up, put under load and stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from interlock import loads, wrk
from interlock.engine import accounting, cells
from interlock.engine import loads as engine
from interlock.errors import WorkloadError
from interlock.model import SCRATCH, Benchmark, Load, Outcome, ProgramOutput, State
from interlock.stage import Cell, Stage, Start, interpreter_argv, run_in

# Each cell has a network of names and ports of its own: nothing else can have this one.
PORT = 8000
HEALTHY_S = 20
MARGIN_S = 30
SHOWN = 60

Ran = tuple[Outcome, ProgramOutput | None, cells.Ended]


class SilentError(WorkloadError):
    """A service that does not answer in time: in some builds its threads never run."""


@dataclass(frozen=True)
class Service:
    """A service that runs in a cell, and how it can be reached."""

    container: Any
    url: str
    ran: Future[Ran]

    def require_running(self) -> None:
        if self.ran.done():
            raise WorkloadError(found="it ended before it was stopped", todo="See the program.")


@contextmanager
def running(stage: Stage, benchmark: Benchmark, cell: Cell) -> Iterator[Service]:
    """The service, started; stopped after the block, which may leave once it has ended by itself."""
    start = Start(interpreter_argv(stage, cell, benchmark, "1", None), cell.subject.environment)
    container = cell.container
    address = cells.address_of(stage.stand.client, container, stage.network or "")
    with ThreadPoolExecutor(1) as pool:
        service = Service(container, f"http://{address}:{PORT}/", pool.submit(run_in, stage, cell, benchmark, start))
        try:
            yield service
        finally:
            if not service.ran.done():
                engine.stop(container, SCRATCH)


def visit(stage: Stage, benchmark: Benchmark, cell: Cell, *, calibrate: bool) -> Ran:
    """As a process's, its value the time that the load took, per request; the first round only shows that it works."""
    problem, figures = None, None
    with running(stage, benchmark, cell) as service:
        try:
            make_ready(stage, benchmark, service)
            figures = None if calibrate else _measure(stage, benchmark, service)
        except WorkloadError as error:
            problem = error
    outcome, output, ended = service.ran.result()
    if outcome.state is State.OK and problem:
        state = State.TIMED_OUT if isinstance(problem, SilentError) else State.FAILED
        outcome = Outcome(state=state, reason=f"'{benchmark.name}': {problem.found}")
    if outcome.state is State.OK and output is not None and figures is not None:
        output = _reported(output, *figures)
    return outcome, output, ended


def _reported(output: ProgramOutput, load: wrk.Load, metadata: Mapping[str, float]) -> ProgramOutput:
    """The program knows how long it served; how much, only the load does."""
    done = {"loops": load.requests, "values": [load.requests / load.per_second]}
    return output.model_copy(update={**done, "metadata": {**output.metadata, **metadata}})


def make_ready(stage: Stage, benchmark: Benchmark, service: Service) -> None:
    """Until it gives the expected answer and is warm; WorkloadError says what it did instead."""
    limit = time.monotonic() + HEALTHY_S
    while True:
        answer = engine.ask(stage.loader, service.url)
        if answer.is_good:
            break
        service.require_running()
        if time.monotonic() > limit and not answer.status:
            raise SilentError(found=f"nothing answered within {HEALTHY_S} s", todo="See the program.")
        if time.monotonic() > limit:
            found = f"it was not healthy after {HEALTHY_S} s: it answers with status {answer.status}"
            raise WorkloadError(found=found, todo="See the program.")
    missing = [text for text in benchmark.expected if text not in answer.body]
    if missing:
        raise WorkloadError(
            found=f"its answer has no {missing[0]!r}, it is {answer.body[:SHOWN]!r}", todo="See the program."
        )
    put(stage, service, loads.warm_up_argv(service.url, _load(stage).warm_up_requests))


def put(stage: Stage, service: Service, words: list[str], duration_s: float = 0) -> str:
    """What the load printed; WorkloadError if it or the service did not last."""
    printed = engine.put(stage.loader, words, duration_s + MARGIN_S)
    service.require_running()
    return printed


def load_fully(stage: Stage, service: Service) -> wrk.Load:
    """As many requests as are answered, for as long as the workload says; WorkloadError if some are not."""
    load, duration_s = _load(stage), seconds(stage)
    argv = loads.as_fast_as_answered_argv(service.url, load.connections, duration_s)
    done = wrk.parse(put(stage, service, argv, duration_s))
    if done.problem:
        raise WorkloadError(found=done.problem, todo="See the program.")
    return done


def _measure(stage: Stage, benchmark: Benchmark, service: Service) -> tuple[wrk.Load, dict[str, float]]:
    load = _load(stage)
    argv = loads.fixed_rate_argv(
        engine.FIXED_RATE, service.url, benchmark.rate_per_s or 1, load.connections, seconds(stage)
    )
    fixed = loads.parse(put(stage, service, argv, seconds(stage)))
    if fixed.problem:
        raise WorkloadError(found=fixed.problem, todo="See the program.")
    before = accounting.cpu_used(service.container)
    done = load_fully(stage, service)
    used = accounting.cpu_used(service.container).since(before)
    cpu = {"work_cpu_s": used.total_s, "work_user_s": used.user_s, "work_sys_s": used.sys_s}
    return done, {**fixed.figures, **cpu}


def seconds(stage: Stage) -> int:
    load = _load(stage)
    return load.quick_s if stage.stand.settings.quick else load.full_s


def _load(stage: Stage) -> Load:
    load = stage.workload.load
    if load is None:
        raise WorkloadError(key="load", found="it is no workload of services", todo="Add [load].")
    return load
