"""Which command line a command is, and what it must print."""

from __future__ import annotations

import re

import pytest

from interlock.measure.kinds.choosing import kind_of
from interlock.measure.kinds.command import PythonCommand
from interlock.measure.processes import filled_in, placeholders
from interlock.results.experiments import State
from tests.builders import OK, make_benchmark, make_ended, make_workload

WORKLOAD = make_workload(deadline_s=20)
COMMAND = make_benchmark("pass", command=["-I", "-c", "pass"])
SAYS = make_benchmark("says", command=["-c", "pass"], expected=["first", "second"])
LAUNCHED = '{"interlock_process": {"wall_s": 1}}\n'
PLACES = placeholders("http://10.0.0.2:8080", "/packages/abc/site")


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("first\nfir", ["'says'", "'second'", "'fir'"]),
        ("the second\n", ["'says'", "'first'", "'the second'"]),
        ("", ["'says'", "'first'"]),
    ],
)
def test_output_without_what_it_must_have_fails_with_what_is_missing(printed: str, found: list[str]) -> None:
    outcome = PythonCommand(WORKLOAD, SAYS).output_outcome(make_ended(printed + ("\n" if printed else "") + LAUNCHED))
    assert outcome.state is State.FAILED
    assert re.findall("'.*?'", outcome.reason) == found


def test_output_with_all_that_it_must_have_is_ok() -> None:
    assert PythonCommand(WORKLOAD, SAYS).output_outcome(make_ended(f"the first and\nthe second\n{LAUNCHED}")) == OK
    assert PythonCommand(WORKLOAD, COMMAND).output_outcome(make_ended()) == OK


def test_a_command_is_run_by_python_as_it_stands() -> None:
    benchmark = make_benchmark(command=["-I", "-c", "pass"])
    argv = filled_in(kind_of(WORKLOAD, benchmark).words("1", None), PLACES)
    assert argv == ["python", "-I", "-c", "pass"]


def test_of_kind_command_the_command_is_a_whole_command_line_with_its_places() -> None:
    benchmark = make_benchmark("x", command=["{packages}/bin/b2", "{scratch}/a", "{b}"])
    lines = make_workload(kind="command", program=None, benchmarks=[benchmark])
    argv = filled_in(kind_of(lines, lines.benchmarks[0]).words("1", None), PLACES)
    assert argv == ["/packages/abc/site/bin/b2", "/scratch/a", "{b}"]


@pytest.mark.parametrize(("command", "takes"), [(["python", "x"], True), (["sh", "-c", "python x"], False)])
def test_a_command_line_takes_options_where_it_starts_with_the_interpreter(command: list[str], takes: bool) -> None:
    benchmark = make_benchmark(command=command)
    lines = make_workload(kind="command", program=None, benchmarks=[benchmark])
    assert kind_of(lines, benchmark).takes_options is takes
    assert kind_of(WORKLOAD, benchmark).takes_options
