"""Verdicts as they fall: each row once, the fastest first, what stays undecided last."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import pytest
from rich.console import Console

from interlock.analysis.statistics import ratio_from
from interlock.analysis.verdicts import Comparison
from interlock.cli.progress import Display, MeasureProgress
from interlock.cli.streaming import DecidedRows
from interlock.measure.cells import Look, ProgressUpdate
from tests.builders import make_workload

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
BASE = "base"


def comparison(ratio: float, *, decided: bool = True, rounds: int = 3, other: str = BASE) -> Comparison:
    p = 0.001 if decided else 0.9
    return Comparison(other, ratio_from(math.log(ratio), 0.01 if decided else 1.0, 9, rounds), p, 0.9)


def look(workload: str = "locks", *, is_last: bool = False, **rows: Comparison) -> Look:
    found = make_workload(workload)
    return Look(found, found.benchmarks[0], {(label, one.other): one for label, one in rows.items()}, is_last=is_last)


def displayed(*, terminal: bool = False) -> tuple[Display, io.StringIO]:
    stream = io.StringIO()
    return Display(Console(file=stream, width=120, height=30, force_terminal=terminal)), stream


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


def test_only_ratios_to_the_baseline_are_streamed() -> None:
    display, stream = displayed()
    DecidedRows(display, BASE)(look(a=comparison(1.3, other="control")))
    assert stream.getvalue() == ""


def test_a_terminal_has_a_table_that_fills_up_and_stays_when_its_workload_is_over() -> None:
    display, stream = displayed(terminal=True)
    with display:
        rows = DecidedRows(display, BASE)
        rows(look(a=comparison(1.3)))
        rows(look(is_last=True, a=comparison(1.3), b=comparison(0.9)))
        rows(look("startup", c=comparison(0.5)))
        rows.end()
    text = ESCAPES.sub("", stream.getvalue()).replace("\r", "\n")
    kept = [words for words in map(str.split, text.splitlines()) if words[:1] in (["locks"], ["startup"])]
    # The last time that each workload was drawn, it was to stay.
    assert [words[2] for words in kept if words[0] == "locks"][-2:] == ["a", "b"]
    assert kept[-1][:3] == ["startup", "uncontended", "c"]


def test_how_many_rows_are_decided_is_said_with_what_goes_on() -> None:
    display, stream = displayed()
    rows = DecidedRows(display, BASE)
    say = MeasureProgress(display, 1, lambda: rows.counts)
    update = ProgressUpdate("round 1 of 3", "locks", "a", 0, 9)
    assert "decided" not in say.status(update, 0.0)
    rows(look(a=comparison(1.3)))
    assert " | 1 of 1 rows decided | " in say.status(update, 0.0)
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("count", [3, 50])
def test_a_table_never_pushes_what_goes_on_off_the_terminal(count: int) -> None:
    display, _ = displayed(terminal=True)
    rows = DecidedRows(display, BASE)
    many: Any = {f"v{number:02d}": comparison(1.1 + number / 100) for number in range(count)}
    rows(look(**many))
    assert rows._table().row_count == min(count, display.height - 8)
    assert rows._table(whole=True).row_count == count
