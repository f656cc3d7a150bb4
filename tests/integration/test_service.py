"""Services under load in the real engine: what is known of one is what is measured."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from interlock.catalog.workloads import Workload
from interlock.engine.ended import Ended
from interlock.engine.run import execution, leftovers
from interlock.measure import processes
from interlock.measure.cells import open_session
from interlock.measure.kinds import service as services
from interlock.measure.kinds.choosing import kind_of_track
from interlock.measure.probes import best_probe
from interlock.measure.profiling import profile_of
from interlock.measure.pyperf_runs import program_run
from interlock.measure.sessions import Resources
from interlock.measure.tracks import Track
from interlock.results.experiments import Outcome, State
from tests.builders import ROOT, make_workload
from tests.integration.images import QUICK, Images
from tests.integration.resources import cell_of, make_resources, subject_of

OWNER = f"test-service-{uuid.uuid4().hex[:12]}"
WARM_UP = 17
CALLS = 7
# One request after the other, 10 ms each; after `--bad-from` of them the answers are errors.
KNOWN = """\
import protocol
import os, sys, time
import http.server
parser = protocol.new_parser("known")
parser.add_option("--sleep", type="float", default=0.01)
parser.add_option("--status", type="int", default=200)
parser.add_option("--bad-from", type="int", default=10 ** 9)
parser.add_option("--dies-at", type="int", default=10 ** 9)
parser.add_option("--deaf", action="store_true")
options = protocol.parse(parser)
dies_at = int(os.environ.get("DIES_AT", options.dies_at))
grown = []
count = {"answered": 0}
class Handler(http.server.BaseHTTPRequestHandler):
    wbufsize = -1
    def do_GET(self):
        time.sleep(options.sleep)
        for _ in range(CALLS):
            os.getppid()
        count["answered"] += 1
        grown.append(b"x" * int(os.environ.get("GROWS_BY", 0)))
        if count["answered"] >= dies_at:
            os.write(2, b"out of ideas\\n")
            os._exit(3)
        self.send_response(count["answered"] >= options.bad_from and 503 or options.status)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"answer 42")
    def log_message(self, *_):
        pass
def timed(_loops):
    import signal
    def stop(*_):
        if not options.deaf:
            raise SystemExit
    signal.signal(signal.SIGTERM, stop)
    open("/scratch/service.pid", "w").write(str(os.getpid()))
    start = time.time()
    try:
        http.server.HTTPServer(("", 8000), Handler).serve_forever()
    except SystemExit:
        pass
    work.metadata["answered"] = count["answered"]
    return time.time() - start
