"""Command lines under the launcher, and what it and a process say about how it went."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.catalog.variants import Gil
from interlock.measure import processes
from interlock.results.experiments import Outcome, ProcessCost, ProgramOutput, State
from tests.builders import OK, make_cost

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
    outcome = processes.gil_outcome("uncontended", declared, gil_output(at_start, at_start))
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
    assert processes.gil_outcome("uncontended", declared, output) == OK


def test_the_worst_outcome_is_the_cells() -> None:
    order = [State.OK, State.UNSUPPORTED, State.UNAVAILABLE, State.TIMED_OUT, State.FAILED]
    outcomes = [Outcome(state=state, reason=state.value) for state in order]
    for index, outcome in enumerate(outcomes):
        assert processes.worst_outcome(reversed(outcomes[: index + 1])) == outcome
    assert processes.worst_outcome([]) == OK


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


def test_strace_hands_the_environment_on_and_does_not_take_it() -> None:
    argv = processes.traced_argv(["python", "x"], {"LD_PRELOAD": "/a.so", "B": "c=d e"})
    assert argv == [*processes.STRACE, "-E", "LD_PRELOAD=/a.so", "-E", "B=c=d e", "python", "x"]
    assert processes.traced_argv(["python"], {}) == [*processes.STRACE, "python"]


def test_a_mode_s_options_go_to_the_interpreter_and_to_no_other_program() -> None:
    assert processes.with_options(["python", "a.py"], ["-X", "b"]) == ["python", "-X", "b", "a.py"]
    assert processes.with_options(["sh", "-c", "a"], ["-X", "b"]) == ["sh", "-c", "a"]


def test_the_launcher_s_line_is_read_after_output_that_does_not_end_its_line() -> None:
    cost = make_cost(wall_s=2.5)
    stdout = f"made before{cost_line(cost)}\n"
    assert processes.parse_costs(stdout) == [cost]
    assert processes.printed_lines(stdout) == ["made before"]
