"""A Dockerfile's text -> its instructions, each with the place of every character. Pure.

As BuildKit reads it (frontend/dockerfile/parser of github.com/moby/buildkit): lines end with a line feed, the escape
directive counts before the first instruction, comments and empty lines within a continued instruction are left out,
and a heredoc belongs to RUN, COPY, ADD and ONBUILD with one of these.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

BOM = "\ufeff"
# What Go's unicode.IsSpace calls white space; Python's str.isspace knows others.
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
WORD = re.compile(r"[^\t\v\f\r \n]+")
DIRECTIVE = re.compile(rf"#[{SPACE}]*([a-zA-Z][a-zA-Z0-9]*)[\t\f\r ]*=[\t\f\r ]*(.+?)[\t\f\r ]*")
DIRECTIVES = frozenset({"syntax", "escape", "check"})
WITH_HEREDOC = frozenset({"RUN", "COPY", "ADD"})
SHELL_WORD = re.compile(r"(?:\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\"\\])+", re.DOTALL)
HEREDOC = re.compile(r"\d*<<(-?)([^<]+)")
SPACES = re.compile(f"[{SPACE}]*")
FLAG = re.compile(rf"--(?:\"[^\"]*\"|'[^']*'|[^{SPACE}\"'])*")


@dataclass(frozen=True)
class Span:
    """A part of the file: from `start` up to but not including `end`, in characters."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]


@dataclass(frozen=True)
class Word:
    """A word of an instruction as the builder sees it, and where it stands in the file."""

    text: str
    span: Span


@dataclass(frozen=True)
class Instruction:
    """One instruction with all lines that belong to it."""

    keyword: str  # in capitals
    line: int  # its first one, from 1
    start: int  # of that line
    text: str  # continuations joined; keyword and arguments
    offsets: tuple[int, ...]  # of each of these characters in the file
    pieces: tuple[Span, ...]  # its lines and its heredocs' without comments, without line ends
    heredoc: str  # the lines of all its heredocs

    @property
    def arguments(self) -> list[Word]:
        """The words behind the keyword and its flags."""
        return self._split()[1]

    @property
    def flags(self) -> list[Word]:
        """The words that start with two dashes and stand before all others."""
        return self._split()[0]

    def _split(self) -> tuple[list[Word], list[Word]]:
        """A flag's value may hold spaces in quotes, so flags are not words like the others."""
        behind = self._skip(self._skip(0, WORD), SPACES)
        flags = []
        while match := FLAG.match(self.text, behind):
            flags.append(self.word(*match.span()))
            behind = self._skip(match.end(), SPACES)
        return flags, [self.word(*match.span()) for match in WORD.finditer(self.text, behind)]

    def _skip(self, at: int, what: re.Pattern[str]) -> int:
        match = what.match(self.text, at)
        return match.end() if match else at

    def word(self, start: int, end: int) -> Word:
        """The characters from `start` to `end` of the joined text."""
        return Word(self.text[start:end], Span(self.offsets[start], self.offsets[end - 1] + 1))


@dataclass(frozen=True)
class _Line:
    number: int
    start: int
    text: str  # without its line end

    @property
    def span(self) -> Span:
        return Span(self.start, self.start + len(self.text))

    @property
    def is_comment(self) -> bool:
        return self.text.lstrip(SPACE).startswith("#")


def parse(text: str) -> list[Instruction]:
    """The instructions in their order. Any text is read; what is no Dockerfile gives instructions nobody knows."""
    return list(_Parser(text).instructions())