work = protocol.Work(timed, 1, {})
protocol.run(lambda _: work, options)
""".replace("CALLS", str(CALLS))
# SIGTERM comes while the real service has taken a connection that has no thread yet.
STOPPED = """\
import os, signal, socketserver, time
import service_app
def process_request(*_):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(1)
socketserver.ThreadingMixIn.process_request = process_request
service_app.main()
"""
REAL = ROOT / "workloads/service_app.py"


def workload(*arguments: str, expected: str = "answer 42", rate_per_s: float = 200, **changes: Any) -> Workload:
    benchmark = {
        "name": "known",
        "arguments": list(arguments),
        "expected": [expected],
        "rate_per_s": rate_per_s,
        "metric": {"label": "requests/s", "scale": 1, "inverse": True},
    }
    data: dict[str, Any] = {
        "kind": "service",
        "program": "known.py",
        "unit": "request",
        "deadline_s": 60,
        "quick": {"warmups": 0, "values": 1},
        "full": {"warmups": 0, "values": 1},
        "load": {"connections": 8, "warm_up_requests": WARM_UP, "quick_s": 1, "full_s": 1},
        "benchmarks": [benchmark],
    }
    return make_workload("known", **(data | changes))


@pytest.fixture(scope="module")
def resources(client: Any, built: Images) -> Iterator[Resources]:
    """What an experiment of these workloads has, set up once as an experiment does it."""
    files = {"known.py": KNOWN.encode(), "stopped.py": STOPPED.encode(), REAL.name: REAL.read_bytes()}
    try:
        yield make_resources(client, Path("unused"), built[QUICK], OWNER, files)
    finally:
        leftovers.clean_up(client, OWNER)


@contextmanager
def in_cells(
    resources: Resources, built: Images, wanted: Workload, *environments: dict[str, str]
) -> Iterator[list[Track]]:
    """Yield a track for each environment."""
    with open_session(resources, wanted) as session, ExitStack() as ends:
        subjects = [subject_of(built[QUICK], environment) for environment in environments]
        yield [ends.enter_context(cell_of(session, subject)).tracks["known"] for subject in subjects]


@contextmanager
def in_session(resources: Resources, built: Images, wanted: Workload) -> Iterator[Track]:
    with in_cells(resources, built, wanted, {}) as (track,):
        yield track


@pytest.fixture
def run_once(resources: Resources, built: Images, nothing_left: None) -> Any:
    def go(*arguments: str, **changes: Any) -> tuple[Outcome, Any, Ended]:
        with in_session(resources, built, workload(*arguments, **changes)) as track:
            result = kind_of_track(track).alone(track, 1)
            return result.outcome, result.output, result.ended

    return go


def test_a_service_of_10_ms_at_a_time_answers_at_most_a_hundred_per_second_and_hides_no_latency(
    run_once: Any,
) -> None:
    outcome, output, ended = run_once()
    assert outcome.state is State.OK, outcome
    metadata, known = output.metadata, workload()
    (seconds,) = output.values
    assert seconds / output.loops >= 0.01
    # Due 200 times a second and done 100 times the k-th is late by k / 200 s.
    assert metadata["latency_p50_s"] >= 0.2
    assert metadata["latency_p99_s"] >= metadata["latency_p50_s"]
    # Of the unfinished ones at most one per connection and load is not in the figures.
    assert output.loops <= metadata["answered"] - 1 - WARM_UP
    assert 0 < metadata["work_cpu_s"] < seconds
    run = program_run(known, known.benchmarks[0], output, processes.parse_costs(ended.stdout)[-1])
    assert run.get_metadata()["interlock_work_cpu_s"] == metadata["work_cpu_s"]
    assert min(metadata["work_user_s"], metadata["work_sys_s"]) >= 0


def test_the_engine_starts_nothing_but_the_service(run_once: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process that the engine starts takes 50 to 75 ms: seven of them were a ninth of a visit."""
    executed: list[Any] = []
    plain = execution.execute

    def execute(*parts: Any, **options: Any) -> Any:
        executed.append(parts)
        return plain(*parts, **options)

    monkeypatch.setattr(execution, "execute", execute)
    outcome, *_ = run_once()
    assert outcome.state is State.OK, outcome
    assert len(executed) == 1


def test_a_latency_is_that_of_an_answer_where_the_rate_can_be_kept(run_once: Any) -> None:
    outcome, output, _ = run_once(rate_per_s=10)
    assert outcome.state is State.OK, outcome
    assert output.metadata["latency_p50_s"] >= 0.01


@pytest.mark.parametrize(
    ("arguments", "expected", "facts"),
    [
        (["--status", "404"], "answer 42", r"\bport 8000\b.*\b3 s\b.*\b404\b"),
        ([], "answer 43", r"'answer 43'.*'answer 42'"),
        (["--bad-from", "5"], "answer 42", r"\b503\b"),
        (["--bad-from", "30"], "answer 42", r"\b\d+ of \d+ "),
        (["--dies-at", "30"], "answer 42", r"\b3\b.*: out of ideas"),
        (["--dies-at", "1"], "answer 42", r"\b3\b.*: out of ideas"),
    ],
)
def test_a_service_that_does_not_work_fails_with_a_sentence(
    run_once: Any, monkeypatch: pytest.MonkeyPatch, arguments: list[str], expected: str, facts: str
) -> None:
    if "--status" in arguments:  # the one that is waited for in vain
        monkeypatch.setattr(services, "HEALTHY_S", 3)
    outcome, _, _ = run_once(*arguments, expected=expected)
    assert outcome.state is State.FAILED
    assert re.match(f"'known'.*{facts}", outcome.reason), outcome.reason


