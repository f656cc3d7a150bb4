"""What a killed experiment leaves: its processes are found by their own command lines, and by nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from interlock import leftovers

SLEEP = "import signal, sys, time; {more}; print(flush=True); time.sleep(60)"
# Ends three seconds later, having counted.
COUNT = """\
import signal, time
seen = []
signal.signal(signal.SIGTERM, lambda *_: seen.append(1))
print(flush=True)
end = time.monotonic() + 3
while time.monotonic() < end:
    time.sleep(0.05)
print(len(seen))
"""
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"


@contextmanager
def process(*words: str, more: str = "0") -> Iterator[subprocess.Popen[bytes]]:
    """A Python with these arguments, once it is up."""
    command = [sys.executable, "-c", SLEEP.format(more=more), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        yield started
        started.kill()


def test_an_experiment_of_that_name_is_ended_and_named() -> None:
    with process("matrix", "--name", "fleet-abc.ash.locks") as one:
        assert leftovers.end_processes("fleet-abc.ash.") == ["fleet-abc.ash.locks"]
        assert one.wait(5) == -15


def test_others_go_on() -> None:
    with (
        process("matrix", "--name", "fleet-abc.birch.locks") as other_host,
        process("matrix", "--workloads", "fleet-abc.ash.locks") as no_name,
        process("report", "--name", "fleet-abc.ash.locks") as no_matrix,
    ):
        assert leftovers.end_processes("fleet-abc.ash.") == []
        assert [one.poll() for one in (other_host, no_name, no_matrix)] == [None, None, None]


def test_what_does_not_end_in_time_is_ended_by_force() -> None:
    with process("matrix", "--name", "fleet-abc.ash.locks", more=STUBBORN) as one:
        assert leftovers.end_processes("fleet-abc.ash.", within_s=0.5) == ["fleet-abc.ash.locks"]
        assert one.wait(5) == -9


def test_a_timeout_around_it_is_not_signalled_itself_for_it_hands_signals_on() -> None:
    command = ["timeout", "60", sys.executable, "-c", COUNT, "matrix", "--name", "fleet-abc.ash.locks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as around:
        assert around.stdout is not None
        around.stdout.readline()
        assert leftovers.end_processes("fleet-abc.ash.") == ["fleet-abc.ash.locks"]
        assert around.stdout.read() == "1\n", "signals"
