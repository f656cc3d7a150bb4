"""Whether a service is healthy, and reading what the loads on it print."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.engine.protocol import Answer
from interlock.errors import WorkloadError
from interlock.measure import services
from interlock.measure.services import HealthCheck, NoAnswerError, parse_wrk

# wrk 4.1.0 as Debian has it.
GOOD = """\
Running 1s test @ http://172.17.0.4:8000/ok
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    42.69ms    9.13ms  51.93ms   92.39%
    Req/Sec    92.10     19.48   121.00     70.00%
  Latency Distribution
     50%  900.00us
     75%   44.04ms
     90%    1.10s
     99%    1.50m
  92 requests in 1.00s, 10.86KB read
Requests/sec:     91.93
Transfer/sec:     10.85KB
"""
BAD = GOOD.replace("Requests/sec", "  Non-2xx or 3xx responses: 100\nRequests/sec")
DROPPED = GOOD.replace("Requests/sec", "  Socket errors: connect 0, read 2824, write 1, timeout 3\nRequests/sec")
LATE = GOOD.replace("Requests/sec", "  Socket errors: connect 0, read 0, write 0, timeout 3\nRequests/sec")
NONE = """\
Running 1s test @ http://172.17.0.4:8000/
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     0.00us    0.00us   0.00us    -nan%
    Req/Sec     0.00      0.00     0.00      -nan%
  Latency Distribution
     50%    0.00us
     99%    0.00us
  0 requests in 1.01s, 0.00B read
