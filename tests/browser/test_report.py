"""The HTML report in a real browser: quiet, filtered, sorted, by keyboard, on a phone, in the dark, printed."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error as PlaywrightError

from interlock.report.html import page as pages
from interlock.report.html.colours import COLOURS
from tests.browser.conftest import REPORTS, WIDTHS, Open
from tests.builders import ROOT
from tests.contrast import contrast
from tests.reports import example

ROWS = ["5 rows", "13 rows"]
# The width of an A4 sheet without its margins.
A4_PX = 688
CHART, TABLE = "#ratio-locks-queue .dots", "#ratio-locks-queue table"
# Rows of a table or chart after the third are like those before; axe takes 20 s for all.
REPEATED = [["tbody tr:nth-child(n+4)"], [".dots li:nth-child(n+4)"]]


@cache
def ratios_of(rows: str, benchmark: str) -> dict[str, float]:
    """Return the ratios of a benchmark's chart, by row."""
    (table,) = [one for one in REPORTS[rows]()[1] if f"{one.workload.name} {one.benchmark.name}" == benchmark]
    compared = {row.label: row.to_baseline.ratio.estimate for row in table.rows if row.to_baseline}
    return {row.label: compared.get(row.label, 1.0) for row in table.rows if row.label in {table.baseline, *compared}}


