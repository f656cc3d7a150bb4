"""The pages of docs/ name files that exist, and link to pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.builders import ROOT

PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
SOURCE_FILE = re.compile(r"`((?:src|tests|dockerfiles|playbooks)/[\w./-]+\.\w+)`")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES)
def test_every_linked_file_exists(page: str) -> None:
    folder = (ROOT / page).parent
    missing = [target for target in LINK.findall((ROOT / page).read_text()) if not (folder / target).exists()]
    assert missing == []


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md" and "decisions" not in page])
def test_every_source_file_that_a_page_names_exists(page: str) -> None:
    named = SOURCE_FILE.findall((ROOT / page).read_text())
    assert [file for file in named if not Path(ROOT, file).exists()] == []


def test_each_decision_has_a_number_of_its_own() -> None:
    titles = {path.name: path.read_text().split(".")[0] for path in sorted((ROOT / "docs/decisions").glob("*.md"))}
    assert titles == {name: f"# {number}" for number, name in enumerate(titles, 1)}
    assert [name[:4] for name in titles] == [f"{number:04}" for number in range(1, len(titles) + 1)]


def test_each_word_of_the_glossary_stands_once() -> None:
    words = re.findall(r"^\| ([^|]+) \|", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    assert [word for word in words if words.count(word) > 1] == []


def test_no_module_is_longer_than_the_rule_of_contributing() -> None:
    (limit,) = re.findall(r"a module has one subject and at most (\d+) lines", (ROOT / "CONTRIBUTING.md").read_text())
    lines = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ROOT.glob("src/**/*.py")}
    assert {name: count for name, count in lines.items() if count > int(limit)} == {}
