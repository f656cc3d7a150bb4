"""Curves over workers in a real browser: drawn in their rows, told apart, followed by filter and table."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Open, Window

CHART = '[data-chart="scaling-threads-pure"]'
VARIANTS = ["cpython-3.13", "cpython-3.14", "cpython-3.15"]


@pytest.fixture(params=[("phone", "dark"), ("tablet", "light"), ("desk", "light"), ("desk", "dark")], ids="-".join)
def seen(request: pytest.FixtureRequest, shared: Open) -> Window:
    """Return the report in each width and theme."""
    return shared("curves", *request.param)


def test_each_variant_has_its_points_and_all_is_quiet(seen: Window) -> None:
    assert seen.messages == []
    assert seen.names_in("scaling-threads-pure") == VARIANTS
    dots = seen.page.locator(f"{CHART} svg .mark-symbol.role-mark path")
    assert dots.count() == 4 * len(VARIANTS)
    # Of four numbers of workers two are more than the cores: their dots are hollow, as the paper is.
    paper = seen.page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--paper').trim()")
    fills = dots.evaluate_all("all => all.map(one => getComputedStyle(one).fill)")
    rgb = f"rgb({', '.join(str(int(paper[start : start + 2], 16)) for start in (1, 3, 5))})"
    assert fills.count(rgb) == 2 * len(VARIANTS)


def test_the_curve_of_a_row_stays_in_it(seen: Window) -> None:
    """Dots stand as their rows do, and of each row those of more workers are not below by more than it shows."""
    places = seen.page.locator(f"{CHART} svg .mark-symbol.role-mark path").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().y)"
    )
    names = seen.page.evaluate(
        """chart => [...document.querySelectorAll(`${chart} svg text`)]
            .filter(text => report.variants.includes(text.textContent)).map(text => text.getBoundingClientRect().y)""",
        CHART,
    )
    step = (max(names) - min(names)) / (len(names) - 1)
    assert step > 90
    tops = sorted(places)
    assert max(tops) - min(tops) < step * len(names)
    assert all(min(abs(place - name) for name in names) < step for place in places)


def test_the_cores_and_the_limit_are_told(seen: Window) -> None:
    texts = seen.page.locator(f"{CHART} svg text").all_text_contents()
    assert "2 cores" in texts
    assert {"measured", "limit"} <= set(texts)
    assert [text for text in texts if "x at " in text] == ["1.00x at 1", "1.48x at 8", "1.94x at 8"]


def test_no_page_of_curves_is_wider_than_its_window(seen: Window) -> None:
    width, window = seen.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= window


def test_behind_the_curves_are_their_figures_and_beside_a_benchmark_its_details_and_limits(shared: Open) -> None:
    window = shared("curves")
    figure = window.page.locator("#scaling-threads-pure")
    figure.locator("summary").click()
    heads = figure.locator("thead button").all_text_contents()
    assert heads == ["variant", "1", "2", "4 (> 2 cores)", "8 (> 2 cores)"]
    assert window.column("scaling-threads-pure", 0) == [*VARIANTS, "best limit"]
    window.page.locator("#ratio-threads-pure-2 summary").first.click()
    assert window.column("ratio-threads-pure-2", 0) == [*VARIANTS, "limit: better", "limit: worse"]
    shares = window.column("ratio-threads-pure-2", 4)
    assert [share.split()[0] for share in shares] == ["24%", "32%", "36%", "100%", "75%"]
    share = window.page.locator("#ratio-threads-pure-2 thead button").nth(4)
    share.click()
    assert window.column("ratio-threads-pure-2", 0)[0] == "cpython-3.13"
    share.click()
    assert window.column("ratio-threads-pure-2", 0)[0] == "limit: better"


def test_the_filter_holds_for_curves(opened: Open) -> None:
    window = opened("12 curves")
    assert len(window.names_in("scaling-threads-pure")) == 12
    window.filter("3.20")
    assert window.names_in("scaling-threads-pure") == ["cpython-3.20"]
    assert window.messages == []
