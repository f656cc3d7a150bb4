"""A real Chromium, Debian's or the one that playwright brings, and reports of several sizes in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from interlock.report.html import page as pages
from tests.reports import ReportInput, example, many_columns, reference

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = {"phone": 360, "tablet": 800, "desk": 1400}
# A busy machine draws slowly; nothing here measures it.
PATIENCE_MS = 60_000
REPORTS: dict[str, Callable[[], ReportInput]] = {
    "5 rows": example,
    "57 rows": partial(reference, "b"),
    "many columns": many_columns,  # no phone has room for its heat map
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in Path(item.fspath).parts:
            item.add_marker(pytest.mark.browser)


@cache
def found_chromium() -> str | None:
    """Return the path of this machine's Chromium, or of playwright's; None if there is neither."""
    found = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
    if found:
        return found
    with sync_playwright() as playwright:
        its_own = Path(playwright.chromium.executable_path)
    return str(its_own) if its_own.exists() else None


def pytest_runtest_setup() -> None:
    """Leave the pages out where no browser could be had; pytest says so in one line."""
    if found_chromium() is None:
        pytest.skip("tests/browser needs Chromium, which is not installed and could not be")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    # Its sandbox is not for root, whom containers and CI run as; the page is our own.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found_chromium(), args=arguments)
        yield browser
        browser.close()


ReportFile = Callable[[str], Path]


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> ReportFile:
    """Return the file of a report, which is written when a test first asks for it."""
    folder = tmp_path_factory.mktemp("reports")

    @cache
    def written(name: str) -> Path:
        path = folder / f"{name}.html"
        path.write_text(pages.page(*REPORTS[name]()), encoding="utf-8")
        return path

    return written


@dataclass
class Window:
    """A report in a window, its console's messages and the URLs that it requested."""

    page: Page
    messages: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def unfold(self) -> None:
        """Open every part that is folded away, so that its charts are drawn."""
        self.wait_until_drawn()
        self.page.evaluate(
            "delete document.documentElement.dataset.drawn;"
            "document.querySelectorAll('details.fold').forEach(one => { one.open = true; })"
        )

    def wait_until_drawn(self) -> None:
        self.page.bring_to_front()  # a page behind another one may have no frames to draw in
        self.page.wait_for_selector("html[data-drawn]", state="attached", timeout=PATIENCE_MS)

    def names_in(self, chart: str) -> list[str]:
        """Return the names of a chart's rows as they stand, from top to bottom."""
        if chart == "heat-map":
            shown = "[...heat.querySelectorAll('tbody tr:not([hidden])')].map(row => row.dataset.variant)"
            return list(self.page.evaluate(shown))
        script = """chart => [...document.querySelectorAll(`[data-chart="${chart}"] svg text`)]
            .map(text => [text.textContent, text.getBoundingClientRect().y])
            .filter(([text]) => report.variants.includes(text))
            .sort((one, other) => one[1] - other[1]).map(([text]) => text)"""
        return list(self.page.evaluate(script, chart))

    def column(self, chart: str, index: int) -> list[str]:
        """Return the texts of a column of the first table below a chart, of the rows that are shown."""
        rows = self.page.locator(f"#{chart} table").first.locator("tbody tr:not([hidden])")
        return rows.locator(f":nth-child({index + 1})").all_text_contents()

    def resize(self, width: str) -> None:
        """Make the window so wide, and wait until the charts have followed."""
        if self.page.viewport_size != size_of(width):
            # A page behind another one may have no frames, and is not told of its new size.
            self.page.bring_to_front()
            self.page.set_viewport_size(size_of(width))
            self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
            self.page.wait_for_function(
                "() => !drawing && charts.every(one => one.layout === null || one.layout === layoutOf(one))",
                timeout=PATIENCE_MS,
            )
            self.page.evaluate("Promise.all(charts.map(one => one.drawn?.view.runAsync().then(() => null)))")

    def filter(self, words: str) -> None:
        """Type into the page's field, and wait until charts and tables have followed."""
        self.page.evaluate("delete document.documentElement.dataset.drawn")
        self.page.locator("#filter").fill(words)
        self.wait_until_drawn()

    def order(self, rows: str) -> None:
        """Choose the order of the rows, and wait until charts have followed."""
        self.page.evaluate("delete document.documentElement.dataset.drawn")
        self.page.locator("#order").select_option(rows)
        self.wait_until_drawn()

    def put_back(self) -> None:
        """Undo what a test does: all rows in their first order, tables folded, and nothing pointed at."""
        self.page.mouse.move(0, 0)
        self.page.evaluate(
            "document.querySelectorAll('details').forEach(one => { one.open = unfolded.includes(one); })"
        )
        first = self.page.locator("#order option").first.get_attribute("value")
        if self.page.locator("#filter").input_value():
            self.filter("")
        if first and self.page.locator("#order").input_value() != first:
            self.order(first)


