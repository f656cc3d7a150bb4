"""How a report begins: the recommendation of a pick, what changed, and what is open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from interlock.analysis import comparison
from interlock.analysis.comparison import Table, tables
from interlock.report import experiment as report
from interlock.report import opening
from interlock.report.html import page
from interlock.report.opening import (
    MOST_LINES_CHANGED,
    MOST_ROWS,
    NOT_KNOWN,
    OPEN,
    Opening,
    brief,
    differences_section,
    markdown_opening,
    opening_of,
)
from interlock.report.tables import Section
from interlock.results.answers import Decision
from interlock.results.experiments import TOO_DISTURBED, BenchmarkValues, Built, Experiment, Outcome, State, Times
from tests.builders import make_cell, make_experiment, make_settings, make_values, make_workload, present
from tests.picks import SIX, Figures, make_evidence, noisy, queue, values_of
from tests.reports import printed

# Twice as fast, 2 % slower give or take 30, three times as slow.
FACTORS = {"fast": (0.5, 0.005), "wild": (1.02, 0.3), "slow": (3.0, 0.005)}


def material(benchmarks: Sequence[str] = ("locks/queue",), **families: str) -> tuple[Experiment, list[Table], Opening]:
    """An experiment with a variant of each factor; `families` are those of the variants."""
    figures: Figures = {
        "base": dict.fromkeys(benchmarks, SIX),
        **{label: dict.fromkeys(benchmarks, noisy(by, off=off)) for label, (by, off) in FACTORS.items()},
    }
    variants = {name: {"family": families.get(name, "release-lines")} for name in figures}
    evidence = make_evidence(figures, variants=variants)
    experiment = evidence.experiment
    tables = comparison.tables(experiment, values_of(figures), {})
    return experiment, tables, opening_of(experiment, values_of(figures), evidence.catalog)


def test_it_is_the_sentence_of_a_pick_from_its_own_figures() -> None:
    _, _, opening = material()
    assert opening.sentence == present(opening.pick).answer
    assert opening.sentence.startswith("SWITCH from base to fast: ")
    assert "yours" not in opening.source


def test_a_table_of_a_trial_keeps_its_capitals_in_the_markdown() -> None:
    section = Section("verdicts on 2 CPUs", ("variant",), (("a",),))
    assert "## Verdicts on 2 CPUs" in markdown_opening(Opening(None, frozenset(), sections=(section,)), [], "base")


def test_without_a_project_around_it_there_is_no_recommendation() -> None:
    experiment, tables, _ = material()
    none = make_evidence(queue()).catalog.model_copy(update={"variants": {}})
    assert opening_of(experiment, {}, none) == NOT_KNOWN
    assert markdown_opening(NOT_KNOWN, tables, "base")[0] == f"**{NOT_KNOWN.sentence}**"


WITHOUT_CONTAINERS = "on this machine, without containers"


@pytest.mark.parametrize("engine", ["host", "docker"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_report_says_first_whether_it_was_measured_without_containers_and_what_could_not_be(
    engine: str, is_known: bool
) -> None:
    experiment, tables, known = material()
    host = {**experiment.host, "engine": {**experiment.host["engine"], "name": engine}}
    lacking = Built(variant="official", outcome=Outcome(state=State.UNAVAILABLE, reason="an image"))
    experiment = experiment.model_copy(update={"host": host, "images": [*experiment.images, lacking]})
    catalog = make_evidence(queue()).catalog
    catalog = catalog if is_known else catalog.model_copy(update={"variants": {}})
    opening = opening_of(experiment, {}, catalog)
    if known.pick and is_known:
        opening = replace(opening, pick=known.pick.model_copy(update={"in_containers": engine != "host"}))
    shown = printed(brief(experiment, tables, opening), 200)
    written, drawn = report.markdown(experiment, tables, opening), page.page(experiment, tables, opening)
    for beginning in (shown, "\n".join(written.splitlines()[:6]), drawn.partition("<nav")[0]):
        assert (WITHOUT_CONTAINERS in beginning) is (engine == "host")
    for text in (shown, written, drawn):
        assert "ot measured: official (an image)" in text


def test_the_interpreter_that_was_measured_without_containers_is_named_for_ones_own_tests() -> None:
    experiment, tables, opening = material()
    pick = present(opening.pick).model_copy(update={"in_containers": False})
    assert "sha256:fast/bin/python3" in printed(brief(experiment, tables, replace(opening, pick=pick)), 200)


def test_what_changed_is_sorted_by_size_and_what_is_open_stands_apart() -> None:
    _, tables, opening = material()
    assert [one.label for one in opening.differences(tables)] == ["slow", "fast"]
    assert [one.label for one in opening.undecided(tables)] == ["wild"]


def test_what_was_too_disturbed_is_to_be_measured_again_and_lacks_no_round() -> None:
    """After six rounds one more was asked for, for a first look."""
    experiment, tables, opening = material()
    rows = [
        replace(row, to_baseline=row.to_baseline and replace(row.to_baseline, is_disturbed=True))
        for row in tables[0].rows
    ]
    tables = [replace(tables[0], rows=tuple(rows))]
    section = differences_section(OPEN, opening.undecided(tables), "base")
    assert {row[-1] for row in section.rows} == {"disturbed: measure again"}
    shown = printed(brief(experiment, tables, opening))
    lines = [line for line in shown.splitlines() if line.startswith("locks/queue")]
    assert [line.count("measure again") for line in lines] == [1] * len(FACTORS)


BUSY = "other processes used 90% of a core (make 80%)"


def disturbed(*workloads: str) -> Experiment:
    """An experiment of two workloads, ended by its budget, of which these were disturbed."""
    experiment, *_ = material(("locks/queue", "startup/pass"))
    warnings = [f"{name}: {BUSY}, {TOO_DISTURBED}: stop them, and repeat." for name in workloads]
    times = dict.fromkeys(("locks", "startup"), Times(measuring_s=1.0))
    changes = {"warnings": warnings, "times": times, "ended_by": "the budget of 9 min"}
    return experiment.model_copy(update=changes)


def test_where_all_was_disturbed_the_answer_says_by_what_and_names_the_command_that_begins_anew() -> None:
    """It said 'too few undisturbed figures, or not in a project', and to continue: no more rounds help."""
    experiment = disturbed("locks", "startup")
    unpicked = opening_of(experiment, {}, make_evidence({"base": {"locks/queue": SIX}}).catalog)
    assert unpicked.sentence.startswith("NO RECOMMENDATION: ")
    assert f"locks, startup decide nothing, because {BUSY}" in unpicked.sentence
    shown = printed(brief(experiment, [], unpicked), 200)
    # First the command that helps; whoever ended it may go on with it all the same.
    assert shown.index(experiment.command) < shown.index(experiment.resume_command)
    assert experiment.command in opening.ended_lines(experiment, [])[0]
    assert shown.count(BUSY) == 1


def test_where_a_part_was_disturbed_that_is_said_and_the_experiment_may_go_on() -> None:
    experiment = disturbed("locks")
    shown = printed(brief(experiment, [], replace(NOT_KNOWN, unpicked="")), 200)
    assert shown.count(BUSY) == 1
    assert f"Locks decides nothing, because {BUSY}." in shown  # it was 'decide', as of several
    assert "--resume" in shown


@pytest.mark.parametrize(
    ("family", "aside"), [("release-lines", False), ("free-threading", False), ("gnu-pth", True), ("imports", True)]
)
def test_rows_of_studies_are_aside(family: str, aside: bool) -> None:
    _, tables, opening = material(slow=family)
    assert (opening.asides == {"slow"}) is aside
    assert [one.label for one in opening.differences(tables, aside=True)] == ["slow"] * aside


def test_a_version_without_support_on_the_day_of_the_experiment_is_aside() -> None:
    figures = queue(**{"old": noisy(2.0), "base+mode": noisy(2.0)})
    ended = {"phase": "security", "end_of_life": "2026-10-31"}
    evidence = make_evidence(figures, variants={"old": {"support": ended}})
    assert opening_of(evidence.experiment, values_of(figures), evidence.catalog).asides == {"old", "base+mode"}


def test_the_markdown_folds_what_is_more_than_a_page_and_what_is_aside() -> None:
    names = [f"locks/b{number:02}" for number in range(MOST_ROWS)]
    experiment, tables, opening = material(names, fast="gnu-pth")
    text = "\n".join(markdown_opening(opening, tables, experiment.settings.baseline))
    unfolded = text.partition("<details>")[0]
    assert unfolded.count("| slow |") == MOST_ROWS
    assert "| fast |" not in unfolded
    assert text.count("| fast |") == MOST_ROWS
    assert text.count("<details>") == text.count("</details>")


@pytest.mark.parametrize("width", [80, 160])
def test_on_a_terminal_it_is_forty_lines_at_most(width: int) -> None:
    names = [f"locks/a-benchmark-with-a-long-name-{number:02}" for number in range(40)]
    experiment, tables, opening = material(names, fast="gnu-pth")
    lines = printed(brief(experiment, tables, opening), width).splitlines()
    assert len(lines) <= 40
    assert sum(" slow " in line for line in lines) == MOST_LINES_CHANGED
    assert any("--full" in line for line in lines)


def test_the_next_command_is_in_one_line_to_be_copied() -> None:
    experiment, tables, opening = material()
    command = "interlock trial . " + " ".join(f"--word-{number}" for number in range(20))
    pick = present(opening.pick).model_copy(update={"decision": Decision.SWITCH, "next": [command]})
    shown = printed(brief(experiment, tables, replace(opening, pick=pick)), 80, crop=False)
    assert any(line.endswith(command) for line in shown.splitlines())


def test_a_row_that_is_built_otherwise_than_the_baseline_says_so_wherever_its_ratio_stands() -> None:
    """Debian's 3.13 was 'faster' than an -O3 one, with PGO and LTO, and only the table of its benchmark said so."""
    experiment, tables, opening = material()
    rows = [replace(row, built_otherwise="LTO instead of -O3" if row.label == "slow" else "") for row in tables[0].rows]
    tables = [replace(tables[0], rows=tuple(rows))]
    shown = printed(brief(experiment, tables, opening), 80)
    assert [line.split()[1] for line in shown.splitlines() if "*" in line[:40]] == ["slow*", "built"]
    lines = [*markdown_opening(opening, tables, "base"), *report.markdown(experiment, tables, opening).splitlines()]
    about = {
        name: [line for line in lines if line.startswith((f"| {name}", f"| locks / queue | {name}"))]
        for name in FACTORS
    }
    assert {name: sum("otherwise" in line for line in some) for name, some in about.items()} == {
        "fast": 0, "wild": 0, "slow": 3,
    }  # fmt: skip


