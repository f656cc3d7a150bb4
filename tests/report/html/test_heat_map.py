"""The heat map: each field has the text and the shade of its row."""

from __future__ import annotations

import pytest

from interlock.analysis import comparison
from interlock.report.html.heat_map import Field, heat_map
from tests.builders import make_cell, make_experiment, make_values
from tests.reports import MISSING, ROUNDS, VARIANTS, example


@pytest.mark.parametrize(
    ("variant", "place", "field"),
    [
        ("cpython-3.13", 0, Field("1", "baseline")),
        ("cpython-2.7-pth", 0, Field("7.50", "slower-4")),
        ("cpython-3.14", 0, Field("0.70", "faster-2")),
        ("cpython-2.7-nothreads", 0, Field("x", "none", "unsupported")),
        ("nogil-3.9", 1, Field("-", "none", "unavailable")),
        ("cpython-3.14", 1, Field("1.00", "same")),
    ],
)
def test_a_field_has_its_ratio_or_its_state_and_the_shade_of_its_verdict(
    variant: str, place: int, field: Field
) -> None:
    assert heat_map(example()[1]).rows[variant][place] == field


@pytest.mark.parametrize(("ratio", "text"), [(0.0002, "0.0002"), (0.009, "0.009"), (0.0949, "0.09"), (25.0, "25.0")])
def test_a_field_of_a_ratio_far_from_1_has_a_digit_other_than_0(ratio: float, text: str) -> None:
    experiment = make_experiment(["slow", "fast"])
    values = {
        (label, "locks"): {"uncontended": make_values(*([seconds * factor] for factor in ROUNDS))}
        for label, seconds in {"slow": 1.0, "fast": ratio}.items()
    }
    (field,) = heat_map(comparison.tables(experiment, values, {})).rows["fast"]
    assert field.text == text


def test_every_variant_has_a_field_for_each_benchmark_of_each_workload() -> None:
    found = heat_map(example()[1])
    assert found.workloads == {"locks": ["uncontended", "queue"]}
    assert {name: len(fields) for name, fields in found.rows.items()} == dict.fromkeys(VARIANTS, 2)


def test_the_legend_has_the_shades_and_the_states_that_there_are() -> None:
    found = heat_map(example()[1])
    assert list(found.legend) == ["faster-2", "same", "slower-4"]
    assert found.states == {"x": "unsupported", "-": "unavailable"}


def test_an_experiment_without_figures_still_shows_the_states_of_its_cells() -> None:
    cells = [make_cell(variant, outcome=MISSING) for variant in VARIANTS]
    experiment = make_experiment(VARIANTS, cells=cells, images=[])
    found = heat_map(comparison.tables(experiment, {}, {}))
    assert {field.state for fields in found.rows.values() for field in fields} == {"unavailable"}
    assert list(found.rows) == VARIANTS
