"""A claim and a question are answered by the first reference that measured them, whatever it says of them."""

from __future__ import annotations

import pytest

from interlock.analysis.claims import ClaimVerdict, Finding, evaluate
from interlock.analysis.comparison import Contents, DetailFigure
from interlock.analysis.references import ReferenceFigure, best_figures, best_findings, in_order
from interlock.analysis.verdicts import Comparison
from interlock.catalog.claims import AnsweringFigure
from interlock.results.experiments import Experiment
from tests.builders import (
    make_benchmark,
    make_built,
    make_cell,
    make_claim,
    make_experiment,
    make_values,
    make_workload,
)

LOCKS = make_workload(benchmarks=[make_benchmark("uncontended")])
HALF = make_claim(published=0.5, tolerance=0.1)
FIGURE = AnsweringFigure.model_validate(
    {"workload": "locks", "benchmark": "uncontended", "variant": "a", "against": "b", "shows": "faster"}
)


def reference(name: str, *ratios: float, optimised: bool = False) -> Contents:
    """Measured on the day that its name says, a to b in each round."""
    built = [make_built(label, optimisations=["PGO", "LTO"] if optimised else []) for label in "ab"]
    cells = [make_cell("a"), make_cell("b")]
    described = make_experiment(["a", "b"], workloads={"locks": LOCKS}, cells=cells, images=built).model_copy(
        update={"name": name, "started": f"{name}T00:00:00+00:00"}
    )
    values = {
        (label, "locks"): {"uncontended": make_values(*([ratio if label == "a" else 1.0] for ratio in ratios))}
        for label in "ab"
    }
    return Contents(described, values if ratios else {}, {})


def findings_of(*references: Contents) -> list[tuple[Experiment, list[Finding]]]:
    return [(one.experiment, evaluate([HALF], one)) for one in references]


def test_the_first_reference_that_measured_a_claim_judges_it_whether_it_decides_or_not() -> None:
    undecided, decided = reference("2026-02-02", 0.6, 1.2, 0.7, 0.6, 1.2), reference("2026-01-01", *[0.5] * 5)
    (judged,) = best_findings(findings_of(reference("2026-03-03"), undecided, decided))
    assert (judged.experiment.name, judged.finding.verdict) == ("2026-02-02", ClaimVerdict.UNDECIDED)


def test_a_claim_that_none_measured_has_the_first_references_reason() -> None:
    (judged,) = best_findings(findings_of(reference("2026-02-02"), reference("2026-01-01")))
    assert (judged.experiment.name, judged.finding.verdict) == ("2026-02-02", ClaimVerdict.NO_DATA)


def test_builds_as_people_run_them_come_first_then_the_newest() -> None:
    given = [
        reference("2026-01-01", 1.0, optimised=True),
        reference("2026-02-02", 1.0),
        reference("2026-03-03", 1.0),
    ]
    names = [one.experiment.name for one in in_order(given)]
    assert names == ["2026-01-01", "2026-03-03", "2026-02-02"]


@pytest.mark.parametrize(
    ("experiment", "name", "ratio"), [(None, "2026-02-02", 0.5), ("2026-01-01", "2026-01-01", 0.8)]
)
def test_a_figure_is_of_the_first_reference_that_has_it_or_of_the_one_named(
    experiment: str | None, name: str, ratio: float
) -> None:
    known = [reference("2026-03-03"), reference("2026-02-02", *[0.5] * 5), reference("2026-01-01", *[0.8] * 5)]
    wanted = FIGURE.model_copy(update={"experiment": experiment})
    figure = best_figures({"half": wanted}, known)["half"]
    assert isinstance(figure, ReferenceFigure)
    assert isinstance(figure.figure, Comparison)
    assert figure.experiment.name == name
    assert figure.figure.ratio.estimate == pytest.approx(ratio)


def with_memory(name: str, megabytes: list[float]) -> Contents:
    """Measured as `reference`, with the memory of each process of a."""
    contents = reference(name, *(0.5 for _ in megabytes))
    benchmark = make_benchmark("uncontended", details=[{"label": "MB", "of": "memory_bytes", "scale": 1e-6}])
    described = contents.experiment.model_copy(update={"workloads": {"locks": make_workload(benchmarks=[benchmark])}})
    values = contents.values["a", "locks"]["uncontended"]
    more = {"reported": {"memory_bytes": [1e6 * one for one in megabytes]}, "units": [1] * len(megabytes)}
    reported = values.model_copy(update=more)
    return Contents(described, {**contents.values, ("a", "locks"): {"uncontended": reported}}, {})


MEMORY = AnsweringFigure.model_validate(
    {"workload": "locks", "benchmark": "uncontended", "metric": "detail", "detail": "MB", "variant": "a"}
)


def test_a_detail_is_of_the_first_reference_that_has_it() -> None:
    known = [reference("2026-03-03", 0.5), with_memory("2026-02-02", [30, 50, 40])]
    figure = best_figures({"memory": MEMORY}, known)["memory"]
    assert isinstance(figure, ReferenceFigure)
    assert isinstance(figure.figure, DetailFigure)
    assert (figure.experiment.name, figure.figure.value) == ("2026-02-02", 40)


@pytest.mark.parametrize("changes", [{"detail": "ms"}, {"variant": "b"}, {"benchmark": "contended"}, {"workload": "x"}])
def test_a_detail_that_none_has_is_named(changes: dict[str, str]) -> None:
    wanted = MEMORY.model_copy(update=changes)
    missing = best_figures({"memory": wanted}, [with_memory("2026-02-02", [30])])["memory"]
    assert isinstance(missing, str)
    assert all(text in missing for text in (wanted.variant, f"'{wanted.detail}'", wanted.benchmark, wanted.workload))


def test_a_figure_that_none_has_says_why() -> None:
    assert best_figures({"half": FIGURE}, []) == {"half": "there is no reference 'None'"}
    missing = best_figures({"half": FIGURE.model_copy(update={"variant": "c"})}, [reference("2026-02-02", 1.0)])["half"]
    assert isinstance(missing, str)
    assert "'c'" in missing
