"""What people see while they wait, and the estimates in it."""

from __future__ import annotations

import io
import time

import pytest
from rich.console import Console

from interlock.progress import BuildProgress, Display, MeasureProgress, TransferProgress, clock
from interlock.stage import Step


def log_display() -> tuple[Display, io.StringIO]:
    stream = io.StringIO()
    return Display(Console(file=stream, width=40)), stream


@pytest.mark.parametrize(("seconds", "expected"), [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3661, "61:01")])
def test_a_clock_has_minutes_and_seconds(seconds: float, expected: str) -> None:
    assert clock(seconds) == expected


def test_without_a_terminal_every_step_of_a_build_is_a_line() -> None:
    display, stream = log_display()
    with display:
        say = BuildProgress(display, 2, {})
        say("cpython-3.13", "starting")
        say("cpython-3.13", "compiling the interpreter of a variant with a long name")
        say("cpython-3.13", "ok")
    assert stream.getvalue().splitlines() == [
        "build   cpython-3.13  starting 0:00",
        "build   cpython-3.13  compiling the interpreter of a variant with a long name 0:00",
        "build   cpython-3.13  ok 0:00",
    ]


def test_how_far_a_download_is_does_not_fill_a_log() -> None:
    display, stream = log_display()
    say = BuildProgress(display, 1, {})
    for done in range(100):
        say("a", f"pulling {done} of 100 MB")
    assert say.status(time.monotonic()).startswith("build   a  pulling 99 of 100 MB 0:00")
    say("a", "proving")
    say("a", "pulled")
    assert stream.getvalue().splitlines() == ["build   a  proving 0:00", "build   a  pulled 0:00"]


def test_what_was_pulled_was_not_built_and_says_nothing_of_the_time_that_is_left() -> None:
    say = build_progress(3, {})
    say("a", "pulled")
    assert say.status(time.monotonic()).endswith("1 of 3 done, 0:00 elapsed")


def test_images_that_are_moved_are_a_line_each_in_a_log() -> None:
    display, stream = log_display()
    say = TransferProgress(display, "push", 2)
    for done in range(100):
        say("a", f"pushing {done} of 100 MB")
    say.end("a", "pushed")
    say.end("b", "unchanged")
    assert stream.getvalue().splitlines() == ["push    a  pushed 0:00", "push    b  unchanged 0:00"]


def test_on_a_terminal_a_transfer_shows_how_far_it_is_of_how_many() -> None:
    stream = io.StringIO()
    with Display(Console(file=stream, width=100, force_terminal=True, color_system=None)) as display:
        say = TransferProgress(display, "pull", 3)
        say.end("a", "pulled")
        say("b", "pulling 3 of 30 MB")
    assert "pull    b  pulling 3 of 30 MB 0:00 | 1 of 3 done, 0:00 elapsed" in stream.getvalue()


def test_on_a_terminal_only_what_ended_stays() -> None:
    stream = io.StringIO()
    with Display(Console(file=stream, width=100, force_terminal=True, color_system=None)) as display:
        assert display.redraws
        say = BuildProgress(display, 2, {})
        say("a", "starting")
        say("a", "failed")
    assert "build   a  failed 0:00" in stream.getvalue()
    assert "build   a  starting 0:00\n" not in stream.getvalue()


def build_progress(total: int, usual_s: dict[str, float]) -> BuildProgress:
    return BuildProgress(log_display()[0], total, usual_s)


def test_the_status_of_builds_shows_what_runs_for_how_long_and_of_about_how_much() -> None:
    say = build_progress(3, {"a": 190.0})
    say("a", "compiling")
    say("b", "starting")
    say("c", "unchanged")
    status = say.status(time.monotonic() + 72)
    assert status.startswith("build   a  compiling 1:12 of about 3:10 | b  starting 1:12 | 1 of 3 done, 1:12 elapsed")


def test_the_rest_is_estimated_from_the_builds_that_ended() -> None:
    say = build_progress(3, {})
    say("a", "starting")
    say("b", "starting")
    say("a", "ok")
    assert say.status(time.monotonic() + 60).endswith("1 of 3 done, 1:00 elapsed, about 2:00 left")


def test_the_rest_is_estimated_from_how_long_the_builds_took_before() -> None:
    say = build_progress(1, {"a": 190.0})
    say("a", "compiling")
    assert "about 1:58 left" in say.status(time.monotonic() + 71.5)


def test_builds_that_were_unchanged_do_not_shorten_the_estimate() -> None:
    left = []
    for unchanged in ([], ["a", "b"]):
        say = build_progress(2 + len(unchanged), {})
        for variant in unchanged:
            say(variant, "unchanged")
        say("c", "starting")
        say("c", "ok")
        say("d", "starting")
        left.append(say.status(time.monotonic() + 60).rsplit(", ", 1)[1])
    assert left[0] == left[1]


def test_the_base_is_no_longer_shown_once_the_variants_are_being_built() -> None:
    say = build_progress(1, {})
    say("base", "preparing the runtime stage")
    assert "base  preparing the runtime stage" in say.status(time.monotonic())
    say("a", "starting")
    assert "base" not in say.status(time.monotonic())


def measure_progress(workloads: int) -> MeasureProgress:
    return MeasureProgress(log_display()[0], workloads)


def test_the_status_of_measuring_names_round_cell_and_count() -> None:
    say = measure_progress(1)
    step = Step("round 0 of 4", "locks", "cpython-3.13+twin", 0, 10)
    say(step)
    expected = "measure round 0 of 4 | locks / cpython-3.13+twin | 0 of 10 | 0:30 elapsed"
    assert say.status(step, time.monotonic() + 30) == expected


def test_the_status_of_preparing_has_no_count_and_no_estimate() -> None:
    step = Step("preparing", "instruments", "", 0, 1)
    assert measure_progress(2).status(step, time.monotonic() + 5) == "measure preparing | instruments | 0:05 elapsed"


@pytest.mark.parametrize(("workloads", "left"), [(1, "3:00"), (2, "7:00")])
def test_the_rest_is_estimated_by_the_pace_so_far_and_the_workloads_to_come(workloads: int, left: str) -> None:
    say = measure_progress(workloads)
    say(Step("preparing", "instruments", "", 0, 1))
    say(Step("round 0 of 4", "locks", "a", 0, 8))
    status = say.status(Step("round 1 of 4", "locks", "a", 2, 8), time.monotonic() + 60)
    assert status.endswith(f"2 of 8 | 1:00 elapsed, about {left} left")


def test_the_profile_pass_has_no_estimate() -> None:
    say = measure_progress(1)
    step = Step("profile", "locks", "a", 2, 8)
    say(step)
    assert say.status(step, time.monotonic() + 60).endswith("2 of 8 | 1:00 elapsed")


def test_a_log_has_a_line_per_stage_and_not_one_per_process() -> None:
    display, stream = log_display()
    say = MeasureProgress(display, 1)
    for number in range(4):
        say(Step(f"round {number // 2} of 1", "locks", "a", number, 4))
    assert [line.split(" | ")[0] for line in stream.getvalue().splitlines()] == [
        "measure round 0 of 1",
        "measure round 1 of 1",
    ]
