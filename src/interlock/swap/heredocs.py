"""The heredocs and the JSON lists of an instruction, as BuildKit reads them."""

from __future__ import annotations

import json
import re
from contextlib import suppress

WITH_HEREDOC = frozenset({"RUN", "COPY", "ADD"})
SHELL_WORD = re.compile(r"(?:\\(?:.|\Z)|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\"\\])+", re.DOTALL)
HEREDOC = re.compile(r"\d*<<(-?)([^<]*)")
JSON = json.JSONDecoder()
# Programs that read a heredoc which is no script of the shell.
HEREDOC_READER = re.compile(r"(?:python|node|perl|ruby|cat|tee)[\d.]*\s")


def announced_heredocs(keyword: str, joined: str) -> list[tuple[bool, str]]:
    """Return (whether leading tabs are dropped, the line that ends it) for each heredoc."""
    if "<<" not in joined:
        return []
    arguments = _behind_first_word(joined)
    if keyword == "ONBUILD":
        keyword, arguments = (arguments.split() or [""])[0].upper(), _behind_first_word(arguments)
    if keyword not in WITH_HEREDOC or listed(arguments) is not None:
        return []
    matches = [HEREDOC.fullmatch(word) for word in _shell_words(arguments)]
    return [(bool(match[1]), name) for match in matches if match and (name := _heredoc_name(match[2]))]


def _behind_first_word(text: str) -> str:
    return "".join(text.split(None, 1)[1:])


def listed(arguments: str) -> list[str] | None:
    """Return the strings of the JSON list that follows any flags; None without one. What is behind it is not read."""
    start = arguments.find("[")
    if start < 0 or not all(word.startswith("--") for word in arguments[:start].split()):
        return None
    with suppress(ValueError, RecursionError):
        value, _ = JSON.raw_decode(arguments, start)
        return value if all(isinstance(part, str) for part in value) else None
    return None


def _shell_words(text: str) -> list[str]:
    """Return the words as a shell splits them, with their quotes; none if a quote is not closed."""
    return [] if SHELL_WORD.sub("", text).strip() else SHELL_WORD.findall(text)


def read_by_another(text: str, heredoc: str) -> bool:
    """Return whether the heredoc of a command goes to a file or to a program that is no shell, or names one itself."""
    if "#!" in text + heredoc[:2] or any(">" in line.partition("<<")[2] for line in text.split("\n")):
        return True
    return any(HEREDOC_READER.search(part.rpartition("<<")[0]) for part in re.split(r"[;&|\n]", text))


def _heredoc_name(word: str) -> str:
    """Return a heredoc's name without quotes, which only turn variables off."""
    return re.sub(r"\\(.?)|'([^']*)'|\"([^\"]*)\"", lambda match: match[1] or match[2] or match[3] or "", word)
