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
from tests.reports import AnsweredInput, ReportInput, answered, example, many_columns, reference

CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WIDTHS = {"phone": 360, "tablet": 800, "desk": 1400}
# A busy machine draws slowly; nothing here measures it.
PATIENCE_MS = 60_000
REPORTS: dict[str, Callable[[], ReportInput | AnsweredInput]] = {
    "5 rows": example,
    "13 rows": partial(reference, "2026-11-29-a"),
    "answered": partial(answered, "2026-11-29-a"),
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


@pytest.fixture(scope="package")  # as long as it is open, its event loop runs in this thread, and no other can
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

    def names_in(self, place: str) -> list[str]:
        """Return the names of the rows that are shown of the heat map, a chart or a table, from top to bottom."""
        script = "one => [...one.querySelectorAll('[data-variant]:not([hidden])')].map(row => row.dataset.variant)"
        return list(self.page.locator(place).first.evaluate(script))

    def filter(self, words: str) -> None:
        self.page.locator("#filter").fill(words)

    def order(self, rows: str) -> None:
        self.page.locator("#order").select_option(rows)

    def unfold(self) -> None:
        """Open every part that is folded away."""
        self.page.evaluate("document.querySelectorAll('details.fold').forEach(one => { one.open = true; })")


Open = Callable[..., Window]


@pytest.fixture
def opened(chromium: Browser, report_file: ReportFile) -> Iterator[Open]:
    """Return what opens a report in a window of its own, in a width and a theme, and unfolds it unless told not to."""
    contexts: list[BrowserContext] = []

    def open_report(
        name: str, width: str = "desk", theme: Any = "light", *, unfolded: bool = True, **options: Any
    ) -> Window:
        size: ViewportSize = {"width": WIDTHS[width], "height": 900}
        context = chromium.new_context(viewport=size, color_scheme=theme, reduced_motion="reduce", **options)
        contexts.append(context)
        window = Window(context.new_page())
        window.page.set_default_timeout(PATIENCE_MS)
        window.page.on("console", lambda message: window.messages.append(f"{message.type}: {message.text}"))
        window.page.on("pageerror", lambda error: window.messages.append(f"error: {error}"))
        window.page.on("request", lambda request: window.requested.append(request.url))
        window.page.goto(report_file(name).as_uri())
        if options.get("java_script_enabled", True):
            window.page.wait_for_selector("html[data-ready]", state="attached")
            if unfolded:
                window.unfold()
        return window

    yield open_report
    for context in contexts:
        context.close()
