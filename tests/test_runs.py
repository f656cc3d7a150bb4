"""How a process ended becomes an outcome, and what it printed becomes pyperf's normalised values."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import runs
from interlock.model import Gil, Outcome, ProgramOutput, Repetition, State
from tests.builders import OK, make_benchmark, make_cost, make_ended, make_workload

WORKLOAD = make_workload(deadline_s=20)
PROGRAM = make_benchmark("uncontended")
COMMAND = make_benchmark("pass", command=["-I", "-c", "pass"])


def report(**changes: Any) -> str:
    return json.dumps({"interlock": 1, "loops": 2, "inner_loops": 10, "values": [0.5]} | changes) + "\n"


def test_a_program_that_printed_its_report_is_ok() -> None:
    outcome, output = runs.judge(WORKLOAD, PROGRAM, make_ended(report()))
    assert outcome == OK
    assert output is not None
    assert output.values == [0.5]


def test_a_command_that_ended_with_0_is_ok_and_has_no_report() -> None:
    assert runs.judge(WORKLOAD, COMMAND, make_ended()) == (OK, None)


def test_a_process_that_was_killed_at_its_deadline_timed_out() -> None:
    outcome, output = runs.judge(WORKLOAD, PROGRAM, make_ended(report(), exit_code=137, timed_out=True))
    assert outcome == Outcome(state=State.TIMED_OUT, reason="'uncontended' had not ended after 20 s")
    assert output is None


def test_the_deadline_of_a_benchmark_goes_before_its_workloads() -> None:
    impatient = make_benchmark(deadline_s=3)
    outcome, _ = runs.judge(WORKLOAD, impatient, make_ended(timed_out=True))
    assert outcome.reason == "'uncontended' had not ended after 3 s"


@pytest.mark.parametrize(
    ("stderr", "said"),
    [("Traceback\n  x\nValueError: 3\n", "ValueError: 3"), ("", "exit code 1"), (" \n", "exit code 1")],
)
def test_a_process_with_another_exit_code_failed_with_its_last_words(stderr: str, said: str) -> None:
    outcome, _ = runs.judge(WORKLOAD, PROGRAM, make_ended(report(), stderr, 1))
    assert outcome == Outcome(state=State.FAILED, reason=f"'uncontended' ended with exit code 1: {said}")


def test_a_process_that_a_signal_has_ended_names_it() -> None:
    outcome, _ = runs.judge(WORKLOAD, PROGRAM, make_ended(report(), "", 139))
    assert outcome.reason == "'uncontended' was ended by SIGSEGV: exit code 139"


# What interpreters say of an option that they do not have: 3.13 and 2.7, and 2.7 of -X, which it only reserves.
@pytest.mark.parametrize("said", ["Unknown option: -I", "-X is reserved for implementation-specific arguments"])
def test_a_command_whose_option_the_interpreter_lacks_is_unsupported(said: str) -> None:
    outcome, _ = runs.judge(WORKLOAD, COMMAND, make_ended("", f"{said}\nusage: python [option] ...\n", 2))
    assert outcome == Outcome(state=State.UNSUPPORTED, reason=said)


def test_a_program_that_prints_the_same_words_failed_because_it_has_no_options_of_python() -> None:
    outcome, _ = runs.judge(WORKLOAD, PROGRAM, make_ended("", "Unknown option: -I\n", 2))
    assert outcome.state is State.FAILED


def test_an_interpreter_that_stays_in_the_page_cache_is_unsupported() -> None:
    said = "launch: cannot evict /usr/local: 3 of its 3 pages stay in memory\n"
    outcome, _ = runs.judge(WORKLOAD, PROGRAM, make_ended("", said, 1))
    reason = "no cold start: cannot evict /usr/local: 3 of its 3 pages stay in memory"
    assert outcome == Outcome(state=State.UNSUPPORTED, reason=reason)


@pytest.mark.parametrize(("told", "expected"), [(3, OK), (0, "0 of 3"), (2, "2 of 3"), (4, "4 of 3")])
def test_output_that_lacks_a_process_was_cut_short(told: int, expected: Outcome | str) -> None:
    line = json.dumps({"interlock_process": make_cost().model_dump()}) + "\n"
    if isinstance(expected, str):
        reason = f"'pass': its output was cut short: the launcher told of {expected} processes"
        expected = Outcome(state=State.FAILED, reason=reason)
    assert runs.told_of_all(COMMAND, make_ended(line * told), 3) == expected


def test_a_program_that_says_what_it_cannot_do_is_unsupported() -> None:
    outcome, _ = runs.judge(WORKLOAD, PROGRAM, make_ended('{"interlock": 1, "unsupported": "no threads"}\n'))
    assert outcome == Outcome(state=State.UNSUPPORTED, reason="no threads")


def test_a_program_that_printed_something_else_failed() -> None:
    outcome, output = runs.judge(WORKLOAD, PROGRAM, make_ended("hello\n"))
    assert outcome.state is State.FAILED
    assert "its last line is 'hello'" in outcome.reason
    assert output is None


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
    ],
    ids=str,
)
def test_a_report_that_cannot_become_values_fails_its_cell_and_not_the_experiment(faulty: dict[str, Any]) -> None:
    outcome, output = runs.judge(WORKLOAD, PROGRAM, make_ended(report(**faulty)))
    if outcome.state is State.OK:
        assert output is not None
        runs.program_run(WORKLOAD, PROGRAM, output, make_cost())


def test_a_program_becomes_a_run_with_times_per_unit() -> None:
    output = ProgramOutput(
        interlock=1,
        loops=4,
        inner_loops=5,
        warmups=[2.0],
        values=[1.0, 3.0],
        metadata={"threads": 2, "gil_enabled": False},
    )
    run = runs.program_run(WORKLOAD, PROGRAM, output, make_cost(1.5))
    assert run.values == (0.05, 0.15)
    assert run.warmups == ((4, 0.1),)
    metadata = run.get_metadata()
    assert metadata["name"] == "locks uncontended"
    assert (metadata["loops"], metadata["inner_loops"], metadata["unit"]) == (4, 5, "second")
    assert (metadata["mem_max_rss"], metadata["interlock_process_wall_s"]) == (9_000_000, 1.5)
    assert (metadata["interlock_threads"], metadata["interlock_gil_enabled"]) == (2, "false")


def test_a_calibration_becomes_a_run_whose_warmups_have_their_own_loops() -> None:
    output = ProgramOutput(interlock=1, loops=2, inner_loops=10, calibration=[(1, 0.06), (2, 0.1)])
    run = runs.program_run(WORKLOAD, PROGRAM, output, make_cost())
    assert run.values == ()
    assert run.warmups == ((1, 0.006), (2, 0.005))
    assert run.get_metadata()["calibrate_loops"] == 2


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**4),
    st.lists(st.floats(1e-6, 1e4), min_size=1),
    st.lists(st.floats(1e-6, 1e4)),
)
def test_a_runs_values_times_its_loops_are_the_raw_times(
    loops: int, inner_loops: int, values: list[float], warmups: list[float]
) -> None:
    output = ProgramOutput(interlock=1, loops=loops, inner_loops=inner_loops, values=values, warmups=warmups)
    run = runs.program_run(WORKLOAD, PROGRAM, output, make_cost())
    total = run.get_total_loops()
    assert total == loops * inner_loops
    assert [value * total for value in run.values] == pytest.approx(values)
    assert [value * total for _, value in run.warmups or ()] == pytest.approx(warmups)


def test_a_command_becomes_a_run_of_one_value_per_process_with_mean_costs() -> None:
    costs = [
        make_cost(0.9, max_rss_bytes=99_000_000, user_s=9.0),
        make_cost(0.2, max_rss_bytes=5, voluntary_switches=1),
        make_cost(0.4, max_rss_bytes=7, voluntary_switches=4),
    ]
    run = runs.command_run(WORKLOAD, COMMAND, costs, Repetition(warmups=1, values=2))
    assert run.values == (0.2, 0.4)
    assert run.warmups == ((1, 0.9),)
    metadata = run.get_metadata()
    assert metadata["name"] == "locks pass"
    assert metadata["mem_max_rss"] == 7
    assert metadata["interlock_process_user_s"] == 0.5
    assert metadata["interlock_process_wall_s"] == pytest.approx(0.3)
    assert metadata["interlock_process_voluntary_switches"] == 2.5


def test_a_batch_of_processes_is_one_value_per_start_with_the_kernels_share_of_its_cpu_time() -> None:
    costs = [make_cost(1.2, user_s=0.3, sys_s=0.1), make_cost(2.4, user_s=0.5, sys_s=0.3)]
    run = runs.command_run(WORKLOAD, COMMAND, costs, Repetition(warmups=0, values=2), units=12)
    assert run.values == pytest.approx((0.1, 0.2))
    assert run.get_metadata()["inner_loops"] == 12
    assert run.get_metadata()["interlock_process_kernel_share"] == pytest.approx(0.4 / 1.2)


def test_without_cpu_time_nobody_knows_the_kernels_share() -> None:
    run = runs.command_run(WORKLOAD, COMMAND, [make_cost(user_s=0, sys_s=0)], Repetition(warmups=0, values=1))
    assert "interlock_process_kernel_share" not in run.get_metadata()


def test_what_was_left_in_memory_is_kept_as_the_proof_of_a_cold_start() -> None:
    output = ProgramOutput(interlock=1, loops=1, values=[1.0])
    for share in (0.0, 0.004):
        run = runs.program_run(WORKLOAD, PROGRAM, output, make_cost(resident_share=share))
        assert run.get_metadata()["interlock_process_resident_share"] == share
    warm = runs.program_run(WORKLOAD, PROGRAM, output, make_cost())
    assert "interlock_process_resident_share" not in warm.get_metadata()


# What 3.13.5t says of a module that was compiled without Py_mod_gil, and what else may stand around it.
GIL_WARNING = (
    "<frozen importlib._bootstrap>:488: RuntimeWarning: The global interpreter lock (GIL) has been enabled to load "
    "module 'pkg._foo', which has not declared that it can run safely without the GIL. To override this behavior and "
    "keep the GIL disabled (at your own risk), run with PYTHON_GIL=0 or -Xgil=0.\n"
)


def gil_output(at_start: bool | None, after: bool | None) -> ProgramOutput:
    found = {"gil_enabled_at_start": at_start, "gil_enabled": after}
    metadata = {key: value for key, value in found.items() if value is not None}
    return ProgramOutput(interlock=1, loops=1, values=[0.5], metadata=metadata)


@pytest.mark.parametrize("output", [gil_output(False, True), None], ids=["program", "command"])
@pytest.mark.parametrize("around", ["", "other words\n"])
def test_the_module_that_switched_the_gil_on_is_named(output: ProgramOutput | None, around: str) -> None:
    assert runs.gil_note(output, around + GIL_WARNING + around) == (
        "GIL off at start, on after the work: module 'pkg._foo' switched it on"
    )


def test_a_gil_that_came_back_without_a_warning_is_noted_without_a_name() -> None:
    assert runs.gil_note(gil_output(False, True), "other words\n") == (
        "GIL off at start, on after the work: switched on by a module that was not named"
    )


@pytest.mark.parametrize("output", [gil_output(False, False), gil_output(True, True), gil_output(None, None), None])
def test_a_gil_that_stayed_as_it_was_is_not_noted(output: ProgramOutput | None) -> None:
    assert runs.gil_note(output, "RuntimeWarning: something else\n") == ""


@pytest.mark.parametrize(("at_start", "found", "declared"), [(True, "on", Gil.OFF), (False, "off", Gil.ON)])
def test_a_program_that_starts_with_the_gil_in_another_state_than_declared_failed(
    at_start: bool, found: str, declared: Gil
) -> None:
    outcome = runs.gil_outcome(PROGRAM, declared, gil_output(at_start, at_start))
    reason = f"'uncontended' started with the GIL {found}, but it is declared {declared}"
    assert outcome == Outcome(state=State.FAILED, reason=reason)


@pytest.mark.parametrize(
    ("declared", "output"),
    [
        (Gil.OFF, gil_output(False, True)),
        (Gil.ON, gil_output(True, True)),
        (Gil.ON, gil_output(None, None)),
        (Gil.OFF, None),
        (None, gil_output(True, True)),
    ],
)
def test_a_state_of_the_gil_that_is_as_declared_or_unknown_is_ok(
    declared: Gil | None, output: ProgramOutput | None
) -> None:
    assert runs.gil_outcome(PROGRAM, declared, output) == OK


def test_the_figure_of_a_process_is_the_median_of_its_values_and_a_calibration_has_none() -> None:
    calibration = ProgramOutput(interlock=1, loops=1, calibration=[(1, 0.1)])
    outputs = [
        calibration,
        *(ProgramOutput(interlock=1, loops=2, values=values) for values in ([2.0, 8.0, 4.0], [6.0])),
    ]
    found = [runs.program_run(WORKLOAD, PROGRAM, output, make_cost()) for output in outputs]
    assert runs.process_figures(found) == [2.0, 3.0]


def test_the_worst_outcome_is_the_cells() -> None:
    order = [State.OK, State.UNSUPPORTED, State.UNAVAILABLE, State.TIMED_OUT, State.FAILED]
    outcomes = [Outcome(state=state, reason=state.value) for state in order]
    for index, outcome in enumerate(outcomes):
        assert runs.worst(reversed(outcomes[: index + 1])) == outcome
    assert runs.worst([]) == OK


def test_a_process_that_had_no_memory_left_fails_and_is_told_how_much_a_cell_has() -> None:
    ended = dataclasses.replace(make_ended("", exit_code=137), out_of_memory=True)
    outcome, output = runs.judge(WORKLOAD, PROGRAM, ended)
    assert outcome == Outcome(state=State.FAILED, reason="'uncontended' had no memory left: a cell has 1 GiB")
    assert output is None


SAYS = make_benchmark("says", command=["-c", "pass"], expected=["first", "second"])
LAUNCHED = '{"interlock_process": {"wall_s": 1}}\n'


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("first\nfir", "did not print 'second': its last line is 'fir'"),
        ("the second\n", "did not print 'first': its last line is 'the second'"),
        ("", "did not print 'first': it printed nothing"),
    ],
)
def test_output_without_what_it_must_have_fails_with_what_is_missing(printed: str, found: str) -> None:
    outcome = runs.as_expected(SAYS, make_ended(printed + ("\n" if printed else "") + LAUNCHED))
    assert outcome == Outcome(state=State.FAILED, reason=f"'says' {found}")


def test_output_with_all_that_it_must_have_is_ok() -> None:
    assert runs.as_expected(SAYS, make_ended(f"the first and\nthe second\n{LAUNCHED}")) == OK
    assert runs.as_expected(COMMAND, make_ended()) == OK


def test_a_set_up_that_fails_is_told_from_the_benchmark() -> None:
    ready = make_benchmark("status", command=["x"], set_up=["make.py"])
    assert runs.judge_set_up(WORKLOAD, ready, make_ended()) == OK
    failed = runs.judge_set_up(WORKLOAD, ready, make_ended(stderr="no hg\n", exit_code=1))
    assert failed == Outcome(state=State.FAILED, reason="set-up: 'status' ended with exit code 1: no hg")
    late = runs.judge_set_up(WORKLOAD, ready, make_ended(timed_out=True))
    assert late == Outcome(state=State.TIMED_OUT, reason="set-up: 'status' had not ended after 20 s")
