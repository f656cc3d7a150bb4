"""Variables in an image's name, as Dockerfiles and compose files write them: $A, ${A}, ${A:-default}. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OPERATOR = re.compile(r":?[-+?]")


class Unset(Exception):  # noqa: N818 - no error of its own: the caller says what it means
    """A variable without a value stands where one is needed."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Variable:
    """One reference to a variable in a word, from `start` to `end`."""

    name: str
    operator: str  # ':-', '-', ':+', '+', ':?', '?'; empty if there is none; other signs are not understood
    operand: str
    start: int
    end: int

    @property
    def has_default(self) -> bool:
        return self.operator in {":-", "-"}

    def value(self, values: Mapping[str, str]) -> str:
        """What stands for it; Unset if nothing does."""
        value = values.get(self.name)
        there = value is not None and (value != "" or not self.operator.startswith(":"))
        if self.operator.endswith("+"):
            return expand(self.operand, values) if there else ""
        if there and value is not None and self.operator in {"", ":-", "-", ":?", "?"}:
            return value
        if self.has_default:
            return expand(self.operand, values)
        raise Unset(self.name)


def variables(word: str) -> list[Variable]:
    """The references of a word, those within another one's default left out."""
    found, at = [], 0
    while (at := word.find("$", at)) >= 0:
        variable = None if _escaped(word, at) else _read(word, at)
        if variable is None:
            at += 2 if word.startswith("$$", at) else 1
            continue
        found.append(variable)
        at = variable.end
    return found


def expand(word: str, values: Mapping[str, str]) -> str:
    """The word with a value for each variable; Unset names the first that has none."""
    text, at = "", 0
    for variable in variables(word):
        text += word[at : variable.start] + variable.value(values)
        at = variable.end
    return text + word[at:]


def sole_variable(word: str) -> Variable | None:
    """The variable that a word is, if it is nothing else."""
    found = variables(word)
    return found[0] if len(found) == 1 and (found[0].start, found[0].end) == (0, len(word)) else None


def _escaped(word: str, at: int) -> bool:
    return at > 0 and word[at - 1] == "\\"


def _read(word: str, at: int) -> Variable | None:
    braced = word.startswith("${", at)
    name = NAME.match(word, at + 1 + braced)
    if name is None:
        return None
    if not braced:
        return Variable(name[0], "", "", at, name.end())
    end = _closing(word, at + 2)
    if end is None:
        return None
    operator = OPERATOR.match(word, name.end())
    sign = operator[0] if operator else word[name.end() : end]
    operand = word[operator.end() : end] if operator else ""
    return Variable(name[0], sign, operand, at, end + 1)


def _closing(word: str, at: int) -> int | None:
    """Where the brace that was opened before `at` is closed."""
    depth = 1
    for place in range(at, len(word)):
        depth += {"{": 1, "}": -1}.get(word[place], 0)
        if depth == 0:
            return place
    return None
