"""The pages of docs/ name files that exist, and link to pages that exist."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
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


@pytest.mark.parametrize("page", PAGES)
def test_no_page_has_a_place_that_was_to_be_filled(page: str) -> None:
    assert not re.search(r"@@|\b(?:TODO|TBD|FIXME)\b", (ROOT / page).read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [page for page in PAGES if page != "CHANGELOG.md" and "decisions" not in page])
def test_every_source_file_that_a_page_names_exists(page: str) -> None:
    named = SOURCE_FILE.findall((ROOT / page).read_text())
    assert [file for file in named if not Path(ROOT, file).exists()] == []


def test_what_tests_prove_is_said_in_the_words_of_their_docstrings() -> None:
    text = (ROOT / promises.PROOFS).read_text(encoding="utf-8")
    assert text == promises.rewritten(text, promises.PROOFS_FOLDER), "run `python -m tests.promises`"
    files = [*(ROOT / promises.PROOFS_FOLDER).glob("test_*.py")]
    assert len(promises.TABLE.findall(text)[0].splitlines()) >= len(files)


def test_each_promise_that_a_test_is_marked_with_has_its_figures() -> None:
    text, known = (ROOT / promises.RELIABILITY).read_text(encoding="utf-8"), promises.promised()
    assert text == promises.with_figures(text, {}, known), "run `python -m tests.promises`"
    assert promises.NOT_RECORDED not in text
    assert len(known) > 40


TRIED = """
import pytest

@pytest.mark.promise(escapes=True)
@pytest.mark.parametrize("good", [True, True, False])
def test_nothing_gets_out(good):
    assert good

@pytest.mark.promise
def test_all_is_kept(record_property):
    record_property("tried", 100)
    record_property("lost", 2)
    assert False

def test_more():
    assert False
"""
COUNTED = """
import json, pathlib, sys
import pytest
from interlock.cli.main import COMMANDS
from tests import promises
promises.ROOT = pathlib.Path(sys.argv[1])
counter = promises.Counter()
pytest.main(["-c", "/dev/null", "-p", "no:cacheprovider", sys.argv[1]], plugins=[counter])
print(json.dumps(list(counter.counts.items())))
"""


def test_a_promise_counts_what_its_tests_tried_and_where_it_failed(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TRIED)
    argv = [sys.executable, "-c", COUNTED, str(tmp_path)]
    said = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert json.loads(said.splitlines()[-1]) == [
        [["test_it.py", "Nothing gets out."], [3, 0, 1]],
        [["test_it.py", "All is kept."], [100, 2, 0]],
    ]


def test_a_promise_names_what_was_lost_or_escaped_and_no_noughts() -> None:
    assert [promises.counted(counts) for counts in ([1200, 0, 0], [9, 2, 0], [9, 1, 3])] == [
        "1,200",
        "9, 2 lost",
        "9, 1 lost, 3 escaped",
    ]


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


def test_the_command_that_lists_images_to_remove_finds_those_of_variants_and_what_they_are_built_with() -> None:
    """A '*' of docker's stands for no '/'."""
    _, _, words = (ROOT / "docs/images.md").read_text(encoding="utf-8").partition("## Remove them")
    named = shlex.split(words.split("`")[1])[2:]
    patterns = [re.escape(word.removeprefix("reference=")).replace(r"\*", "[^/]*") for word in named if word != "-f"]
    names = ["localhost/interlock/python", "localhost/interlock/symbols", "interlock/base", "interlock/builder"]
    assert [name for name in names if not any(re.fullmatch(pattern, name) for pattern in patterns)] == []


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


def test_each_class_has_a_name_of_its_own() -> None:
    files = [path.read_text() for path in ROOT.glob("src/**/*.py")]
    names = [name for text in files for name in re.findall(r"^class (\w+)", text, re.MULTILINE)]
    assert [name for name in names if names.count(name) > 1] == []


def test_security_says_of_each_command_what_it_and_what_it_starts_reach() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    _, _, table = text.partition("## Who reaches what")
    rows = re.findall(r"^\| (`.+?) \| (.+?) \| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    named = [word for row in rows for word in re.findall(r"`(\w+)(?: --[\w-]+)?`", row[0])]
    assert set(named) == {*COMMANDS}


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


def options_of(command: str) -> set[str]:
    return {option for one in load_command(command).params for option in (*one.opts, *one.secondary_opts)}


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/cli.md"])
def test_every_command_of_a_page_has_the_options_that_are_shown(page: str) -> None:
    wrong = []
    for typed in sorted(commands_in((ROOT / page).read_text(encoding="utf-8"))):
        name, *words = shlex.split(typed.partition(" | ")[0].replace("…", "").replace(" ...", ""))
        asked = {word.partition("=")[0] for word in words if re.match("--?[a-z]", word)} - {"--help"}
        wrong += [f"{typed}: {option}" for option in sorted(asked - options_of(name))]
    assert wrong == []


def test_commands_of_the_readme_are_found() -> None:
    found = {words.split()[0] for words in commands_in((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert {"pick", "audit", "trial", "swap", "matrix"} <= found