# The rows of charts whose name, marks or figure lie upon each other, or reach beyond the chart.
UPON = """[...document.querySelectorAll('.dots li')].filter(row => {
    const [name, marks, figure] = [...row.children].map(one => one.getBoundingClientRect());
    const chart = row.getBoundingClientRect(), apart = (a, b) => a.right <= b.left + 1 || a.bottom <= b.top + 1;
    return !(apart(name, figure) && apart(name, marks) && (apart(marks, figure) || apart(figure, marks)))
        || figure.right > chart.right + 1;
}).map(row => row.textContent)"""
# The dots that are not where their ratio is between the ratios of the first and the last dot.
ASTRAY = """[...document.querySelectorAll('.dots ul')].flatMap(list => {
    const rows = [...list.children].map(row => {
        const box = row.querySelector('circle').getBoundingClientRect();
        return [Math.log(Number(row.dataset.ratio)), (box.left + box.right) / 2];
    }).sort((a, b) => a[0] - b[0]);
    return rows.slice(1).filter(([, x], index) => x < rows[index][1] - 1);
})"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("rows", ROWS)
def test_a_page_is_quiet_fetches_nothing_and_is_not_wider_than_its_window(opened: Open, rows: str, width: str) -> None:
    window = opened(rows, width)
    assert window.messages == []
    assert len(window.requested) == 1
    width_px, window_px = window.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width_px <= window_px
    window.page.locator("#all").check() if window.page.locator("#all").count() else None
    assert window.page.evaluate(UPON) == []
    assert window.page.evaluate(ASTRAY) == []


@pytest.mark.parametrize(("width", "most_px"), [("desk", 26), ("phone", 50)])
def test_a_row_of_a_chart_is_low_and_a_tick_one_line(opened: Open, width: str, most_px: int) -> None:
    page = opened("5 rows", width).page
    heights = "all => all.map(one => one.getBoundingClientRect().height)"
    assert max(page.locator(".dots li").evaluate_all(heights)) <= most_px
    assert max(page.locator(".axis span").evaluate_all(heights)) <= 26


def test_a_long_word_of_a_reason_does_not_make_the_page_wider_than_a_phone(opened: Open) -> None:
    page = opened("5 rows", "phone").page
    page.locator("#changes").evaluate("one => one.insertAdjacentHTML('beforeend', `<p>${'x'.repeat(300)}</p>`)")
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS["phone"]


@pytest.mark.parametrize("rows", ROWS)
def test_a_row_of_the_chart_stands_for_each_ratio(opened: Open, rows: str) -> None:
    assert opened(rows).names_in(CHART) == list(ratios_of(rows, "locks queue"))


def test_the_filter_holds_for_charts_and_tables_and_is_undone(opened: Open) -> None:
    window = opened("5 rows")
    before = window.names_in(".heat")
    window.filter(" PTH,  -3.14 ")
    kept = [name for name in before if "pth" in name or "-3.14" in name]
    assert 0 < len(kept) < len(before)
    assert window.names_in(".heat") == window.names_in(TABLE) == kept
    assert window.names_in(CHART) == [name for name in ratios_of("5 rows", "locks queue") if name in kept]
    assert window.page.locator("#shown").text_content() == f"{len(kept)} of {len(before)}"
    window.filter("jython")
    assert window.names_in(".heat") == []
    assert window.page.locator("[data-heat-note]").text_content()
    window.filter("")
    assert window.names_in(".heat") == before
    assert not window.page.locator("[data-heat-note]").text_content()


@pytest.mark.parametrize("width", ["desk", "phone"])
def test_the_filter_holds_for_what_changed_and_for_the_means(opened: Open, width: str) -> None:
    window = opened("answered", width)
    shown = window.page.locator("#changes .flat tbody tr:visible, #benchmarks > details tbody tr:visible")
    before = shown.count()
    window.filter("3.14t")
    kept = shown.evaluate_all("all => all.map(row => row.dataset.variant)")
    assert 0 < len(kept) < before
    assert {name for name in kept if "3.14t" not in name} == set()


def test_a_table_is_sorted_by_the_figures_that_its_texts_begin_with(opened: Open) -> None:
    window = opened("13 rows")
    ratio = ratios_of("13 rows", "locks queue")
    window.page.locator("#ratio-locks-queue summary").first.click()
    table = window.page.locator(TABLE).first
    head = table.locator("th").filter(has_text="ratio to cpython-3.13")
    head.get_by_role("button").click()
    names = window.names_in(TABLE)
    # Words come after figures, and what has none last in either direction.
    compared = [name for name in names if name in ratio and name != "cpython-3.13"]
    assert [ratio[name] for name in compared] == sorted(ratio[name] for name in compared)
    assert names[: len(compared)] == compared
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert window.names_in(TABLE)[: len(compared) + 1] == ["cpython-3.13", *reversed(compared)]
    assert head.get_attribute("aria-sort") == "descending"
    table.locator("th").filter(has_text="variant").get_by_role("button").click()
    by_name = window.names_in(TABLE)
    assert by_name[0] == min(names)
    assert by_name.index("cpython-3.9") < by_name.index("cpython-3.13")
    assert head.get_attribute("aria-sort") is None


def test_versions_are_sorted_as_versions(opened: Open) -> None:
    window = opened("13 rows")
    window.page.locator("#images th").filter(has_text="the interpreter says").get_by_role("button").click()
    versions = window.page.locator("#images tbody td:nth-child(2)").all_text_contents()
    parts = [[int(part) for part in text.split(",")[0].split(".")] for text in versions if text != "-"]
    assert parts == sorted(parts)
    assert {major for major, *_ in parts} == {2, 3}
    assert {9, 13} <= {minor for _, minor, *_ in parts}


def test_rows_can_stand_by_their_time_and_as_they_were(opened: Open) -> None:
    window = opened("5 rows")
    ratio = ratios_of("5 rows", "locks uncontended")
    chart = "#ratio-locks-uncontended .dots"
    window.order("best")
    assert window.names_in(chart) == sorted(ratio, key=lambda name: ratio[name]) != list(ratio)
    assert window.names_in(".heat")[0] == "cpython-3.14"
    window.order("name")
    assert window.names_in(chart) == list(ratio)


def test_a_mark_that_is_pointed_at_says_its_figures(opened: Open) -> None:
    row = opened("5 rows").page.locator("#ratio-locks-uncontended .dots li").nth(1)
    name, ratio = list(ratios_of("5 rows", "locks uncontended").items())[1]
    assert (row.get_attribute("title") or "").startswith(f"{name}: 750 ±1%; {ratio:.3f}x")


def test_all_that_can_be_used_is_reached_and_used_by_keyboard(opened: Open) -> None:
    page = opened("5 rows").page
    focused = "document.activeElement.id || document.activeElement.textContent.trim()"
    page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Skip to the answer"
    reached: list[str] = []
    while len(reached) < 300 and "copy" not in reached:
        page.keyboard.press("Tab")
        reached.append(str(page.evaluate(focused)))
    assert reached.index("filter") < reached.index("order") < reached.index("copy")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.locator("#ratio-locks-queue summary").first.focus()
    for key in ("Enter", "Tab", "Tab", "Space"):
        page.keyboard.press(key)
    assert page.locator("#ratio-locks-queue th").first.get_attribute("aria-sort") == "ascending"


def test_a_button_that_sorts_is_seen_on_a_phone_while_it_has_the_focus(opened: Open) -> None:
    page = opened("answered", "phone").page
    head = page.locator("#changes .flat thead").first
    height = "one => one.getBoundingClientRect().height"
    assert head.evaluate(height) <= 1
    head.locator("button").last.focus()
    assert head.evaluate(height) >= 24
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS["phone"]
    page.keyboard.press("Enter")
    assert head.locator("th").last.get_attribute("aria-sort") == "ascending"


def test_a_page_of_what_goes_on_loads_itself_again_until_it_is_used(opened: Open, tmp_path: Path) -> None:
    page = opened("5 rows").page
    (tmp_path / "live.html").write_text(pages.page(*example(), goes_on=True), encoding="utf-8")
    page.clock.install()
    page.goto((tmp_path / "live.html").as_uri())
    for use, is_loaded in ((None, True), ("Tab", False)):
        page.wait_for_selector("html[data-ready]", state="attached")
        page.evaluate("window.loadedBefore = true")
        page.keyboard.press(use) if use else None
        with suppress(PlaywrightError):  # the page that is asked may be gone
            page.clock.run_for(1000 * pages.RELOAD_S + 1)
        if is_loaded:
            page.wait_for_function("window.loadedBefore === undefined")
        page.wait_for_timeout(300)
        assert page.evaluate("window.loadedBefore === undefined") is is_loaded


def test_a_heat_map_of_more_columns_than_there_is_room_for_scrolls_says_so_and_keeps_its_names(opened: Open) -> None:
    window = opened("many columns", "phone")
    scroll = window.page.locator("#heat-map .grid")
    assert window.page.locator("#heat-map .scrolls").is_visible()
    assert scroll.evaluate("one => one.scrollWidth") > WIDTHS["phone"]
    assert window.page.evaluate("document.documentElement.scrollWidth") <= WIDTHS["phone"]
    scroll.focus()
    window.page.keyboard.press("ArrowRight")
    window.page.wait_for_function("one => one.scrollLeft > 0", arg=scroll.element_handle())
    left = scroll.evaluate("one => one.getBoundingClientRect().left")
    name = window.page.locator("#heat-map tbody th").first
    assert name.evaluate("one => one.getBoundingClientRect().left") < left + 3


def test_a_link_to_what_is_folded_unfolds_it(opened: Open) -> None:
    window = opened("5 rows", unfolded=False)
    assert not window.page.locator("#command").is_visible()
    window.page.get_by_role("link", name="Machine and command").click()
    window.page.locator("#command").wait_for()


# Whether the label of the filter is what is seen at each fifth of its width, with the heat map's names behind it.
UNCOVERED = """() => {
    const corner = document.querySelector('.heat thead tr:last-child th');
    window.scrollTo({top: corner.getBoundingClientRect().top + window.scrollY + 20, behavior: 'instant'});
    const label = document.querySelector('.tools label');
    const box = label.getBoundingClientRect();
    return [0, 1, 2, 3, 4].map(fifth => document.elementFromPoint(
        box.x + 4 + fifth * (box.width - 8) / 5, box.y + 3)).map(one => label.contains(one) || one.matches('.tools'));
}"""


@pytest.mark.parametrize(("width", "screen_px"), [("desk", 900), ("phone", 800)])
def test_the_answer_is_in_the_first_screen_and_the_rest_is_ten_at_most(
    opened: Open, width: str, screen_px: int
) -> None:
    page = opened("answered", width, unfolded=False).page
    assert page.locator("#answer .dots li").count() == 8
    script = "['#answer', 'nav'].map(one => document.querySelector(one).getBoundingClientRect())"
    answer, contents = page.evaluate(script)
    assert answer["bottom"] <= contents["top"]
    assert answer["bottom"] <= screen_px
    if width == "desk":
        assert page.evaluate("document.documentElement.scrollHeight") <= 10 * 900
        assert page.evaluate(UNCOVERED) == [True] * 5


CONTRASTS = """() => [...document.querySelectorAll('.heat tbody td, .dots span, .dots circle')].map(one => {
    const style = getComputedStyle(one), own = style.backgroundColor;
    const ground = own === 'rgba(0, 0, 0, 0)' ? getComputedStyle(document.body).backgroundColor : own;
    return [one.textContent, one.matches('circle') ? style.fill : style.color, ground, one.matches('circle') ? 3 : 4.5];
})"""


@cache
def hexadecimal(rgb: str) -> str:
    red, green, blue = (int(one) for one in rgb.removeprefix("rgb(").removesuffix(")").split(","))
    return f"#{red:02x}{green:02x}{blue:02x}"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_each_text_and_mark_can_be_told_from_its_ground_in_either_theme(opened: Open, theme: str) -> None:
    page = opened("13 rows", theme=theme).page
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(ground) == getattr(COLOURS["paper"], theme)
    seen = {tuple(one) for one in page.evaluate(CONTRASTS)}
    assert len({below for _, _, below, _ in seen}) > 4
    weak = {one for one in seen if contrast(hexadecimal(one[1]), hexadecimal(one[2])) < one[3]}
    assert weak == set()


@pytest.mark.parametrize(("width", "theme"), [("phone", "dark"), ("desk", "light")])
def test_axe_finds_nothing_to_complain_of(opened: Open, width: str, theme: str) -> None:
    window = opened("5 rows", width, theme)
    window.page.locator("#ratio-locks-queue summary").first.click()
    found: dict[str, Any] = Axe().run(window.page, context={"exclude": REPEATED}).response
    assert [(one["id"], [node["html"][:200] for node in one["nodes"]]) for one in found["violations"]] == []
    assert len(found["passes"]) > 20


def test_on_paper_it_is_light_whole_and_without_what_paper_cannot_do(opened: Open, tmp_path: Path) -> None:
    window = opened("5 rows", "desk", "dark")
    window.page.emulate_media(media="print")
    ground = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert hexadecimal(ground) == COLOURS["paper"].light
    assert not window.page.locator("#filter").is_visible()
    assert not window.page.locator("#ratio-locks-queue summary").first.is_visible()
    written = window.page.pdf(path=tmp_path / "report.pdf", format="A4", prefer_css_page_size=True)
    assert (written.count(b"/Type /Page\n") or written.count(b"/Type /Page ")) >= 2


def test_on_paper_shades_are_printed_and_a_wide_heat_map_is_whole(opened: Open) -> None:
    page = opened("many columns", "desk").page
    page.set_viewport_size({"width": A4_PX, "height": 900})
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= A4_PX
    assert not page.locator("#heat-map .scrolls").is_visible()
    for place in (".heat tbody td", ".legend span", ".dots svg"):
        assert page.locator(place).first.evaluate("one => getComputedStyle(one).printColorAdjust") == "exact"
    assert page.locator(".heat").evaluate("one => getComputedStyle(one).backgroundImage") == "none"


def test_on_paper_all_but_further_tables_is_unfolded(opened: Open) -> None:
    page = opened("answered", unfolded=False).page
    assert page.locator("#open details:not([open])").count() == 1
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not(.behind):not([open])").count() == 0


def test_without_javascript_all_of_it_can_be_read(opened: Open) -> None:
    window = opened("5 rows", java_script_enabled=False)
    assert window.page.locator(".verdict-line").is_visible()
    assert window.page.locator("#heat-map tbody th").first.is_visible()
    window.page.locator("#workload-locks summary").first.click()
    assert window.page.locator(CHART).is_visible()
    window.page.locator("#ratio-locks-queue summary").first.click()
    assert window.page.locator(TABLE).first.is_visible()


@pytest.mark.parametrize("width", ["desk", "phone"])
def test_without_javascript_rows_that_nobody_can_ask_for_are_shown(opened: Open, width: str) -> None:
    page = opened("answered", width, java_script_enabled=False).page
    page.locator("#workload-locks summary").first.click()
    for place in ("#heat-map", CHART):
        rows = page.locator(f"{place} [data-variant]")
        asides = page.locator(f"{place} [data-aside]")
        assert 0 < asides.count() < rows.count()
        heights = rows.evaluate_all("all => all.map(row => row.getBoundingClientRect().height)")
        assert min(heights) >= 10
        assert len({*rows.evaluate_all("all => all.map(row => getComputedStyle(row).display)")}) == 1


def test_the_command_is_copied(opened: Open) -> None:
    window = opened("5 rows")
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.page.locator("#copy").click()
    window.page.get_by_role("button", name="Copied").wait_for()
    assert window.page.evaluate("navigator.clipboard.readText()") == REPORTS["5 rows"]()[0].command


def test_whoever_comes_after_the_pages_on_a_worker_may_have_an_event_loop() -> None:
    page = f"{__file__}::test_a_long_word_of_a_reason_does_not_make_the_page_wider_than_a_phone"
    after = ROOT / "tests/workloads/test_service_app.py::test_an_asgi_service_has_no_answer_without_its_database"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", page, str(after)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "2 passed" in done.stdout, done.stdout
