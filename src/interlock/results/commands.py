"""Command lines that are printed to be run next, written as the user types them here.

An experiment records the line that repeats it, so that its report says the same wherever it is read.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote, urlsplit

PROGRAM = "interlock"
# Where uv's cache has the environments of uvx.
UVX_FOLDER = "archive-v"
# Sessions of nox that only run a command: README's first command starts one.
SESSIONS = ("matrix", "fleet")
# A command within a sentence. One with a path in front of it is typed as it stands.
NAMED = re.compile(rf"(?<![\w./-]){PROGRAM} ([a-z]+)\b")


def command_line(command: str, *words: str) -> str:
    """Return the line for a shell that runs a command with these words."""
    return shlex.join([*_program(command), *words])


def runnable(text: str) -> str:
    """Return a text in which each command is written as it is typed here."""
    return NAMED.sub(lambda command: shlex.join(_program(command[1])), text)


def option_words(given: Mapping[str, object]) -> list[str]:
    """Return the words of options, given by name; an option that is off, empty or not given has none."""
    return [word for name, value in given.items() for word in _words(f"--{name.replace('_', '-')}", value)]


def _words(option: str, value: object) -> list[str]:
    if value is None or isinstance(value, bool) or value == "":
        return [option] if value is True else []
    if isinstance(value, list):
        return [word for each in value for word in (option, each)]
    return [option, f"{value:g}" if isinstance(value, float) else str(value)]


def resuming(command: str, name: str, where: Sequence[str] = ()) -> str:
    """Return the line that resumes the experiment that `command` began under this name; options in `where` find it.

    A trial needs all its options again, because its record leaves out values that may be secrets.
    """
    words = shlex.split(command)
    if words[1:2] == ["trial"]:
        return shlex.join([*words, "--resume", name])
    program = takewhile(lambda word: word == "--" or not word.startswith("--"), words)
    return shlex.join([*program, "--resume", name, *where])


def _program(command: str) -> list[str]:
    """Return the words in front of a command's own."""
    clone = _clone_of_uvx()
    if command in SESSIONS and (_is_session() or clone == Path.cwd()):
        return ["sh", "bootstrap.sh", "-s", command, "--"]
    if clone is not None:
        return ["uvx", "--from", f"{clone}[measure]", PROGRAM, command]
    return [_executable(), command]


def _clone_of_uvx() -> Path | None:
    """Return the folder that uvx runs this program from, in an environment that no shell has in PATH; else None."""
    if not any(part.startswith(UVX_FOLDER) for part in Path(sys.prefix).parts):
        return None
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415  it takes as long as all else

    with suppress(PackageNotFoundError, KeyError, TypeError, ValueError):
        url = json.loads(distribution(PROGRAM).read_text("direct_url.json") or "")["url"]
        return Path(unquote(urlsplit(url).path)) if url.startswith("file://") else None
    return None


def _is_session() -> bool:
    return os.environ.get("NOX_CURRENT_SESSION") in SESSIONS


def _executable() -> str:
    """Return the program as the user's shell finds it: by its name, or by its path where only nox has it in PATH."""
    started = Path(sys.argv[0])
    in_path = None if _is_session() else shutil.which(PROGRAM)
    if started.name != PROGRAM or (in_path and started.exists() and started.samefile(in_path)):
        return PROGRAM
    path, here = started.absolute(), Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