NOT_REACHED = Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first")


def values_of_medians(*medians: float) -> dict[str, BenchmarkValues]:
    return {"uncontended": make_values(*([one] for one in medians), rss=1)}


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
    found = present(opening.time_section(interrupted()))
    assert found.rows[0] == ("locks", "10", "45", "2", "57", "base 9 s")
    assert {row[0]: row[4] for row in found.rows[1:]} == {
        "instruments, probe, packages": "4",
        "waiting for the lock": "3",
    }
    assert " 64 s " in found.title


def test_an_experiment_without_times_has_no_table_of_them_and_nothing_open() -> None:
    experiment = make_experiment()
    assert opening.time_section(experiment) is None
    assert opening.ended_lines(experiment, []) == []


def test_what_is_undecided_or_was_not_reached_is_named_with_the_command_that_goes_on() -> None:
    experiment = interrupted()
    measured = {("base", "locks"): values_of_medians(1, 1.3, 1.1), ("a", "locks"): values_of_medians(1.2, 1.1, 1.3)}
    found = tables(experiment, measured, {})
    first, *rest = opening.ended_lines(experiment, found)
    assert "Ctrl-C" in first
    assert f"--resume {experiment.name}" in first
    assert rest == ["undecided: locks / uncontended: a", "not measured: locks: b", "not measured: write"]
    # Every form of the report says that, and where the time went.
    for text in (report.markdown(experiment, found), page.page(experiment, found)):
        assert "--resume" in text
        assert "base 9 s" in text


def test_what_is_printed_in_short_says_how_an_experiment_that_was_ended_goes_on() -> None:
    shown = printed(brief(interrupted(), [], NOT_KNOWN))
    assert f"--resume {interrupted().name}" in shown
    assert sum("write" in line for line in shown.splitlines()) == 1


def test_how_many_more_workloads_were_not_reached_is_said() -> None:
    """The third one of three was left out without a word, as if it had been measured."""
    experiment = interrupted()
    names = ["write", "startup", "service"]
    cells = [cell.model_copy(update={"workload": name}) for name in names for cell in experiment.cells[-1:]]
    settings = experiment.settings.model_copy(update={"workloads": names})
    shown = printed(brief(experiment.model_copy(update={"settings": settings, "cells": cells}), [], NOT_KNOWN))
    lines = [line for line in shown.splitlines() if line.startswith(("not measured", "and"))]
    assert lines == ["not measured: write", "not measured: startup", "and 1 more"]