def test_a_service_that_never_answers_timed_out(run_once: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "HEALTHY_S", 1)
    outcome, _, _ = run_once("--sleep", "300", deadline_s=12)
    assert outcome.state is State.TIMED_OUT
    assert re.match(r"'known'.*\bport 8000\b.*\b1 s\b", outcome.reason), outcome.reason


def test_a_service_that_neither_answers_nor_stops_is_killed_and_its_sandbox_serves_on(
    resources: Resources, built: Images, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took its deadline, which is that of all turns of all rows."""
    monkeypatch.setattr(services, "HEALTHY_S", 1)
    monkeypatch.setattr(services, "STOP_S", 1)
    hung = workload("--deaf", "--sleep", "300", deadline_s=120, quick={"warmups": 0, "values": 5})
    with in_session(resources, built, hung) as track:
        sandbox = track.cell.slot().sandbox
        start_s = time.monotonic()
        (result,) = kind_of_track(track).block([track], 1, lambda _: None)
        assert time.monotonic() - start_s < 60
        assert result.outcome.state is State.TIMED_OUT, result.outcome
        assert track.cell.slot().sandbox is sandbox
        assert sandbox.run(["true"], 10).exit_code == 0


def test_a_service_that_is_stopped_before_its_request_has_a_thread_ends_as_one_that_is_stopped(run_once: Any) -> None:
    outcome, output, ended = run_once("--scratch", "/scratch", program="stopped.py")
    assert outcome.state is State.FAILED
    assert outcome.reason.startswith("'known'")
    assert output is not None
    assert ended.exit_code == 0


TURNS, GROWS_BY = 3, 100_000
# In its second turn: it takes 10 ms for each of eight connections' requests.
DIES_AT = WARM_UP + 200


@pytest.mark.usefixtures("nothing_left")
def test_services_that_stay_up_take_the_load_in_turns_and_show_their_memory(
    resources: Resources, built: Images
) -> None:
    staying = workload(full={"warmups": 0, "values": TURNS}, quick={"warmups": 0, "values": TURNS}, rate_per_s=50)
    started: list[Track] = []
    growing, dying = {"GROWS_BY": str(GROWS_BY)}, {"DIES_AT": str(DIES_AT)}
    with in_cells(resources, built, staying, growing, dying) as tracks:
        kind = kind_of_track(tracks[0])
        assert kind.is_in_order(tracks[0])
        found = {result.track: result for result in kind.block(tracks, 1, started.append)}
    assert set(started) == set(found) == set(tracks)
    grown, died = (found[track] for track in tracks)
    # One process alone: all that its turns answered is in its memory.
    assert grown.outcome.state is State.OK, grown.outcome
    assert grown.output is not None
    assert len(grown.costs) == 1
    assert len(grown.output.values) == TURNS
    metadata = grown.output.metadata
    by_turn = [int(text) for text in str(metadata["memory_by_turn_bytes"]).split()]
    assert [by_turn[0], by_turn[-1]] == [metadata["memory_first_bytes"], metadata["memory_bytes"]]
    per_turn = GROWS_BY * grown.output.loops
    assert all(after - before >= 0.9 * per_turn for before, after in pairwise(by_turn))
    # What each of them took of its turns alone: two loads of a second each.
    assert grown.busy_s is not None
    assert 2 * TURNS <= grown.busy_s < 4 * TURNS
    assert died.outcome.state is State.FAILED
    assert "out of ideas" in died.outcome.reason


@pytest.mark.usefixtures("nothing_left", "alone_on_the_machine")
def test_system_calls_of_a_service_are_counted_per_request(resources: Resources, built: Images) -> None:
    with in_session(resources, built, workload("--sleep", "0")) as track:
        found = profile_of(track, best_probe(resources.workspace))
    calls = found.phases[found.counted].syscalls["getppid"].calls
    # Requests that were under way when the load ended are counted, but are none of its.
    assert CALLS * found.units <= calls <= CALLS * (found.units + 8)
