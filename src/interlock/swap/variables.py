"""Variables in the words of users' files: `$A`, `${A}`, and forms such as `${A:-default}` and `${A%.*}`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BRACE = re.compile(r"[{}]")
# A word with more references, which may be nested, is not an image's name, and is taken as it stands.
MOST_REFERENCES = 100
VARIABLE_OPERATOR = re.compile(r":?[-+?]|##?|%%?|//?")
# ARGs that double each other can have values of any length; such a value names nothing.
LONGEST_VALUE = 4096
# The longest text that a pattern is matched with, and the most stars of a pattern. No version needs more.
LONGEST_MATCHED, MOST_STARS = 200, 1


class NoValue(Exception):  # noqa: N818 - always caught: the caller decides what it means
    """A variable has no value where one is needed, or one that is too long."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Variable:
    """A reference to a variable in a word, from `start` to before `end`."""

    name: str
    operator: str  # ':-', '-', ':+', '+', ':?', '?', '#', '##', '%', '%%', '/', '//'; empty without one, or another's
    operand: str
    start: int
    end: int

    @property
    def has_default(self) -> bool:
        return self.operator in {":-", "-"}

    def value(self, values: Mapping[str, str]) -> str:
        """Return the variable's value or default; raise NoValue without either."""
        value = values.get(self.name)
        there = value is not None and (value != "" or not self.operator.startswith(":"))
        if self.operator.endswith("+"):
            return expand(self.operand, values) if there else ""
        if there and value is not None and self.operator in {"", ":-", "-", ":?", "?"}:
            return value
        if self.has_default:
            return expand(self.operand, values)
        if value is not None and self.operator[:1] in {"#", "%", "/"}:
            return self._without_pattern(value, expand(self.operand, values))
        raise NoValue(self.name)

    def _without_pattern(self, value: str, operand: str) -> str:
        """Return the value without a match of the pattern at its start or end, or with the match replaced."""
        pattern, _, new = operand.partition("/") if self.operator[0] == "/" else (operand, "", "")
        if len(value) > LONGEST_MATCHED or pattern.count("*") > MOST_STARS or not pattern:
            raise NoValue(self.name)
        fits_part = re.compile("".join({"*": ".*", "?": "."}.get(sign, re.escape(sign)) for sign in pattern), re.DOTALL)
        if self.operator[0] == "/":
            return fits_part.sub(lambda _: new, value, count=len(self.operator) % 2)
        lengths = range(len(value) + 1) if len(self.operator) == 1 else range(len(value), -1, -1)
        for length in lengths:
            part = value[:length] if self.operator[0] == "#" else value[len(value) - length :]
            if fits_part.fullmatch(part):
                return value[length:] if self.operator[0] == "#" else value[: len(value) - length]
        return value


def variables(word: str) -> list[Variable]:
    """Return the references in a word, except those in another one's default; none if there are too many."""
    if word.count("$") > MOST_REFERENCES:
        return []
    references, at = [], 0
    closed = _closing_braces(word)
    while (at := word.find("$", at)) >= 0:
        is_escaped = at > 0 and word[at - 1] == "\\"
        variable = None if is_escaped else _read_variable(word, at, closed)
        if variable is None:
            at += 2 if word.startswith("$$", at) else 1
            continue
        references.append(variable)
        at = variable.end
    return references


def expand(word: str, values: Mapping[str, str]) -> str:
    """Return the word with its variables expanded; NoValue for the first without a value, or with one too long."""
    text, at = "", 0
    for variable in variables(word):
        text += word[at : variable.start] + variable.value(values)
        at = variable.end
        if len(text) > LONGEST_VALUE:
            raise NoValue(variable.name)
    return text + word[at:]


def sole_variable(word: str) -> Variable | None:
    """Return the variable if the word is only that; else None."""
    first = next(iter(variables(word)), None)
    return first if first is not None and (first.start, first.end) == (0, len(word)) else None


def _read_variable(word: str, at: int, closed: Mapping[int, int]) -> Variable | None:
    braced = word.startswith("${", at)
    name = VARIABLE_NAME.match(word, at + 1 + braced)
    if name is None:
        return None
    if not braced:
        return Variable(name[0], "", "", at, name.end())
    end = closed.get(at + 1)
    if end is None:
        return None
    operator = VARIABLE_OPERATOR.match(word, name.end())
    sign = operator[0] if operator else word[name.end() : end]
    operand = word[operator.end() : end] if operator else ""
    return Variable(name[0], sign, operand, at, end + 1)


def _closing_braces(word: str) -> dict[int, int]:
    """Return for each opening brace that is closed the position of its closing brace."""
    closed, opened = dict[int, int](), list[int]()
    for match in BRACE.finditer(word):
        if match[0] == "{":
            opened.append(match.start())
        elif opened:
            closed[opened.pop()] = match.start()
    return closed


def name_pattern(parts: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of a name with these parts in their order, with at least one character between each two."""
    first, *further = map(re.escape, parts)
    # Each part matches where it comes first (atomic groups): looking for it further on gains nothing.
    between = "".join(f"(?>.+?{part})" for part in further[:-1])
    return re.compile(first + between + "".join(f".+{part}" for part in further[-1:]), re.DOTALL)


def unquoted(word: str) -> str:
    """Return a word without its quotes."""
    return re.sub(r"\"((?:\\.|[^\"\\])*)\"|'([^']*)'", lambda match: match[1] or match[2] or "", word)
