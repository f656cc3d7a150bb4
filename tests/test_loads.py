"""Reading what the load at a fixed rate prints, and its command lines."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import loads
from interlock.errors import WorkloadError

LATENCIES = {"50": 0.0121, "90": 0.0269, "99": 0.0528, "99.9": 0.0731}
COUNTS = st.integers(0, 10**9)
SECONDS = st.floats(0, 3600, allow_nan=False)


def printed(**changes: object) -> str:
    """As dockerfiles/load/fixed-rate.lua prints it, below what wrk says itself."""
    found = {"requests": 206, "unanswered": 0, "bad_answers": 0, "broken": 0, "latency_s": LATENCIES} | changes
    return "Running 2s test @ http://172.17.0.3:8000/\n" + json.dumps({"interlock_load": found}) + "\n"


def test_latencies_come_with_the_keys_of_a_report() -> None:
    fixed = loads.parse(printed())
    assert fixed.problem == ""
    assert fixed.figures == {"latency_p50_s": 0.0121, "latency_p99_s": 0.0528}


def test_one_in_a_thousand_is_told_of_a_thousand_and_no_fewer() -> None:
    assert "latency_p999_s" not in loads.parse(printed(requests=999)).figures
    assert loads.parse(printed(requests=1000)).figures["latency_p999_s"] == 0.0731
    assert loads.parse(printed(requests=400, unanswered=600)).figures["latency_p999_s"] == 0.0731


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"bad_answers": 3}, "3 of 206 answers at the fixed rate were neither 2xx nor 3xx"),
        ({"broken": 2}, "2 connections broke at the fixed rate, beside 206 answers"),
        ({"requests": 0, "unanswered": 8}, "not one request at the fixed rate was answered"),
    ],
)
def test_a_service_that_does_not_answer_well_has_no_latencies(changes: dict[str, int], problem: str) -> None:
    assert loads.parse(printed(**changes)).problem == problem


def test_requests_that_had_no_answer_yet_are_no_problem_but_latency() -> None:
    assert loads.parse(printed(unanswered=906)).problem == ""


@pytest.mark.parametrize(
    "text",
    ["", "unable to connect to 172.17.0.3:8000 Connection refused\n", printed()[:-20], '{"interlock_load": {}}\n'],
)
def test_what_is_no_output_of_it_is_said_with_its_last_line(text: str) -> None:
    with pytest.raises(WorkloadError, match=r"printed no figures: (nothing|unable to connect|\{\"interlock_load\")"):
        loads.parse(text)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for one in (text, loads.PREFIX + text):
        try:
            loads.parse(one)
        except WorkloadError:
            continue


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.fixed_dictionaries(dict.fromkeys(LATENCIES, SECONDS)))
def test_what_any_load_would_print_comes_back(
    requests: int, unanswered: int, bad: int, broken: int, latency_s: dict[str, float]
) -> None:
    counts = {"requests": requests, "unanswered": unanswered, "bad_answers": bad, "broken": broken}
    fixed = loads.parse(printed(**counts, latency_s=latency_s))
    assert fixed.model_dump() == {**counts, "latency_s": latency_s}
    assert bool(fixed.problem) == bool(bad or broken or not requests)


def test_each_connection_has_a_thread_and_the_script_is_told_the_rate() -> None:
    argv = loads.fixed_rate_argv("/s.lua", "http://a:1/", 62.5, 8, 2)
    assert argv == ["wrk", "-t", "8", "-c", "8", "-d", "2s", "-s", "/s.lua", "http://a:1/", "--", "62.5", "8"]


def test_a_full_load_is_one_thread_of_wrk() -> None:
    argv = loads.as_fast_as_answered_argv("http://a:1/", 8, 2)
    assert argv == ["wrk", "-t", "1", "-c", "8", "-d", "2s", "--latency", "http://a:1/"]


def test_a_warm_up_is_a_known_number_of_requests() -> None:
    assert loads.warm_up_argv("http://a:1/", 17)[-1] == "http://a:1/?[1-17]"
