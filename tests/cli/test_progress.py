"""What people see while they wait, and the estimates in it."""

from __future__ import annotations

import io
import math
import re
import time
from dataclasses import replace

import pytest
from rich.console import Console

from interlock.analysis.statistics import ratio_from
from interlock.analysis.verdicts import Comparison
from interlock.cli.progress import (
    BUILT_OTHERWISE,
    BuildProgress,
    DecidedRows,
    Display,
    MeasureProgress,
    TransferProgress,
    clock,
    line,
    open_display,
)
from interlock.measure.watching import Look, ProgressUpdate
from tests.builders import make_workload, present

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def displayed(width: int = 120, *, terminal: bool = False) -> tuple[Display, io.StringIO]:
    """A log, or a terminal without colours."""
    stream = io.StringIO()
    return Display(Console(file=stream, width=width, height=30, force_terminal=terminal, color_system=None)), stream


def last_frame(stream: io.StringIO, rows: int) -> list[str]:
    """The rows as they were drawn last, before the display went."""
    lines = [line.rstrip() for line in ESCAPES.sub("", stream.getvalue()).splitlines()]
    return [line for line in lines if line][-rows:]


def test_for_a_program_standard_error_has_no_line_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with open_display(as_json=True) as display:
        BuildProgress(display, 1, {})("cpython-3.13", "ok")
        display.show("measure round 1 of 5")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("seconds", "expected"), [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3661, "61:01")])
def test_a_clock_has_minutes_and_seconds(seconds: float, expected: str) -> None:
    assert clock(seconds) == expected


def test_without_a_terminal_every_step_of_a_build_is_a_line() -> None:
    display, stream = displayed(40)
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
    display, stream = displayed(40)
    say = BuildProgress(display, 1, {})
    for done in range(100):
        say("a", f"pulling {done} of 100 MB")
    row = say.row("a")
    assert (row.step, row.done, row.total) == ("pulling 99 of 100 MB", 99, 100)
    say("a", "proving")
    say("a", "pulled")
    assert stream.getvalue().splitlines() == ["build   a  proving 0:00", "build   a  pulled 0:00"]


def test_images_that_are_moved_are_a_line_each_in_a_log() -> None:
    display, stream = displayed(40)
    say = TransferProgress(display, "push", 2)
    for done in range(100):
        say("a", f"pushing {done} of 100 MB")
    say.end("a", "pushed")
    say.end("b", "unchanged")
    assert stream.getvalue().splitlines() == ["push    a  pushed 0:00", "push    b  unchanged 0:00"]


def test_on_a_terminal_a_transfer_shows_how_far_it_is_of_how_many() -> None:
    display, stream = displayed(80, terminal=True)
    with display:
        say = TransferProgress(display, "pull", 3)
        say.end("a", "pulled")
        say("b", "pulling 3 of 30 MB")
    total, row = last_frame(stream, 2)
    assert total.split()[:5] == ["pull", "1", "of", "3", "done"]
    assert row.split()[:6] == ["pull", "b", "pulling", "3", "of", "30"]
    assert all(line.endswith("0:00") for line in (total, row))


def test_on_a_terminal_each_build_has_a_row_that_no_other_build_cuts_off() -> None:
    names = [f"cpython-3.{minor}-with-a-long-name" for minor in range(5)]
    display, stream = displayed(80, terminal=True)
    with display:
        say = BuildProgress(display, 6, {names[0]: 190.0})
        for name in names:
            say(name, "compiling")
        say("cpython-3.14", "ok")
    total, *rows = last_frame(stream, 6)
    assert "1 of 6 done" in total
    assert [row.split()[:3] for row in rows] == [["build", name, "compiling"] for name in names]
    assert rows[0].endswith("0:00 of about 3:10")
    assert all(len(row) <= 80 for row in rows)


def test_on_a_terminal_the_step_gives_way_to_the_name_and_the_clock() -> None:
    display, stream = displayed(50, terminal=True)
    with display:
        say = BuildProgress(display, 1, {})
        say("cpython-3.14", "checking the signature of a source with a long name")
    row = last_frame(stream, 1)[0]
    assert row.startswith("build   cpython-3.14 checking")
    assert re.search(r" \d+:\d\d$", row)


def test_on_a_terminal_a_clock_goes_on_between_two_steps() -> None:
    display, stream = displayed(80, terminal=True)
    with display:
        BuildProgress(display, 1, {})("a", "compiling")
        time.sleep(1.1)
    minutes, seconds = last_frame(stream, 1)[0].split()[-1].split(":")
    assert (int(minutes), int(seconds)) >= (0, 1)


def test_on_a_terminal_a_build_that_ended_has_no_row() -> None:
    display, stream = displayed(80, terminal=True)
    with display:
        say = BuildProgress(display, 2, {})
        say("a", "compiling")
        say("b", "compiling")
        say("a", "ok")
    assert [row.split()[1] for row in last_frame(stream, 2)] == ["1", "b"]


