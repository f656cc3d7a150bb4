"""Services under load: a run starts one, asks whether it is healthy, warms it up, puts load on it and stops it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from interlock.catalog.services import Load
from interlock.catalog.types import SCRATCH, Data
from interlock.catalog.workloads import Benchmark
from interlock.engine.ended import last_lines
from interlock.engine.protocol import FIXED_RATE, Answer, Ended, Sandbox
from interlock.errors import WorkloadError, last_line
from interlock.measure.cells import Cell, Session, Start, interpreter_argv, run_in
from interlock.results.experiments import Outcome, ProgramOutput, State
from interlock.untrusted import parse_json

# Each cell has a network namespace of its own: no other program can have this port.
PORT = 8000
HEALTHY_S = 20
# How much longer than its duration a load may take.
MARGIN_S = 30
# How many characters of a wrong answer are shown.
SHOWN = 60
FIX_PROGRAM = "Correct the workload's program."

ServiceRun = tuple[Outcome, ProgramOutput | None, Ended]


class NoAnswerError(WorkloadError):
    """A service that does not answer in time: in some builds its threads never run."""


@dataclass(frozen=True)
class HealthCheck:
    """How a service is asked whether it is healthy: by its first good answer within `limit_s` seconds."""

    url: str
    limit_s: float
    ask: Callable[[str], Answer]  # for about a second
    require_running: Callable[[], None]
    any_answer: bool = False  # whether any status is good, not 2xx alone
    last_lines: Callable[[], str] | None = None  # of its log, where it can be read while it runs
    todo: str = FIX_PROGRAM


def wait_until_healthy(check: HealthCheck) -> tuple[Answer, float]:
    """Return the first good answer and the seconds until it came.

    Raise NoAnswerError if there is no answer in time, WorkloadError if there are only bad ones or the service ends.
    """
    start_s = time.monotonic()
    while True:
        answer = check.ask(check.url)
        passed_s = time.monotonic() - start_s
        if answer.is_good or (check.any_answer and answer.status):
            return answer, passed_s
        check.require_running()
        if passed_s > check.limit_s:
            break
    where = f"on port {urlsplit(check.url).port} in {check.limit_s:g} s"
    lines = f"; {check.last_lines()}" if check.last_lines else ""
    if not answer.status:
        raise NoAnswerError(found=f"no answer {where}{lines}", todo=check.todo)
    raise WorkloadError(found=f"no answer 2xx {where}, the last one has status {answer.status}{lines}", todo=check.todo)


@dataclass(frozen=True)
class Service:
    """A service that runs in a cell: where it is, its URL, and the run that ends with it."""

    sandbox: Sandbox
    url: str
    run: Future[ServiceRun]

    def require_running(self) -> None:
        """Raise WorkloadError if it has ended."""
        if self.run.done():
            raise WorkloadError(found="it ended before it was stopped", todo=FIX_PROGRAM)


@contextmanager
def running_service(session: Session, benchmark: Benchmark, cell: Cell) -> Iterator[Service]:
    """Start the service and stop it after the block, unless it has ended by then."""
    start = Start(interpreter_argv(session, cell, benchmark, "1", None), cell.subject.environment)
    sandbox = cell.sandbox
    url = f"http://{sandbox.address()}:{PORT}/"
    with ThreadPoolExecutor(1) as pool:
        service = Service(sandbox, url, pool.submit(run_in, session, cell, benchmark, start))
        try:
            yield service
        finally:
            if not service.run.done():
                sandbox.stop_service(SCRATCH)


def run_service(session: Session, benchmark: Benchmark, cell: Cell) -> ServiceRun:
    """Start the service, put load on it and stop it. The value is the load's time, per request, in seconds."""
    problem, figures = None, None
    with running_service(session, benchmark, cell) as service:
        try:
            make_ready(session, benchmark, service)
            figures = _measure(session, benchmark, service)
        except WorkloadError as error:
            problem = error
    outcome, output, ended = service.run.result()
    if isinstance(problem, NoAnswerError):
        # However it ended when it was stopped: what was printed is lost if it had to be killed.
        lines = "its output is lost, it had to be killed" if ended.timed_out else last_lines(ended.stderr)
        reason = f"'{benchmark.name}': {problem.found}; {lines}"
        outcome = Outcome(state=State.TIMED_OUT, reason=reason)
    elif problem and outcome.state is State.OK:
        outcome = Outcome(state=State.FAILED, reason=f"'{benchmark.name}': {problem.found}")
    if outcome.state is State.OK and output is not None and figures is not None:
        output = _with_load(output, *figures)
    return outcome, output, ended


