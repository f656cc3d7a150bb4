"""The protocol between the harness and a workload program."""

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workloads.conftest import Report, Run

# Lone surrogates included: Python makes them of file names that are not UTF-8.
TEXT = st.text(st.characters(exclude_categories=()))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=20)


class FakeWork:
    """Takes a second for each loop and remembers what it was asked for."""

    inner_loops = 10

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.metadata = {"colour": "red"}

    def timed(self, loops: int) -> float:
        self.asked.append(loops)
        return float(loops)


@given(value=VALUES)
def test_json_reads_back_what_the_encoder_wrote(protocol: ModuleType, value: Any) -> None:
    assert json.loads(protocol.encode(value)) == value


@given(value=VALUES)
def test_the_encoder_writes_one_line_of_printable_ascii(protocol: ModuleType, value: Any) -> None:
    line = protocol.encode(value)
    assert line.isascii()
    assert line.isprintable()


@given(text=st.text())
def test_the_encoder_reads_byte_strings_as_utf8(protocol: ModuleType, text: str) -> None:
    assert json.loads(protocol._encode_text(text.encode())) == text


def test_the_encoder_keeps_true_apart_from_one(protocol: ModuleType) -> None:
    assert protocol.encode([True, 1, False, 0]) == "[true, 1, false, 0]"


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        *((one, ValueError, "no form") for one in (math.inf, -math.inf, math.nan)),
        *((one, TypeError, "JSON") for one in ({1: 2}, {"a": {1, 2}}, object())),
    ],
)
def test_the_encoder_refuses_what_json_lacks(
    protocol: ModuleType, value: object, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        protocol.encode(value)


def test_calibration_doubles_loops_until_the_minimum_time(protocol: ModuleType) -> None:
    assert protocol.calibrate(float, 8.0) == [[1, 1.0], [2, 2.0], [4, 4.0], [8, 8.0]]


def test_warmups_and_values_use_the_calibrated_loops(protocol: ModuleType) -> None:
    work = FakeWork()
    found = protocol.measure(work, None, 2, 3, 3.0)
    assert work.asked == [1, 2, 4] + 5 * [4]
    assert found["calibration"] == [[1, 1.0], [2, 2.0], [4, 4.0]]
    assert (found["warmups"], found["values"]) == ([4.0, 4.0], [4.0, 4.0, 4.0])
    assert (found["interlock"], found["loops"], found["inner_loops"]) == (1, 4, 10)


def test_given_loops_are_not_calibrated(protocol: ModuleType) -> None:
    work = FakeWork()
    assert protocol.measure(work, 7, 0, 1, 3.0)["calibration"] == []
    assert work.asked == [7]


def test_metadata_names_the_version_and_what_the_program_adds(protocol: ModuleType) -> None:
    metadata = protocol.measure(FakeWork(), 1, 0, 0, 0.1)["metadata"]
    assert metadata["colour"] == "red"
    assert metadata["python_version"] == sys.version.split(maxsplit=1)[0]


def test_the_state_of_the_gil_is_asked_before_and_after_the_work(report: Report, tmp_path: Path) -> None:
    program = tmp_path / "switcher.py"
    program.write_text(
        "import sys, protocol\n"
        "def work(loops):\n"
        "    sys.gil = True\n"
        "    return 0.1\n"
        "protocol.run(lambda options: protocol.Work(work, 1, {}), protocol.parse(protocol.new_parser('')))\n"
    )
    sabotage = "import sys\nsys.gil = False\nsys._is_gil_enabled = lambda: sys.gil\n"
    metadata = report(str(program), "--loops", "1", sabotage=sabotage)["metadata"]
    assert metadata["gil_enabled_at_start"] is False
    assert metadata["gil_enabled"] is True


def test_no_program_loads_an_extension_module_before_the_state_of_the_gil_is_asked(
    run_program: Run, tmp_path: Path
) -> None:
    program = tmp_path / "all.py"
    program.write_text("import download, import_loop, locks, protocol\nprint(protocol.GIL_AT_START)\n")
    sabotage = "import sys\nsys._is_gil_enabled = lambda: '_hashlib' in sys.modules\n"
    assert run_program(str(program), sabotage=sabotage).stdout == "False\n"


def test_an_interpreter_that_knows_no_gil_state_reports_none(
    protocol: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    assert protocol.ask_gil() is None
    assert "gil_enabled" not in protocol.measure(FakeWork(), 1, 0, 1, 0.1)["metadata"]


@pytest.mark.parametrize(("flag", "enabled"), [(1, False), (0, True)])
def test_the_nogil_fork_answers_by_its_flag(
    protocol: ModuleType, monkeypatch: pytest.MonkeyPatch, flag: int, enabled: bool
) -> None:
    monkeypatch.delattr(sys, "_is_gil_enabled", raising=False)
    monkeypatch.setattr(sys, "flags", SimpleNamespace(nogil=flag))
    assert protocol.ask_gil() is enabled


def test_auto_loops_with_no_values_is_a_calibration_alone(report: Report) -> None:
    found = report(
        "locks.py", "--what", "uncontended", "--loops", "auto", "--warmups", "0", "--values", "0", "--min-time", "0.005"
    )
    assert found["values"] == found["warmups"] == []
    *before, last = found["calibration"]
    assert [loops for loops, _ in found["calibration"]] == [2**n for n in range(len(before) + 1)]
    assert all(duration_s < 0.005 for _, duration_s in before)
    assert last[1] >= 0.005
    assert found["loops"] == last[0]


def test_an_error_in_the_work_ends_with_its_traceback_and_exit_code_1(run_program: Run, tmp_path: Path) -> None:
    program = tmp_path / "broken.py"
    program.write_text(
        "import protocol\n"
        "work = protocol.Work(lambda loops: 1 // 0, 1, {})\n"
        "protocol.run(lambda options: work, protocol.parse(protocol.new_parser('')))\n"
    )
    done = run_program(str(program))
    assert done.returncode == 1
    assert "ZeroDivisionError" in done.stderr
    assert done.stdout == ""


# Until it has used so much CPU time, by its own account.
BURN = "import os\nwhile sum(os.times()[:2]) < %s: pass\n"
USES = f"""
import subprocess, sys, time
import protocol

def timed(loops):
    if protocol.asked:
        subprocess.check_call([sys.executable, "-c", {BURN % 0.3!r}])
        for _ in range(50):
            time.sleep(0.001)
    else:
        exec({BURN % 1.0!r})
    protocol.asked = True
    return 1.0

protocol.asked = False
protocol.run(lambda options: protocol.Work(timed, 1, {{}}), protocol.parse(protocol.new_parser('')))
"""


def test_cpu_time_and_switches_are_of_the_values_and_their_children_alone(report: Report, tmp_path: Path) -> None:
    program = tmp_path / "uses.py"
    program.write_text(USES)
    metadata = report(str(program), "--loops", "1", "--warmups", "1", "--values", "2")["metadata"]
    # Twice a child of 0.3 s, not the warm-up's second; twice fifty sleeps, each of which gives up the CPU once.
    assert 0.6 <= metadata["work_user_s"] + metadata["work_sys_s"] < 1.0
    assert 100 <= metadata["work_voluntary_switches"] < 150
    assert metadata["work_involuntary_switches"] >= 0


def test_an_interpreter_without_the_resource_module_leaves_the_usage_out(report: Report) -> None:
    sabotage = "import sys; sys.modules['resource'] = None"
    metadata = report("locks.py", "--what", "uncontended", "--loops", "1", sabotage=sabotage)["metadata"]
    assert not [key for key in metadata if key.startswith("work_")]


def test_a_process_without_values_has_no_usage(protocol: ModuleType) -> None:
    metadata = protocol.measure(FakeWork(), 1, 1, 0, 0.1)["metadata"]
    assert not [key for key in metadata if key.startswith("work_")]


def test_threads_that_work_at_once_begin_when_all_have_started_and_their_ends_are_timed(
    protocol: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    ticks = iter(range(100))
    threads = protocol.Threads()
    real = threads.start

    def start(function: Callable[..., None], *arguments: Any) -> Any:
        seen.append("start")
        return real(function, *arguments)

    monkeypatch.setattr(threads, "start", start)
    monkeypatch.setattr(protocol, "timer", lambda: next(ticks))
    # One tick at the beginning, and one at the end of each thread.
    assert threads.time_at_once([(seen.append, letter) for letter in "ABC"]) == 3
    assert seen[:3] == ["start"] * 3
    assert sorted(seen[3:]) == ["A", "B", "C"]
