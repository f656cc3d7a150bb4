"""What all charts have in common: axes, the order of rows, which records are drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.report.html import drawing
from interlock.report.html.drawing import (
    COLOURS,
    NARROW,
    WIDE,
    log_scale,
    log_ticks,
    rows,
    y_of,
)
from interlock.report.html.heat_map import SHADES
from tests.contrast import contrast


@given(st.floats(0.002, 1), st.floats(1, 900), st.integers(4, 12))
def test_ticks_are_round_few_and_inside(low: float, high: float, most: int) -> None:
    ticks = log_ticks(low, high, most)
    assert all(low <= tick <= high for tick in ticks)
    assert len(ticks) <= max(most, 6)
    assert 1 in ticks
    assert ticks == sorted(set(ticks))


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.93, 1.35, [1, 1.1, 1.2, 1.3]),
        (0.72, 3.5, [1, 1.5, 2, 3]),
        (0.005, 12, [0.01, 0.03, 0.1, 0.3, 1, 3, 10]),
    ],
)
def test_ticks_of_a_wide_axis(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high, WIDE.ticks) == ticks


def test_a_logarithmic_scale_holds_every_figure_and_1() -> None:
    low, high = log_scale([3.0, None, 20.0]).domain
    assert low < 1
    assert high > 20


def test_names_stand_beside_their_rows_where_there_is_room_and_above_them_where_not() -> None:
    def axis(narrow: bool) -> object:
        chart = rows().mark_point().encode(y=y_of(NARROW if narrow else WIDE))
        return chart.to_dict()["encoding"]["y"]["axis"]

    assert axis(narrow=False) is not None
    assert axis(narrow=True) is None


THEMES = ["light", "dark"]
TEXT = ["ink", "muted", "link", "faster", "slower", "good", "bad"]
MARKS = ["faster", "slower", "same", "baseline", "band-edge", "good", "bad", *drawing.CALLS, drawing.OTHER_CALLS]


def colour_of(name: str, theme: str) -> str:
    return str(getattr(COLOURS[name], theme))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", ["paper", "raised"])
@pytest.mark.parametrize("name", TEXT)
def test_text_has_a_contrast_of_four_and_a_half(name: str, ground: str, theme: str) -> None:
    assert contrast(colour_of(name, theme), colour_of(ground, theme)) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("shade", SHADES)
def test_a_figure_in_a_field_of_the_heat_map_has_a_contrast_of_four_and_a_half(shade: str, theme: str) -> None:
    assert contrast(colour_of(f"shade-{shade}", theme), colour_of(f"shade-{shade}-ink", theme)) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", MARKS)
def test_a_mark_on_paper_has_a_contrast_of_three(name: str, theme: str) -> None:
    assert contrast(colour_of(name, theme), colour_of("paper", theme)) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_a_step_slower_or_faster_is_another_colour(theme: str) -> None:
    shades = [colour_of(f"shade-{shade}", theme) for shade in SHADES if shade not in {"none", "baseline"}]
    assert len(set(shades)) == len(shades)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_a_colour_that_does_not_exist_is_no_token() -> None:
    with pytest.raises(KeyError):
        drawing.token("mauve")


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_is_a_variable_of_each_theme(theme: str) -> None:
    declared = drawing.variables(theme)
    assert all(f"--{name}: {colour_of(name, theme)};" in declared for name in COLOURS)
