"""The command line of a program of ours, and the line that it prints."""

from __future__ import annotations

import json

import pytest

from interlock.catalog.workloads import Repetition
from interlock.errors import WorkloadError
from interlock.measure.kinds.choosing import kind_of
from interlock.measure.kinds.program import Program
from interlock.measure.processes import filled_in, placeholders
from tests.builders import make_benchmark, make_cost, make_workload

WORKLOAD = make_workload(deadline_s=20)
PROGRAM = make_benchmark("uncontended")
PLACES = placeholders("http://10.0.0.2:8080", "/packages/abc/site")


def test_a_program_gets_its_arguments_with_the_places_filled_in() -> None:
    benchmark = make_benchmark(arguments=["--server", "{server}", "--to", "{scratch}", "{workloads}/x", "{other}"])
    argv = filled_in(kind_of(WORKLOAD, benchmark).words("4", Repetition(warmups=1, values=5)), PLACES)
    assert argv == [
        "python",
        "/interlock/workloads/locks.py",
        *["--server", "http://10.0.0.2:8080", "--to", "/scratch", "/interlock/workloads/x", "{other}"],
        *["--loops", "4", "--warmups", "1", "--values", "5"],
    ]


@pytest.mark.parametrize(("loops", "values"), [("auto", "0"), ("1", "1"), ("0", "1")])
def test_a_process_that_measures_nothing_has_no_warmup(loops: str, values: str) -> None:
    argv = filled_in(kind_of(WORKLOAD, make_benchmark()).words(loops, None), PLACES)
    assert argv[2:] == ["--loops", loops, "--warmups", "0", "--values", values]


def test_the_line_of_a_program_is_the_last_one_that_is_not_the_launchers() -> None:
    report = {"interlock": 1, "loops": 2, "inner_loops": 10, "values": [0.5], "metadata": {"gil_enabled": True}}
    cost = json.dumps({"interlock_process": make_cost().model_dump()})
    stdout = f"noise\n{json.dumps(report)}\n{cost}\n"
    output = Program(WORKLOAD, PROGRAM).read(stdout)
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
        Program(WORKLOAD, PROGRAM).read(stdout)
    assert (caught.value.file, caught.value.key) == ("workloads/locks.toml", "program")
    assert expected in caught.value.found


def test_a_benchmark_s_own_program_is_in_the_place_of_the_workload_s() -> None:
    argv = filled_in(kind_of(WORKLOAD, make_benchmark(program="own/other.py")).words("1", None), PLACES)
    assert argv[1] == "/interlock/workloads/own/other.py"