def _with_load(output: ProgramOutput, load: WrkRun, metadata: Mapping[str, float]) -> ProgramOutput:
    """Return the program's report with the load's figures: the program itself only knows how long it served."""
    done = {"loops": load.requests, "values": [load.requests / load.per_second]}
    return output.model_copy(update={**done, "metadata": {**output.metadata, **metadata}})


def make_ready(session: Session, benchmark: Benchmark, service: Service) -> None:
    """Wait until the service gives the expected answer, and warm it up; WorkloadError says what it did instead."""
    check = HealthCheck(service.url, HEALTHY_S, session.network.ask, service.require_running)
    answer, _ = wait_until_healthy(check)
    missing = [text for text in benchmark.expected if text not in answer.body]
    if missing:
        raise WorkloadError(found=f"its answer has no {missing[0]!r}, it is {answer.body[:SHOWN]!r}", todo=FIX_PROGRAM)
    load = _load(session)
    put_load(session, service, warm_up_argv(service.url, load.warm_up_requests, load.connections))


def put_load(session: Session, service: Service, argv: list[str], duration_s: float = 0) -> str:
    """Run a load and return what it printed; WorkloadError if it fails or the service ends."""
    ran = session.network.put_load(argv, duration_s + MARGIN_S)
    service.require_running()
    return ran.stdout


def load_fully(session: Session, service: Service) -> WrkRun:
    """Send as many requests as are answered, for the workload's time; WorkloadError if some get no good answer."""
    load, duration_s = _load(session), load_duration_s(session)
    argv = as_fast_as_answered_argv(service.url, load.connections, duration_s)
    done = parse_wrk(put_load(session, service, argv, duration_s))
    if done.problem:
        raise WorkloadError(found=done.problem, todo=FIX_PROGRAM)
    return done


def _measure(session: Session, benchmark: Benchmark, service: Service) -> tuple[WrkRun, dict[str, float]]:
    """Measure latencies at a fixed rate, then throughput and CPU time at full load."""
    connections, duration_s = _load(session).connections, load_duration_s(session)
    argv = fixed_rate_argv(FIXED_RATE, service.url, benchmark.rate_per_s or 1, connections, duration_s)
    fixed = parse_fixed_rate(put_load(session, service, argv, duration_s))
    if fixed.problem:
        raise WorkloadError(found=fixed.problem, todo=FIX_PROGRAM)
    before = service.sandbox.cpu_used()
    done = load_fully(session, service)
    used = service.sandbox.cpu_used().since(before)
    cpu = {"work_cpu_s": used.total_s, "work_user_s": used.user_s, "work_sys_s": used.sys_s}
    return done, {**fixed.figures, **cpu}


def load_duration_s(session: Session) -> int:
    """Return how long each load of the workload takes, in seconds."""
    load = _load(session)
    return load.quick_s if session.resources.settings.quick else load.full_s


def _load(session: Session) -> Load:
    if session.workload.load is None:
        file = session.workload.file
        raise WorkloadError(file=file, key="load", found="is missing for a service", todo="Add [load].")
    return session.workload.load


FIXED_RATE_LINE = '{"interlock_load"'
# With fewer answers than this no answer is the slowest thousandth.
ENOUGH_FOR_P999 = 1000


class FixedRateRun(Data):
    """A load at a fixed rate. Latencies are seconds by percentile (nearest rank), counted from when a request was due.

    Counting from then includes the time that a request waits for a slow service ("coordinated omission",
    https://github.com/giltene/wrk2#acknowledgements).
    """

    requests: int = Field(ge=0)
    unanswered: int = Field(ge=0)
    bad_answers: int = Field(ge=0)
    broken: int = Field(ge=0)
    latency_s: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]

    @property
    def problem(self) -> str:
        """Return why these are not latencies of a working service; empty if they are."""
        if self.bad_answers:
            return f"{self.bad_answers} of {self.requests} answers at the fixed rate were neither 2xx nor 3xx"
        if self.broken:
            return f"{self.broken} connections broke at the fixed rate, with {self.requests} answers"
        return "" if self.requests else "no request at the fixed rate was answered"

    @property
    def figures(self) -> dict[str, float]:
        """Return latencies in seconds by key of a report's metadata; the 99.9th percentile needs 1000 answers."""
        keys = {"50": "latency_p50_s", "99": "latency_p99_s"}
        if self.requests + self.unanswered >= ENOUGH_FOR_P999:
            keys["99.9"] = "latency_p999_s"
        return {key: self.latency_s[percent] for percent, key in keys.items()}


