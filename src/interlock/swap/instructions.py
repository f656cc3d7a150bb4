"""Splits a Dockerfile's text into instructions, each with its position in the file.

It is read as BuildKit reads it (frontend/dockerfile/parser of github.com/moby/buildkit): lines end with a line feed,
the escape directive counts before the first instruction, comments and empty lines within a continued instruction are
left out, and a heredoc belongs to RUN, COPY, ADD and ONBUILD with one of these.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

BOM = "\ufeff"
# White space as Go's unicode.IsSpace defines it; Python's str.isspace differs.
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
RUNS = frozenset({"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK", "SHELL"})
WORD = re.compile(r"[^\t\v\f\r \n]+")
DIRECTIVE = re.compile(rf"#[{SPACE}]*([a-zA-Z][a-zA-Z0-9]*)[\t\f\r ]*=[\t\f\r ]*(.+?)[\t\f\r ]*")
DIRECTIVES = frozenset({"syntax", "escape", "check"})
SPACES = re.compile(f"[{SPACE}]*")
FLAG = re.compile(rf"--(?:\\.|\"(?:\\.|[^\"\\])*(?:\"|\Z)|'(?:\\.|[^'\\])*(?:'|\Z)|[^{SPACE}\"'\\])*")
ARG_VARIABLE = re.compile(r"([A-Za-z_][\w.-]*)(?:(=)((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\])*))?")
FROM_OPTION = re.compile(r"(?:^--from=|[=,]from=)([^,\s]+)")
MOUNT_SOURCE = re.compile(r"(?<=[=,])(?:source|src)=[^,\s]*")
WITH_HEREDOC = frozenset({"RUN", "COPY", "ADD"})
SHELL_WORD = re.compile(r"(?:\\(?:.|\Z)|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\"\\])+", re.DOTALL)
HEREDOC = re.compile(r"\d*<<(-?)([^<]*)")
JSON = json.JSONDecoder()
# Programs that read a heredoc, which then is no shell script.
HEREDOC_READER = re.compile(r"(?:python|node|perl|ruby|cat|tee)[\d.]*\s")


@dataclass(frozen=True)
class Span:
    """A part of the file: the characters from `start` to before `end`."""

    start: int
    end: int

    def of(self, text: str) -> str:
        return text[self.start : self.end]


@dataclass(frozen=True)
class Word:
    """A word of an instruction as the builder reads it, and its span in the file."""

    text: str
    span: Span


@dataclass(frozen=True)
class FileOrigin:
    """A stage or an image from which an instruction takes files, as a flag names it."""

    name: str
    named: Span
    mounted: tuple[Span, ...]  # the places where a mount names its source


@dataclass(frozen=True)
class Instruction:
    """One instruction with all lines that belong to it."""

    keyword: str  # in upper case
    line: int  # the first one, from 1
    start: int  # the position of that line
    text: str  # keyword and arguments, with continued lines joined
    offsets: tuple[int, ...]  # the position of each of these characters in the file
    pieces: tuple[Span, ...]  # its lines and its heredocs', without comments and line ends
    heredoc: str  # the lines of all its heredocs

    @property
    def arguments(self) -> list[Word]:
        """Return the words after the keyword and its flags; those of ONBUILD are its trigger's."""
        return self._words[1]

    @property
    def flags(self) -> list[Word]:
        """Return the words with two dashes before all others; ONBUILD has none for this build."""
        return [] if self.is_trigger else self._words[0]

    @property
    def is_trigger(self) -> bool:
        """Return whether it is kept for builds that start from the image."""
        return self.keyword == "ONBUILD"

    @cached_property
    def verb(self) -> str:
        """Return what it does, now or as a trigger: RUN of `ONBUILD RUN x`."""
        keyword = WORD.match(self.text, self._skip(self._skip(0, WORD), SPACES)) if self.is_trigger else None
        return keyword[0].upper() if keyword else self.keyword

    @property
    def copies(self) -> bool:
        return self.verb in {"COPY", "ADD"}

    @cached_property
    def _words(self) -> tuple[list[Word], list[Word]]:
        """Return flags and arguments; unlike an argument, a flag's value may have spaces in quotes."""
        behind = self._skip(self._skip(0, WORD), SPACES)
        if self.is_trigger:
            behind = self._skip(self._skip(behind, WORD), SPACES)
        flags = []
        while match := FLAG.match(self.text, behind):
            if match[0] == "--" and self.text[match.end() : match.end() + 1] in {"", *SPACE}:  # it ends the flags
                behind = self._skip(match.end(), SPACES)
                break
            flags.append(self.word(*match.span()))
            behind = self._skip(match.end(), SPACES)
        return flags, [self.word(*match.span()) for match in WORD.finditer(self.text, behind)]

    @cached_property
    def defaults(self) -> list[tuple[str, Word | None]]:
        """Return (name, default) of each variable of an ARG or ENV."""
        if self.keyword not in {"ARG", "ENV"} or not self.arguments:
            return []
        matches = ARG_VARIABLE.finditer(self.text, self.offsets.index(self.arguments[0].span.start))
        return [(match[1], self.word(*match.span(3)) if match[2] else None) for match in matches]

    @cached_property
    def target(self) -> int:
        """Return where the last argument of COPY or ADD starts."""
        if not self.arguments:
            return self.start
        if _listed(self.text[self.text.find("[") :] if "[" in self.text else "") is not None:
            return self.offsets[self.text.rfind('"', 0, self.text.rfind('"'))]
        return self.arguments[-1].span.start

    @cached_property
    def sources(self) -> list[str]:
        """Return what a COPY takes, in a list or in words."""
        return [word.text.strip("[],\"'") for word in self.arguments if word.span.start < self.target]

    @cached_property
    def origins(self) -> list[FileOrigin]:
        """Return the stages and images from which its flags, or its trigger's, take files."""
        origins = []
        for flag in self._words[0]:
            if option := FROM_OPTION.search(flag.text):
                start = bisect_left(self.offsets, flag.span.start)
                places = [option.span(1), *(match.span() for match in MOUNT_SOURCE.finditer(flag.text))]
                named, *mounted = (self.word(start + first, start + end).span for first, end in places)
                origins.append(FileOrigin(option[1].strip("\"'"), named, tuple(mounted)))
        return origins

    @cached_property
    def said(self) -> str:
        """Return what it runs: its text without the keyword, a list as its words, and its heredocs.

        For an instruction that runs nothing, return the whole text.
        """
        text = self.text
        if self.verb in RUNS:
            text = re.sub(r"^\s*(?:(?i:ONBUILD)\s+)?\S+\s+(?:--\S+\s+)*(?:CMD\s+)?", "", text, count=1)
            words = _listed(text)
            text = text if words is None else " ".join(words)
        return f"{text}\n{'' if _read_by_another(text, self.heredoc) else self.heredoc}"

    def _skip(self, at: int, what: re.Pattern[str]) -> int:
        match = what.match(self.text, at)
        return match.end() if match else at

    def word(self, start: int, end: int) -> Word:
        """Return the characters from `start` to before `end` of the joined text."""
        behind = self.offsets[end - 1] + 1
        return Word(self.text[start:end], Span(self.offsets[start] if start < end else behind, behind))


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


