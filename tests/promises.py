"""The tables of docs/proofs.md and docs/reliability.md, written of the tests themselves.

    python -m tests.promises [PATH ...]

runs the tests that are marked `promise`, all of them or those of the paths, and writes what they tried and what was
lost or escaped into docs/reliability.md. A marked file is one promise, its docstring; a marked test is one, its name.
`promise(escapes=True)` says that what fails there has got out. A test that tries many records `tried` and `lost`.
docs/proofs.md has each file's docstring; its last column is kept as it stands in the page.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.builders import ROOT

# A page of files, and the folder whose files are all in its table; the page may name other files of tests besides.
PROOFS, PROOFS_FOLDER = "docs/proofs.md", "tests/proofs"
ROW = re.compile(r"^\| `(tests/[\w/]+\.py)` \| .* \| ([^|]*) \|$")
HEAD = "| file | what it proves | last result |\n| --- | --- | --- |"
TABLE = re.compile(re.escape(HEAD) + r"\n((?:\|.*\n)*)")
NOT_RECORDED = "not recorded"

RELIABILITY = "docs/reliability.md"
FIGURES = ("tried", "lost", "escaped")
PROMISES_HEAD = "| promise | test | tried | when |\n| --- | --- | --- | --- |"
PROMISES = re.compile(re.escape(PROMISES_HEAD) + r"\n((?:\|.*\n)*)")
PROMISE_ROW = re.compile(r"^\| (.*) \| `(tests/[\w/]+\.py)` \| (.*) \|$")
MARK = "mark.promise"
Promise = tuple[str, str]  # the file and the sentence


class Counter:
    """A plugin of pytest that counts, of each promise, what was tried and what was lost or escaped."""

    def __init__(self) -> None:
        self.counts: dict[Promise, list[int]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        mark = item.get_closest_marker("promise")
        if mark is not None:
            item.user_properties.append(("promise", promise_of(item)))
            item.user_properties.append(("failed as", "escaped" if mark.kwargs.get("escapes") else "lost"))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        said = dict(report.user_properties)
        if "promise" in said and (report.when == "call" or report.failed) and not report.skipped:
            counted = {"tried": 1, str(said["failed as"]): int(report.failed)}
            counts = self.counts.setdefault(said["promise"], [0] * len(FIGURES))  # type: ignore[arg-type]
            for index, name in enumerate(FIGURES):
                counts[index] += int(str(said.get(name, counted.get(name, 0))))


def promise_of(item: pytest.Item) -> Promise:
    """Return the file and the promise of a marked test: its own, or its file's."""
    file = item.path.relative_to(ROOT).as_posix()
    is_own = any(mark.name == "promise" for mark in item.own_markers)
    return file, sentence_of(getattr(item, "originalname", item.name)) if is_own else proved(item.path)


def sentence_of(name: str) -> str:
    """Return a test's name as a sentence."""
    words = name.removeprefix("test_").replace("_", " ")
    return f"{words[0].upper()}{words[1:]}."


def proved(file: Path) -> str:
    """Return the first paragraph of a file's docstring as one line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def promised(root: Path = ROOT) -> set[Promise]:
    """Return all promises that tests are marked with, without running any."""
    return {found for path in (root / "tests").rglob("test_*.py") for found in _promised_in(path, root)}


def _promised_in(path: Path, root: Path) -> Iterator[Promise]:
    text = path.read_text(encoding="utf-8")
    if MARK not in text:
        return
    file = path.relative_to(root).as_posix()
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and any(MARK in ast.unparse(one) for one in node.decorator_list):
            yield file, sentence_of(node.name)
        elif isinstance(node, ast.Assign) and ast.unparse(node).startswith("pytestmark") and MARK in ast.unparse(node):
            yield file, proved(path)


def counted(counts: Sequence[int]) -> str:
    """Return how many were tried, and what of it was lost or escaped, if anything."""
    tried, *failed = counts
    return ", ".join(
        [f"{tried:,}", *(f"{count:,} {name}" for count, name in zip(failed, FIGURES[1:], strict=True) if count)]
    )


def with_figures(page: str, figures: Mapping[Promise, str], known: set[Promise]) -> str:
    """Return the page with a row for each promise that is known: of new figures, else as it stands."""
    (table,) = PROMISES.findall(page)
    found = [match for line in table.splitlines() if (match := PROMISE_ROW.match(line))]
    rows = {(match[2], match[1]): match[3] for match in found} | dict(figures)
    never = f"- | {NOT_RECORDED}"
    lines = [f"| {said} | `{file}` | {rows.get((file, said), never)} |\n" for file, said in sorted(known)]
    return PROMISES.sub(lambda _: f"{PROMISES_HEAD}\n{''.join(lines)}", page)


def rewritten(page: str, folder: str, root: Path = ROOT) -> str:
    """Return the text of a page with the rows of its table made anew: files that are gone are left out."""
    (table,) = TABLE.findall(page)
    results = {found[1]: found[2] for line in table.splitlines() if (found := ROW.match(line))}
    files = [*results, *(path.relative_to(root).as_posix() for path in sorted((root / folder).glob("test_*.py")))]
    rows = "".join(_rows(dict.fromkeys(files), results, root))
    return TABLE.sub(lambda _: f"{HEAD}\n{rows}", page)


def _rows(files: dict[str, None], results: dict[str, str], root: Path) -> Iterator[str]:
    for file in files:
        if (root / file).exists():
            yield f"| `{file}` | {proved(root / file)} | {results.get(file, NOT_RECORDED)} |\n"


def main() -> int:
    """Run the tests of promises, write both pages, and return pytest's exit code."""
    counter = Counter()
    code = pytest.main(["-m", "promise", *(sys.argv[1:] or ["tests"])], plugins=[counter])
    commit = subprocess.run(["git", "describe", "--always"], cwd=ROOT, capture_output=True, text=True, check=False)
    when = f"{time.strftime('%Y-%m-%d')}, {commit.stdout.strip()}"
    figures = {one: f"{counted(counts)} | {when}" for one, counts in counter.counts.items()}
    proofs, reliability = ROOT / PROOFS, ROOT / RELIABILITY
    proofs.write_text(rewritten(proofs.read_text(encoding="utf-8"), PROOFS_FOLDER), encoding="utf-8")
    page = with_figures(reliability.read_text(encoding="utf-8"), figures, promised())
    reliability.write_text(page, encoding="utf-8")
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
