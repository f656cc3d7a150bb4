"""A Dockerfile's text -> its instructions and stages, each with its position in the file.

It is read as BuildKit reads it (frontend/dockerfile/parser of github.com/moby/buildkit): lines end with a line feed,
the escape directive counts before the first instruction, comments and empty lines within a continued instruction are
left out, and a heredoc belongs to RUN, COPY, ADD and ONBUILD with one of these.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from interlock.errors import SwapError
from interlock.swap.heredocs import announced_heredocs, listed, read_by_another
from interlock.swap.image_names import ImageLine, PythonImage, find_image_line, python_image
from interlock.swap.variables import NoValue, Variable, expand, name_pattern, sole_variable, unquoted, variables

BOM = "\ufeff"
# White space as Go's unicode.IsSpace defines it; Python's str.isspace differs.
SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
RUNS = frozenset({"RUN", "CMD", "ENTRYPOINT", "HEALTHCHECK", "SHELL"})
WORD = re.compile(r"[^\t\v\f\r \n]+")
DIRECTIVE = re.compile(rf"#[{SPACE}]*([a-zA-Z][a-zA-Z0-9]*)[\t\f\r ]*=[\t\f\r ]*(.+?)[\t\f\r ]*")
DIRECTIVES = frozenset({"syntax", "escape", "check"})
SPACES = re.compile(f"[{SPACE}]*")
FLAG = re.compile(rf"--(?:\\.|\"(?:\\.|[^\"\\])*(?:\"|\Z)|'(?:\\.|[^'\\])*(?:'|\Z)|[^{SPACE}\"'\\])*")
FROM_OPTION = re.compile(r"(?:^--from=|[=,]from=)([^,\s]+)")
MOUNT_SOURCE = re.compile(r"(?<=[=,])(?:source|src)=[^,\s]*")
# A default that names an image: its tag is not a path.
IMAGE = re.compile(r"(?!/)(?:[^/\s]+\.[^/\s]+/|\S*[:@])")
# What of a Python's own files makes a stage without Python run that one: `COPY --from=build /usr/local /usr/local`.
INTERPRETER = re.compile(
    r"/(?:usr(?:/local)?(?:/(?:bin|lib))?|opt)?/?|.*/(?:lib|bin)/(?:python|pypy)[\d.]*[a-z]{0,2}\*?/?"
)
ARG_VARIABLE = re.compile(r"([A-Za-z_][\w.-]*)(?:(=)((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\])*))?")


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
        """Return the words after the keyword and its flags."""
        return self._words[1]

    @property
    def flags(self) -> list[Word]:
        """Return the words with two dashes before all others."""
        return self._words[0]

    @cached_property
    def _words(self) -> tuple[list[Word], list[Word]]:
        """Return flags and arguments; unlike an argument, a flag's value may have spaces in quotes."""
        behind = self._skip(self._skip(0, WORD), SPACES)
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
        if listed(self.text[self.text.find("[") :] if "[" in self.text else "") is not None:
            return self.offsets[self.text.rfind('"', 0, self.text.rfind('"'))]
        return self.arguments[-1].span.start

    @cached_property
    def sources(self) -> list[str]:
        """Return what a COPY takes, in a list or in words."""
        return [word.text.strip("[],\"'") for word in self.arguments if word.span.start < self.target]

    @cached_property
    def said(self) -> str:
        """Return what it runs: its text without the keyword, a list as its words, and its heredocs.

        Of one that runs nothing it is all of it.
        """
        text = self.text
        if self.keyword in RUNS:
            text = re.sub(r"^\s*\S+\s+(?:--\S+\s+)*(?:CMD\s+)?", "", text, count=1)
            words = listed(text)
            text = text if words is None else " ".join(words)
        return f"{text}\n{'' if read_by_another(text, self.heredoc) else self.heredoc}"

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
    """Return the instructions of any text in their order; what is not a Dockerfile has unknown ones."""
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
        """Read a directive; only the first comments of a file are directives, up to the first that is none."""
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
                part, more = self._part(line.text)
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

    def _part(self, text: str) -> tuple[str, bool]:
        """Return a line without its continuation character, and whether it continues."""
        match = self._continued.search(text)
        return (text[: match.start("sign")], True) if match else (text, False)

    def _read_heredocs(self, keyword: str, joined: str) -> list[_Line]:
        """Return the lines of an instruction's heredocs; one that never ends takes the rest of the file."""
        lines = []
        for chomp, terminator in announced_heredocs(keyword, joined):
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


