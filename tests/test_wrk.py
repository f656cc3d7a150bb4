"""Reading what wrk prints."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.errors import WorkloadError
from interlock.wrk import parse

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
    load = parse(GOOD)
    assert (load.requests, load.per_second) == (92, 91.93)
    assert load.latency_s == {"50": pytest.approx(0.0009), "75": 0.04404, "90": 1.1, "99": 90.0}
    assert load.problem == ""


def test_the_share_within_a_standard_deviation_is_no_latency() -> None:
    assert set(parse(GOOD).latency_s) == {"50", "75", "90", "99"}


def test_answers_that_are_errors_are_a_problem() -> None:
    assert parse(BAD).problem == "100 of 92 answers were neither 2xx nor 3xx"


def test_broken_connections_are_a_problem_and_are_counted() -> None:
    assert parse(DROPPED).problem == "connections broke under the load (read 2824, write 1, beside 92 answers)"


def test_late_answers_are_answers() -> None:
    load = parse(LATE)
    assert load.socket_errors["timeout"] == 3
    assert load.problem == ""


def test_no_answer_at_all_is_a_problem() -> None:
    assert parse(NONE).problem == "not one request was answered within the load's time"


@pytest.mark.parametrize("text", ["", "unable to connect to 172.17.0.4:8001 Connection refused\n", "Usage: wrk"])
def test_what_is_no_output_of_wrk_is_said_with_its_last_line(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"wrk printed no figures: (nothing|unable to connect|Usage)"):
        parse(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except WorkloadError:
        return


@given(requests=st.integers(1, 10**9), rate=st.floats(0.01, 1e7), latency=st.floats(0.01, 999))
def test_what_wrk_would_print_of_any_load_comes_back(requests: int, rate: float, latency: float) -> None:
    lines = [f"     50%  {latency:6.2f}ms", f"  {requests} requests in 3.00s, 1MB read", f"Requests/sec: {rate:9.2f}"]
    text = "\n".join(["  Latency Distribution", *lines])
    load = parse(text)
    assert load.requests == requests
    assert load.per_second == pytest.approx(rate, abs=0.006)
    assert load.latency_s["50"] * 1000 == pytest.approx(latency, abs=0.006)
