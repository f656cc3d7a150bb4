"""The tables of docs/proofs.md and docs/reliability.md: what each file of tests proves, in the words of its docstring.

    python -m tests.promises

writes them anew. The last column, a run's result, is kept as it stands in the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.builders import ROOT

# The page, and the folder whose files are all in its table; the page may name other files of tests besides.
PAGES = {"docs/proofs.md": "tests/proofs", "docs/reliability.md": "tests/torture"}
ROW = re.compile(r"^\| `(tests/[\w/]+\.py)` \| .* \| ([^|]*) \|$")
HEAD = "| file | what it proves | last result |\n| --- | --- | --- |"
TABLE = re.compile(re.escape(HEAD) + r"\n((?:\|.*\n)*)")
NOT_RECORDED = "not recorded"


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


def proved(file: Path) -> str:
    """Return the first paragraph of a file's docstring as one line."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("|", "\\|")


def main() -> None:
    """Write the tables of all pages."""
    for name, folder in PAGES.items():
        page = ROOT / name
        page.write_text(rewritten(page.read_text(encoding="utf-8"), folder), encoding="utf-8")


if __name__ == "__main__":
    main()
