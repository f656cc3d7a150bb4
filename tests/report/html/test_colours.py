"""The colours of the page can be read and told apart in both themes."""

from __future__ import annotations

import pytest

from interlock.report.html.colours import COLOURS, variables
from interlock.report.html.heat_map import SHADES
from tests.contrast import contrast

THEMES = ["light", "dark"]
TEXT = ["ink", "muted", "link", "faster", "slower", "good", "bad"]
MARKS = ["faster", "slower", "same", "baseline", "band-edge", "good", "bad"]


def colour_of(name: str, theme: str) -> str:
    return str(getattr(COLOURS[name], theme))


# What is seen, the ground that it is on, and the least contrast.
SEEN = [
    *((name, ground, 4.5) for name in TEXT for ground in ("paper", "raised")),
    *((f"shade-{shade}-ink", f"shade-{shade}", 4.5) for shade in SHADES),
    *((name, "paper", 3) for name in MARKS),
]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize(("name", "ground", "least"), SEEN)
def test_text_has_a_contrast_of_four_and_a_half_and_a_mark_of_three(
    name: str, ground: str, least: float, theme: str
) -> None:
    assert contrast(colour_of(name, theme), colour_of(ground, theme)) >= least


@pytest.mark.parametrize("theme", THEMES)
def test_a_step_slower_or_faster_is_another_colour(theme: str) -> None:
    shades = [colour_of(f"shade-{shade}", theme) for shade in SHADES if shade not in {"none", "baseline"}]
    assert len(set(shades)) == len(shades)


def test_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", THEMES)
def test_every_colour_is_a_variable_of_each_theme(theme: str) -> None:
    declared = variables(theme)
    assert all(f"--{name}: {colour_of(name, theme)};" in declared for name in COLOURS)