Requests/sec:      0.00
Transfer/sec:       0.00B
"""


def test_rate_requests_and_latencies_are_read_in_seconds() -> None:
    load = parse_wrk(GOOD)
    assert (load.requests, load.per_second) == (92, 91.93)
    assert load.latency_s == {"50": pytest.approx(0.0009), "75": 0.04404, "90": 1.1, "99": 90.0}
    assert load.problem == ""


@pytest.mark.parametrize(
    ("text", "numbers"), [(BAD, ["100", "92", "2", "3"]), (DROPPED, ["2824", "1", "92"]), (NONE, [])]
)
def test_answers_that_are_errors_broken_connections_and_no_answer_at_all_are_a_problem(
    text: str, numbers: list[str]
) -> None:
    problem = parse_wrk(text).problem
    assert problem
    assert re.findall(r"\d+", problem) == numbers


def test_late_answers_are_answers() -> None:
    load = parse_wrk(LATE)
    assert load.socket_errors["timeout"] == 3
    assert load.problem == ""


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("", "nothing"),
        ("unable to connect to 172.17.0.4:8001 Connection refused\n", "refused"),
        ("Usage: wrk", "Usage"),
        (DROPPED.replace("read 2824", "read d2824"), "Transfer"),
        (DROPPED.replace("read 2824", "read"), "Transfer"),
        (GOOD.replace("91.93", "9.1.93"), "Transfer"),
        (GOOD.replace("1.10s", "1..10s"), "Transfer"),
    ],
)
def test_what_is_no_output_of_wrk_is_said_with_its_last_line(text: str, last: str) -> None:
    with pytest.raises(WorkloadError, match=last):
        parse_wrk(text)


@given(requests=st.integers(1, 10**9), rate=st.floats(0.01, 1e7), latency=st.floats(0.01, 999))
def test_what_wrk_would_print_of_any_load_comes_back(requests: int, rate: float, latency: float) -> None:
    lines = [f"     50%  {latency:6.2f}ms", f"  {requests} requests in 3.00s, 1MB read", f"Requests/sec: {rate:9.2f}"]
    text = "\n".join(["  Latency Distribution", *lines])
    load = parse_wrk(text)
    assert load.requests == requests
    assert load.per_second == pytest.approx(rate, abs=0.006)
    assert load.latency_s["50"] * 1000 == pytest.approx(latency, abs=0.006)


LATENCIES = {"50": 0.0121, "90": 0.0269, "99": 0.0528, "99.9": 0.0731}
COUNTS = st.integers(0, 10**9)
SECONDS = st.floats(0, 3600, allow_nan=False)


def printed(**changes: object) -> str:
    """As dockerfiles/load/fixed-rate.lua prints it, below what wrk says itself."""
    found = {"requests": 206, "unanswered": 0, "bad_answers": 0, "broken": 0, "latency_s": LATENCIES} | changes
    return "Running 2s test @ http://172.17.0.3:8000/\n" + json.dumps({"interlock_load": found}) + "\n"


def test_latencies_come_with_the_keys_of_a_report() -> None:
    fixed = services.parse_fixed_rate(printed())
    assert fixed.problem == ""
    assert fixed.figures == {"latency_p50_s": 0.0121, "latency_p99_s": 0.0528}


def test_one_in_a_thousand_is_told_of_a_thousand_and_no_fewer() -> None:
    assert "latency_p999_s" not in services.parse_fixed_rate(printed(requests=999)).figures
    assert services.parse_fixed_rate(printed(requests=1000)).figures["latency_p999_s"] == 0.0731
    assert services.parse_fixed_rate(printed(requests=400, unanswered=600)).figures["latency_p999_s"] == 0.0731


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [({"bad_answers": 3}, {"3", "206"}), ({"broken": 2}, {"2", "206"}), ({"requests": 0, "unanswered": 8}, set())],
)
def test_a_service_that_does_not_answer_well_has_no_latencies(changes: dict[str, int], numbers: set[str]) -> None:
    problem = services.parse_fixed_rate(printed(**changes)).problem
    assert problem
    assert numbers <= set(re.findall(r"\d+", problem))


def test_requests_that_had_no_answer_yet_are_no_problem_but_latency() -> None:
    assert services.parse_fixed_rate(printed(unanswered=906)).problem == ""


@pytest.mark.parametrize(
    "text",
    ["", "unable to connect to 172.17.0.3:8000 Connection refused\n", printed()[:-20], '{"interlock_load": {}}\n'],
)
def test_what_is_no_output_of_it_is_said_with_its_last_line(text: str) -> None:
    figures = r"printed no figures: (it printed nothing|unable to connect|\{\"interlock_load\")"
    with pytest.raises(WorkloadError, match=figures):
        services.parse_fixed_rate(text)


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.fixed_dictionaries(dict.fromkeys(LATENCIES, SECONDS)))
def test_what_any_load_would_print_comes_back(
    requests: int, unanswered: int, bad: int, broken: int, latency_s: dict[str, float]
) -> None:
    counts = {"requests": requests, "unanswered": unanswered, "bad_answers": bad, "broken": broken}
    fixed = services.parse_fixed_rate(printed(**counts, latency_s=latency_s))
    assert fixed.model_dump() == {**counts, "latency_s": latency_s}
    assert bool(fixed.problem) == bool(bad or broken or not requests)


def healthy(
    *statuses: int, limit_s: float = 0, any_answer: bool = False, require_running: Callable[[], None] = lambda: None
) -> tuple[Answer, float]:
    """Wait for a service that gives these answers, one after the other; 0 is none."""
    answers = iter([Answer("", status) for status in statuses])
    where, said = "http://172.18.0.2:8080/health", "; its last lines: listening"
    return HealthCheck(where, limit_s, lambda _: next(answers), require_running, any_answer, lambda: said).wait()


def test_a_service_is_healthy_with_its_first_good_answer_or_any_where_nobody_said_what_is_good() -> None:
    answer, passed_s = healthy(0, 503, 204, limit_s=60)
    assert answer.status == 204
    assert 0 <= passed_s < 60
    assert healthy(0, 404, limit_s=60, any_answer=True)[0].status == 404


@pytest.mark.parametrize(
    ("status", "error", "said"),
    [(0, NoAnswerError, "port 8080 in 0 s; its last lines: listening"), (503, WorkloadError, "503")],
)
def test_a_service_that_is_not_healthy_in_time_is_named_by_its_port_or_its_last_status(
    status: int, error: type[WorkloadError], said: str
) -> None:
    with pytest.raises(WorkloadError, match=said) as caught:
        healthy(status)
    assert type(caught.value) is error


def test_a_service_that_ends_before_it_is_healthy_is_not_waited_for() -> None:
    def require_running() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        healthy(0, limit_s=60, require_running=require_running)


@pytest.mark.parametrize("latencies", [{}, {"50": 1.0}, {**LATENCIES, "99": float("inf")}, {**LATENCIES, "50": -1.0}])
def test_latencies_that_are_missing_or_no_numbers_are_no_figures(latencies: dict[str, float]) -> None:
    with pytest.raises(WorkloadError):
        services.parse_fixed_rate(printed(latency_s=latencies))


@pytest.mark.parametrize("piece", ["\n", " \n", "1", "Socket errors: "])
def test_what_a_load_prints_again_and_again_takes_no_time(piece: str) -> None:
    start = time.process_time()
    with pytest.raises(WorkloadError):
        parse_wrk(piece * (200_000 // len(piece)))
    assert time.process_time() - start < 2