def parse_fixed_rate(text: str) -> FixedRateRun:
    """Parse what dockerfiles/load/fixed-rate.lua prints at its end; WorkloadError if it is something else."""
    lines = [line for line in text.splitlines() if line.startswith(FIXED_RATE_LINE)]
    try:
        found = FixedRateRun.model_validate(parse_json(lines[-1])["interlock_load"])
        _ = found.problem or found.figures  # which are there if there is no problem
    except (IndexError, ValueError, KeyError, TypeError):
        raise WorkloadError(
            found=f"the load at a fixed rate printed no figures: {last_line(text)}",
            todo="Run dockerfiles/load/fixed-rate.lua by hand.",
        ) from None
    return found


def fixed_rate_argv(script: str, url: str, rate_per_s: float, connections: int, duration_s: int) -> list[str]:
    """Return wrk's command line with a thread for each connection: the script keeps a timetable for each."""
    many = str(connections)
    return [
        "wrk", "-t", many, "-c", many, "-d", f"{duration_s}s", "-s", script, url, "--", f"{rate_per_s:g}", many,
    ]  # fmt: skip


def as_fast_as_answered_argv(url: str, connections: int, duration_s: int) -> list[str]:
    """Return wrk's command line in which each connection sends a request once it has its answer."""
    return ["wrk", "-t", "1", "-c", str(connections), "-d", f"{duration_s}s", "--latency", url]


def warm_up_argv(url: str, requests: int, connections: int) -> list[str]:
    """Return curl's command line: so many requests over so many connections, until the first bad answer."""
    parallel = ["--parallel", "--parallel-max", str(connections)]
    return ["curl", "-s", "-S", "-f", "--fail-early", *parallel, "-o", "/dev/null", f"{url}?[1-{requests}]"]


WRK_RATE = re.compile(r"^Requests/sec:\s+([0-9.]{1,30})", re.MULTILINE)
WRK_REQUESTS = re.compile(r"^[ \t]*+([0-9]{1,18}) requests in ", re.MULTILINE)
WRK_LATENCY = re.compile(r"^[ \t]*+([0-9]+(?:\.[0-9]+)?)%[ \t]++([0-9.]{1,30})(us|ms|s|m|h)[ \t]*+$", re.MULTILINE)
WRK_BAD_ANSWERS = re.compile(r"^[ \t]*+Non-2xx or 3xx responses: ([0-9]{1,18})", re.MULTILINE)
WRK_SOCKET_ERRORS = re.compile(r"^[ \t]*+Socket errors: (.+)$", re.MULTILINE)
UNIT_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
WRK_TIMEOUT = "timeout"


@dataclass(frozen=True)
class WrkRun:
    """A run of wrk. Latencies are seconds by percentile; socket errors are counts by wrk's names for them."""

    requests: int
    per_second: float
    latency_s: dict[str, float]
    bad_answers: int
    socket_errors: dict[str, int]

    @property
    def problem(self) -> str:
        """Return why these are not figures of a working service; empty if they are.

        A late answer (wrk's timeout) is an answer with a high latency.
        """
        broken = {what: count for what, count in self.socket_errors.items() if count and what != WRK_TIMEOUT}
        if self.bad_answers:
            return f"{self.bad_answers} of {self.requests} answers were neither 2xx nor 3xx"
        if broken:
            errors = ", ".join(f"{what} {count}" for what, count in broken.items())
            return f"connections broke under the load ({errors}, with {self.requests} answers)"
        return "" if self.requests and self.per_second else "no request was answered within the load's time"


def parse_wrk(text: str) -> WrkRun:
    """Parse what `wrk --latency` prints at its end; WorkloadError if it is something else."""
    try:
        return _figures_of_wrk(text)
    except (ValueError, TypeError):  # of a line that is missing or is none of wrk's
        found = f"wrk printed no figures: {last_line(text)}"
        raise WorkloadError(key="--load", found=found, todo="Correct its options (`wrk --help`).") from None


def _figures_of_wrk(text: str) -> WrkRun:
    rate, done = WRK_RATE.search(text), WRK_REQUESTS.search(text)
    if rate is None or done is None:
        raise ValueError("it has no figures")
    bad, sockets = WRK_BAD_ANSWERS.search(text), WRK_SOCKET_ERRORS.search(text)
    pairs = [pair.rsplit(" ", 1) for pair in sockets[1].split(", ")] if sockets else []
    return WrkRun(
        requests=int(done[1]),
        per_second=float(rate[1]),
        latency_s={percent: float(value) * UNIT_S[unit] for percent, value, unit in WRK_LATENCY.findall(text)},
        bad_answers=int(bad[1]) if bad else 0,
        socket_errors={what: int(count) for what, count in pairs},
    )
