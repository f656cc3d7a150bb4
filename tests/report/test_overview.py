"""The README's picture: its marks are the figures of the tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from interlock.catalog.project import ProjectPaths
from interlock.cli import matrix
from interlock.cli.report import load_experiment
from interlock.report import overview
from interlock.report.overview import answers
from interlock.results import store
from tests.builders import ROOT

FOLDER = ROOT / "results/reference" / overview.EXPERIMENT


def known(labels: Sequence[str], *workloads: str, benchmarks: Sequence[str] = ()) -> list[str]:
    """Return what is known of these rows; `benchmarks` are the only ones of the one workload that are measured."""
    chosen = {workloads[0]: benchmarks} if benchmarks else {}
    measured = {"variants": labels, "workloads": workloads, "benchmarks": chosen}
    settings = store.read_experiment(FOLDER).settings.model_copy(update=measured)
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("interlock.cli.matrix.console.say", said.append)
        matrix.print_known(ProjectPaths(ROOT, ROOT / "nowhere"), settings)
    return said


def test_a_mark_is_the_baselines_time_divided_by_the_variants() -> None:
    _, tables, _ = load_experiment(FOLDER)
    shown = answers(tables)
    assert [question for question, _ in shown] == list(overview.QUESTIONS)
    question, marks = shown[0]
    asked = (question.workload, question.benchmark)
    (table,) = (each for each in tables if (each.workload.name, each.benchmark.name) == asked)
    ratios = {row.label: row.to_baseline.ratio for row in table.rows if row.to_baseline}
    assert {mark.series for mark in marks} == set(overview.SHOWN)
    for mark in marks:
        assert mark.value == pytest.approx(1 / ratios[mark.series].estimate)
        assert (mark.low, mark.high) == pytest.approx((1 / ratios[mark.series].high, 1 / ratios[mark.series].low))


def test_a_change_is_per_cent_and_from_two_times_on_a_factor() -> None:
    assert [overview.change_text(value) for value in (1.26, 0.5, 0.996, 2.1)] == ["+26 %", "-50 %", "+0 %", "2.1x"]


def test_what_is_known_before_a_run_is_what_the_picture_shows_of_the_rows_and_workloads_asked_for() -> None:
    experiment, tables, _ = load_experiment(FOLDER)
    labels = experiment.settings.variants
    title, *rows = known(labels, *experiment.settings.workloads)
    assert experiment.host["cpu"] in title
    assert experiment.started[:10] in title
    assert [line.split()[1] for line in rows] == [f"{name}:" for name in overview.SHOWN]
    for question, marks in [found for found in overview.answers(tables) if not found[0].memory]:
        for line, mark in zip(rows, marks, strict=True):
            said = re.search(rf"{question.workload} [^;]*\b{question.benchmark} ([^,;]+)", line)
            assert said
            if said[1].endswith("x"):
                assert float(said[1][:-1]) == pytest.approx(1 / mark.value, rel=0.005)
    (_, only) = known(["cpython-3.13", "cpython-3.9"], "startup")
    assert "cpython-3.9" in only
    assert "download" not in only
    assert not known(["cpython-3.15"], "startup")
    others = store.read_experiment(FOLDER.with_name(overview.KNOWN[-1])).settings.variants
    assert len(known([name for name in others if name not in labels], "locks")) == 1 + overview.MOST_KNOWN


@pytest.mark.parametrize("benchmarks", [["many"], ["single", "many"], ["single-tls-pinned"]])
def test_of_a_workload_of_which_some_benchmarks_are_measured_only_these_are_known(benchmarks: list[str]) -> None:
    said = known(["cpython-3.9"], "download", benchmarks=benchmarks)
    asked = {question.benchmark for question in overview.QUESTIONS}
    assert set(re.findall(r"\b(?:single|many)[\w-]*", "".join(said))) == asked.intersection(benchmarks)
