"""Threads that share tasks: computing, waiting for a partner, or both."""

import re
import time
from pathlib import Path

import pytest

from tests.workloads.conftest import ONCE, Refusal, Report, Run

PROGRAM = "threads_scaling.py"
KINDS = ("pure", "io", "mixed")
# The generator's next number is another one, as a broken multiplication would have it.
WRONG_ARITHMETIC = """
import protocol
class Short:
    def __init__(self, *numbers): self.numbers = range(*numbers)
    def __iter__(self): return iter(self.numbers[1:] if len(self.numbers) == 10000 else self.numbers)
protocol.lazy_range = Short
"""
LOST_TASK = """
import protocol
def short(*numbers, real=range):
    return real(*numbers)[1:] if len(numbers) == 3 else real(*numbers)
protocol.lazy_range = short
"""
# Only what partners send: a program's own question is one byte as well, and goes the other way.
WRONG_ANSWER = """
import os, socket

class Socket(socket.socket):
    def sendall(self, data):
        super().sendall(data if os.getpid() == PARENT else b"!")
PARENT = os.getpid()
def socketpair(real=socket.socketpair):
    return tuple(Socket(fileno=one.detach()) for one in real())
socket.socketpair = socketpair
"""


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize("threads", [1, 3, 16])
def test_every_task_is_done_whatever_the_number_of_threads(report: Report, what: str, threads: int) -> None:
    found = report(PROGRAM, "--what", what, "--threads", str(threads), *ONCE)
    assert (found["loops"], found["inner_loops"]) == (1, 16)
    assert found["metadata"]["threads"] == threads


def test_no_task_takes_no_time_to_speak_of_and_starts_no_more_than_asked(report: Report) -> None:
    found = report(PROGRAM, "--what", "io", "--threads", "2", "--loops", "0", "--warmups", "0", "--values", "1")
    assert found["loops"] == 0


def test_a_thread_that_waits_gives_its_cpu_up_for_the_partners_pause(report: Report) -> None:
    found = report(PROGRAM, "--what", "io", "--threads", "1", "--loops", "4", "--warmups", "0", "--values", "1")
    # 64 questions, one after the other, each of which is answered 2 ms later.
    assert found["values"][0] >= 64 * 0.002
    assert found["metadata"]["work_voluntary_switches"] >= 64


@pytest.mark.parametrize(
    ("what", "sabotage", "said"),
    [
        ("pure", WRONG_ARITHMETIC, r"\b1043618065\b"),
        ("io", WRONG_ANSWER, r"b'\?'.*b'!'"),
        ("pure", LOST_TASK, r"\b16\b.*\b14\b"),
    ],
    ids=["a wrong number", "a wrong answer", "a lost task"],
)
def test_what_is_not_done_right_is_an_error(refusal: Refusal, what: str, sabotage: str, said: str) -> None:
    found = refusal(PROGRAM, "--what", what, "--threads", "2", *ONCE, sabotage=sabotage)
    assert re.search(f"work not done: .*{said}", found)


def test_its_partners_end_with_it(run_program: Run, tmp_path: Path) -> None:
    """Also when it ends in the middle of the work."""
    marks = tmp_path / "partners"
    marks.mkdir()
    noting = f"""
import os
def fork(real=os.fork):
    pid = real()
    if not pid:
        open({str(marks)!r} + "/" + str(os.getpid()), "w").close()
    return pid
os.fork = fork
"""
    done = run_program(PROGRAM, "--what", "io", "--threads", "4", *ONCE, sabotage=noting + WRONG_ANSWER)
    assert done.returncode == 1
    partners = [int(path.name) for path in marks.iterdir()]
    assert len(partners) == 4
    give_up_s = time.monotonic() + 60
    while (left := [pid for pid in partners if Path(f"/proc/{pid}").exists()]) and time.monotonic() < give_up_s:
        time.sleep(0.01)
    assert left == []