def line_of(text: str, offset: int) -> int:
    """The number, from 1, of the line that this character is in."""
    return text.count("\n", 0, offset) + 1


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = _lines(text)
        self._next = 0
        self._continued = _continued("\\")
        self._directives_over = False

    def instructions(self) -> Iterator[Instruction]:
        while (line := self._take()) is not None:
            if line.is_comment:
                self._read_directive(line.text.lstrip(SPACE))
                continue
            self._directives_over = True
            instruction = self._read_instruction(line)
            if instruction is not None:
                yield instruction

    def _take(self) -> _Line | None:
        if self._next == len(self._lines):
            return None
        self._next += 1
        return self._lines[self._next - 1]

    def _read_directive(self, comment: str) -> None:
        """Only the comments before everything else are directives, and only as long as each is shaped like one."""
        match = None if self._directives_over else DIRECTIVE.fullmatch(comment)
        name = match[1].lower() if match else ""
        self._directives_over = name not in DIRECTIVES
        if match is not None and name == "escape" and match[2] in {"\\", "`"}:
            self._continued = _continued(match[2])

    def _read_instruction(self, first: _Line) -> Instruction | None:
        joined, offsets, pieces = "", list[int](), list[Span]()
        line: _Line | None = first
        more = True
        while more and line is not None:
            if line is first or not (line.is_comment or not line.text.strip(SPACE)):
                part, more = self._part(line.text)
                joined += part
                offsets += range(line.start, line.start + len(part))
                pieces.append(line.span)
            line = self._take() if more else None
        indent, joined = len(joined) - len(joined.lstrip(SPACE)), joined.strip(SPACE)
        offsets = offsets[indent : indent + len(joined)]
        keyword = WORD.match(joined)
        if keyword is None:
            return None
        name = keyword[0].upper()
        heredoc = self._read_heredocs(name, joined)
        pieces += [line.span for line in heredoc]
        body = "\n".join(line.text for line in heredoc)
        return Instruction(name, first.number, first.start, joined, tuple(offsets), tuple(pieces), body)

    def _part(self, text: str) -> tuple[str, bool]:
        """A line without the sign that it goes on in the next one, and whether it does."""
        match = self._continued.search(text)
        return (text[: match.start("sign")], True) if match else (text, False)

    def _read_heredocs(self, keyword: str, joined: str) -> list[_Line]:
        """The lines of the heredocs that an instruction announces; one that never ends takes the rest."""
        lines = []
        for chomp, terminator in _heredocs(keyword, joined):
            while (line := self._take()) is not None:
                if (line.text.lstrip("\t") if chomp else line.text) == terminator:
                    break
                lines.append(line)
        return lines


def _lines(text: str) -> list[_Line]:
    lines, start = [], 1 if text.startswith(BOM) else 0
    parts = text[start:].split("\n")
    for number, part in enumerate(parts if parts[-1] else parts[:-1], start=1):
        lines.append(_Line(number, start, part.rstrip("\r")))
        start += len(part) + 1
    return lines


def _continued(escape: str) -> re.Pattern[str]:
    """A line that goes on: it ends with the escape character, not doubled, and blanks behind it do not count."""
    sign = re.escape(escape)
    return re.compile(rf"(?:(?<=[^{sign}])|^)(?P<sign>{sign})[ \t]*\Z")


def _heredocs(keyword: str, joined: str) -> list[tuple[bool, str]]:
    """(whether leading tabs are dropped, the line that ends it) of each heredoc."""
    if "<<" not in joined:
        return []
    arguments = _behind_first_word(joined)
    if keyword == "ONBUILD":
        keyword, arguments = (arguments.split() or [""])[0].upper(), _behind_first_word(arguments)
    if keyword not in WITH_HEREDOC or is_list(arguments):
        return []
    found = [HEREDOC.fullmatch(word) for word in shell_words(arguments)]
    return [(bool(match[1]), name) for match in found if match and (name := _unquoted(match[2]))]


def _behind_first_word(text: str) -> str:
    return "".join(text.split(None, 1)[1:])


def is_list(arguments: str) -> bool:
    """Whether arguments are in the form of a JSON list of strings, behind whatever flags."""
    start = arguments.find("[")
    if start < 0 or not all(word.startswith("--") for word in arguments[:start].split()):
        return False
    try:
        value = json.loads(arguments[start:])
    except ValueError:
        return False
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def shell_words(text: str) -> list[str]:
    """Words as a shell splits them, quotes kept; none if a quote is not closed."""
    return [] if SHELL_WORD.sub("", text).strip() else SHELL_WORD.findall(text)


def _unquoted(word: str) -> str:
    """A heredoc's name without the quotes that say 'leave variables alone'."""
    return re.sub(r"\\(.)|'([^']*)'|\"([^\"]*)\"", lambda match: match[1] or match[2] or match[3] or "", word)
