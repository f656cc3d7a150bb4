"""Who blocks whom."""

import re
import time
from collections.abc import Callable
from types import ModuleType

import pytest

from tests.workloads.conftest import ONCE, Refusal, Report

CALL_S = 0.03
CALLS = ["sleep", "recv", "select", "subprocess"]
# One thread after the other, as on a build where a blocking call blocks the process.
ONE_AT_A_TIME = """
import threading

turn = threading.Lock()
def run(self, real=threading.Thread.run):
    with turn:
        real(self)
threading.Thread.run = run
"""


@pytest.fixture
def blocking(module: Callable[[str], ModuleType]) -> ModuleType:
    return module("blocking")


def asked(what: str, threads: int = 3) -> list[str]:
    return ["blocking.py", "--what", what, "--threads", str(threads), "--call-ms", "30", *ONCE]


@pytest.mark.parametrize("what", CALLS)
def test_a_loop_is_four_calls_of_each_thread_which_go_on_at_the_same_time(report: Report, what: str) -> None:
    found = report(*asked(what))
    assert found["inner_loops"] == 4
    assert found["values"][0] >= 4 * CALL_S
    assert found["metadata"]["at_once"] == pytest.approx(3 * 4 * CALL_S / found["values"][0])
    pattern = found["metadata"]["pattern"]
    assert (pattern[0], sorted(pattern)) == ("A", list("AAAABBBBCCCC"))


@pytest.mark.parametrize("what", CALLS)
def test_threads_that_block_one_after_the_other_take_as_often_as_long(report: Report, what: str) -> None:
    found = report(*asked(what), sabotage=ONE_AT_A_TIME)
    assert found["values"][0] >= 3 * 4 * CALL_S
    seen = {key: found["metadata"][key] for key in ("pattern", "in_a_row")}
    assert seen == {"pattern": "AAAABBBBCCCC", "in_a_row": 4}
    assert found["metadata"]["at_once"] <= 1


@pytest.mark.parametrize(
    ("what", "sabotage", "said"),
    [
        ("sleep", "import time; time.sleep = lambda seconds: None", "expected calls of 0.03 s, found one of "),
        ("select", "import select; select.select = lambda r, w, x, s: (r, [], [])", "expected nothing from the socket"),
        ("subprocess", "import subprocess; subprocess.call = lambda argv: 1", "expected exit code 0 of sleep, found 1"),
        ("recv", "import socket; socket.socket.recv = lambda self, size: b'y'", "expected the byte sent, found b'y'"),
    ],
)
def test_a_call_that_did_not_block_or_failed_is_an_error(refusal: Refusal, what: str, sabotage: str, said: str) -> None:
    assert said in refusal(*asked(what), sabotage=sabotage)


@pytest.mark.parametrize(
    ("ends", "order", "row"),
    [
        ([[1, 3], [2, 4]], "ABAB", 1),
        ([[3, 4], [1, 2]], "AABB", 2),
        ([[1, 5], [2, 3], [4, 6]], "ABBCAC", 2),
        ([[1, 2, 3]], "AAA", 3),
        ([[number, 26 + number] for number in range(26)], 2 * "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 1),
    ],
)
def test_the_pattern_has_a_letter_for_each_call_in_the_order_of_their_ends(
    blocking: ModuleType, ends: list[list[int]], order: str, row: int
) -> None:
    made = [[(0, end) for end in thread] for thread in ends]
    assert blocking.order_of_ends(made) == order
    assert blocking.longest_row(order) == row


@pytest.mark.parametrize("what", ["short-sleeps", "spin"])
def test_a_unit_is_a_flag_that_is_raised_after_20_ms(report: Report, what: str) -> None:
    found = report("blocking.py", "--what", what, "--loops", "5", "--warmups", "0", "--values", "1")
    assert (found["loops"], found["inner_loops"]) == (5, 1)
    assert found["values"][0] >= 5 * 0.02


def test_the_one_that_waits_sleeps_shortly_and_the_other_one_long(
    protocol: ModuleType, blocking: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: list[float] = []
    real = time.sleep

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        real(seconds)

    monkeypatch.setattr(blocking.time, "sleep", sleep)
    blocking.time_flags(protocol.Threads(), blocking.wait_by_sleeping, 2)
    assert sleeps.count(0.02) == 2
    assert sleeps.count(0.005) == len(sleeps) - 2 >= 2


def test_a_flag_that_was_raised_at_once_is_an_error(refusal: Refusal) -> None:
    # By a clock that only a sleep would move: a busy machine takes longer than that for what is no sleep.
    at_once = "import time; time.sleep = lambda seconds: None; time.perf_counter = lambda: 1.0"
    assert re.search(r"\b1\b.*\b0\.02\b", refusal(*asked("spin"), sabotage=at_once))


def test_the_processes_that_answer_end_with_the_program(report: Report) -> None:
    """They hold its standard output open: `report` would not return before they have ended."""
    report(*asked("recv", threads=4))