def parse_instructions(text: str) -> list[Instruction]:
    """Return the instructions of any text in their order; a text that is not a Dockerfile has unknown ones."""
    return list(_Parser(text).instructions())


def line_of(text: str, offset: int) -> int:
    """Return the number, from 1, of the line with this character."""
    return text.count("\n", 0, offset) + 1


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = iter(_lines(text))
        self._continued = _continuation("\\")
        self._directives_over = False

    def instructions(self) -> Iterator[Instruction]:
        for line in self._lines:
            if line.is_comment:
                self._read_directive(line.text.lstrip(SPACE))
                continue
            self._directives_over = True
            instruction = self._read_instruction(line)
            if instruction is not None:
                yield instruction

    def _read_directive(self, comment: str) -> None:
        """Read a directive; directives end at the first comment of the file that is none."""
        match = None if self._directives_over else DIRECTIVE.fullmatch(comment)
        name = match[1].lower() if match else ""
        self._directives_over = name not in DIRECTIVES
        if match is not None and name == "escape" and match[2] in {"\\", "`"}:
            self._continued = _continuation(match[2])

    def _read_instruction(self, first: _Line) -> Instruction | None:
        joined, offsets, pieces = "", list[int](), list[Span]()
        line: _Line | None = first
        more = True
        while more and line is not None:
            if line is first or not (line.is_comment or not line.text.strip(SPACE)):
                match = self._continued.search(line.text)
                part, more = (line.text[: match.start("sign")], True) if match else (line.text, False)
                joined += part
                offsets += range(line.start, line.start + len(part))
                pieces.append(line.span)
            line = next(self._lines, None) if more else None
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

    def _read_heredocs(self, keyword: str, joined: str) -> list[_Line]:
        """Return the lines of an instruction's heredocs; one that never ends takes the rest of the file."""
        lines = []
        for chomp, terminator in _announced_heredocs(keyword, joined):
            for line in self._lines:
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


def _continuation(escape: str) -> re.Pattern[str]:
    """Return the pattern of a line that continues: it ends with one escape character and optional blanks."""
    sign = re.escape(escape)
    return re.compile(rf"(?:(?<=[^{sign}])|^)(?P<sign>{sign})[ \t]*\Z")


def _announced_heredocs(keyword: str, joined: str) -> list[tuple[bool, str]]:
    """Return (whether leading tabs are dropped, the line that ends it) for each heredoc."""
    if "<<" not in joined:
        return []
    arguments = _behind_first_word(joined)
    if keyword == "ONBUILD":
        keyword, arguments = (arguments.split() or [""])[0].upper(), _behind_first_word(arguments)
    if keyword not in WITH_HEREDOC or _listed(arguments) is not None:
        return []
    matches = [HEREDOC.fullmatch(word) for word in _shell_words(arguments)]
    return [(bool(match[1]), name) for match in matches if match and (name := _heredoc_name(match[2]))]


def _behind_first_word(text: str) -> str:
    return "".join(text.split(None, 1)[1:])


def _listed(arguments: str) -> list[str] | None:
    """Return the strings of the JSON list after any flags; None without one. Text after the list is not read."""
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


def _read_by_another(text: str, heredoc: str) -> bool:
    """Return whether a command's heredoc goes to a file or to a program that is no shell, or has its own `#!` line."""
    if "#!" in text + heredoc[:2] or any(">" in line.partition("<<")[2] for line in text.split("\n")):
        return True
    return any(HEREDOC_READER.search(part.rpartition("<<")[0]) for part in re.split(r"[;&|\n]", text))


def _heredoc_name(word: str) -> str:
    """Return a heredoc's name without quotes, which only turn variables off."""
    return re.sub(r"\\(.?)|'([^']*)'|\"([^\"]*)\"", lambda match: match[1] or match[2] or match[3] or "", word)
