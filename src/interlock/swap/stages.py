"""A Dockerfile's stages: what image each starts from, and where in the file that is said. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from interlock.swap.dockerfile import Instruction, Span, Word, parse
from interlock.swap.image_line import ImageLine, find
from interlock.swap.images import python_image
from interlock.swap.variables import Unset, Variable, expand, sole_variable, variables

ARGUMENT = re.compile(r"([A-Za-z_][\w.-]*)(?:(=)((?:\"(?:\\.|[^\"\\])*\"|'[^']*'|\\.|[^\s\"'\\])*))?")


@dataclass(frozen=True)
class Argument:
    """One ARG with a default before the first FROM."""

    name: str
    value: str  # without quotes, its own variables put in
    raw: str  # as it stands in the file
    span: Span  # of the raw default
    instruction: Instruction


@dataclass(frozen=True)
class Stage(ImageLine):
    """One FROM with the instructions below it."""

    parent: int | None  # the stage that it starts from, where that is no image
    token: Word  # the image in the FROM line
    argument: Argument | None  # whose default is this image, if the token is that variable alone
    default: Variable | None  # the variable that the token is, if its own default is the image
    instruction: Instruction
    body: tuple[Instruction, ...]


@dataclass(frozen=True)
class Dockerfile:
    """The stages, and the instructions before them."""

    text: str
    head: tuple[Instruction, ...]
    arguments: Mapping[str, Argument]
    stages: tuple[Stage, ...]

    def root_of(self, stage: Stage) -> Stage:
        """The stage whose image another one starts from in the end."""
        while stage.parent is not None:
            stage = self.stages[stage.parent]
        return stage

    def find(self, name: str, before: int) -> Stage | None:
        """The stage that this name or number means above the stage of a number."""
        return find(self.stages[:before], name)


def read(text: str) -> Dockerfile:
    """The stages of a Dockerfile's text."""
    instructions = parse(text)
    starts = [at for at, one in enumerate(instructions) if one.keyword == "FROM" and one.arguments]
    head = tuple(instructions[: starts[0]] if starts else instructions)
    arguments = _arguments(head)
    stages: list[Stage] = []
    for at, end in zip(starts, [*starts[1:], len(instructions)], strict=False):
        stages.append(_stage(instructions[at], tuple(instructions[at + 1 : end]), arguments, stages))
    return Dockerfile(text, head, arguments, tuple(stages))


def arguments_of(instruction: Instruction) -> list[tuple[str, Word | None]]:
    """(name, default) of each variable of an ARG."""
    behind = instruction.arguments[0].span.start if instruction.arguments else None
    if behind is None:
        return []
    at = instruction.offsets.index(behind)
    return [
        (match[1], instruction.word(*match.span(3)) if match[3] else Word("", _empty(instruction, match.end())))
        if match[2]
        else (match[1], None)
        for match in ARGUMENT.finditer(instruction.text, at)
    ]


def _empty(instruction: Instruction, at: int) -> Span:
    end = instruction.offsets[at - 1] + 1
    return Span(end, end)


def _arguments(head: Sequence[Instruction]) -> dict[str, Argument]:
    """Of a variable with several defaults the last one counts."""
    found: dict[str, Argument] = {}
    for instruction in head:
        for name, default in arguments_of(instruction) if instruction.keyword == "ARG" else []:
            if default is not None:
                values = {one.name: one.value for one in found.values()}
                value = _or_as_written(unquoted(default.text), values)
                found[name] = Argument(name, value, default.text, default.span, instruction)
    return found


def _or_as_written(word: str, values: Mapping[str, str]) -> str:
    try:
        return expand(word, values)
    except Unset:
        return word


def unquoted(word: str) -> str:
    """A word without its quotes."""
    return re.sub(r"\"((?:\\.|[^\"\\])*)\"|'([^']*)'", lambda match: match[1] or match[2] or "", word)


def _stage(
    instruction: Instruction, body: tuple[Instruction, ...], arguments: Mapping[str, Argument], before: Sequence[Stage]
) -> Stage:
    token, *rest = instruction.arguments
    word = unquoted(token.text)
    image, missing = _image(word, arguments)
    parent = _parent(image, before)
    argument, default = _said_by(sole_variable(word), arguments)
    return Stage(
        index=len(before),
        name=rest[1].text if len(rest) > 1 and rest[0].text.upper() == "AS" else None,
        line=instruction.line,
        image=image,
        missing=None if parent else missing,
        parent=parent.index if parent else None,
        python=None if parent or missing else python_image(image),
        token=token,
        argument=argument,
        default=default,
        instruction=instruction,
        body=body,
    )


def _image(word: str, arguments: Mapping[str, Argument]) -> tuple[str, str | None]:
    """The image that a FROM names, and the variable that keeps it from being known."""
    image = word
    try:
        image = expand(word, {name: argument.value for name, argument in arguments.items()})
    except Unset as unset:
        return word, unset.name
    left = variables(image)
    return image, left[0].name if left else None


def _parent(image: str, before: Sequence[Stage]) -> Stage | None:
    """The stage above that this name means; one whose name ends in the platform (`base-$TARGETARCH`) stands for all."""
    pattern, at = "", 0
    for variable in variables(image):
        pattern += re.escape(image[at : variable.start]) + ".+"
        at = variable.end
    name = re.compile(pattern + re.escape(image[at:]), re.IGNORECASE)
    plain = [stage for stage in reversed(before) if stage.name and name.fullmatch(stage.name)]
    return plain[0] if plain and (not at or len(pattern) > len(".+")) else None


def _said_by(variable: Variable | None, arguments: Mapping[str, Argument]) -> tuple[Argument | None, Variable | None]:
    """Where the image of a FROM that is one variable is said: in an ARG, or in the variable's own default."""
    if variable is None or variable.operator.endswith("+"):
        return None, None
    argument = arguments.get(variable.name)
    if argument is not None and (argument.value or not variable.has_default):
        return argument, None
    return None, variable if variable.has_default else None


def users_of(dockerfile: Dockerfile, name: str) -> list[Stage]:
    """The stages in whose FROM line a variable stands."""
    return [stage for stage in dockerfile.stages if name in {one.name for one in variables(stage.token.text)}]


def own_argument(dockerfile: Dockerfile, stage: Stage, chosen: Sequence[Stage]) -> Argument | None:
    """The ARG whose default is a stage's image, if it says nothing to any stage but the chosen ones."""
    if stage.argument is None:
        return None
    name = stage.argument.name
    in_defaults = {variable.name for other in dockerfile.arguments.values() for variable in variables(other.raw)}
    users = {user.index for user in users_of(dockerfile, name)}
    return stage.argument if name not in in_defaults and users <= {one.index for one in chosen} else None
