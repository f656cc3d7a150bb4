# ruff: noqa: E501  the texts have broken parsers
"""A parser of what others wrote, how a text that it takes is damaged, and what may come out of it then."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import Any

from interlock.errors import InterlockError
from interlock.untrusted import printable

# What has broken parsers before, here or elsewhere.
NASTY = (
    "\0", "\x1b[2J", "\x9b", "\r", "\n", "\r\n", "\ufeff", "\u2028", "\ud800", "\u202e", "é", "漢", "🐍", " ", "\t", " " * 5000,
    '"', "'", "`", "\\", "\\\n", "${", "}", "${A:-${B}}", "$", "#", "#!", "# escape=`\n", "<<EOF\n", "<<-'E'\n", "EOF\n", "ONBUILD ",
    "[", "]", "{", "}", "[" * 3000, "{\"a\":" * 2000, "&a [*a]", "&a", "*a", "<<: *a", "!!python/object:x", "? ", "- ", ": ", "|\n", ">\n",
    "---\n", "%YAML 9.9\n", "https://[::1", "://", "@", "file:", "-r r.txt\n", "-c ", "-e ", "--hash=", "[extra", "; python_version", "egg=",
    "NaN", "Infinity", "-1", "1e999", "9" * 400, "9" * 5000, "0x", "true", "null", "²", "٣", "sha256:", ":", "::", "/", "../", "//", "=", ",", "|",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, 10**30, 10**400, float("nan"), float("inf"), "", "x", "\x1b[2J", "é\n", "../x", [], {}, [None], {"a": []}, [[]],
    "x" * 5000,
)  # fmt: skip
# Repeated often enough that a pattern that tries all ways takes minutes.
OFTEN = 2000
LIMIT_S, LONGEST_SENTENCE = 2.0, 30_000


class Form(Enum):
    """What a target's texts are: values of JSON are exchanged besides, of the whole or of one line."""

    TEXT = auto()
    JSON = auto()
    LINES = auto()  # of which some are JSON


@dataclass(frozen=True)
class Target:
    """A parser, and texts that it takes."""

    parse: Callable[[str, Path], object]
    seeds: Callable[[], Sequence[str]]
    form: Form = Form.TEXT
    refuses: tuple[type[Exception], ...] = ()  # besides our own errors, as its docstring says


def damaged(text: str, source: random.Random) -> str:
    """Return the text with a few parts removed, repeated, moved, or exchanged for something nasty."""
    for _ in range(source.randint(1, 5)):
        at = source.randrange(len(text) + 1)
        end = min(len(text), at + source.choice((0, 0, 1, 3, 20, 200)))
        other = source.randrange(len(text) + 1)
        put = source.choice(
            (
                source.choice(NASTY),
                source.choice(NASTY),
                "",
                text[at:end] * 2,
                text[at : at + source.choice((1, 7, 40))] * source.choice((3, OFTEN)),
                text[other : other + source.choice((1, 7, 40))],
                chr(source.randrange(0x300)),
            )
        )
        text = text[:at] + put + text[end:]
    return text


def exchanged(text: str, source: random.Random) -> str:
    """Return JSON in which some values are others, missing or there twice."""
    whole = [json.loads(text)]
    for _ in range(source.randint(1, 3)):
        place: Any = whole
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = source.choice(keys)
            if not (isinstance(place[key], dict | list) and place[key]) or source.random() < 0.2:
                break
            place = place[key]
        _exchange(place, key, source, may_go=place is not whole)
        if not whole[0]:
            break
    return json.dumps(whole[0])


def _exchange(place: Any, key: Any, source: random.Random, *, may_go: bool) -> None:
    what = source.random()
    if what < 0.2 and may_go:
        del place[key]
    elif what < 0.3 and isinstance(place, list) and may_go:
        place.append(deepcopy(place[key]))
    elif what < 0.4 and isinstance(place[key], str):
        place[key] = damaged(place[key], source)
    elif what < 0.5 and isinstance(place, dict) and may_go:
        place[key] = deepcopy(place[source.choice(list(place))])
    else:
        place[key] = deepcopy(source.choice(VALUES))


def made(target: Target, source: random.Random) -> str:
    """Return a text to try."""
    text = source.choice(target.seeds())
    if target.form is Form.TEXT or source.random() < 0.3:
        return damaged(text, source)
    if target.form is Form.JSON:
        return exchanged(text, source)
    lines = text.split("\n")
    at = source.choice([number for number, line in enumerate(lines) if line.startswith("{") and is_json(line)] or [-1])
    return (
        "\n".join([*lines[:at], exchanged(lines[at], source), *lines[at + 1 :]]) if at >= 0 else damaged(text, source)
    )


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def attempt(target: Target, text: str, folder: Path) -> None:
    """Parse the text; only a sentence, or what the parser's docstring says, may come out of it."""
    try:
        target.parse(text, folder)
    except target.refuses:
        return
    except InterlockError as error:
        require_sentence(error)


def require_sentence(error: InterlockError) -> None:
    said = str(error)
    assert said == printable(said)
    assert len(said) < LONGEST_SENTENCE
    assert error.todo


def each(*parsers: Callable[[str, Path], object]) -> Callable[[str, Path], object]:
    """Return a parser that gives the text to all of these, each of which may refuse it."""

    def parse(text: str, folder: Path) -> None:
        for one in parsers:
            try:
                one(text, folder)
            except InterlockError as error:
                require_sentence(error)

    return parse


def of_text(parse: Callable[[str], object]) -> Callable[[str, Path], object]:
    return lambda text, _: parse(text)