@pytest.mark.parametrize("step", ["failed", "not verified: not built from source", "reproducible: sha256:1"])
def test_on_a_terminal_what_ended_stays_and_what_verifying_found(step: str) -> None:
    display, stream = displayed(100, terminal=True)
    with display:
        assert display.redraws
        say = BuildProgress(display, 1, {})
        say("a", "starting")
        say("a", step)
    assert f"build   a  {step} 0:00\n" in stream.getvalue()
    assert "build   a  starting 0:00\n" not in stream.getvalue()


def build_progress(total: int, usual_s: dict[str, float]) -> BuildProgress:
    return BuildProgress(displayed(40)[0], total, usual_s)


def test_a_row_says_what_runs_since_when_and_how_long_it_usually_takes() -> None:
    say = build_progress(3, {"a": 190.0})
    before = time.monotonic()
    say("a", "compiling")
    say("b", "starting")
    say("c", "unchanged")
    row = say.row("a")
    assert (row.name, row.step, row.expected_s) == ("build   a", "compiling", 190.0)
    assert before <= present(row.since) <= time.monotonic()
    assert say.row("b").expected_s is None
    assert say.total_row(time.monotonic()).step == "1 of 3 done"


def test_the_rest_is_estimated_from_the_builds_that_ended() -> None:
    say = build_progress(3, {})
    say("a", "starting")
    say("b", "starting")
    say("a", "ok")
    assert say.total_row(time.monotonic() + 60).expected_s == pytest.approx(180, abs=1)


def test_the_rest_is_estimated_from_how_long_the_builds_took_before() -> None:
    say = build_progress(1, {"a": 190.0})
    say("a", "compiling")
    assert say.total_row(time.monotonic() + 70).expected_s == pytest.approx(190, abs=1)


def test_builds_that_were_unchanged_do_not_shorten_the_estimate() -> None:
    left = []
    for unchanged in ([], ["a", "b"]):
        say = build_progress(2 + len(unchanged), {})
        for variant in unchanged:
            say(variant, "unchanged")
        say("c", "starting")
        say("c", "ok")
        say("d", "starting")
        left.append(say.total_row(time.monotonic() + 60).expected_s)
    assert left[0] == pytest.approx(left[1], abs=1)
    assert left[0] == pytest.approx(120, abs=1)


def test_the_base_is_no_longer_shown_once_the_variants_are_being_built() -> None:
    display, stream = displayed(80, terminal=True)
    with display:
        say = BuildProgress(display, 1, {})
        say("base", "mmdebstrap makes trixie")
        assert say.row("base").step == "mmdebstrap makes trixie"
        say("a", "starting")
    assert [row.split()[1] for row in last_frame(stream, 2)] == ["0", "a"]


def measure_progress(workloads: int) -> MeasureProgress:
    return MeasureProgress(displayed(40)[0], workloads)


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (("round 0 of 4", "locks", "a+twin", 0, 10), "round 0 of 4 | locks / a+twin | 0 of 10 | 1:00 elapsed"),
        (("preparing", "instruments", "", 0, 1), "preparing | instruments | 1:00 elapsed"),
        (("profile", "locks", "a", 2, 8), "profile | locks / a | 2 of 8 | 1:00 elapsed"),
    ],
)
def test_the_status_names_what_goes_on_and_estimates_rounds_that_have_begun_alone(
    update: tuple[str, str, str, int, int], expected: str
) -> None:
    say, step = measure_progress(1), ProgressUpdate(*update)
    say(step)
    assert say.status(step, time.monotonic() + 60) == f"measure {expected}"


@pytest.mark.parametrize(("workloads", "left"), [(1, "3:00"), (2, "7:00")])
def test_the_rest_is_estimated_by_the_pace_so_far_and_the_workloads_to_come(workloads: int, left: str) -> None:
    say = measure_progress(workloads)
    say(ProgressUpdate("preparing", "instruments", "", 0, 1))
    say(ProgressUpdate("round 0 of 4", "locks", "a", 0, 8))
    status = say.status(ProgressUpdate("round 1 of 4", "locks", "a", 2, 8), time.monotonic() + 60)
    assert status.endswith(f"2 of 8 | 1:00 elapsed, at most {left} left")


def test_no_more_is_said_to_be_left_than_the_budget_has() -> None:
    display, _ = displayed(40)
    say = MeasureProgress(display, 2, budget_left_s=lambda: 90.0)
    say(ProgressUpdate("round 0 of 4", "locks", "a", 0, 8))
    status = say.status(ProgressUpdate("round 1 of 4", "locks", "a", 2, 8), time.monotonic() + 60)
    assert status.endswith("at most 1:30 left")


