"""Services of workloads: a run starts one, asks whether it is healthy, warms it up, puts load on it and stops it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from statistics import fmean

from interlock.catalog.services import Load
from interlock.catalog.types import SCRATCH
from interlock.engine.ended import last_lines
from interlock.engine.protocol import FIXED_RATE, CpuUsed, Sandbox
from interlock.errors import WorkloadError
from interlock.measure.kinds.kind import COMMAND_PHASE, Working
from interlock.measure.kinds.program import Program
from interlock.measure.services import (
    FIX_PROGRAM,
    FixedRateRun,
    HealthCheck,
    NoAnswerError,
    WrkRun,
    in_turns,
    latency_figures,
    parse_fixed_rate,
    parse_wrk,
)
from interlock.measure.tracks import OnStart, Result, Track
from interlock.results.experiments import Outcome, ProgramOutput, State

# Each cell has a network namespace of its own: no other program can have this port.
PORT = 8000
HEALTHY_S = 20
# After SIGTERM: a service that has not ended by then is killed.
STOP_S = 20
# How much longer than its duration a load may take.
MARGIN_S = 30
# How many characters of a wrong answer are shown.
SHOWN = 60
# Of a service that does not answer: how long it is watched while it is asked.
STANDS_STILL_S = 5


@dataclass(frozen=True)
class Turn:
    """What a service has shown under load: at a fixed rate, then fully loaded, and its memory after that."""

    fixed: FixedRateRun
    full: WrkRun
    used: CpuUsed  # while it was fully loaded
    memory_bytes: int  # of all processes in its sandbox


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

    def stop(self) -> None:
        """Stop it unless it has ended."""
        if not self.run.done():
            self.sandbox.stop_service(SCRATCH)

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

    def take_turn(self) -> Turn:
        """Measure latencies at a fixed rate, then throughput and CPU time at full load."""
        # A thread for each connection: the script keeps a timetable for each.
        each, script = ["-t", self.connections, "-c", self.connections], ["-s", FIXED_RATE, self.url]
        rate = f"{self.track.benchmark.rate_per_s or 1:g}"
        argv = ["wrk", *each, "-d", f"{self.load_s}s", *script, "--", rate, self.connections]
        fixed = parse_fixed_rate(self._put_load(argv, self.load_s))
        if fixed.problem:
            raise WorkloadError(found=fixed.problem, todo=FIX_PROGRAM)
        before = self.sandbox.cpu_used()
        full = self.load_fully()
        return Turn(fixed, full, self.sandbox.cpu_used().since(before), self.sandbox.memory_bytes())

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


@dataclass
class Stay:
    """A row's service from its start to its end: what its turns have shown, and why it does not work."""

    service: Running
    turns: list[Turn] = field(default_factory=list)
    busy_s: float = 0.0  # what its start and its own turns took
    problem: WorkloadError | None = None

    def make_ready(self) -> None:
        with self._at_work():
            self.service.make_ready()

    def take_turn(self) -> None:
        if self.problem is None:
            with self._at_work():
                self.turns.append(self.service.take_turn())

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Note what it takes, and why it does not work: it is stopped then, not to disturb the others."""
        start_s = time.monotonic()
        try:
            yield
        except WorkloadError as error:
            self.problem = error
            self.service.stop()
        self.busy_s += time.monotonic() - start_s

    def result(self) -> Result:
        """Return what it has yielded, once it has ended."""
        result, name, problem = self.service.run.result(), self.service.track.name, self.problem
        outcome, output, ended = result.outcome, result.output, result.ended
        if isinstance(problem, NoAnswerError):
            # However it ended when it was stopped: what was printed is lost if it had to be killed.
            lines = "its output is lost, it had to be killed" if ended.timed_out else last_lines(ended.stderr)
            outcome = Outcome(state=State.TIMED_OUT, reason=f"'{name}': {problem.found}; {lines}")
        elif problem and outcome.state is State.OK:
            outcome = Outcome(state=State.FAILED, reason=f"'{name}': {problem.found}")
        if outcome.state is State.OK and output is not None and self.turns:
            output = self._loaded(output)
        return replace(result, outcome=outcome, output=output, busy_s=self.busy_s)

    def _loaded(self, output: ProgramOutput) -> ProgramOutput:
        """Return the report of a program, which only knows how long it served, with what its turns have shown.

        A value is the time of as many requests as a turn answered in the mean.
        """
        full, used = [turn.full for turn in self.turns], [turn.used for turn in self.turns]
        memory = [turn.memory_bytes for turn in self.turns]
        loops = round(fmean(run.requests for run in full))
        figures: dict[str, float | str | bool] = {
            **latency_figures([turn.fixed for turn in self.turns]),
            "work_cpu_s": sum(cpu.total_s for cpu in used),
            "work_user_s": sum(cpu.user_s for cpu in used),
            "work_sys_s": sum(cpu.sys_s for cpu in used),
            "memory_first_bytes": memory[0],
            "memory_bytes": memory[-1],
        }
        if len(memory) > 1:
            figures["memory_by_turn_bytes"] = " ".join(map(str, memory))
        # The CPU time that the program reports is of its whole life, not of the load.
        done = {"loops": loops, "values": [loops / run.per_second for run in full], "cpu": []}
        return output.model_copy(update={**done, "metadata": {**output.metadata, **figures}})


class Service(Program):
    """A program that serves until it is stopped; it reports how long it did."""

    is_tried = False
    needs_load = True
    phase = COMMAND_PHASE
    leaves_traces = True

    def is_in_order(self, track: Track) -> bool:
        """Return whether each start yields several values, which the rows take in turns while all are up."""
        return track.take.values > 1

    def alone(self, track: Track, number: int) -> Result:
        (result,) = self.block([track], number, lambda _: None)
        return result

    def block(self, tracks: Sequence[Track], number: int, on_start: OnStart) -> Iterator[Result]:
        """Keep the services of these rows up and put load on them in turns; yield what each has shown."""
        order, turns, stays = tracks[0].order(number), tracks[0].take.values, list[Stay]()
        with ExitStack() as ends:
            for track in order.sample(list(tracks), len(tracks)):
                on_start(track)
                service = ends.enter_context(self.running(track, turns * len(tracks)))
                stays.append(Stay(service))
                stays[-1].make_ready()
            for stay in in_turns(stays, turns, order):
                stay.take_turn()
        for stay in stays:
            yield stay.result()

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
    def running(self, track: Track, turns: int = 1) -> Iterator[Running]:
        """Start the service and stop it after the block, or kill it; its deadline is that of so many turns."""
        if self.workload.load is None:
            raise WorkloadError(
                file=self.workload.file, key="load", found="is missing for a service", todo="Add [load]."
            )
        sandbox = track.cell.slot().sandbox
        url = f"http://{sandbox.address()}:{PORT}/"
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(self.run, track, self.argv(track), deadline_s=turns * track.deadline_s)
            service = Running(track, self.workload.load, sandbox, url, run)
            try:
                yield service
            finally:
                service.stop()
                wait([run], STOP_S)
                if not run.done():
                    sandbox.kill_processes()
