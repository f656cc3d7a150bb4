"""Comments that keep what a file said before a swap, and edits of its text. Pure.

`# interlock: was python:3.12-slim` stands above the line whose image was that; in a Dockerfile's ARG the name stands
before it (`was BASE=python:3.12-slim`). `# interlock: paths were python3.12 - cp312` has, for each version that the
instruction below carries, what it was, or a dash where it was left alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from interlock.swap.dockerfile import BOM, Span

WAS, PATHS = "was", "paths were"
MARK = re.compile(rf"[ \t]*(?:#|//) interlock: ({WAS}|{PATHS}) (.*?)[ \t\r]*")
# What can stand in a comment as it is; anything else is written as a JSON string behind the prefix.
PLAIN = re.compile(r"(?!json:)[!-~]+")
ENCODED = "json:"
UNCHANGED = "-"


@dataclass(frozen=True)
class Edit:
    """A part of the text and what takes its place."""

    span: Span
    text: str


@dataclass(frozen=True)
class Mark:
    """A comment of ours: its kind, what it says, its line's number (from 1) and place, the line end with it."""

    kind: str
    content: str
    line: int
    span: Span


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits done; they must not overlap. Edits of one place are done in the order given."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        if edit.span.start < at:
            raise ValueError(f"edits overlap at {edit.span.start}")
        parts += [text[at : edit.span.start], edit.text]
        at = edit.span.end
    return "".join([*parts, text[at:]])


def comment(text: str, line_start: int, said: str, sign: str = "#") -> Edit:
    """The edit that puts a mark above the line that starts there, with the line end that this line has."""
    return Edit(Span(line_start, line_start), f"{sign} interlock: {said}{_line_end(text, line_start)}")


def _line_end(text: str, start: int) -> str:
    """That of the line which starts there, or of the file's first line if it has none."""
    for place in (start, 0):
        end = text.find("\n", place)
        if end >= 0:
            return "\r\n" if text[max(end - 1, 0) : end] == "\r" else "\n"
    return "\n"


def marks(text: str) -> dict[int, list[Mark]]:
    """The marks above each line that has some, by the number of that line."""
    found: dict[int, list[Mark]] = {}
    above: list[Mark] = []
    start = 1 if text.startswith(BOM) else 0
    for number, line in enumerate(text[start:].split("\n"), start=1):
        end = min(start + len(line) + 1, len(text))
        match = MARK.fullmatch(line)
        if match:
            above.append(Mark(match[1], match[2], number, Span(start, end)))
        elif above:
            found[number] = above
            above = []
        start = end
    return found | ({0: above} if above else {})


def encode(raw: str) -> str:
    """As a comment can hold it."""
    return raw if PLAIN.fullmatch(raw) else ENCODED + json.dumps(raw)


def decode(content: str) -> str | None:
    """What was encoded; None if the comment was damaged."""
    if not content.startswith(ENCODED):
        return content
    try:
        raw = json.loads(content.removeprefix(ENCODED))
    except ValueError:
        return None
    return raw if isinstance(raw, str) else None
