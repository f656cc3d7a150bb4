"""Texts that are nearly Dockerfiles, read by BuildKit's own parser and by ours, then swapped and taken back.

`python -m tests.swap.differential 100000` prints how many there were and how many differ.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator

import dockerfile as buildkit

from interlock.errors import SwapError
from interlock.swap.files import reverted_file, swapped_dockerfile
from interlock.swap.instructions import parse_instructions
from tests.swap.samples import FREE, ODD_LINES

LINES = [
    *ODD_LINES,
    "# c",
    "#escape=`",
    "# escape = `",
    "# check=skip=all",
    "# syntax=x",
    "\\ ",
    "  AS x",
    "  c=d",
    'c"',
    "E F",
    "E1",
    "E2",
    'RUN ["a"] <<EOF',
    'COPY ["a","b"] <<EOF',
    'CMD ["x"] <<EOF',
    "ONBUILD COPY <<EOF /x",
    "ADD <<EOF /x",
    "RUN a \\\\",
    "FROM --platform= python:3.12",
    "FROM --platform=$X --x python:3.12 AS a",
    "FROM -- python:3.12",
    "FROM python:3.12 \\",
    "ARG V=3.12.4",
    "FROM python:${V%.*}-slim",
    "ENV A=b \\",
    "ENV A b \\",
    'LABEL a="b \\',
    "RUN python3.12 \\",
    "RUN a ` ",
    'COPY --from=a <<E1 <<"E2" /x',
    "RUN cat <<'E F'",
    "HEALTHCHECK CMD a <<EOF",
    "RUN a <<EOF && b <<E1",
    "RUN echo '<<EOF'",
]
STARTS = ["FROM python:3.12", "FROM python:3.12-slim AS a", "# escape=`", "#escape=\\", "# syntax=docker/dockerfile:1"]
DAMAGE = "\\`'\"<# \t$={}[]-\x0b"
# The parser in the package `dockerfile` is older than patterns of variables, behind which it finds no heredoc, and than
# the directive `check`, behind which it finds no other.
OLDER = (("<<", "%"), ("check", "escape"))
QUOTES = str.maketrans("", "", "\"'\\`")
# Line and keyword of an instruction and, of a FROM, its flags without quotes and its words.
Read = tuple[int, str, tuple[str, ...], tuple[str, ...]]


def texts(seed: int) -> Iterator[str]:
    """Lines that have broken parsers, in any order, one in ten of them damaged."""
    chance = random.Random(seed)
    while True:
        lines = [chance.choice(STARTS)] if chance.random() < 0.5 else []
        for _ in range(chance.randint(1, 12)):
            line, damage = chance.choice(LINES), chance.random()
            at = chance.randint(0, len(line))
            line = (
                line[:at] if damage < 0.05 else line[:at] + chance.choice(DAMAGE) + line[at:] if damage < 0.1 else line
            )
            lines.append(line)
        text = "".join(line + chance.choice(["\n", "\n", "\n", "\r\n"]) for line in lines)
        yield chance.choice(["", "", "", "\ufeff"]) + (text if chance.random() < 0.8 else text.rstrip("\r\n"))


def read(line: int, keyword: str, flags: Iterable[str], words: Iterable[str]) -> Read:
    if keyword != "FROM":
        return line, keyword, (), ()
    return line, keyword, tuple(flag.translate(QUOTES) for flag in flags), tuple(words)


def ours(text: str) -> list[Read]:
    return [
        read(one.line, one.keyword, (flag.text for flag in one.flags), (word.text for word in one.arguments))
        for one in parse_instructions(text)
    ]


def buildkits(text: str) -> list[Read] | None:
    """What BuildKit reads, but for lines of signs alone; None for what it refuses."""
    try:
        found = buildkit.parse_string(text)
    except (buildkit.GoParseError, UnicodeEncodeError):
        return None
    return [read(one.start_line, one.cmd.upper(), one.flags, one.value) for one in found if one.cmd]


def differences(text: str) -> Iterator[str]:
    """What is counted of a text: what BuildKit and a swap make of it, and what should never be."""
    theirs = buildkits(text)
    yield "BuildKit refuses" if theirs is None else "BuildKit takes"
    if theirs is not None and ours(text) != theirs and not any(all(sign in text for sign in signs) for signs in OLDER):
        yield "READ OTHERWISE"
    try:
        after = swapped_dockerfile(text, FREE, None, paths=True).text
    except SwapError:
        yield "swap refuses"
        return
    yield "swapped"
    try:
        back = reverted_file("D", after)
    except SwapError:
        back = "refused"
    if back != text:
        yield "NOT BACK"


def counted(many: int, seed: int = 0) -> tuple[Counter[str], list[str]]:
    """How many texts there were of each kind, and those that should not be."""
    counts, wrong = Counter[str](), list[str]()
    for text in (text for text, _ in zip(texts(seed), range(many), strict=False)):
        found = [*differences(text)]
        counts.update(["texts", *found])
        if any(kind.isupper() for kind in found):
            wrong.append(text)
    return counts, wrong


if __name__ == "__main__":
    counts, wrong = counted(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    print(dict(counts), *map(repr, wrong[:5]), sep="\n")