def test_a_log_has_a_line_per_stage_and_not_one_per_process() -> None:
    display, stream = displayed(40)
    say = MeasureProgress(display, 1)
    for number in range(4):
        say(ProgressUpdate(f"round {number // 2} of 1", "locks", "a", number, 4))
    assert [line.split(" | ")[0] for line in stream.getvalue().splitlines()] == [
        "measure round 0 of 1",
        "measure round 1 of 1",
    ]


BASE = "base"


def comparison(ratio: float, *, decided: bool = True, rounds: int = 3, other: str = BASE) -> Comparison:
    p = 0.001 if decided else 0.9
    return Comparison(other, ratio_from(math.log(ratio), 0.01 if decided else 1.0, 9, rounds), p, 0.9)


def look(workload: str = "locks", *, is_last: bool = False, **rows: Comparison) -> Look:
    found = make_workload(workload)
    return Look(found, found.benchmarks[0], {(label, one.other): one for label, one in rows.items()}, is_last=is_last)


def subjects(stream: io.StringIO) -> list[tuple[str, str]]:
    """The state and the label of each line."""
    return re.findall(r"^(decided|open) +\S+ / \S+ \| (\S+)", stream.getvalue(), re.M)


def test_of_one_look_the_fastest_row_comes_first_and_undecided_ones_wait() -> None:
    display, stream = displayed()
    rows = DecidedRows(display, BASE)
    rows(look(a=comparison(1.3), b=comparison(0.7), c=comparison(1.0, decided=False)))
    assert subjects(stream) == [("decided", "b"), ("decided", "a")]
    assert rows.counts == "2 of 3 rows decided"


def test_a_row_is_shown_once_and_at_the_end_what_is_open_is_shown_as_open() -> None:
    display, stream = displayed()
    rows = DecidedRows(display, BASE)
    rows(look(a=comparison(1.3), b=comparison(0.7, decided=False)))
    rows(look(is_last=True, a=comparison(1.2, rounds=8), b=comparison(0.8, decided=False, rounds=8)))
    assert subjects(stream) == [("decided", "a"), ("open", "b")]
    assert stream.getvalue().rstrip().endswith("8 rounds")
    assert rows.counts == "1 of 2 rows decided"


def test_a_row_that_was_shown_before_others_joined_is_not_shown_again() -> None:
    first, stream = displayed()
    rows = DecidedRows(first, BASE)
    rows(look(a=comparison(1.3), b=comparison(0.9, decided=False)))
    rows.display, later = displayed()
    rows(look(is_last=True, a=comparison(1.3), b=comparison(0.7), late=comparison(0.8)))
    assert subjects(stream) == [("decided", "a")]
    assert subjects(later) == [("decided", "b"), ("decided", "late")]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_row_that_is_built_otherwise_than_the_baseline_says_so_while_it_is_measured(terminal: bool) -> None:
    display, stream = displayed(terminal=terminal)
    first = look(a=comparison(1.3), b=comparison(0.7))
    rows = DecidedRows(display, BASE)
    with display:
        rows(replace(first, built_otherwise=frozenset({"b"})))
    marked = [line for line in ESCAPES.sub("", stream.getvalue()).splitlines() if BUILT_OTHERWISE in line]
    assert marked
    assert all(" b" in line for line in marked)


def test_only_ratios_to_the_baseline_are_streamed() -> None:
    display, stream = displayed()
    DecidedRows(display, BASE)(look(a=comparison(1.3, other="control")))
    assert stream.getvalue() == ""


def test_how_many_rows_are_decided_is_said_with_what_goes_on() -> None:
    display, stream = displayed()
    rows = DecidedRows(display, BASE)
    say = MeasureProgress(display, 1, lambda: rows.counts)
    update = ProgressUpdate("round 1 of 3", "locks", "a", 0, 9)
    assert "decided" not in say.status(update, 0.0)
    rows(look(a=comparison(1.3)))
    assert " | 1 of 1 rows decided | " in say.status(update, 0.0)
    assert len(stream.getvalue().splitlines()) == 1


def test_rows_of_a_workload_that_was_disturbed_count_as_undecided_and_that_is_said_at_once() -> None:
    """'39 of 78 rows decided' was followed by a report of which none was."""
    display, stream = displayed()
    rows = DecidedRows(display, BASE)
    rows(look(a=comparison(1.3)))
    rows(look("startup", a=comparison(1.3), b=comparison(0.7)))
    rows.on_disturbed("startup", "other processes used 90% of a core (make 80%)")
    assert rows.counts == "1 of 3 rows decided"
    assert "make 80%" in stream.getvalue()


def test_a_row_of_one_round_says_so_in_the_singular() -> None:
    assert line(("locks", "queue", "a"), comparison(1.2, rounds=1)).endswith(" | 1 round")
    assert line(("locks", "queue", "a"), comparison(1.2, rounds=2)).endswith(" | 2 rounds")
