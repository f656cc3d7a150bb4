"""What an experiment is made of, before and after the engine has its say."""

from __future__ import annotations

from pathlib import Path

import pytest

from interlock import catalog as catalogs
from interlock import experiment
from interlock.errors import UsageError
from interlock.measure import Measured
from interlock.model import Built, CellResult, Outcome, Settings, State

GONE = Outcome(state=State.UNAVAILABLE, reason="example.org: no answer")


def image(variant: str, outcome: Outcome | None = None) -> Built:
    return Built(
        variant=variant, profile="standard", outcome=outcome or Outcome(state=State.OK), image_id=f"sha256:{variant}"
    )


def assignment(built: list[Built], baseline: str) -> experiment.Assignment:
    root = Path(__file__).parents[1]
    settings = Settings(
        quick=True,
        rounds=2,
        seed=1,
        baseline=baseline,
        profile="standard",
        variants=[one.variant for one in built],
        workloads=["locks"],
        profiled=True,
    )
    return experiment.Assignment(catalogs.load(root), root, root / "results", built, settings, "nox -s matrix")


def test_the_baseline_is_3_13_where_it_was_built() -> None:
    assert experiment.choose_baseline(None, [image("cpython-2.7"), image("cpython-3.13")]) == "cpython-3.13"


def test_without_3_13_the_baseline_is_the_first_variant_that_was_built() -> None:
    built = [image("nogil-3.9", GONE), image("cpython-2.7"), image("cpython-3.13", GONE)]
    assert experiment.choose_baseline(None, built) == "cpython-2.7"


def test_a_wanted_baseline_that_was_not_built_is_an_error_with_the_choice() -> None:
    with pytest.raises(UsageError, match=r"--baseline.*'nogil-3.9' is not among.*cpython-2.7"):
        experiment.choose_baseline("nogil-3.9", [image("cpython-2.7"), image("nogil-3.9", GONE)])


def test_with_nothing_built_there_is_nothing_to_measure_and_the_reasons_are_named() -> None:
    with pytest.raises(UsageError, match=r"nogil-3.9: example.org: no answer"):
        experiment.choose_baseline(None, [image("nogil-3.9", GONE)])


def test_every_image_and_the_baselines_twin_are_subjects() -> None:
    built = [image("cpython-2.7"), image("nogil-3.9", GONE), image("cpython-3.13")]
    subjects = experiment.subjects(assignment(built, "cpython-3.13"))
    assert [(one.label, one.image_id) for one in subjects] == [
        ("cpython-2.7", "sha256:cpython-2.7"),
        ("cpython-3.13", "sha256:cpython-3.13"),
        ("cpython-3.13+twin", "sha256:cpython-3.13"),
    ]


def test_a_workload_never_reached_and_a_variant_without_image_have_cells_too() -> None:
    built = [image("cpython-2.7"), image("nogil-3.9", GONE)]
    cells = experiment.cells_of("locks", built, None)
    assert [(cell.variant, cell.outcome.state, cell.outcome.reason) for cell in cells] == [
        ("cpython-2.7", State.FAILED, "interrupted before it was measured"),
        ("nogil-3.9", State.UNAVAILABLE, "example.org: no answer"),
    ]


def test_measured_cells_keep_the_order_of_the_variants_and_the_twin_comes_last() -> None:
    ok = Outcome(state=State.OK)
    measured = Measured(
        cells=[
            CellResult(variant="b", mode="twin", workload="locks", outcome=ok),
            CellResult(variant="b", workload="locks", outcome=ok),
            CellResult(variant="a", workload="locks", outcome=ok),
        ],
        order=[],
        facts={},
    )
    cells = experiment.cells_of("locks", [image("a"), image("b")], measured)
    assert [(cell.variant, cell.mode) for cell in cells] == [("a", None), ("b", None), ("b", "twin")]
