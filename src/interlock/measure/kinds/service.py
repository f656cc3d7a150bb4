"""Services of workloads: a run starts one, asks whether it is healthy, warms it up, puts load on it and stops it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from interlock.catalog.services import Load
from interlock.catalog.types import SCRATCH
from interlock.engine.ended import last_lines
from interlock.engine.protocol import FIXED_RATE, Sandbox
from interlock.errors import WorkloadError
from interlock.measure.kinds.kind import COMMAND_PHASE, Working
from interlock.measure.kinds.program import Program
from interlock.measure.services import (
    FIX_PROGRAM,
    HealthCheck,
    NoAnswerError,
    WrkRun,
    parse_fixed_rate,
    parse_wrk,
)
from interlock.measure.tracks import Result, Track
from interlock.results.experiments import Outcome, State

# Each cell has a network namespace of its own: no other program can have this port.
PORT = 8000
HEALTHY_S = 20
# How much longer than its duration a load may take.
MARGIN_S = 30
# How many characters of a wrong answer are shown.
SHOWN = 60
# Of a service that does not answer: how long it is watched while it is asked.
STANDS_STILL_S = 5


@dataclass(frozen=True)
class Running:
    """A service that runs in a cell: its track, where it is, its URL, and the run that ends with it."""

    track: Track
    load: Load
    sandbox: Sandbox
    url: str
    run: Future[Result]

    @property
    def load_s(self) -> int:
        """Return how long each load takes, in seconds."""
        return self.load.quick_s if self.track.session.resources.settings.quick else self.load.full_s

    @property
    def connections(self) -> str:
        return str(self.load.connections)

    def require_running(self) -> None:
        """Raise WorkloadError if it has ended."""
        if self.run.done():
            raise WorkloadError(found="it ended before it was stopped", todo=FIX_PROGRAM)

    def make_ready(self) -> None:
        """Wait until it gives the expected answer, and warm it up; WorkloadError says what it did instead."""
        answer, _ = HealthCheck(self.url, HEALTHY_S, self.track.session.network.ask, self.require_running).wait()
        missing = [text for text in self.track.benchmark.expected if text not in answer.body]
        if missing:
            wrong = f"its answer has no {missing[0]!r}, it is {answer.body[:SHOWN]!r}"
            raise WorkloadError(found=wrong, todo=FIX_PROGRAM)
        # So many requests over so many connections, until the first bad answer.
        parallel = ["--parallel", "--parallel-max", self.connections]
        many = f"{self.url}?[1-{self.load.warm_up_requests}]"
        self._put_load(["curl", "-s", "-S", "-f", "--fail-early", *parallel, "-o", "/dev/null", many])

    def load_fully(self) -> WrkRun:
        """Send as many requests as are answered, for the load's time; WorkloadError if some get no good answer."""
        argv = ["wrk", "-t", "1", "-c", self.connections, "-d", f"{self.load_s}s", "--latency", self.url]
        done = parse_wrk(self._put_load(argv, self.load_s))
        if done.problem:
            raise WorkloadError(found=done.problem, todo=FIX_PROGRAM)
        return done

    def measure(self) -> tuple[WrkRun, dict[str, float]]:
        """Measure latencies at a fixed rate, then throughput and CPU time at full load."""
        # A thread for each connection: the script keeps a timetable for each.
        each, script = ["-t", self.connections, "-c", self.connections], ["-s", FIXED_RATE, self.url]
        rate = f"{self.track.benchmark.rate_per_s or 1:g}"
        argv = ["wrk", *each, "-d", f"{self.load_s}s", *script, "--", rate, self.connections]
        fixed = parse_fixed_rate(self._put_load(argv, self.load_s))
        if fixed.problem:
            raise WorkloadError(found=fixed.problem, todo=FIX_PROGRAM)
        before = self.sandbox.cpu_used()
        done = self.load_fully()
        used = self.sandbox.cpu_used().since(before)
        cpu = {"work_cpu_s": used.total_s, "work_user_s": used.user_s, "work_sys_s": used.sys_s}
        return done, {**fixed.figures, **cpu}

    def work(self) -> int:
        """Load it fully, and return how many requests it has answered."""
        with self.sandbox.mark_work():
            return self.load_fully().requests

    def ask(self) -> int:
        """Ask it for a while although it does not answer."""
        end_s = time.monotonic() + STANDS_STILL_S
        with self.sandbox.mark_work():
            while time.monotonic() < end_s:
                self.track.session.network.ask(self.url)
        return 1

    def _put_load(self, argv: list[str], duration_s: float = 0) -> str:
        """Run a load and return what it printed; WorkloadError if it fails or the service ends."""
        ran = self.track.session.network.put_load(argv, duration_s + MARGIN_S)
        self.require_running()
        return ran.stdout


class Service(Program):
    """A program that serves until it is stopped; it reports how long it did."""

    is_tried = False
    needs_load = True
    phase = COMMAND_PHASE
    leaves_traces = True

    def is_in_order(self, track: Track) -> bool:
        return False

    def alone(self, track: Track, number: int) -> Result:
        """Start it, put load on it and stop it. The value is the load's time, per request, in seconds."""
        problem: WorkloadError | None = None
        measured: tuple[WrkRun, dict[str, float]] | None = None
        with self.running(track) as service:
            try:
                service.make_ready()
                measured = service.measure()
            except WorkloadError as error:
                problem = error
        result = service.run.result()
        outcome, output, ended = result.outcome, result.output, result.ended
        if isinstance(problem, NoAnswerError):
            # However it ended when it was stopped: what was printed is lost if it had to be killed.
            lines = "its output is lost, it had to be killed" if ended.timed_out else last_lines(ended.stderr)
            outcome = Outcome(state=State.TIMED_OUT, reason=f"'{track.name}': {problem.found}; {lines}")
        elif problem and outcome.state is State.OK:
            outcome = Outcome(state=State.FAILED, reason=f"'{track.name}': {problem.found}")
        if outcome.state is State.OK and output is not None and measured is not None:
            # The program itself only knows how long it served.
            load, figures = measured
            done = {"loops": load.requests, "values": [load.requests / load.per_second]}
            output = output.model_copy(update={**done, "metadata": {**output.metadata, **figures}})
        return replace(result, outcome=outcome, output=output)

    @contextmanager
    def working(self, track: Track, *, even_silent: bool = False) -> Iterator[Working]:
        with self.running(track) as service:
            work, stands_still = service.work, ""
            try:
                service.make_ready()
            except NoAnswerError as error:
                if not even_silent:
                    raise
                work, stands_still = service.ask, error.found
            yield Working(service.sandbox, work, stands_still)

    @contextmanager
    def running(self, track: Track) -> Iterator[Running]:
        """Start the service and stop it after the block, unless it has ended by then."""
        if self.workload.load is None:
            raise WorkloadError(
                file=self.workload.file, key="load", found="is missing for a service", todo="Add [load]."
            )
        sandbox = track.cell.slot().sandbox
        url = f"http://{sandbox.address()}:{PORT}/"
        with ThreadPoolExecutor(1) as pool:
            service = Running(track, self.workload.load, sandbox, url, pool.submit(self.run, track, self.argv(track)))
            try:
                yield service
            finally:
                if not service.run.done():
                    sandbox.stop_service(SCRATCH)
