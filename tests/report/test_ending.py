"""Where the time went, and what was open when something ended an experiment."""

from __future__ import annotations

import io

from rich.console import Console

from interlock.analysis.comparison import tables
from interlock.report import ending
from interlock.report import experiment as report
from interlock.report.html import page
from interlock.report.opening import NOT_KNOWN, brief
from interlock.results.experiments import BenchmarkValues, Experiment, Outcome, State, Times
from tests.builders import make_cell, make_experiment, make_settings, make_workload

NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first")


def values_of(*medians: float) -> dict[str, BenchmarkValues]:
    return {"uncontended": BenchmarkValues(processes=[[one] for one in medians], max_rss_bytes=1)}


def interrupted() -> Experiment:
    cells = [
        make_cell("base", times=Times(preparing_s=9.4, measuring_s=20)),
        make_cell("a", times=Times(preparing_s=0.2)),
        make_cell("b", outcome=NOT_REACHED),
        *(make_cell(label, "write", NOT_REACHED) for label in ("base", "a", "b")),
    ]
    settings = make_settings(["base", "a", "b"]).model_copy(update={"workloads": ["locks", "write"]})
    return make_experiment(
        ["base", "a", "b"],
        settings=settings,
        cells=cells,
        workloads={name: make_workload(name) for name in ("locks", "write")},
        times={"locks": Times(preparing_s=10, measuring_s=45.4, profiling_s=2)},
        waiting_s=3,
        set_up_s=4,
        ended_by="Ctrl-C",
    )


def test_the_time_is_told_by_workload_and_adds_up_with_what_no_workload_has() -> None:
    found = ending.time_section(interrupted())
    assert found is not None
    assert found.rows[0] == ("locks", "10", "45", "2", "57", "base 9 s")
    assert {row[0]: row[4] for row in found.rows[1:]} == {"instruments, probe": "4", "waiting for the lock": "3"}
    assert " 64 s " in found.title


def test_an_older_record_has_no_times_and_nothing_open() -> None:
    experiment = make_experiment()
    assert ending.time_section(experiment) is None
    assert ending.ended_lines(experiment, []) == []


def test_what_is_undecided_or_was_not_reached_is_named_with_the_command_that_goes_on() -> None:
    experiment = interrupted()
    measured = {("base", "locks"): values_of(1, 1.3, 1.1), ("a", "locks"): values_of(1.2, 1.1, 1.3)}
    first, *rest = ending.ended_lines(experiment, tables(experiment, measured, {}))
    assert "Ctrl-C" in first
    assert f"--resume {experiment.name}" in first
    assert rest == ["undecided: locks / uncontended: a", "not measured: locks: b", "not measured: write"]


def test_every_form_of_the_report_says_both() -> None:
    experiment = interrupted()
    measured = {("base", "locks"): values_of(1, 1.3, 1.1), ("a", "locks"): values_of(1.2, 1.1, 1.3)}
    found = tables(experiment, measured, {})
    for text in (report.markdown(experiment, found), page.page(experiment, found, [])):
        assert "--resume" in text
        assert "base 9 s" in text


def test_what_is_printed_in_short_says_how_an_experiment_that_was_ended_goes_on() -> None:
    stream = io.StringIO()
    Console(file=stream, width=160).print(brief(interrupted(), [], NOT_KNOWN))
    assert f"--resume {interrupted().name}" in stream.getvalue()
    assert sum("write" in line for line in stream.getvalue().splitlines()) == 1