Open = Callable[..., Window]


def size_of(width: str) -> ViewportSize:
    return {"width": WIDTHS[width], "height": 900}


def _open(chromium: Browser, report_file: ReportFile, contexts: list[BrowserContext]) -> Open:
    def open_report(
        name: str, width: str = "desk", theme: Any = "light", *, drawn: bool = True, **options: Any
    ) -> Window:
        context = chromium.new_context(viewport=size_of(width), color_scheme=theme, reduced_motion="reduce", **options)
        contexts.append(context)
        window = Window(context.new_page())
        window.page.set_default_timeout(PATIENCE_MS)
        window.page.on("console", lambda message: window.messages.append(f"{message.type}: {message.text}"))
        window.page.on("pageerror", lambda error: window.messages.append(f"error: {error}"))
        window.page.on("request", lambda request: window.requested.append(request.url))
        window.page.goto(report_file(name).as_uri())
        if drawn:
            window.page.wait_for_selector("html[data-ready]", state="attached", timeout=PATIENCE_MS)
            window.unfold()
            window.wait_until_drawn()
            window.page.evaluate("window.unfolded = [...document.querySelectorAll('details[open]')]")
        return window

    return open_report


@pytest.fixture(scope="session")
def windows(chromium: Browser, report_file: ReportFile) -> Iterator[Open]:
    """Return a report in a window of a width, all drawn; opening one takes seconds, so all tests have the same.

    What is narrow is drawn otherwise than what is wide, and has its own; a tablet's is a desk's made smaller.
    """
    contexts: list[BrowserContext] = []
    yield cache(_open(chromium, report_file, contexts))
    for context in contexts:
        context.close()


def shared_window(windows: Open, name: str, width: str) -> Window:
    """Return the window that all tests have of a report, in this width."""
    window = windows(name, "desk" if width == "tablet" else width)
    window.resize(width)
    return window


@pytest.fixture
def shared(windows: Open) -> Iterator[Open]:
    """Return a report in the window that all tests have, in a theme; what the test did to it is undone."""
    used: list[Window] = []

    def window_of(name: str, width: str = "desk", theme: Any = "light") -> Window:
        used.append(shared_window(windows, name, width))
        # Colours are variables of the style sheet: nothing is drawn anew.
        used[-1].page.emulate_media(color_scheme=theme)
        return used[-1]

    yield window_of
    for window in used:
        window.put_back()


@pytest.fixture(scope="module")
def folded(chromium: Browser, report_file: ReportFile) -> Iterator[Open]:
    """Return a report as it is when it has loaded, scrolled to its top; tests look at it and change nothing."""
    contexts: list[BrowserContext] = []
    opened = cache(partial(_open(chromium, report_file, contexts), drawn=False))

    def from_the_top(name: str, width: str = "desk") -> Window:
        window = opened(name, width)
        window.page.wait_for_selector("html[data-ready]", state="attached")
        window.page.evaluate("window.scrollTo({top: 0, behavior: 'instant'})")
        return window

    yield from_the_top
    for context in contexts:
        context.close()


@pytest.fixture
def opened(chromium: Browser, report_file: ReportFile) -> Iterator[Open]:
    """Return a report in a window of the test's own; with `drawn=False` before its charts are."""
    contexts: list[BrowserContext] = []
    yield _open(chromium, report_file, contexts)
    for context in contexts:
        context.close()
