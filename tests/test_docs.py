"""The pages of docs/ name files that exist, and link to pages that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from interlock.cli.main import COMMANDS, load_command
from tests import promises
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


@pytest.mark.parametrize("page", promises.PAGES)
def test_what_tests_prove_is_said_in_the_words_of_their_docstrings(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert text == promises.rewritten(text, promises.PAGES[page]), "run `python -m tests.promises`"
    assert len(promises.TABLE.findall(text)[0].splitlines()) >= len([*(ROOT / promises.PAGES[page]).glob("test_*.py")])


def test_a_table_of_promises_keeps_results_and_follows_the_files(tmp_path: Path) -> None:
    (tmp_path / "tests/long").mkdir(parents=True)
    (tmp_path / "tests/long/test_new.py").write_text('"""New.\n\nMore."""\n')
    (tmp_path / "tests/test_other.py").write_text('"""It holds."""\n')
    old = ["| `tests/long/test_gone.py` | It was. | 1 passed |", "| `tests/test_other.py` | It held. | 2 passed |"]
    new = [
        "| `tests/test_other.py` | It holds. | 2 passed |",
        "| `tests/long/test_new.py` | New. | not recorded |",
    ]
    before, after = ("\n".join([promises.HEAD, *rows, "", "End.", ""]) for rows in (old, new))
    assert promises.rewritten(before, "tests/long", tmp_path) == after


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


FENCED = re.compile(r"^```(?:sh|console|bash|yaml|toml|Dockerfile)?\n(.+?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(interlock [^`\n]+)`")
# The words of one command line, up to what a shell does with its output or starts next.
TYPED = re.compile(r"(?:^|[\s/])interlock ((?:'[^']*'|\"[^\"]*\"|[^'\"|;&>#\n])+)")


def commands_in(text: str) -> set[str]:
    """Every command line of Interlock that a page shows, in a block or in a sentence, without its output."""
    blocks = "\n".join(FENCED.findall(text)).replace("\\\n", " ")
    lines = [line.removeprefix("$ ") for line in blocks.splitlines() if not line.startswith(("-", "+", "#"))]
    shown = TYPED.findall("\n".join(lines)) + [line.removeprefix("interlock ") for line in INLINE.findall(text)]
    return {words.strip() for words in shown if words.split()[0] in COMMANDS}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/cli.md"])
def test_every_command_of_a_page_has_the_options_that_are_shown(page: str) -> None:
    wrong = []
    for typed in sorted(commands_in((ROOT / page).read_text(encoding="utf-8"))):
        name, *words = shlex.split(typed.partition(" | ")[0].replace("…", "").replace(" ...", ""))
        known = {option for one in load_command(name).params for option in (*one.opts, *one.secondary_opts)}
        asked = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)} - {"--help"}
        wrong += [f"{typed}: {option}" for option in sorted(asked - known)]
    assert wrong == []


def test_commands_of_the_readme_are_found() -> None:
    found = {words.split()[0] for words in commands_in((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert {"pick", "audit", "trial", "swap", "matrix"} <= found
