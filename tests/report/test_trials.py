"""What the report of a trial has besides its tables."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interlock.analysis.comparison import Table
from interlock.catalog.project import Catalog
from interlock.catalog.services import Probed
from interlock.report import machine_readable
from interlock.report import trials as report
from interlock.report.experiment import headline, markdown
from interlock.report.html.page import page
from interlock.report.opening import brief, ended_lines, markdown_opening, opening_of
from interlock.report.tables import Section, capitalized
from interlock.results.experiments import Experiment, Outcome, State
from interlock.results.json_documents import Reported
from interlock.results.trials import OWN, GilStates
from tests.builders import present
from tests.reports import printed
from tests.trials import NOISE, around, make_trial, make_tried

NOTHING = Catalog(bases={}, families={}, differences={}, variants={}, workloads={})
FAST = {"cpython-3.14": around(0.0005, NOISE[::-1])}
SLOW = {"cpython-3.13": around(0.002)}


def answer(experiment: Experiment, *tables: Table) -> str:
    return report.answer(experiment, tables)


def sections_of(experiment: Experiment, *tables: Table) -> tuple[Section, ...]:
    return report.sections(experiment, present(experiment.trial), tables)


def test_after_the_answer_comes_the_command_that_changes_the_dockerfile() -> None:
    experiment, table = make_tried(FAST | SLOW)
    assert answer(experiment, table).startswith("For 1 CPU: ")
    following = report.next_commands(experiment, [table, table])
    assert following == ("interlock swap service/Dockerfile --to cpython-3.14 --paths",)
    opening = opening_of(experiment, {}, NOTHING, [table])
    assert f"`{following[0]}`" in markdown_opening(opening, [table], OWN)


def test_the_command_is_printed_as_it_is_typed_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "bin/interlock")])
    monkeypatch.setenv("PATH", "/nowhere")
    experiment, table = make_tried(FAST)
    opening = opening_of(experiment, {}, NOTHING, [table])
    whole = f"next: {tmp_path}/bin/interlock swap service/Dockerfile --to cpython-3.14 --paths"
    assert whole in printed(brief(experiment, [table], opening), 80, crop=False).splitlines()


def test_the_command_names_the_stage_that_was_tried() -> None:
    experiment, table = make_tried(FAST, trial=make_trial(stage="app"))
    assert report.next_commands(experiment, [table])[0].endswith("--to cpython-3.14 --paths --stage app")


def test_what_is_open_is_named_if_nothing_is_better() -> None:
    left = Outcome(state=State.NOT_MEASURED, reason="Ctrl-C came first")
    said = answer(*make_tried(SLOW, {"cpython-3.14": left}, ended_by="Ctrl-C"))
    assert "Ctrl-C" in said
    assert ": cpython-3.14. cpython-3.13: " in said
    assert "throughput -50 %" in said
    assert answer(*make_tried(SLOW)).startswith("For 1 CPU: do not switch")


@pytest.mark.parametrize("state", [State.FAILED, State.TIMED_OUT])
def test_without_ones_own_image_there_is_no_answer_but_why(state: State) -> None:
    failed = Outcome(state=state, reason="exit code 139")
    experiment, table = make_tried(FAST, {OWN: failed})
    assert "exit code 139" in answer(experiment, table)


def test_where_no_variant_was_tried_none_is_said_to_be_no_better() -> None:
    lacking = {"cpython-3.14": Outcome(state=State.UNAVAILABLE, reason="no image")}
    assert answer(*make_tried({}, lacking)).startswith("For 1 CPU: no answer: ")
    assert answer(*make_tried(SLOW, lacking)).startswith("For 1 CPU: do not switch: ")


def test_the_report_begins_with_the_answer_the_verdicts_and_what_was_changed() -> None:
    changes = ["@@ -1 +1 @@", "-FROM python:3.13", "+FROM interlock/python:3.14"]
    off = GilStates(processes=1, off_at_start=1)
    tried = {OWN: {}, "cpython-3.14": {"changes": changes, "gil": off, "warnings": ["line 1: a | b"]}}
    experiment, table = make_tried(FAST, trial=make_trial(tried=tried))
    opening = opening_of(experiment, {}, NOTHING, [table])
    verdicts, prices, figures, changed, remarks = opening.sections
    assert prices.rows == (("cpython-3.14", "+100 %", "0 % ="),)
    assert [row[0] for row in verdicts.rows] == ["cpython-3.14"]
    assert verdicts.rows[0][-1] == "switch"
    assert [(row[0], row[1][:5], row[-1]) for row in figures.rows] == [
        (OWN, "1,000", "-"),
        ("cpython-3.14", "2,000", "off"),
    ]
    assert changed.rows == tuple((line, "cpython-3.14") for line in changes[1:])
    assert remarks.rows == (("line 1: a | b", "cpython-3.14"),)
    text = markdown(experiment, [table], opening)
    assert text.index(opening.answer) < text.index("## Verdicts") < text.index("## Changes to your build")
    assert f"trial    {make_trial().dockerfile}" in "\n".join(headline(experiment))


def test_what_decides_heads_the_verdicts_though_the_first_variant_failed() -> None:
    failed = Outcome(state=State.FAILED, reason="no wheel")
    experiment, table = make_tried(FAST, {"cpython-3.13t": failed}, probed=Probed(decides="cpu"))
    verdicts, *_ = sections_of(experiment, replace(table, rows=table.rows[::-1]))
    assert [row[0] for row in verdicts.rows] == ["cpython-3.13t", "cpython-3.14"]
    assert verdicts.columns[1].startswith("CPU time, ")


def test_a_remark_on_any_number_of_cpus_is_said_once() -> None:
    experiment, table = make_tried(FAST)
    one, two, four = (
        replace(table, rows=tuple(replace(row, notes=notes) for row in table.rows))
        for notes in (("not steady", "not quiet"), ("not quiet",), ())
    )
    *_, remarks = sections_of(experiment, one, two, four)
    assert remarks.rows == tuple((note, f"{OWN}, cpython-3.14") for note in ("not steady", "not quiet"))


def test_json_has_the_verdicts_and_what_was_asked_for() -> None:
    experiment, table = make_tried(FAST)
    opening = opening_of(experiment, {}, NOTHING, [table])
    text = machine_readable.as_json(experiment, [table], opening)
    found = present(Reported.model_validate_json(text).trial)
    assert [(one.label, one.verdict) for one in found.verdicts] == [("cpython-3.14", "switch")]
    assert found.conclusion == opening.answer
    assert found.known == experiment.trial
    rows: dict[str, Any] = {one["label"]: one for one in json.loads(text)["rows"]}
    assert rows[OWN]["to_baseline"] is None
    assert rows["cpython-3.14"]["to_baseline"]["estimate"] == pytest.approx(0.5, rel=0.02)


def busy(used: float, load: float = 0.3, cpus: str = "1", **seconds: float) -> Table:
    reported = {OWN: {"service_cpus": used, "load_cpus": load}}
    rows = {label: around(value) for label, value in seconds.items()}
    return make_tried(rows, reported=reported, trial=make_trial(service_cpus=cpus))[1]


@pytest.mark.parametrize(("cpus", "is_said"), [("1", False), ("1-2", True)])
def test_fewer_cpus_are_advised_to_a_service_that_has_more_than_one(cpus: str, is_said: bool) -> None:
    assert ("--cpus 1" in report.busy_text([busy(0.4, 0.95, cpus)])) is is_said


@pytest.mark.parametrize(("used", "is_said"), [(0.95, True), (0.3, False)])
def test_what_a_second_cpu_gives_is_said_of_a_service_that_fills_the_first(used: float, is_said: bool) -> None:
    two = busy(used, 0.3, "0-1", free=0.0005)
    assert ("free 2.0" in report.busy_text([busy(used, free=0.001), two])) is is_said


def test_a_trial_that_was_ended_goes_on_by_its_own_command() -> None:
    experiment, table = make_tried(FAST, ended_by="Ctrl-C")
    first, *_ = ended_lines(experiment, [table])
    assert f"{experiment.command} --resume {experiment.name}" in first


def test_the_page_of_a_trial_has_its_verdicts() -> None:
    experiment, table = make_tried(FAST | SLOW)
    opening = opening_of(experiment, {}, NOTHING, [table])
    text = page(experiment, [table], opening)
    assert ">do not switch<" in text
    assert ">switch<" in text
    # Where a narrow screen hides the head of a table each figure has its name with it.
    named = re.findall(r'<td data-column="([^"]+)"', text)
    assert {column for section in opening.sections if section.rows for column in section.columns[1:]} == set(named)
    # The verdicts on one CPU and on two have the same columns: only their titles tell them apart.
    answered = text[: text.index("<nav")]
    assert re.findall("<h3>([^<]+)</h3>", answered) == [capitalized(section.title) for section in opening.sections]