@dataclass(frozen=True)
class Argument:
    """An ARG with a default above the first FROM."""

    name: str
    value: str  # without quotes, with its own variables expanded
    raw: str  # as written in the file
    span: Span  # of the raw default
    instruction: Instruction

    @cached_property
    def variables(self) -> list[Variable]:
        """Return those in the raw default."""
        return variables(self.raw)


@dataclass(frozen=True)
class Taken:
    """An instruction that takes files from a stage or an image: by a COPY, or by a mount."""

    instruction: Instruction
    name: str
    stage: Stage | None  # None for an image
    python: PythonImage | None  # that of the image, or of the image that the stage starts from
    mounted: tuple[Span, ...]  # where a mount names its source


@dataclass(frozen=True, eq=False)
class Stage(ImageLine):
    """A FROM line and the instructions below it."""

    parent: Stage | None  # the one that it starts from; None for an image
    token: Word  # the image in the FROM line
    argument: Argument | None  # the ARG whose default is this image, if the token is that variable alone
    default: Variable | None  # the token's variable, if its own default is the image
    instruction: Instruction
    body: tuple[Instruction, ...]
    taken: tuple[Taken, ...]
    _root: Stage | None = field(default=None, repr=False)

    @cached_property
    def variables(self) -> list[Variable]:
        """Return those in its image as written."""
        return variables(self.token.text)

    @property
    def root(self) -> Stage:
        """Return the stage whose image this one starts from, directly or through other stages."""
        return self._root or self

    @cached_property
    def runs(self) -> Stage:
        """Return the root stage of the Python that runs here: its own, or the one that is copied in whole."""
        for taken in (*self.root.taken, *self.taken) if self.root.python is None else ():
            source = taken.stage.root if taken.stage and taken.instruction.keyword == "COPY" else None
            if source and source.python and any(map(INTERPRETER.fullmatch, taken.instruction.sources)):
                return source
        return self.root


@dataclass(frozen=True)
class Dockerfile:
    """A Dockerfile, read once: its text, its instructions with their stages, and the ARGs above the first stage."""

    text: str
    instructions: tuple[tuple[Stage | None, Instruction], ...]
    arguments: Mapping[str, Argument]
    stages: tuple[Stage, ...]

    @cached_property
    def users(self) -> Mapping[str, frozenset[int]]:
        """Return which stages' FROM lines have each variable."""
        users: dict[str, set[int]] = {}
        for stage in self.stages:
            for variable in stage.variables:
                users.setdefault(variable.name, set()).add(stage.index)
        return {name: frozenset(indexes) for name, indexes in users.items()}

    @cached_property
    def image_defaults(self) -> tuple[Span, ...]:
        """Return where the defaults of ARGs are that name images."""
        return tuple(argument.span for argument in self.arguments.values() if IMAGE.match(unquoted(argument.raw)))

    @cached_property
    def in_defaults(self) -> frozenset[str]:
        """Return the variables in the defaults of ARGs."""
        return frozenset(variable.name for argument in self.arguments.values() for variable in argument.variables)


# The variables of each line and stage are looked for in those before it: a second for so many, a minute for 20,000.
MOST_TEXT, MOST_LINES, MOST_STAGES = 100_000, 2000, 500
# A swap's comments and copies make a file longer: two for an instruction, with what was there.
MOST_GROWTH = 8
FROM_LINE = re.compile(r"^[ \t]*FROM\s", re.IGNORECASE | re.MULTILINE)


