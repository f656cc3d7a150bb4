"""The text of requirements files, taken apart line by line and word by word. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import canonicalize_name

COMMENT = re.compile(r"(^|\s+)#.*$")
EXTRAS = re.compile(r"^(.*?)(\[[^\]]*\])?$", re.DOTALL)
EGG = re.compile(r"[#&]egg=([A-Za-z0-9._-]+)")
ARCHIVE = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with their numbers, continued ones joined at the number of the first, without comments and blank ones."""
    joined: list[str] = []
    first = 1
    for number, line in enumerate(text.splitlines(), 1):
        first = first if joined else number
        is_comment = COMMENT.match(line) is not None
        # A comment ends a continued line, whatever its last character.
        if line.endswith("\\") and not is_comment:
            joined.append(line.strip("\\"))
            continue
        whole = COMMENT.sub("", "".join([*joined, " " + line if is_comment and joined else line])).strip()
        joined = []
        if whole:
            yield first, whole
    rest = COMMENT.sub("", "".join(joined)).strip()
    if rest:
        yield first, rest


def name_of_url(text: str) -> str:
    """The name that a URL carries: as egg=NAME, or before the version of an archive's name."""
    egg = EGG.search(text)
    file = unquote(urlsplit(text.split(maxsplit=1)[0]).path).rpartition("/")[2]
    if egg is not None:
        return canonicalize_name(egg[1])
    if not file.endswith(ARCHIVE):
        return ""
    return canonicalize_name(file.split("-")[0] if file.endswith(".whl") else file.rpartition("-")[0])


def plain_path(value: str) -> Path:
    """The path of a file: URL or of a path, without a fragment."""
    if value.startswith("file:"):
        return Path(unquote(urlsplit(value).path))
    return Path(value.partition("#")[0])


def fragment(url: str) -> str:
    return f"#{found}" if (found := urlsplit(url).fragment) else ""


def split_marker(text: str) -> tuple[str, str]:
    bare, semicolon, marker = text.partition(";")
    return (bare.strip(), f" ; {marker.strip()}") if semicolon else (text.strip(), "")


def split_extras(text: str) -> tuple[str, str]:
    found = EXTRAS.match(text)
    return (found[1].strip(), found[2] or "") if found else (text, "")


def unquoted(value: str) -> str:
    """A value as pip's option parser, which splits words as a shell does, takes it."""
    try:
        words = shlex.split(value)
    except ValueError:
        return value
    return " ".join(words)
