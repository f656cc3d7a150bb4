"""The HTML report in a real browser: drawn, quiet, filtered, sorted, by keyboard, on a phone, in the dark, printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from interlock.report.html import frames
from interlock.report.html.drawing import COLOURS
from tests.browser.conftest import REPORTS, WIDTHS, Open, ReportFile, shared_window
from tests.contrast import contrast

ROWS = ["5 rows", "57 rows"]
MOST_BYTES = 1_000_000
# Asked for are 2 s on a machine that does nothing else; a machine that builds beside it takes longer.
SLOWEST_S = 10
# Rows of a table after the third are like those before, and marks of charts, which no reader of screens is shown,
# have a test of their contrast; axe takes 20 s for all.
REPEATED = [["tbody tr:nth-child(n+4)"], [".chart svg .role-mark"]]


# Of each chart its name and how many marks it has.
MARKS = """[...document.querySelectorAll('[data-chart]')].map(place =>
    [place.dataset.chart, place.querySelectorAll('svg .role-mark path, svg .role-mark line').length])"""
# The charts that reach beyond their place, but for those that scroll and can be reached by keyboard.
BEYOND = """[...document.querySelectorAll('.chart svg')].filter(svg => {
    const scroll = svg.closest('.scroll');
    const scrolls = scroll.scrollWidth > scroll.clientWidth + 1;
    const right = scroll.getBoundingClientRect().right + 1;
    return scrolls ? scroll.tabIndex !== 0 : svg.getBoundingClientRect().right > right;
}).map(svg => svg.closest('[data-chart]').dataset.chart)"""
# The texts of a chart that lie upon each other, but for labels of an axis, which may touch.
UPON = """[...document.querySelectorAll('.chart svg')].flatMap(svg => {
    const boxes = [...svg.querySelectorAll('.role-mark text')].filter(text => text.textContent)
        .map(text => [text.textContent, text.getBoundingClientRect()]).sort((a, b) => a[1].y - b[1].y);
    const found = [];
    boxes.forEach(([text, box], index) => {
        for (const [other, its] of boxes.slice(index + 1)) {
            if (its.y > box.bottom) break;
            const across = Math.min(box.right, its.right) - Math.max(box.x, its.x);
            const down = Math.min(box.bottom, its.bottom) - Math.max(box.y, its.y);
            const chart = svg.closest('[data-chart]').dataset.chart;
            if (across > 1 && down > 4) found.push(`${chart}: ${text} / ${other}`);
        }
    });
    return found;
})"""
# The words of legends that their chart cuts off.
CUT = """[...document.querySelectorAll('.chart svg')].flatMap(svg =>
    [...svg.querySelectorAll('.role-legend text')].filter(text =>
        text.getBoundingClientRect().right > svg.getBoundingClientRect().right + 1
    ).map(text => `${svg.closest('[data-chart]').dataset.chart}: ${text.textContent}`))"""
WIDTH = "[document.documentElement.scrollWidth, window.innerWidth]"


@dataclass(frozen=True)
class Look:
    """What there is to be seen of a report in a window of one width."""

    messages: list[str]
    requested: list[str]
    marks: list[tuple[str, int]]
    beyond: list[str]
    upon: list[str]
    cut: list[str]
    widths_px: tuple[int, int]  # the page's and the window's


@pytest.fixture(scope="module")
def looks(windows: Open) -> Callable[[str, str], Look]:
    """Return what is seen in a width, looked at once: what changes its width is laid out anew."""

    @cache
    def look(rows: str, width: str) -> Look:
        window = shared_window(windows, rows, width)
        found = [window.page.evaluate(script) for script in (MARKS, BEYOND, UPON, CUT, WIDTH)]
        return Look(list(window.messages), list(window.requested), *found)

    return look


@pytest.fixture(params=[(rows, width) for rows in ROWS for width in WIDTHS], ids="-".join)
def seen(request: pytest.FixtureRequest, looks: Callable[[str, str], Look]) -> Look:
    """Return what is seen of a report in each width."""
    return looks(*request.param)


@cache
def ratios_of(rows: str, benchmark: str) -> dict[str, float]:
    frame = frames.frames(REPORTS[rows]()[1])["ratios"]
    return {one["variant"]: one["ratio"] for one in frame if one["benchmark"] == benchmark and one["ratio"]}


def test_nothing_is_said_in_the_console_and_nothing_is_fetched(seen: Look) -> None:
    assert seen.messages == []
    assert [url for url in seen.requested if not url.startswith(("file:", "data:", "blob:"))] == []
    assert len(seen.requested) == 1


def test_every_chart_is_drawn_and_no_page_is_wider_than_its_window(seen: Look) -> None:
    assert len(seen.marks) >= 3
    assert [name for name, count in seen.marks if count == 0] == []
    width_px, window_px = seen.widths_px
    assert width_px <= window_px


def test_no_chart_reaches_beyond_its_place(seen: Look) -> None:
    assert seen.beyond == []


def test_texts_of_a_chart_do_not_lie_upon_each_other(seen: Look) -> None:
    assert seen.upon == []


def test_no_word_of_a_legend_is_cut_off(seen: Look) -> None:
    assert seen.cut == []


@pytest.mark.parametrize("rows", ROWS)
def test_a_dot_stands_for_each_ratio(shared: Open, rows: str) -> None:
    window = shared(rows, "desk")
    dots = window.page.locator('[data-chart="ratio-locks-queue"] svg .mark-symbol.role-mark path')
    assert dots.count() == len(ratios_of(rows, "locks queue"))
    assert window.names_in("ratio-locks-queue") == list(ratios_of(rows, "locks queue"))


def test_the_filter_holds_for_charts_and_tables_and_is_undone(shared: Open) -> None:
    window = shared("5 rows")
    before = window.names_in("heat-map")
    note = window.page.locator("[data-heat-note]")
    window.filter(" PTH,  -3.14 ")
    kept = [name for name in before if "pth" in name or "-3.14" in name]
    assert 0 < len(kept) < len(before)
    assert window.names_in("heat-map") == kept
    assert window.page.locator("#shown").text_content() == f"{len(kept)} of {len(before)}"
    assert window.names_in("ratio-locks-queue") == [name for name in ratios_of("5 rows", "locks queue") if name in kept]
    assert window.column("ratio-locks-queue", 0) == kept
    window.filter("jython")
    assert window.names_in("heat-map") == []
    assert note.text_content()
    window.filter("")
    assert window.names_in("heat-map") == before
    assert not note.text_content()
    assert window.messages == []


def test_a_table_is_sorted_by_the_figures_that_its_texts_begin_with(shared: Open) -> None:
    window = shared("57 rows")
    ratio = ratios_of("57 rows", "locks queue")
    window.page.locator("#ratio-locks-queue summary").first.click()
    table = window.page.locator("#ratio-locks-queue table").first
    head = table.locator("th").filter(has_text="ratio to cpython-3.13")
    head.get_by_role("button").click()
    names = window.column("ratio-locks-queue", 0)
    # Words come after figures, and what has none last in either direction.
    compared = [name for name in names if name in ratio and name != "cpython-3.13"]
    assert [ratio[name] for name in compared] == sorted(ratio[name] for name in compared)
    assert names[: len(compared)] == compared
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    names = window.column("ratio-locks-queue", 0)
    assert names[: len(compared) + 1] == ["cpython-3.13", *reversed(compared)]
    assert head.get_attribute("aria-sort") == "descending"
    table.locator("th").filter(has_text="variant").get_by_role("button").click()
    by_name = window.column("ratio-locks-queue", 0)
    assert by_name[0] == min(names)
    assert by_name.index("cpython-3.9") < by_name.index("cpython-3.10")
    assert head.get_attribute("aria-sort") is None


def test_rows_can_stand_by_their_time(shared: Open) -> None:
    window = shared("5 rows")
    ratio = ratios_of("5 rows", "locks uncontended")
    assert window.names_in("ratio-locks-uncontended") == list(ratio)
    window.order("least time first")
    assert window.names_in("ratio-locks-uncontended") == sorted(ratio, key=lambda name: ratio[name]) != list(ratio)
    assert window.names_in("heat-map")[0] == "cpython-3.14"


# What a browser does for a page that is out of sight: it calls back when the time is up, and not before.
NEVER_IDLE = (
    "window.requestIdleCallback = (done, options) => { if (options?.timeout) setTimeout(done, options.timeout); }"
)


def test_charts_of_a_page_that_is_never_idle_are_drawn_all_the_same(opened: Open) -> None:
    window = opened("5 rows")
    window.page.evaluate(NEVER_IDLE)
    window.order("least time first")
    assert window.names_in("heat-map")[0] == "cpython-3.14"


def test_a_mark_that_is_pointed_at_says_its_figures(shared: Open) -> None:
    window = shared("5 rows")
    dot = window.page.locator('[data-chart="ratio-locks-uncontended"] svg .mark-symbol.role-mark path').nth(1)
    dot.scroll_into_view_if_needed()
    dot.hover(force=True)
    tip = window.page.locator("#vg-tooltip-element.visible")
    name, ratio = list(ratios_of("5 rows", "locks uncontended").items())[1]
    assert name in (tip.text_content() or "")
    assert f"{ratio:.3f}x" in (tip.text_content() or "")


def test_a_window_that_becomes_narrow_gets_narrow_charts(opened: Open) -> None:
    window = opened("5 rows")
    wide = window.page.locator('[data-chart="ratio-locks-queue"] svg').bounding_box()
    window.resize("phone")
    # Names beside their rows are at an axis, which is not there where it is narrow.
    window.page.locator('[data-chart="ratio-locks-queue"] svg .role-axis-label text', has_text="cpython-3.14").wait_for(
        state="detached"
    )
    narrow = window.page.locator('[data-chart="ratio-locks-queue"] svg').bounding_box()
    assert wide is not None
    assert narrow is not None
    assert narrow["width"] <= WIDTHS["phone"] < wide["width"]
    assert {"cpython-3.14", "cpython-2.7-pth"} <= set(window.names_in("ratio-locks-queue"))
    assert window.messages == []


def focused(page: Page) -> str:
    return str(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))


def test_all_that_can_be_used_is_reached_and_used_by_keyboard(shared: Open) -> None:
    page = shared("5 rows").page
    # From the page's beginning, whatever was clicked before.
    page.evaluate("document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute('tabindex')")
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to the answer"
    reached: list[str] = []
    while len(reached) < 300:
        page.keyboard.press("Tab")
        reached.append(focused(page))
        if reached[-1] == "copy":
            break
    assert reached.index("filter") < reached.index("order") < reached.index("copy")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    summary = page.locator("#ratio-locks-queue summary").first
    summary.focus()
    page.keyboard.press("Enter")
    page.locator("#ratio-locks-queue .grid").first.wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert focused(page).startswith("variant")
    page.keyboard.press("Space")
    assert page.locator("#ratio-locks-queue th").first.get_attribute("aria-sort") == "ascending"


def test_what_scrolls_on_a_phone_can_be_scrolled_by_keyboard(shared: Open) -> None:
    window = shared("57 rows", "phone")
    window.page.locator("#ratio-locks-queue summary").click()
    grid = window.page.locator("#ratio-locks-queue .grid")
    assert grid.evaluate("one => one.scrollWidth > one.clientWidth")
    grid.focus()
    window.page.keyboard.press("ArrowRight")
    window.page.wait_for_function("one => one.scrollLeft > 0", arg=grid.element_handle())


def test_a_heat_map_of_more_columns_than_there_is_room_for_scrolls_says_so_and_keeps_its_names(opened: Open) -> None:
    window = opened("many columns", "phone")
    scroll = window.page.locator("#heat-map .grid")
    assert window.page.locator("#heat-map .scrolls").is_visible()
    assert scroll.evaluate("one => one.scrollWidth") > WIDTHS["phone"]
    assert window.page.evaluate("document.documentElement.scrollWidth") <= WIDTHS["phone"]
    assert scroll.get_attribute("role") == "region"
    scroll.focus()
    window.page.keyboard.press("ArrowRight")
    window.page.wait_for_function("one => one.scrollLeft > 0", arg=scroll.element_handle())
    assert len(window.names_in("heat-map")) == 3
    left = scroll.evaluate("one => one.getBoundingClientRect().left")
    assert (
        window.page.locator("#heat-map tbody th").first.evaluate("one => one.getBoundingClientRect().left") < left + 3
    )


def test_a_link_to_what_is_folded_unfolds_it(opened: Open) -> None:
    window = opened("5 rows", drawn=False)
    window.page.wait_for_selector("html[data-ready]", state="attached")
    assert not window.page.locator("#command").is_visible()
    window.page.get_by_role("link", name="Machine and command").click()
    window.page.locator("#command").wait_for()
    assert window.page.locator('[data-chart="calls-locks-uncontended"] svg').count() == 0
    window.page.get_by_role("link", name="System calls").click()
    window.page.locator('[data-chart="calls-locks-uncontended"] svg').wait_for()


# Whether the label of the filter is what is seen at each fifth of its width, with the heat map's names behind it.
UNCOVERED = """() => {
    const corner = document.querySelector('.heat thead tr:last-child th');
    window.scrollTo({top: corner.getBoundingClientRect().top + window.scrollY + 20, behavior: 'instant'});
    const label = document.querySelector('.tools label');
    const box = label.getBoundingClientRect();
    return [0, 1, 2, 3, 4].map(fifth => document.elementFromPoint(
        box.x + 4 + fifth * (box.width - 8) / 5, box.y + 3)).map(one => label.contains(one) || one.matches('.tools'));
}"""


def test_what_stays_of_a_table_does_not_cover_the_filter(folded: Open) -> None:
    assert folded("57 rows").page.evaluate(UNCOVERED) == [True] * 5


@pytest.mark.parametrize(("width", "screen_px"), [("desk", 900), ("phone", 800)])
def test_the_answer_is_in_the_first_screen_and_before_the_contents(folded: Open, width: str, screen_px: int) -> None:
    script = "['#answer', 'nav'].map(one => document.querySelector(one).getBoundingClientRect())"
    answer, contents = folded("57 rows", width).page.evaluate(script)
    assert answer["bottom"] <= contents["top"]
    assert answer["bottom"] <= screen_px


def test_a_core_set_is_ten_screens_at_most_before_anything_is_unfolded(folded: Open) -> None:
    assert folded("57 rows").page.evaluate("document.documentElement.scrollHeight") <= 10 * 900


CONTRASTS = """() => {
    const ground = getComputedStyle(document.body).backgroundColor;
    return [...document.querySelectorAll('.chart svg')].flatMap(svg => {
        const place = svg.closest('[data-chart]').dataset.chart;
        const fill = one => getComputedStyle(one).fill;
        const texts = [...svg.querySelectorAll('text')];
        return texts.map(text => [place, text.textContent, fill(text), ground]);
    }).concat([...document.querySelectorAll('.heat tbody td')].map(
        one => ['heat-map', one.textContent, getComputedStyle(one).color, getComputedStyle(one).backgroundColor]));
}"""


@cache
def hexadecimal(rgb: str) -> str:
    red, green, blue = (int(one) for one in rgb.removeprefix("rgb(").removesuffix(")").split(","))
    return f"#{red:02x}{green:02x}{blue:02x}"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", ["phone", "desk"])
def test_each_text_of_each_chart_can_be_read_in_either_theme(shared: Open, theme: str, width: str) -> None:
    window = shared("57 rows", width, theme)
    ground = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(ground) == getattr(COLOURS["paper"], theme)
    found = window.page.evaluate(CONTRASTS)
    assert len({below for _, _, _, below in found}) > 4
    weak = {
        (chart, text, ink, below)
        for chart, text, ink, below in found
        if contrast(hexadecimal(ink), hexadecimal(below)) < 4.5
    }
    assert weak == set()


# On a large page what a small one has not: folded groups, and wide charts and tables.
LARGE = [["#answer"], ["#changes"], ["#heat-map"]]


@pytest.mark.parametrize(
    ("rows", "width", "theme", "parts"),
    [("5 rows", "phone", "dark", None), ("5 rows", "desk", "light", None), ("57 rows", "desk", "light", LARGE)],
    ids=["5 rows-phone-dark", "5 rows-desk-light", "57 rows-desk-light"],
)
def test_axe_finds_nothing_to_complain_of(
    shared: Open, rows: str, width: str, theme: str, parts: list[list[str]] | None
) -> None:
    window = shared(rows, width, theme)
    for name in () if parts else ("ratio-locks-queue", "calls-locks-uncontended"):
        window.page.locator(f"#{name} summary").first.click()
    context = {"exclude": REPEATED, **({"include": parts} if parts else {})}
    found: dict[str, Any] = Axe().run(window.page, context=context).response
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]] == []
    assert len(found["passes"]) > (5 if parts else 20)


def test_on_paper_it_is_light_whole_and_without_what_paper_cannot_do(opened: Open, tmp_path: Path) -> None:
    window = opened("5 rows", "desk", "dark")
    window.page.emulate_media(media="print")
    assert (
        hexadecimal(window.page.evaluate("getComputedStyle(document.body).backgroundColor")) == COLOURS["paper"].light
    )
    assert not window.page.locator("#filter").is_visible()
    assert not window.page.locator("#ratio-locks-queue summary").first.is_visible()
    written = window.page.pdf(path=tmp_path / "report.pdf", format="A4", prefer_css_page_size=True)
    pages = written.count(b"/Type /Page\n") or written.count(b"/Type /Page ")
    assert pages >= 3
    widest = window.page.evaluate(
        """() => { document.body.style.width = '680px';
            const drawn = [...document.querySelectorAll('.chart svg')];
            return Math.max(...drawn.map(svg => svg.getBoundingClientRect().width)) }"""
    )
    assert widest <= 681


def test_without_javascript_it_says_where_the_figures_are_and_shows_the_rest(opened: Open) -> None:
    window = opened("5 rows", drawn=False, java_script_enabled=False)
    assert window.page.get_by_text("The charts need JavaScript").is_visible()
    assert window.page.locator(".verdict-line").is_visible()
    assert window.page.locator("#heat-map tbody th").first.is_visible()
    window.page.locator("#machine summary").first.click()
    assert window.page.locator("#command").is_visible()


@pytest.mark.parametrize("rows", ROWS)
def test_it_is_small_and_soon_ready(shared: Open, report_file: ReportFile, rows: str) -> None:
    size = report_file(rows).stat().st_size
    ready_s = int(shared(rows).page.evaluate("document.documentElement.dataset.ready")) / 1000
    print(f"{rows}: {size / 1e6:.2f} MB, interactive after {ready_s:.2f} s")
    assert size <= MOST_BYTES
    assert ready_s <= SLOWEST_S


def test_the_command_is_copied(shared: Open) -> None:
    window = shared("5 rows")
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.page.locator("#copy").click()
    window.page.get_by_role("button", name="Copied").wait_for()
    assert window.page.evaluate("navigator.clipboard.readText()") == REPORTS["5 rows"]()[0].command
