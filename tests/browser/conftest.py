"""A real Chromium, Debian's or the one that playwright brings, and the reports of 5 and of 57 rows in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from interlock.html import page as pages
from tests.reports import FIVE, many_columns, reference, scaled

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
WIDTHS = {"phone": 360, "tablet": 800, "desk": 1400}
# A busy machine draws slowly; nothing here measures it.
PATIENCE_MS = 60_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "browser" in Path(item.fspath).parts:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    found = next((path for name in CHROMIUMS if (path := shutil.which(name))), None)
    # Its sandbox is not for root, whom containers and CI run as; the page is our own.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files, by how many rows they have; one of a heat map that no phone has room for; and curves."""
    folder = tmp_path_factory.mktemp("reports")
    written = {}
    told_by = {"5": reference("a", FIVE), "57": reference("b"), "many columns": many_columns()}
    told_by |= {"curves": scaled(), "40 curves": scaled(40)}
    for name, told in told_by.items():
        written[name] = folder / f"{name}.html"
        written[name].write_text(pages.page(*told), encoding="utf-8")
    return written


@dataclass
class Opened:
    """A report in a window, with all that it said and asked for."""

    page: Page
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def wait_until_drawn(self) -> None:
        self.page.wait_for_selector("html[data-drawn]", state="attached", timeout=PATIENCE_MS)

    def names_in(self, chart: str) -> list[str]:
        """The names of a chart's rows as they stand, from top to bottom."""
        script = """chart => [...document.querySelectorAll(`[data-chart="${chart}"] svg text`)]
            .map(text => [text.textContent, text.getBoundingClientRect().y])
            .filter(([text]) => report.variants.includes(text))
            .sort((one, other) => one[1] - other[1]).map(([text]) => text)"""
        return list(self.page.evaluate(script, chart))

    def wait_until_unfolded(self, table: str) -> None:
        """A folded table is made when the browser says that it was opened, which is after the click."""
        self.page.locator(f'[data-table="{table}"] thead').wait_for(state="attached", timeout=PATIENCE_MS)

    def column(self, table: str, index: int) -> list[str]:
        """The texts of a column of a table."""
        self.wait_until_unfolded(table)
        return self.page.locator(f'[data-table="{table}"] tbody tr :nth-child({index + 1})').all_text_contents()

    def filter(self, words: str) -> None:
        """Types into the page's field, and waits until charts and tables have followed."""
        self.page.evaluate("delete document.documentElement.dataset.drawn")
        self.page.locator("#filter").fill(words)
        self.wait_until_drawn()


Open = Callable[..., Opened]


def _open(contexts: list[BrowserContext], chromium: Browser, reports: dict[str, Path]) -> Open:
    def open_report(rows: str, width: str = "desk", theme: Any = "light", **options: Any) -> Opened:
        context = chromium.new_context(
            viewport={"width": WIDTHS[width], "height": 900}, color_scheme=theme, reduced_motion="reduce", **options
        )
        contexts.append(context)
        opened = Opened(context.new_page())
        opened.page.set_default_timeout(PATIENCE_MS)
        opened.page.on("console", lambda message: opened.said.append(f"{message.type}: {message.text}"))
        opened.page.on("pageerror", lambda error: opened.said.append(f"error: {error}"))
        opened.page.on("request", lambda request: opened.asked.append(request.url))
        opened.page.goto(reports[rows].as_uri())
        if options.get("java_script_enabled", True):
            opened.wait_until_drawn()
        return opened

    return open_report


@pytest.fixture(scope="module")
def opening(chromium: Browser, reports: dict[str, Path]) -> Iterator[Open]:
    """Opens a report of so many rows in a window of a width and theme, which several tests look at; all is drawn."""
    contexts: list[BrowserContext] = []
    yield _open(contexts, chromium, reports)
    for context in contexts:
        context.close()


@pytest.fixture
def opened(chromium: Browser, reports: dict[str, Path]) -> Iterator[Open]:
    """The same for a window of the test's own, which it may change."""
    contexts: list[BrowserContext] = []
    yield _open(contexts, chromium, reports)
    for context in contexts:
        context.close()
