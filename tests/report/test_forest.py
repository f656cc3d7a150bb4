"""A forest plot: its intervals lie where the axis says, and each line is told to who cannot see it."""

from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from interlock.report.forest import WIDTH, Mark, Plot, picture

SVG = "{http://www.w3.org/2000/svg}"
MARKS = [Mark("new", 1.0, 0.7, 1.5, "same"), Mark("newest", 2.0, 1.5, 3.0, "2x")]
SERIES = {"new": "faster", "newest": "slower"}


def drawn(*lines: tuple[str, list[Mark]], theme: str = "light") -> ElementTree.Element:
    plot = Plot("Time", lines, SERIES, ["machine"], left=200)
    return ElementTree.fromstring(picture(plot, theme))  # noqa: S314 - it is ours


def whiskers_of(root: ElementTree.Element) -> list[tuple[float, float]]:
    lines = [line for line in root.iter(f"{SVG}line") if line.get("stroke-linecap") == "round"]
    return [(float(line.get("x1", "")), float(line.get("x2", ""))) for line in lines]


def ticks_of(root: ElementTree.Element) -> dict[str, float]:
    return {
        text.text: float(text.get("x", ""))
        for text in root.iter(f"{SVG}text")
        if text.text and re.fullmatch(r"[\d.]+x", text.text) and text.get("text-anchor") == "middle"
    }


def test_an_interval_reaches_from_its_low_end_to_its_high_end_on_a_logarithmic_axis() -> None:
    root = drawn(("a & b", MARKS))
    ticks = ticks_of(root)
    assert whiskers_of(root) == [(ticks["0.7x"], ticks["1.5x"]), (ticks["1.5x"], ticks["3x"])]
    assert ticks["2x"] - ticks["1x"] == pytest.approx((ticks["1.5x"] - ticks["1x"]) * 1.7095, abs=0.3)


@pytest.mark.parametrize("ratio", [1e-4, 0.5, 1.0, 300.0])
def test_any_ratio_and_one_stay_within_the_axis(ratio: float) -> None:
    root = drawn(("far", [Mark("new", ratio, ratio / 1.5, ratio * 1.5, "")]))
    assert "1x" in ticks_of(root)
    assert all(200 <= place <= WIDTH for whisker in whiskers_of(root) for place in whisker)
    assert len(ticks_of(root)) >= 2


@pytest.mark.parametrize(("ratio", "points_right"), [(0.001, False), (20.0, True)])
def test_a_mark_beyond_the_widest_axis_points_there(ratio: float, points_right: bool) -> None:
    root = drawn(("far", [Mark("new", ratio, ratio, ratio, "")]))
    (triangle,) = root.iter(f"{SVG}polygon")
    base, _, tip = (float(point.split(",")[0]) for point in triangle.get("points", "").split())
    assert (tip > base) is points_right
    assert 190 <= tip <= WIDTH
    assert not list(root.iter(f"{SVG}circle"))[1:]


def test_an_exact_figure_has_a_mark_and_no_interval() -> None:
    root = drawn(("memory", [Mark("new", 1.2, 1.2, 1.2, "+20 %")]))
    assert not whiskers_of(root)
    assert len(list(root.iter(f"{SVG}circle"))) == 2  # one of them is the legend's


def test_lines_do_not_touch_and_the_title_says_all_of_them() -> None:
    root = drawn(("first", MARKS), ("second", MARKS[:1]), ("third", MARKS))
    circles = [float(circle.get("cy", "")) for circle in root.iter(f"{SVG}circle")][len(SERIES) :]
    assert circles == sorted(set(circles))
    assert min(later - earlier for earlier, later in pairwise(circles)) >= 16
    title = root.findtext(f"{SVG}title") or ""
    assert all(part in title for part in ("first", "second", "third", "newest 2x"))


def test_the_themes_differ_in_colours_alone() -> None:
    light, dark = (ElementTree.tostring(drawn(("a", MARKS), theme=theme), "unicode") for theme in ("light", "dark"))
    assert light != dark
    assert re.sub(r"#[0-9a-f]{6}", "", light) == re.sub(r"#[0-9a-f]{6}", "", dark)
