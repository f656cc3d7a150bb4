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
from interlock.measure.services import FixedRateRun, HealthCheck, NoAnswerError, latency_figures, parse_wrk

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


COUNTS = st.integers(0, 10**9)


def printed(**changes: object) -> str:
    """As dockerfiles/load/fixed-rate.lua prints it, below what wrk says itself."""
    found = {"latencies_us": [*range(206, 0, -1)], "unanswered": 0, "bad_answers": 0, "broken": 0} | changes
    return "Running 2s test @ http://172.17.0.3:8000/\n" + json.dumps({"interlock_load": found}) + "\n"


def fixed_rate(**changes: object) -> FixedRateRun:
    return services.parse_fixed_rate(printed(**changes))


def test_latencies_come_with_the_keys_of_a_report() -> None:
    fixed = fixed_rate()
    assert fixed.problem == ""
    assert fixed.requests == 206
    assert latency_figures([fixed]) == {"latency_p50_s": 103e-6, "latency_p99_s": 204e-6}


def test_latencies_of_several_loads_are_those_of_all_their_requests() -> None:
    fast, slow = fixed_rate(latencies_us=[1] * 5000), fixed_rate(latencies_us=[*range(1, 5001)])
    figures = latency_figures([fast, slow])
    assert figures == {
        "latency_p50_s": 1e-6,
        "latency_p99_s": 4900e-6,
        "latency_p999_s": 4990e-6,
        "latency_p9999_s": 4999e-6,
    }


@pytest.mark.parametrize(("key", "enough"), [("latency_p999_s", 1000), ("latency_p9999_s", 10_000)])
def test_a_rare_latency_is_told_of_as_many_requests_as_it_is_one_of_and_no_fewer(key: str, enough: int) -> None:
    assert key not in latency_figures([fixed_rate(latencies_us=[*range(enough - 1)])])
    assert latency_figures([fixed_rate(latencies_us=[*range(1, enough + 1)])])[key] == pytest.approx((enough - 1) / 1e6)
    half = [fixed_rate(latencies_us=[*range(enough // 2)], unanswered=3) for _ in range(2)]
    assert key in latency_figures(half)


@pytest.mark.parametrize(
    ("changes", "numbers"),
    [
        ({"bad_answers": 3}, {"3", "206"}),
        ({"broken": 2}, {"2", "206"}),
        ({"latencies_us": [7] * 8, "unanswered": 8}, set()),
        ({"latencies_us": []}, set()),
    ],
)
def test_a_service_that_does_not_answer_well_has_no_latencies(changes: dict[str, object], numbers: set[str]) -> None:
    problem = fixed_rate(**changes).problem
    assert problem
    assert numbers <= set(re.findall(r"\d+", problem))


def test_requests_that_had_no_answer_yet_are_no_problem_but_latency() -> None:
    assert fixed_rate(unanswered=105).problem == ""


@pytest.mark.parametrize(
    "text",
    ["", "unable to connect to 172.17.0.3:8000 Connection refused\n", printed()[:-20], '{"interlock_load": {}}\n'],
)
def test_what_is_no_output_of_it_is_said_with_its_last_line(text: str) -> None:
    figures = r"printed no figures: (it printed nothing|unable to connect|\{\"interlock_load\")"
    with pytest.raises(WorkloadError, match=figures):
        services.parse_fixed_rate(text)


@given(COUNTS, COUNTS, COUNTS, st.lists(COUNTS, max_size=20))
def test_what_any_load_would_print_comes_back(unanswered: int, bad: int, broken: int, latencies_us: list[int]) -> None:
    found = {"latencies_us": latencies_us, "unanswered": unanswered, "bad_answers": bad, "broken": broken}
    fixed = fixed_rate(**found)
    assert fixed.model_dump() == found
    assert bool(fixed.problem) == bool(bad or broken or unanswered >= len(latencies_us))


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


@pytest.mark.parametrize("latencies_us", [None, {}, ["fast"], [-1], [1e400]])
def test_latencies_that_are_missing_or_no_numbers_are_no_figures(latencies_us: object) -> None:
    with pytest.raises(WorkloadError):
        fixed_rate(latencies_us=latencies_us)


@pytest.mark.parametrize("piece", ["\n", " \n", "1", "Socket errors: "])
def test_what_a_load_prints_again_and_again_takes_no_time(piece: str) -> None:
    start = time.process_time()
    with pytest.raises(WorkloadError):
        parse_wrk(piece * (200_000 // len(piece)))
    assert time.process_time() - start < 2
