"""What a budget and signals end, and what they may interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from interlock.errors import Interrupted
from interlock.measure.ending import Ending, part_of_budget
from interlock.results.experiments import Times


def send(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def shared(budget_s: float | None, part: float, *, profiled: bool = False) -> Ending:
    """A budget whose clock runs, of which the first workload has its part."""
    ending = Ending(budget_s)
    ending.start()
    ending.share(part, profiled=profiled)
    return ending


def test_without_a_budget_or_a_signal_nothing_ends() -> None:
    ending = shared(None, 1, profiled=True)
    assert not ending.stops()
    assert not ending.stops_rounds()
    assert (ending.reason, ending.exit_code) == ("", 0)


def test_a_first_signal_is_noted_and_interrupts_only_what_is_kept() -> None:
    reached = []
    ending = Ending()
    with ending.listening():
        send(signal.SIGTERM)
        reached.append("outside")
        assert ending.stops()
    kept = Ending()
    with kept.listening():
        with kept.kept():
            send()
            reached.append("not reached")
        reached.append("after")
    assert reached == ["outside", "after"]
    assert (ending.reason, ending.exit_code) == ("SIGTERM", 143)
    assert (kept.reason, kept.exit_code) == ("Ctrl-C", 130)


def test_a_second_signal_interrupts_everything_but_what_is_shielded() -> None:
    ending = Ending()

    def three() -> None:
        send()
        with ending.shielded():
            send(signal.SIGTERM)
        send(signal.SIGTERM)

    with pytest.raises(Interrupted) as caught, ending.listening():
        three()
    assert caught.value.exit_code == 143
    assert ending.exit_code == 130


def test_a_second_signal_leaves_even_what_is_kept() -> None:
    def two() -> None:
        try:
            send()
        finally:
            send()

    ending = Ending()
    with pytest.raises(Interrupted), ending.listening(), ending.kept():
        two()
    assert len(ending.signals) == 2


def test_the_handlers_of_before_are_back_after_the_block() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Ending().listening():
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before


@dataclass
class Clock:
    """time.monotonic() as a test sets it."""

    now_s: float = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(time, "monotonic", lambda: made.now_s)
    return made


def test_a_workload_gets_its_share_of_the_budget_and_a_profile_a_part_of_that(clock: Clock) -> None:
    ending = shared(60, 1 / 2)
    for now_s, rounds_end, all_ends in ((29, False, False), (30, True, False), (59, True, False), (60, True, True)):
        clock.now_s = now_s
        assert (ending.stops_rounds(), ending.stops()) == (rounds_end, all_ends)
    clock.now_s = 0
    ending.share(1, profiled=True)
    for now_s, rounds_end in ((49, False), (50, True)):
        clock.now_s = now_s
        assert ending.stops_rounds() is rounds_end


def test_a_profile_has_a_part_of_its_workloads_share_whenever_it_begins(clock: Clock) -> None:
    ending = shared(400, 1 / 4, profiled=True)
    for began_s, end_s in ((80, 105), (30, 100)):  # what the rounds left of the share is the profile's
        clock.now_s = began_s
        ending.begin_profile()
        for now_s, profile_ends in ((end_s - 1, False), (end_s, True)):
            clock.now_s = now_s
            assert ending.stops_profile() is profile_ends
    assert (ending.has_cut, ending.stops()) == (True, False)
    endless = shared(None, 1 / 4, profiled=True)
    endless.begin_profile()
    assert not endless.stops_profile()


def test_what_one_workload_does_not_need_is_the_next_ones(clock: Clock) -> None:
    ending = shared(60, 1 / 3)
    clock.now_s = 10
    ending.share(1 / 2, profiled=False)
    clock.now_s = 34
    assert not ending.stops_rounds()
    assert ending.reason == ""
    clock.now_s = 35
    assert ending.stops_rounds()
    assert "60 s" in ending.reason


def test_the_rounds_that_a_first_look_needs_end_with_the_budget_alone(clock: Clock) -> None:
    ending = shared(60, 1 / 3)
    for now_s, ends in ((20, False), (59, False), (60, True)):
        clock.now_s = now_s
        assert (ending.stops_rounds(needed=True), ending.has_cut) == (ends, ends)


def test_a_terminal_that_is_gone_ends_it_as_ctrl_c_does_and_is_not_written_to() -> None:
    parent, child = os.openpty()
    code = (
        "import os, signal, sys\n"
        "from interlock.measure.ending import Ending\n"
        "ending = Ending()\n"
        "with ending.listening(), ending.kept():\n"
        "    print('ready', flush=True)\n"
        "    signal.pause()\n"
        "print('to a terminal that is gone', flush=True)\n"
        "os.write(int(sys.argv[1]), ending.reason.encode())\n"
    )
    read, write = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(write)],
        stdin=child,
        stdout=child,
        stderr=child,
        pass_fds=[write],
        start_new_session=True,
    )
    os.close(child)
    os.close(write)
    seen = b""
    while b"\n" not in seen:  # which a terminal may be given after the word
        seen += os.read(parent, 100)
    os.close(parent)
    process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0
    assert os.read(read, 100) == b"SIGHUP"
    os.close(read)


def test_nohup_keeps_a_hangup_away() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        ending = Ending()
        with ending.listening():
            send(signal.SIGHUP)
            assert not ending.stops()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_part_of_a_budget_leaves_the_rest_and_what_it_did_not_need_to_the_next(clock: Clock) -> None:
    ending = Ending(budget_s=90)
    ending.pause()  # nothing was started: nothing is used
    ending.start(1 / 3)
    for now_s, stops in ((29, False), (30, True)):
        clock.now_s = now_s
        assert ending.stops() is stops
    assert ending.reason
    ending.pause()
    clock.now_s = 1030  # builds
    assert not ending.stops()
    ending.start()
    assert not ending.reason
    for now_s, stops in ((1089, False), (1090, True)):
        clock.now_s = now_s
        assert ending.stops() is stops
    assert "90 s" in ending.reason


def test_a_budget_is_shared_as_the_workloads_took_their_time_before() -> None:
    """Of equal shares a start had fourteen rounds, and the server's rows that joined had one."""
    took = {name: Times(measuring_s=seconds) for name, seconds in (("startup", 30), ("locks", 60), ("download", 90))}
    assert part_of_budget(["startup", "locks", "download"], took, {}) == pytest.approx(1 / 6)
    assert part_of_budget(["locks", "download"], took, {}) == pytest.approx(0.4)
    assert part_of_budget(["download"], took, {}) == 1
    assert part_of_budget(["startup", "new"], took, {}) == 0.5
    assert part_of_budget(["startup", "locks", "download"], {}, {}) == pytest.approx(1 / 3)
    rows = {"startup": 5, "locks": 15, "download": 20, "adapted": 0}
    assert part_of_budget(["startup", "locks", "download"], {}, rows) == pytest.approx(5 / 40)
    assert part_of_budget(["download", "adapted"], {}, rows) == pytest.approx(20 / 21)
