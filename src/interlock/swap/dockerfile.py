"""Turns a Dockerfile's instructions into stages: their images, what they take from each other, and variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from interlock.errors import SwapError
from interlock.swap.image_names import (
    ImageLine,
    ImageName,
    Maker,
    PythonImage,
    find_image_line,
    parse_name,
    python_image,
)
from interlock.swap.instructions import FileOrigin, Instruction, Span, Word, line_of, parse_instructions
from interlock.swap.variables import NoValue, Variable, expand, name_pattern, sole_variable, unquoted, variables

# A default that names an image: its tag must not be read as a path.
IMAGE = re.compile(r"(?!/)(?:[^/\s]+\.[^/\s]+/|\S*[:@])")
TOOLS = frozenset({"uv", "uvx"})
SEVERAL_PLATFORMS = re.compile(r"\b(?:TARGETPLATFORM|TARGETARCH|BUILDPLATFORM)\b")
# Files of a Python whose copy makes a stage without Python run it: `COPY --from=build /usr/local /usr/local`.
INTERPRETER = re.compile(
    r"/(?:usr(?:/local)?(?:/(?:bin|lib))?|opt)?/?|.*/(?:lib|bin)/(?:python|pypy)[\d.]*[a-z]{0,2}\*?/?"
)


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
        return variables(self.raw)


@dataclass(frozen=True)
class Taken:
    """An instruction that takes files from a stage or an image: by a COPY, or by a mount."""

    instruction: Instruction
    origin: FileOrigin
    stage: Stage | None  # None for an image, or for a stage of the build that a trigger runs in
    python: PythonImage | None  # the image's Python, or that of the image that the stage starts from

    @property
    def name(self) -> str:
        return self.origin.name

    @cached_property
    def parts(self) -> ImageName:
        """Return the name of the image that the files come from, in its parts."""
        return self.stage.root.parts if self.stage else parse_name(self.name)

    @cached_property
    def tools(self) -> bool:
        """Return whether only programs are copied that run without a Python, such as uv."""
        names = {path.rpartition("/")[2] for path in self.instruction.sources}
        return self.instruction.copies and bool(names) and names <= TOOLS

    @cached_property
    def has_interpreter(self) -> bool:
        """Return whether the interpreter itself is taken, by its versioned name."""
        version = self.python.python if self.python else None
        own = re.compile(rf".*/bin/python{re.escape(version)}") if version else None
        return own is not None and any(map(own.fullmatch, self.instruction.sources))


@dataclass(frozen=True, eq=False)
class Stage(ImageLine):
    """A FROM line and the instructions below it."""

    parent: Stage | None  # the stage that it starts from; None if it starts from an image
    token: Word  # the image in the FROM line
    argument: Argument | None  # the ARG whose default is this image, if the token is that variable alone
    default: Variable | None  # the token's variable, if its own default is the image
    instruction: Instruction
    body: tuple[Instruction, ...]
    taken: tuple[Taken, ...]
    _root: Stage | None = field(default=None, repr=False)

    @cached_property
    def variables(self) -> list[Variable]:
        return variables(self.token.text)

    @property
    def root(self) -> Stage:
        """Return the stage whose image this one starts from, directly or through other stages."""
        return self._root or self

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """Return the platforms that its FROM line asks for: --platform=linux/arm64."""
        return tuple(unquoted(flag.text.partition("=")[2]) for flag in self.instruction.flags)

    @cached_property
    def interpreters_from(self) -> frozenset[tuple[Stage | None, str]]:
        """Return the stages and images whose interpreter it copies, by a versioned name, beside its image's own."""
        return frozenset((taken.stage, taken.name) for taken in self.taken if taken.has_interpreter)

    @cached_property
    def runs(self) -> Stage:
        """Return the root stage of the Python that runs here: its own, or the one that is copied as a whole."""
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
    def values(self) -> tuple[Mapping[str, str], ...]:
        """Return what ARG and ENV have set before each instruction.

        The image's own variables are left out: python:X sets PYTHON_VERSION to 3.12.4, but a path with it means the
        build argument of that name.
        """
        above: Mapping[str, str] = {name: argument.value for name, argument in self.arguments.items()}
        before, values = list[Mapping[str, str]](), above
        last: Stage | None = None
        for stage, instruction in self.instructions:
            values = values if stage is last else above
            last = stage
            before.append(values)
            own = dict[str, str]()
            for name, default in instruction.defaults if stage is not None else ():
                if default is not None:
                    with suppress(NoValue):
                        own[name] = expand(unquoted(default.text), values)
            values = {**values, **own} if own else values
        return tuple(before)

    @cached_property
    def users(self) -> Mapping[str, frozenset[int]]:
        """Return for each variable the stages whose FROM lines use it."""
        users: dict[str, set[int]] = {}
        for stage in self.stages:
            for variable in stage.variables:
                users.setdefault(variable.name, set()).add(stage.index)
        return {name: frozenset(indexes) for name, indexes in users.items()}

    @cached_property
    def image_defaults(self) -> tuple[Span, ...]:
        """Return the places of ARG defaults that name images."""
        return tuple(argument.span for argument in self.arguments.values() if IMAGE.match(unquoted(argument.raw)))

    @cached_property
    def in_defaults(self) -> frozenset[str]:
        """Return the variables in the defaults of ARGs."""
        return frozenset(variable.name for argument in self.arguments.values() for variable in argument.variables)

    @cached_property
    def named_images(self) -> tuple[tuple[int, str], ...]:
        """Return the lines that copy or mount from a Python image itself, not from a stage, with its name."""
        return tuple(
            (taken.instruction.line, taken.name)
            for stage in self.stages
            for taken in stage.taken
            if taken.stage is None and taken.python and taken.python.maker is not Maker.OTHER and not taken.tools
        )

    @cached_property
    def platforms_line(self) -> int | None:
        """Return the line that shows that it is built for several platforms; None without one."""
        variable = SEVERAL_PLATFORMS.search(self.text)
        return line_of(self.text, variable.start()) if variable else None


