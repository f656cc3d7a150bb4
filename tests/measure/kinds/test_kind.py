"""How a process ended becomes an outcome, and what the launcher is told; in the ways that most kinds share."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from interlock.catalog.workloads import Benchmark
from interlock.engine.ended import Ended
from interlock.measure.kinds.choosing import kind_of
from interlock.results.experiments import Outcome, ProgramOutput, State
from tests.builders import OK, make_benchmark, make_ended, make_workload

WORKLOAD = make_workload(deadline_s=20)
PROGRAM = make_benchmark("uncontended")
COMMAND = make_benchmark("pass", command=["-I", "-c", "pass"])


def report(**changes: Any) -> str:
    return json.dumps({"interlock": 1, "loops": 2, "inner_loops": 10, "values": [0.5]} | changes) + "\n"


def options_of(benchmark: Benchmark, parallel: int = 1, *, keeps_output: bool = False) -> list[str]:
    return kind_of(WORKLOAD, benchmark).launcher_options(parallel, keeps_output=keeps_output)


def judged(benchmark: Benchmark, ended: Ended) -> tuple[Outcome, ProgramOutput | None]:
    return kind_of(WORKLOAD, benchmark).judge(ended, WORKLOAD.deadline_of(benchmark))


def test_a_program_that_printed_its_report_is_ok() -> None:
    outcome, output = judged(PROGRAM, make_ended(report()))
    assert outcome == OK
    assert output is not None
    assert output.values == [0.5]


def test_a_command_that_ended_with_0_is_ok_and_has_no_report() -> None:
    assert judged(COMMAND, make_ended()) == (OK, None)


EVICTED = "cannot evict /usr/local: 3 of its 3 pages stay in memory"


@pytest.mark.parametrize(
    ("ended", "state", "reason"),
    [
        (make_ended(report(), exit_code=137, timed_out=True), State.TIMED_OUT, "'uncontended' .* 20 s"),
        # The last words, if there are any.
        (
            make_ended(report(), "Traceback\n  x\nValueError: 3\n", 1),
            State.FAILED,
            r"'uncontended' .* 1: ValueError: 3",
        ),
        (make_ended(report(), "", 1), State.FAILED, "'uncontended' .* 1: exit code 1"),
        (make_ended(report(), " \n", 1), State.FAILED, "'uncontended' .* 1: exit code 1"),
        (make_ended(report(), "", 139), State.FAILED, "'uncontended' .* SIGSEGV: .* 139"),
        # A program has no options of the interpreter that it could lack.
        (make_ended("", "Unknown option: -I\n", 2), State.FAILED, ".* 2: Unknown option: -I"),
        (make_ended("", f"launch: {EVICTED}\n", 1), State.UNSUPPORTED, f"no cold start: {EVICTED}"),
        (make_ended("hello\n"), State.FAILED, ".*'hello'.*"),
        (Ended(None, flooded=True), State.FAILED, "'uncontended' .* 16 MiB"),
        (Ended(137, out_of_memory=True), State.FAILED, "'uncontended' .* memory: .* 1 GiB"),
    ],
)
def test_a_process_that_did_not_do_its_work_has_an_outcome_that_says_why(
    ended: Ended, state: State, reason: str
) -> None:
    outcome, output = judged(PROGRAM, ended)
    assert (outcome.state, output) == (state, None)
    assert re.fullmatch(reason, outcome.reason), outcome.reason


def test_the_deadline_of_a_benchmark_goes_before_its_workloads() -> None:
    impatient = make_benchmark(deadline_s=3)
    outcome, _ = judged(impatient, make_ended(timed_out=True))
    assert outcome.state is State.TIMED_OUT
    assert " 3 s" in outcome.reason


# What interpreters say of an option that they do not have: 3.13 and 2.7, and 2.7 of -X, which it only reserves.
@pytest.mark.parametrize("said", ["Unknown option: -I", "-X is reserved for implementation-specific arguments"])
def test_a_command_whose_option_the_interpreter_lacks_is_unsupported(said: str) -> None:
    outcome, _ = judged(COMMAND, make_ended("", f"{said}\nusage: python [option] ...\n", 2))
    assert outcome == Outcome(state=State.UNSUPPORTED, reason=said)


def test_a_command_whose_last_words_are_that_it_cannot_is_unsupported() -> None:
    said = "Traceback (most recent call last):\n  a line\nunsupported: _posixsubprocess has no fork\n"
    outcome, _ = judged(COMMAND, make_ended("", said, 1))
    assert outcome == Outcome(state=State.UNSUPPORTED, reason="_posixsubprocess has no fork")
    assert judged(COMMAND, make_ended("", said + "Killed\n", 1))[0].state is State.FAILED


def test_a_program_that_says_what_it_cannot_do_is_unsupported() -> None:
    outcome, _ = judged(PROGRAM, make_ended('{"interlock": 1, "unsupported": "no threads"}\n'))
    assert outcome == Outcome(state=State.UNSUPPORTED, reason="no threads")


@pytest.mark.parametrize(
    "faulty",
    [
        {"loops": 0},
        {"loops": -1},
        {"inner_loops": 0},
        {"values": [0.0]},
        {"values": [-0.5]},
        {"values": []},
        {"warmups": [-1.0]},
        *({"values": [one]} for one in (float("inf"), float("nan"), 1e300, 5e-324, True, "1", None, 10**400)),
        *({"loops": one} for one in (True, 1.5, "2", 10**16, 10**400)),
        {"warmups": [float("inf")]},
        {"metadata": {"x": float("nan")}},
        {"metadata": {"x": 10**400}},
        {"metadata": {"x": "y" * 20_000}},
        {"metadata": {"x": [1]}},
    ],
    ids=lambda one: str(one)[:40],
)
def test_a_report_that_is_no_measurement_fails_its_cell(faulty: dict[str, Any]) -> None:
    outcome, output = judged(PROGRAM, make_ended(report(**faulty)))
    assert (outcome.state, output) == (State.FAILED, None)


def test_a_reason_is_short_whatever_a_process_prints() -> None:
    outcome, _ = judged(PROGRAM, make_ended("", "x" * 10**6, 1))
    assert len(outcome.reason) < 1100


def test_a_set_up_that_fails_is_told_from_the_benchmark() -> None:
    ready = kind_of(WORKLOAD, make_benchmark("status", command=["x"], set_up=["make.py"]))
    assert ready.judge_set_up(make_ended(), 20) == OK
    failed = ready.judge_set_up(make_ended(stderr="no hg\n", exit_code=1), 20)
    assert failed.state is State.FAILED
    assert re.match("set-up: 'status' .* 1: no hg$", failed.reason)
    late = ready.judge_set_up(make_ended(timed_out=True), 20)
    assert late.state is State.TIMED_OUT
    assert re.match("set-up: 'status' .* 20 s$", late.reason)


@pytest.mark.parametrize(
    ("cpus", "command", "options"),
    [
        ("all", None, []),
        ("one", None, ["--cpu", "last"]),
        ("all", ["-c", "pass"], ["--discard-stdout"]),
        ("one", ["-c", "pass"], ["--cpu", "last", "--discard-stdout"]),
    ],
)
def test_the_launcher_pins_and_discards_as_the_benchmark_says(
    cpus: str, command: list[str] | None, options: list[str]
) -> None:
    assert options_of(make_benchmark(cpus=cpus, command=command)) == options


def test_the_launcher_starts_some_at_once_and_evicts_as_it_is_asked() -> None:
    plain, cold = make_benchmark(command=["-c", "pass"]), make_benchmark(cold=True)
    assert options_of(plain, 12)[:2] == ["--parallel", "12"]
    assert options_of(cold) == ["--evict", "/usr/local"]
    # The output of a command is kept only where it is looked at.
    assert options_of(plain, keeps_output=True) == []
