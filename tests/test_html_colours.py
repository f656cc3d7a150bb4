"""The report's colours can be read, in daylight and in the dark."""

from __future__ import annotations

import pytest

from interlock.html import colours
from interlock.html.colours import COLOURS
from interlock.html.figures import SHADES

THEMES = ["light", "dark"]
TEXT = ["ink", "muted", "link", "faster", "slower", "good", "bad"]
MARKS = ["faster", "slower", "same", "baseline", "band-edge", "good", "bad", *colours.CALLS, colours.OTHER_CALLS]


def of(name: str, theme: str) -> str:
    return str(getattr(COLOURS[name], theme))


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("ground", ["paper", "raised"])
@pytest.mark.parametrize("name", TEXT)
def test_text_has_a_contrast_of_four_and_a_half(name: str, ground: str, theme: str) -> None:
    assert colours.contrast(of(name, theme), of(ground, theme)) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("shade", SHADES)
def test_a_figure_in_a_field_of_the_heat_map_has_a_contrast_of_four_and_a_half(shade: str, theme: str) -> None:
    assert colours.contrast(of(f"shade-{shade}", theme), of(f"shade-{shade}-ink", theme)) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", MARKS)
def test_a_mark_on_paper_has_a_contrast_of_three(name: str, theme: str) -> None:
    assert colours.contrast(of(name, theme), of("paper", theme)) >= 3


@pytest.mark.parametrize("theme", THEMES)
def test_a_step_slower_or_faster_is_another_colour(theme: str) -> None:
    shades = [of(f"shade-{shade}", theme) for shade in SHADES if shade not in {"none", "baseline"}]
    assert len(set(shades)) == len(shades)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert colours.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert colours.contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


def test_a_picture_has_the_colours_of_daylight_and_nothing_else_of_it_is_changed() -> None:
    given = {
        "mark": {"fill": colours.token("ink")},
        "range": [colours.token("paper"), "var(--other thing)"],
        "step": 20,
    }
    expected = {"mark": {"fill": "#1a1d21"}, "range": ["#ffffff", "var(--other thing)"], "step": 20}
    assert colours.by_daylight(given) == expected


def test_a_colour_that_does_not_exist_is_no_token() -> None:
    with pytest.raises(KeyError):
        colours.token("mauve")


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_is_a_variable_of_each_theme(theme: str) -> None:
    declared = colours.variables(theme)
    assert all(f"--{name}: {of(name, theme)};" in declared for name in COLOURS)
