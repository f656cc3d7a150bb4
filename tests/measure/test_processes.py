"""Command lines of processes; how they ended becomes an outcome, what they printed pyperf's normalised values."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.catalog.variants import Gil
from interlock.catalog.workloads import Repetition
from interlock.engine.protocol import Ended
from interlock.errors import WorkloadError
from interlock.measure import processes
from interlock.results.experiments import Estimator, Outcome, ProcessCost, ProgramOutput, State
from tests.builders import OK, make_benchmark, make_cost, make_ended, make_workload

WORKLOAD = make_workload(deadline_s=20)
PROGRAM = make_benchmark("uncontended")
COMMAND = make_benchmark("pass", command=["-I", "-c", "pass"])


def report(**changes: Any) -> str:
    return json.dumps({"interlock": 1, "loops": 2, "inner_loops": 10, "values": [0.5]} | changes) + "\n"


def test_a_program_that_printed_its_report_is_ok() -> None:
    outcome, output = processes.judge_process(WORKLOAD, PROGRAM, make_ended(report()))
    assert outcome == OK
    assert output is not None
    assert output.values == [0.5]


def test_a_command_that_ended_with_0_is_ok_and_has_no_report() -> None:
    assert processes.judge_process(WORKLOAD, COMMAND, make_ended()) == (OK, None)


def test_a_process_that_was_killed_at_its_deadline_timed_out() -> None:
    outcome, output = processes.judge_process(WORKLOAD, PROGRAM, make_ended(report(), exit_code=137, timed_out=True))
    assert outcome.state is State.TIMED_OUT
    assert all(part in outcome.reason for part in ("'uncontended'", "20 s"))
    assert output is None


def test_the_deadline_of_a_benchmark_goes_before_its_workloads() -> None:
    impatient = make_benchmark(deadline_s=3)
    outcome, _ = processes.judge_process(WORKLOAD, impatient, make_ended(timed_out=True))
    assert outcome.state is State.TIMED_OUT
    assert " 3 s" in outcome.reason


@pytest.mark.parametrize(
    ("stderr", "said"),
    [("Traceback\n  x\nValueError: 3\n", "ValueError: 3"), ("", "exit code 1"), (" \n", "exit code 1")],
)
def test_a_process_with_another_exit_code_failed_with_its_last_words(stderr: str, said: str) -> None:
    outcome, _ = processes.judge_process(WORKLOAD, PROGRAM, make_ended(report(), stderr, 1))
    assert outcome.state is State.FAILED
    assert re.fullmatch(rf"'uncontended' .*\b1\b.*: {said}", outcome.reason), outcome.reason


def test_a_process_that_a_signal_has_ended_names_it() -> None:
    outcome, _ = processes.judge_process(WORKLOAD, PROGRAM, make_ended(report(), "", 139))
    assert outcome.state is State.FAILED
    assert all(part in outcome.reason for part in ("'uncontended'", "SIGSEGV", "139"))


# What interpreters say of an option that they do not have: 3.13 and 2.7, and 2.7 of -X, which it only reserves.
@pytest.mark.parametrize("said", ["Unknown option: -I", "-X is reserved for implementation-specific arguments"])
def test_a_command_whose_option_the_interpreter_lacks_is_unsupported(said: str) -> None:
    outcome, _ = processes.judge_process(WORKLOAD, COMMAND, make_ended("", f"{said}\nusage: python [option] ...\n", 2))
    assert outcome == Outcome(state=State.UNSUPPORTED, reason=said)


def test_a_program_that_prints_the_same_words_failed_because_it_has_no_options_of_python() -> None:
    outcome, _ = processes.judge_process(WORKLOAD, PROGRAM, make_ended("", "Unknown option: -I\n", 2))
    assert outcome.state is State.FAILED


def test_an_interpreter_that_stays_in_the_page_cache_is_unsupported() -> None:
    said = "launch: cannot evict /usr/local: 3 of its 3 pages stay in memory\n"
    outcome, _ = processes.judge_process(WORKLOAD, PROGRAM, make_ended("", said, 1))
    reason = "no cold start: cannot evict /usr/local: 3 of its 3 pages stay in memory"
    assert outcome == Outcome(state=State.UNSUPPORTED, reason=reason)


@pytest.mark.parametrize("reported", [0, 2, 4])
def test_output_that_lacks_a_process_was_cut_short(reported: int) -> None:
    line = json.dumps({"interlock_process": make_cost().model_dump()}) + "\n"
    assert processes.all_reported(COMMAND, make_ended(line * 3), 3) == OK
    outcome = processes.all_reported(COMMAND, make_ended(line * reported), 3)
    assert outcome.state is State.FAILED
    assert f" {reported} of 3 " in outcome.reason


def test_a_program_that_says_what_it_cannot_do_is_unsupported() -> None:
    outcome, _ = processes.judge_process(
        WORKLOAD, PROGRAM, make_ended('{"interlock": 1, "unsupported": "no threads"}\n')
    )
    assert outcome == Outcome(state=State.UNSUPPORTED, reason="no threads")


def test_a_program_that_printed_something_else_failed() -> None:
    outcome, output = processes.judge_process(WORKLOAD, PROGRAM, make_ended("hello\n"))
    assert outcome.state is State.FAILED
    assert "'hello'" in outcome.reason
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
    outcome, output = processes.judge_process(WORKLOAD, PROGRAM, make_ended(report(**faulty)))
    assert (outcome.state, output) == (State.FAILED, None)


def test_a_process_that_printed_too_much_failed() -> None:
    outcome, output = processes.judge_process(WORKLOAD, PROGRAM, Ended(None, "", "", False, flooded=True))
    assert (outcome.state, output) == (State.FAILED, None)
    assert "16 MiB" in outcome.reason


def test_a_reason_is_short_whatever_a_process_prints() -> None:
    outcome, _ = processes.judge_process(WORKLOAD, PROGRAM, make_ended("", "x" * 10**6, 1))
    assert len(outcome.reason) < 1100


def test_a_program_replaces_no_figure_that_was_measured_around_it() -> None:
    said = {"group": 7, "block": 9, "estimator": "median", "process_user_s": 99.0, "own": 1}
    _, output = processes.judge_process(WORKLOAD, PROGRAM, make_ended(report(metadata=said)))
    assert output is not None
    metadata = processes.program_run(WORKLOAD, PROGRAM, output, make_cost())._metadata
    assert metadata["interlock_process_user_s"] == make_cost().user_s
    assert metadata["interlock_own"] == 1
    assert not {"interlock_group", "interlock_block", "interlock_estimator"} & metadata.keys()


def test_a_program_becomes_a_run_with_times_per_unit() -> None:
    output = ProgramOutput(
        interlock=1,
        loops=4,
        inner_loops=5,
        warmups=[2.0],
        values=[1.0, 3.0],
        metadata={"threads": 2, "gil_enabled": False},
    )
    run = processes.program_run(WORKLOAD, PROGRAM, output, make_cost(1.5))
    assert run.values == (0.05, 0.15)
    assert run.warmups == ((4, 0.1),)
    metadata = run.get_metadata()
    assert metadata["name"] == "locks uncontended"
    assert (metadata["loops"], metadata["inner_loops"], metadata["unit"]) == (4, 5, "second")
    assert (metadata["mem_max_rss"], metadata["interlock_process_wall_s"]) == (9_000_000, 1.5)
    assert (metadata["interlock_threads"], metadata["interlock_gil_enabled"]) == (2, "false")


def test_a_calibration_becomes_a_run_whose_warmups_have_their_own_loops() -> None:
    output = ProgramOutput(interlock=1, loops=2, inner_loops=10, calibration=[(1, 0.06), (2, 0.1)])
    run = processes.program_run(WORKLOAD, PROGRAM, output, make_cost())
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
    run = processes.program_run(WORKLOAD, PROGRAM, output, make_cost())
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
    run = processes.command_run(WORKLOAD, COMMAND, costs, Repetition(warmups=1, values=2))
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
    run = processes.command_run(WORKLOAD, COMMAND, costs, Repetition(warmups=0, values=2), units=12)
    assert run.values == pytest.approx((0.1, 0.2))
    assert run.get_metadata()["inner_loops"] == 12
    assert run.get_metadata()["interlock_process_kernel_share"] == pytest.approx(0.4 / 1.2)


def test_without_cpu_time_nobody_knows_the_kernels_share() -> None:
    run = processes.command_run(WORKLOAD, COMMAND, [make_cost(user_s=0, sys_s=0)], Repetition(warmups=0, values=1))
    assert "interlock_process_kernel_share" not in run.get_metadata()


def test_what_was_left_in_memory_is_kept_as_the_proof_of_a_cold_start() -> None:
    output = ProgramOutput(interlock=1, loops=1, values=[1.0])
    for share in (0.0, 0.004):
        run = processes.program_run(WORKLOAD, PROGRAM, output, make_cost(resident_share=share))
        assert run.get_metadata()["interlock_process_resident_share"] == share
    warm = processes.program_run(WORKLOAD, PROGRAM, output, make_cost())
    assert "interlock_process_resident_share" not in warm.get_metadata()


# What 3.13.5t says of a module that was compiled without Py_mod_gil, and what else may be around it.
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
    assert "'pkg._foo'" in processes.gil_note(output, around + GIL_WARNING + around)


def test_a_gil_that_came_back_without_a_warning_is_noted_without_a_name() -> None:
    note = processes.gil_note(gil_output(False, True), "other words\n")
    assert note
    assert "'" not in note


@pytest.mark.parametrize("output", [gil_output(False, False), gil_output(True, True), gil_output(None, None), None])
def test_a_gil_that_stayed_as_it_was_is_not_noted(output: ProgramOutput | None) -> None:
    assert processes.gil_note(output, "RuntimeWarning: something else\n") == ""


@pytest.mark.parametrize(("at_start", "found", "declared"), [(True, "on", Gil.OFF), (False, "off", Gil.ON)])
def test_a_program_that_starts_with_the_gil_in_another_state_than_declared_failed(
    at_start: bool, found: str, declared: Gil
) -> None:
    outcome = processes.gil_outcome(PROGRAM, declared, gil_output(at_start, at_start))
    assert outcome.state is State.FAILED
    assert re.search(rf"'uncontended' .*\b{found}\b.*\b{declared}\b", outcome.reason), outcome.reason


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
    assert processes.gil_outcome(PROGRAM, declared, output) == OK


def test_the_figure_of_a_process_is_that_of_its_values_and_a_calibration_has_none() -> None:
    calibration = ProgramOutput(interlock=1, loops=1, calibration=[(1, 0.1)])
    outputs = [
        calibration,
        *(ProgramOutput(interlock=1, loops=2, values=values) for values in ([2.0, 8.0, 4.0], [6.0])),
    ]
    runs = [processes.program_run(WORKLOAD, PROGRAM, output, make_cost()) for output in outputs]
    found = [processes.in_block(run, number, Estimator.MEDIAN) for number, run in enumerate(runs)]
    assert processes.values_of(found, Estimator.MEDIAN).figures == [2.0, 3.0]
    assert processes.values_of(found, Estimator.MEAN).figures == [pytest.approx(7 / 3), 3.0]


def test_the_worst_outcome_is_the_cells() -> None:
    order = [State.OK, State.UNSUPPORTED, State.UNAVAILABLE, State.TIMED_OUT, State.FAILED]
    outcomes = [Outcome(state=state, reason=state.value) for state in order]
    for index, outcome in enumerate(outcomes):
        assert processes.worst_outcome(reversed(outcomes[: index + 1])) == outcome
    assert processes.worst_outcome([]) == OK


def test_a_process_that_had_no_memory_left_fails_and_is_told_how_much_a_cell_has() -> None:
    ended = dataclasses.replace(make_ended("", exit_code=137), out_of_memory=True)
    outcome, output = processes.judge_process(WORKLOAD, PROGRAM, ended)
    assert outcome.state is State.FAILED
    assert all(part in outcome.reason for part in ("'uncontended'", "memory", "1 GiB"))
    assert output is None


SAYS = make_benchmark("says", command=["-c", "pass"], expected=["first", "second"])
LAUNCHED = '{"interlock_process": {"wall_s": 1}}\n'


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        ("first\nfir", ["'says'", "'second'", "'fir'"]),
        ("the second\n", ["'says'", "'first'", "'the second'"]),
        ("", ["'says'", "'first'"]),
    ],
)
def test_output_without_what_it_must_have_fails_with_what_is_missing(printed: str, found: list[str]) -> None:
    outcome = processes.output_outcome(SAYS, make_ended(printed + ("\n" if printed else "") + LAUNCHED))
    assert outcome.state is State.FAILED
    assert re.findall("'.*?'", outcome.reason) == found


def test_output_with_all_that_it_must_have_is_ok() -> None:
    assert processes.output_outcome(SAYS, make_ended(f"the first and\nthe second\n{LAUNCHED}")) == OK
    assert processes.output_outcome(COMMAND, make_ended()) == OK


def test_a_set_up_that_fails_is_told_from_the_benchmark() -> None:
    ready = make_benchmark("status", command=["x"], set_up=["make.py"])
    assert processes.judge_set_up(WORKLOAD, ready, make_ended()) == OK
    failed = processes.judge_set_up(WORKLOAD, ready, make_ended(stderr="no hg\n", exit_code=1))
    assert failed.state is State.FAILED
    assert re.match("set-up: 'status' .* 1: no hg$", failed.reason)
    late = processes.judge_set_up(WORKLOAD, ready, make_ended(timed_out=True))
    assert late.state is State.TIMED_OUT
    assert re.match("set-up: 'status' .* 20 s$", late.reason)


PLACES = processes.placeholders("http://10.0.0.2:8080", "/packages/abc/site")
COUNTS = st.integers(0, 2**40)
TIMES = st.floats(0, 1e6)
COSTS = st.builds(
    ProcessCost,
    wall_s=TIMES,
    user_s=TIMES,
    sys_s=TIMES,
    max_rss_bytes=COUNTS,
    voluntary_switches=COUNTS,
    involuntary_switches=COUNTS,
    exit_code=st.integers(0, 255),
    signal=st.integers(0, 64),
)


def cost_line(cost: ProcessCost) -> str:
    return json.dumps({"interlock_process": cost.model_dump()})


def test_a_command_is_run_by_python_as_it_stands() -> None:
    benchmark = make_benchmark(command=["-I", "-c", "pass"])
    argv = processes.interpreter_argv(WORKLOAD, benchmark, PLACES, "1", None)
    assert argv == ["python", "-I", "-c", "pass"]


def test_a_program_gets_its_arguments_with_the_places_filled_in() -> None:
    benchmark = make_benchmark(arguments=["--server", "{server}", "--destination", "{scratch}", "{other}"])
    argv = processes.interpreter_argv(WORKLOAD, benchmark, PLACES, "4", Repetition(warmups=1, values=5))
    assert argv == [
        "python",
        "/interlock/workloads/locks.py",
        *["--server", "http://10.0.0.2:8080", "--destination", "/scratch", "{other}"],
        *["--loops", "4", "--warmups", "1", "--values", "5"],
    ]


@pytest.mark.parametrize(("loops", "values"), [("auto", "0"), ("1", "1"), ("0", "1")])
def test_a_process_that_measures_nothing_has_no_warmup(loops: str, values: str) -> None:
    argv = processes.interpreter_argv(WORKLOAD, make_benchmark(), PLACES, loops, None)
    assert argv[2:] == ["--loops", loops, "--warmups", "0", "--values", values]


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
    argv = processes.launch_argv(["python", "x"], make_benchmark(cpus=cpus, command=command), 3)
    assert argv == ["/interlock/launch", "--repeat", "3", *options, "--", "python", "x"]


def test_the_launcher_starts_some_at_once_and_evicts_as_it_is_asked() -> None:
    plain, cold = make_benchmark(command=["-c", "pass"]), make_benchmark(cold=True)
    assert processes.launch_argv(["x"], plain, 3, parallel=12)[1:5] == ["--repeat", "3", "--parallel", "12"]
    assert "--parallel" not in processes.launch_argv(["x"], plain, 3)
    assert processes.launch_argv(["x"], cold, 3)[3:5] == ["--evict", "/usr/local"]


def test_costs_are_found_between_what_the_program_prints() -> None:
    cost = make_cost(0.125)
    stdout = f"a line\n{cost_line(cost)}\n{{}}\n{cost_line(cost)}\n"
    assert processes.parse_costs(stdout) == [cost, cost]
    assert processes.parse_costs("") == []


@pytest.mark.parametrize(
    "line",
    [
        '{"interlock_process": oops',
        '{"interlock_process"',
        '{"interlock_process": 1}',
        '{"interlock_process": {"wall_s": 1}}',
        '{"interlock_process": ' + "[" * 100_000,
        cost_line(make_cost()).replace("1.0", "Infinity"),
        cost_line(make_cost()).replace("1.0", "true"),
        cost_line(make_cost()).replace("1.0", "-1.0"),
    ],
    ids=lambda one: str(one)[:60],
)
def test_a_line_that_only_begins_as_the_launchers_is_none_of_it(line: str) -> None:
    cost = make_cost(0.125)
    assert processes.parse_costs(f"{line}\n{cost_line(cost)}\n") == [cost]


@given(st.lists(COSTS))
def test_costs_come_back_as_the_launcher_printed_them(costs: list[ProcessCost]) -> None:
    assert processes.parse_costs("".join(f"{cost_line(cost)}\n" for cost in costs)) == costs


def test_the_line_of_a_program_is_the_last_one_that_is_not_the_launchers() -> None:
    report = {"interlock": 1, "loops": 2, "inner_loops": 10, "values": [0.5], "metadata": {"gil_enabled": True}}
    stdout = f"noise\n{json.dumps(report)}\n{cost_line(make_cost())}\n"
    output = processes.parse_program(stdout, WORKLOAD)
    assert (output.loops, output.inner_loops, output.values) == (2, 10, [0.5])
    assert output.metadata == {"gil_enabled": True}


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        ("", "'' (Invalid JSON"),
        ("hello\n", "'hello' (Invalid JSON"),
        ('{"loops": 1}\n', "(its key 'interlock': Field required)"),
        ('{"interlock": 2}\n', "(its key 'interlock': Input should be 1)"),
        ('{"interlock": 1, "speed": 9}\n', "(its key 'speed': Extra inputs are not permitted)"),
        ('{"interlock": 1, "values": ["fast"]}\n', "(its key 'values.0': Input should be a valid number"),
        ("x" * 500, f"'{'x' * 80}' ("),
    ],
)
def test_what_a_program_printed_instead_is_shown(stdout: str, expected: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        processes.parse_program(stdout, WORKLOAD)
    assert (caught.value.file, caught.value.key) == ("workloads/locks.toml", "program")
    assert expected in caught.value.found


@given(st.text())
def test_any_output_is_a_report_or_a_workload_error(stdout: str) -> None:
    with pytest.raises(WorkloadError):
        processes.parse_program(stdout, WORKLOAD)


def test_options_of_a_mode_stand_before_what_the_interpreter_runs() -> None:
    argv = processes.interpreter_argv(WORKLOAD, make_benchmark(command=["-c", "pass"]), PLACES, "1", None)
    assert processes.with_options(argv, ["-X", "gil=1"]) == ["python", "-X", "gil=1", "-c", "pass"]
    assert processes.with_options(argv, []) == argv


def test_strace_hands_the_environment_on_and_does_not_take_it() -> None:
    argv = processes.traced_argv(["strace", "-f"], ["python", "x"], {"LD_PRELOAD": "/a.so", "B": "c=d e"})
    assert argv == ["strace", "-f", "-E", "LD_PRELOAD=/a.so", "-E", "B=c=d e", "python", "x"]
    assert processes.traced_argv(["strace", "-f"], ["python"], {}) == ["strace", "-f", "python"]


def test_strace_starts_with_the_loader_that_travels_with_it() -> None:
    assert processes.STRACE[:4] == [
        "/interlock/strace/ld.so",
        "--library-path",
        "/interlock/strace",
        "/interlock/strace/strace",
    ]
    assert processes.STRACE[4:] == ["-f", "-c", "-U", "calls,errors,name"]


def test_of_kind_command_the_command_is_a_whole_command_line_with_its_places() -> None:
    benchmark = make_benchmark("x", command=["{packages}/bin/b2", "{scratch}/a", "{b}"])
    lines = make_workload(kind="command", program=None, benchmarks=[benchmark])
    argv = processes.interpreter_argv(lines, lines.benchmarks[0], PLACES, "1", None)
    assert argv == ["/packages/abc/site/bin/b2", "/scratch/a", "{b}"]


def test_a_mode_s_options_go_to_the_interpreter_and_to_no_other_program() -> None:
    assert processes.with_options(["python", "a.py"], ["-X", "b"]) == ["python", "-X", "b", "a.py"]
    assert processes.with_options(["sh", "-c", "a"], ["-X", "b"]) == ["sh", "-c", "a"]


@pytest.mark.parametrize(("command", "takes"), [(["python", "x"], True), (["sh", "-c", "python x"], False)])
def test_a_command_line_takes_options_where_it_starts_with_the_interpreter(command: list[str], takes: bool) -> None:
    benchmark = make_benchmark(command=command)
    lines = make_workload(kind="command", program=None, benchmarks=[benchmark])
    assert processes.takes_options(lines, benchmark) is takes
    assert processes.takes_options(WORKLOAD, benchmark)


def test_a_benchmark_s_own_program_is_in_the_place_of_the_workload_s() -> None:
    argv = processes.interpreter_argv(WORKLOAD, make_benchmark(program="own/other.py"), PLACES, "1", None)
    assert argv[1] == "/interlock/workloads/own/other.py"


def test_the_output_of_a_command_is_kept_only_where_it_is_looked_at() -> None:
    benchmark = make_benchmark(command=["-c", "pass"])
    assert "--discard-stdout" in processes.launch_argv(["python"], benchmark)
    assert "--discard-stdout" not in processes.launch_argv(["python"], benchmark, keep_output=True)


def test_the_launcher_s_line_is_read_after_output_that_does_not_end_its_line() -> None:
    cost = make_cost(wall_s=2.5)
    stdout = f"made before{cost_line(cost)}\n"
    assert processes.parse_costs(stdout) == [cost]
    assert processes.printed_lines(stdout) == ["made before"]


def test_a_set_up_is_run_by_the_interpreter_with_its_places() -> None:
    benchmark = make_benchmark(command=["x"], set_up=["{workloads}/make.py", "{packages}/bin/hg"])
    argv = processes.set_up_argv(benchmark, PLACES)
    assert argv == ["python", "/interlock/workloads/make.py", "/packages/abc/site/bin/hg"]