# Each line's and stage's variables are looked for in all before it. That takes a second for so many lines, and a
# minute for 20,000.
MOST_TEXT, MOST_LINES, MOST_STAGES = 100_000, 2000, 500
# A swap makes a file longer: an instruction may get two comments, which repeat what was there.
MOST_GROWTH = 8
FROM_LINE = re.compile(r"^[ \t]*FROM\s", re.IGNORECASE | re.MULTILINE)


def read_dockerfile(
    text: str, file: str = "Dockerfile", grown: int = MOST_GROWTH, given: Mapping[str, str] | None = None
) -> Dockerfile:
    """Return a Dockerfile's text as stages, with the build arguments that are given.

    SwapError for a text that is too long, also allowing for what swaps may have added.
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
    """Return the ARGs with a default, by name; a given value counts first, else the last of several defaults."""
    arguments: dict[str, Argument] = {}
    values: dict[str, str] = {}
    for instruction in head:
        for name, default in instruction.defaults if instruction.keyword == "ARG" else []:
            if default is not None:
                value = unquoted(default.text)
                with suppress(NoValue):  # without a value it stays as written
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
        for origin in instruction.origins:
            stage = None if instruction.is_trigger else find_image_line(before, origin.name)
            python = stage.root.python if stage else python_image(origin.name)
            yield Taken(instruction, origin, stage, python)


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
    """Return the ARG, or the variable with its own default, that holds the image if a FROM has only a variable.

    None where the FROM line changes the value: `${IMAGE%-*}`.
    """
    if variable is None or variable.operator.removeprefix(":") not in {"", "-", "?"}:
        return None, None
    argument = arguments.get(variable.name)
    if argument is not None and (argument.value or not variable.has_default):
        return argument, None
    return None, variable if variable.has_default else None
