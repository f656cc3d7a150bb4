"""How a report begins: the recommendation of a pick, what changed, and what is open."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from interlock.analysis import comparison
from interlock.analysis.comparison import Table
from interlock.report.opening import (
    MOST_LINES_CHANGED,
    MOST_ROWS,
    NOT_KNOWN,
    Opening,
    brief,
    markdown_opening,
    opening_of,
)
from interlock.results.experiments import Experiment
from tests.picks import SIX, Figures, make_evidence, noisy, values_of

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
    assert opening.pick is not None
    assert opening.sentence == opening.pick.answer
    assert opening.sentence.startswith("SWITCH from base to fast: ")
    assert "yours" not in opening.source


def test_without_a_project_around_it_there_is_no_recommendation() -> None:
    experiment, tables, _ = material()
    evidence = make_evidence({"base": {"locks/queue": SIX}})
    none = evidence.catalog.model_copy(update={"variants": {}})
    assert opening_of(experiment, {}, none) == NOT_KNOWN
    assert markdown_opening(NOT_KNOWN, tables, "base")[0] == f"**{NOT_KNOWN.sentence}**"


def test_what_changed_is_sorted_by_size_and_what_is_open_stands_apart() -> None:
    _, tables, opening = material()
    assert [one.label for one in opening.differences(tables)] == ["slow", "fast"]
    assert [one.label for one in opening.undecided(tables)] == ["wild"]


@pytest.mark.parametrize(
    ("family", "aside"), [("release-lines", False), ("free-threading", False), ("gnu-pth", True), ("imports", True)]
)
def test_rows_of_studies_are_aside(family: str, aside: bool) -> None:
    _, tables, opening = material(slow=family)
    assert (opening.asides == {"slow"}) is aside
    assert [one.label for one in opening.differences(tables, aside=True)] == ["slow"] * aside


def test_a_version_without_support_on_the_day_of_the_experiment_is_aside() -> None:
    figures: Figures = {
        "base": {"locks/queue": SIX},
        "old": {"locks/queue": noisy(2.0)},
        "base+mode": {"locks/queue": noisy(2.0)},
    }
    evidence = make_evidence(
        figures,
        variants={"old": {"support": {"phase": "security", "end_of_life": "2026-10-31"}}},
    )
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
    stream = io.StringIO()
    Console(file=stream, width=width).print(brief(experiment, tables, opening))
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 40
    assert sum(" slow " in line for line in lines) == MOST_LINES_CHANGED
    assert any("--full" in line for line in lines)
