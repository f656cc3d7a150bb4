"""The command lines that go into a container, and reading what comes out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock import instruments
from interlock.errors import WorkloadError
from interlock.model import ProcessCost, Repetition
from tests.builders import make_benchmark, make_cost, make_workload

WORKLOAD = make_workload()
PLACES = instruments.places_of("http://10.0.0.2:8080", "/packages/abc/site")
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
    argv = instruments.interpreter_argv(WORKLOAD, benchmark, PLACES, "1", None)
    assert argv == ["python", "-I", "-c", "pass"]


def test_a_program_gets_its_arguments_with_the_places_filled_in() -> None:
    benchmark = make_benchmark(arguments=["--server", "{server}", "--destination", "{scratch}", "{other}"])
    argv = instruments.interpreter_argv(WORKLOAD, benchmark, PLACES, "4", Repetition(warmups=1, values=5))
    assert argv == [
        "python",
        "/interlock/workloads/locks.py",
        *["--server", "http://10.0.0.2:8080", "--destination", "/scratch", "{other}"],
        *["--loops", "4", "--warmups", "1", "--values", "5"],
    ]


@pytest.mark.parametrize(("loops", "values"), [("auto", "0"), ("1", "1"), ("0", "1")])
def test_a_process_that_measures_nothing_has_no_warmup(loops: str, values: str) -> None:
    argv = instruments.interpreter_argv(WORKLOAD, make_benchmark(), PLACES, loops, None)
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
    argv = instruments.launch_argv(["python", "x"], make_benchmark(cpus=cpus, command=command), 3)
    assert argv == ["/interlock/launch", "--repeat", "3", *options, "--", "python", "x"]


def test_the_launcher_starts_some_at_once_and_evicts_as_it_is_asked() -> None:
    plain, cold = make_benchmark(command=["-c", "pass"]), make_benchmark(cold=True)
    assert instruments.launch_argv(["x"], plain, 3, parallel=12)[1:5] == ["--repeat", "3", "--parallel", "12"]
    assert "--parallel" not in instruments.launch_argv(["x"], plain, 3)
    assert instruments.launch_argv(["x"], cold, 3)[3:5] == ["--evict", "/usr/local"]


def test_costs_are_found_between_what_the_program_prints() -> None:
    cost = make_cost(0.125)
    stdout = f"a line\n{cost_line(cost)}\n{{}}\n{cost_line(cost)}\n"
    assert instruments.parse_costs(stdout) == [cost, cost]
    assert instruments.parse_costs("") == []


@given(st.lists(COSTS))
def test_costs_come_back_as_the_launcher_printed_them(costs: list[ProcessCost]) -> None:
    assert instruments.parse_costs("".join(f"{cost_line(cost)}\n" for cost in costs)) == costs


def test_the_line_of_a_program_is_the_last_one_that_is_not_the_launchers() -> None:
    report = {"interlock": 1, "loops": 2, "inner_loops": 10, "values": [0.5], "metadata": {"gil_enabled": True}}
    stdout = f"noise\n{json.dumps(report)}\n{cost_line(make_cost())}\n"
    output = instruments.parse_program(stdout, WORKLOAD)
    assert (output.loops, output.inner_loops, output.values) == (2, 10, [0.5])
    assert output.metadata == {"gil_enabled": True}


@pytest.mark.parametrize(
    ("stdout", "expected"),
    [
        ("", "its last line is '' (Invalid JSON"),
        ("hello\n", "its last line is 'hello' (Invalid JSON"),
        ('{"loops": 1}\n', "(its key 'interlock': Field required)"),
        ('{"interlock": 2}\n', "(its key 'interlock': Input should be 1)"),
        ('{"interlock": 1, "speed": 9}\n', "(its key 'speed': Extra inputs are not permitted)"),
        ('{"interlock": 1, "values": ["fast"]}\n', "(its key 'values.0': Input should be a valid number"),
        ("x" * 500, f"its last line is '{'x' * 80}' ("),
    ],
)
def test_what_a_program_printed_instead_is_shown(stdout: str, expected: str) -> None:
    with pytest.raises(WorkloadError) as caught:
        instruments.parse_program(stdout, WORKLOAD)
    text = str(caught.value)
    assert text.startswith("workloads/locks.toml, key 'program': locks.py printed no protocol line: ")
    assert expected in text
    assert text.endswith("the JSON object that workloads/protocol.py prints.")


@given(st.text())
def test_any_output_is_a_report_or_a_workload_error(stdout: str) -> None:
    with pytest.raises(WorkloadError):
        instruments.parse_program(stdout, WORKLOAD)


def test_options_of_a_mode_stand_before_what_the_interpreter_runs() -> None:
    argv = instruments.interpreter_argv(WORKLOAD, make_benchmark(command=["-c", "pass"]), PLACES, "1", None)
    assert instruments.with_options(argv, ["-X", "gil=1"]) == ["python", "-X", "gil=1", "-c", "pass"]
    assert instruments.with_options(argv, []) == argv


def test_strace_hands_the_environment_on_and_does_not_take_it() -> None:
    argv = instruments.traced_argv(["strace", "-f"], ["python", "x"], {"LD_PRELOAD": "/a.so", "B": "c=d e"})
    assert argv == ["strace", "-f", "-E", "LD_PRELOAD=/a.so", "-E", "B=c=d e", "python", "x"]
    assert instruments.traced_argv(["strace", "-f"], ["python"], {}) == ["strace", "-f", "python"]


def test_strace_starts_with_the_loader_that_travels_with_it() -> None:
    assert instruments.STRACE[:4] == [
        "/interlock/strace/ld.so",
        "--library-path",
        "/interlock/strace",
        "/interlock/strace/strace",
    ]
    assert instruments.STRACE[4:] == ["-f", "-c", "-U", "calls,errors,name"]


def test_of_kind_command_the_command_is_a_whole_command_line_with_its_places() -> None:
    benchmark = make_benchmark("x", command=["{packages}/bin/b2", "{scratch}/a", "{b}"])
    lines = make_workload(kind="command", program=None, benchmarks=[benchmark])
    argv = instruments.interpreter_argv(lines, lines.benchmarks[0], PLACES, "1", None)
    assert argv == ["/packages/abc/site/bin/b2", "/scratch/a", "{b}"]


def test_a_mode_s_options_go_to_the_interpreter_and_to_no_other_program() -> None:
    assert instruments.with_options(["python", "a.py"], ["-X", "b"]) == ["python", "-X", "b", "a.py"]
    assert instruments.with_options(["sh", "-c", "a"], ["-X", "b"]) == ["sh", "-c", "a"]


@pytest.mark.parametrize(("command", "takes"), [(["python", "x"], True), (["sh", "-c", "python x"], False)])
def test_a_command_line_takes_options_where_it_starts_with_the_interpreter(command: list[str], takes: bool) -> None:
    benchmark = make_benchmark(command=command)
    lines = make_workload(kind="command", program=None, benchmarks=[benchmark])
    assert instruments.takes_options(lines, benchmark) is takes
    assert instruments.takes_options(WORKLOAD, benchmark)


def test_a_benchmark_s_own_program_is_in_the_place_of_the_workload_s() -> None:
    argv = instruments.interpreter_argv(WORKLOAD, make_benchmark(program="own/other.py"), PLACES, "1", None)
    assert argv[1] == "/interlock/workloads/own/other.py"


def test_the_output_of_a_command_is_kept_only_where_it_is_looked_at() -> None:
    benchmark = make_benchmark(command=["-c", "pass"])
    assert "--discard-stdout" in instruments.launch_argv(["python"], benchmark)
    assert "--discard-stdout" not in instruments.launch_argv(["python"], benchmark, keep_output=True)


def test_the_launcher_s_line_is_read_after_output_that_does_not_end_its_line() -> None:
    cost = make_cost(wall_s=2.5)
    stdout = f"made before{cost_line(cost)}\n"
    assert instruments.parse_costs(stdout) == [cost]
    assert instruments.printed(stdout) == ["made before"]


def test_a_set_up_is_run_by_the_interpreter_with_its_places() -> None:
    benchmark = make_benchmark(command=["x"], set_up=["{workloads}/make.py", "{packages}/bin/hg"])
    argv = instruments.set_up_argv(benchmark, PLACES)
    assert argv == ["python", "/interlock/workloads/make.py", "/packages/abc/site/bin/hg"]