def read_dockerfile(
    text: str, file: str = "Dockerfile", grown: int = MOST_GROWTH, given: Mapping[str, str] | None = None
) -> Dockerfile:
    """Return what a Dockerfile's text says, with build arguments that are given.

    SwapError for one that has more than is read, or than it may have grown.
    """
    many = len(text) > grown * MOST_TEXT or text.count("\n") > grown * MOST_LINES
    if many or len(FROM_LINE.findall(text)) > MOST_STAGES:
        size = f"has more than {grown * MOST_TEXT // 1000} KB, {grown * MOST_LINES} lines or {MOST_STAGES} stages"
        raise SwapError(file=file, found=size, todo="Split it into shorter Dockerfiles.")
    instructions = parse_instructions(text)
    starts = [at for at, each in enumerate(instructions) if each.keyword == "FROM" and each.arguments]
    head = instructions[: starts[0]] if starts else instructions
    arguments = _arguments(head, given or {})
    values = {name: argument.value for name, argument in arguments.items()}
    stages: list[Stage] = []
    placed: list[tuple[Stage | None, Instruction]] = [(None, instruction) for instruction in head]
    for at, end in zip(starts, [*starts[1:], len(instructions)], strict=False):
        stage = _stage(instructions[at], tuple(instructions[at + 1 : end]), (arguments, values), stages)
        stages.append(stage)
        placed += [(stage, instruction) for instruction in instructions[at:end]]
    return Dockerfile(text, tuple(placed), arguments, tuple(stages))


def _arguments(head: Sequence[Instruction], given: Mapping[str, str]) -> dict[str, Argument]:
    """Return the ARGs with a default, by name; of several defaults the last one counts, before it what is given."""
    arguments: dict[str, Argument] = {}
    values: dict[str, str] = {}
    for instruction in head:
        for name, default in instruction.defaults if instruction.keyword == "ARG" else []:
            if default is not None:
                value = unquoted(default.text)
                with suppress(NoValue):  # then it stays as written
                    value = expand(value, values)
                value = given.get(name, value)
                values[name] = value
                arguments[name] = Argument(name, value, default.text, default.span, instruction)
    return arguments


def _stage(
    instruction: Instruction,
    body: tuple[Instruction, ...],
    above: tuple[Mapping[str, Argument], Mapping[str, str]],
    before: Sequence[Stage],
) -> Stage:
    arguments, values = above
    token, *rest = instruction.arguments
    word = unquoted(token.text)
    image, missing = word, None
    try:
        image = expand(word, values)
        missing = next((variable.name for variable in variables(image)), None)
    except NoValue as lacking:
        missing = lacking.name
    parent = _parent_stage(image, before)
    argument, default = _image_source(sole_variable(word), arguments)
    return Stage(
        index=len(before),
        name=rest[1].text if len(rest) > 1 and rest[0].text.upper() == "AS" else None,
        line=instruction.line,
        image=image,
        missing=None if parent else missing,
        python=None if parent or missing else python_image(image),
        parent=parent,
        token=token,
        argument=argument,
        default=default,
        instruction=instruction,
        body=body,
        taken=tuple(_taken(body, before)),
        _root=parent.root if parent else None,
    )


def _taken(body: Sequence[Instruction], before: Sequence[Stage]) -> Iterator[Taken]:
    for instruction in body:
        for flag in instruction.flags:
            if option := FROM_OPTION.search(flag.text):
                name = option[1].strip("\"'")
                start = bisect_left(instruction.offsets, flag.span.start)
                sources = [match.span() for match in MOUNT_SOURCE.finditer(flag.text)]
                mounted = tuple(instruction.word(start + first, start + end).span for first, end in sources)
                stage = find_image_line(before, name)
                python = stage.root.python if stage else python_image(name)
                yield Taken(instruction, name, stage, python, mounted)


def _parent_stage(image: str, before: Sequence[Stage]) -> Stage | None:
    """Return the stage above with this name; for a name such as `base-$TARGETARCH`, the last stage that fits it."""
    parts, at = [], 0
    for variable in variables(image):
        parts.append(image[at : variable.start].lower())
        at = variable.end
    parts.append(image[at:].lower())
    if parts == ["", ""]:
        return None
    pattern = name_pattern(parts)
    return next((stage for stage in reversed(before) if stage.name and pattern.fullmatch(stage.name.lower())), None)


def _image_source(
    variable: Variable | None, arguments: Mapping[str, Argument]
) -> tuple[Argument | None, Variable | None]:
    """Return the ARG, or the variable with a default of its own, that holds the image of a FROM of one variable."""
    if variable is None or variable.operator.endswith("+"):
        return None, None
    argument = arguments.get(variable.name)
    if argument is not None and (argument.value or not variable.has_default):
        return argument, None
    return None, variable if variable.has_default else None
