"""What has no figure, and why."""

from __future__ import annotations

from interlock import skipped
from interlock.model import CellResult, Outcome, State
from tests.builders import OK, make_built, make_cell, make_experiment

BASE, OTHER = "cpython-3.13", "cpython-3.14t"
FAILED = Outcome(state=State.FAILED, reason="it crashed")
LATE = Outcome(state=State.TIMED_OUT, reason="it had not ended")
CANNOT = Outcome(state=State.UNSUPPORTED, reason="no threads")
MISSING = Outcome(state=State.UNAVAILABLE, reason="no place has it")


def test_everything_without_a_figure_has_a_line_with_its_reason() -> None:
    experiment = make_experiment(
        [BASE, OTHER, "nogil-3.9"],
        images=[make_built(BASE), make_built(OTHER), make_built("nogil-3.9", MISSING)],
        cells=[
            make_cell(BASE, outcome=LATE, benchmarks={"queue": LATE, "uncontended": OK}),
            make_cell(OTHER, outcome=CANNOT, benchmarks={"queue": CANNOT, "uncontended": CANNOT}, profile=FAILED),
            make_cell("nogil-3.9", outcome=MISSING),
        ],
    )
    assert skipped.skipped(experiment) == [
        "nogil-3.9: unavailable: no place has it",
        "cpython-3.13 / locks / queue: timed out: it had not ended",
        "cpython-3.14t / locks / queue, uncontended: unsupported: no threads",
        "cpython-3.14t / locks: no profile: it crashed",
    ]


def test_a_cell_that_was_never_reached_is_listed() -> None:
    experiment = make_experiment([BASE], cells=[make_cell(BASE, outcome=FAILED)])
    assert skipped.skipped(experiment) == ["cpython-3.13 / locks / all: failed: it crashed"]


def test_a_twin_that_failed_is_listed_because_without_it_there_is_no_noise_to_compare_with() -> None:
    experiment = make_experiment([BASE], cells=[make_cell(BASE), make_cell(BASE, mode="twin", outcome=FAILED)])
    (line,) = skipped.skipped(experiment)
    assert "twin" in line
    assert "it crashed" in line


def test_where_all_is_well_nothing_is_skipped() -> None:
    assert skipped.skipped(make_experiment()) == []


def test_only_what_failed_is_a_failure() -> None:
    cells: list[CellResult] = [make_cell("v", outcome=outcome) for outcome in (OK, CANNOT, FAILED, LATE, MISSING)]
    assert skipped.failures(cells) == [cells[2]]
