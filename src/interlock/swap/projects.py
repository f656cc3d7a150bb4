"""What the files of a project need that a Dockerfile installs: its Python's version, and packages that need more."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion

from interlock.swap.beside import Copied, CopiedFile
from interlock.swap.caveats import AT_COMMAND, COMMANDS, Caveat, Use, Weight, difference_caveats
from interlock.swap.debian import official
from interlock.swap.image_names import Flavour, NewImage, PythonImage

INSTALLS = re.compile(
    r"\b(?:(uv\s+sync|poetry\s+(?:install|sync)|pdm\s+(?:install|sync))|(?:uv\s+)?pip[\d.]*\s+install)\b"
)
REQUIREMENTS = re.compile(r"\s(?:-r|--requirement)[=\s]*([^\s\"']+)")
# The project itself, as pip is told it: a folder, with extras.
OWN_FOLDER = re.compile(r"\s[\"']?(?:-e\s*|--editable[=\s])?(?:\.|/[\w./-]+)(?:\[[\w,-]*\])?[\"']?(?=\s|$)")
SCRIPT = re.compile(rf"{AT_COMMAND}(?:(?:ba|da)?sh\s+(?:-\w+\s+)*|\.\s+|source\s+)?([\w./-]*\w+\.?\w*)", re.MULTILINE)
SCRIPTS = re.compile(r"#!.*\b(?:ba|da|a)?sh\b|(?!#!)")
PROJECT, LOCKS = "pyproject.toml", {"uv": "uv.lock", "poetry": "poetry.lock", "pdm": "pdm.lock"}
CARET, TILDE = re.compile(r"\^\s*(\d+)(?:\.(\d+))?(?:\.(\d+))?"), re.compile(r"~\s*(\d+)\.(\d+)(?:\.\d+)*")


def scripts(uses: Sequence[Use], copied: Copied) -> Iterator[tuple[CopiedFile, list[Use]]]:
    """Yield the copied scripts of the shell that lines start, with what each of their lines runs."""
    seen = set[str]()
    for use in (use for use in uses if use.runs):
        for match in SCRIPT.finditer(use.text):
            file = copied.find(match[1]) if re.search(r"\.|/", match[1]) and copied.sources else None
            if file is None or file.name in seen or SCRIPTS.match(file.text) is None:
                continue
            seen.add(file.name)
            lines = enumerate(file.text.splitlines(), 1)
            yield file, [Use(number, line) for number, line in lines if not line.lstrip().startswith("#")]


def project_caveats(
    uses: Sequence[Use], copied: Copied, old: PythonImage | None, to: NewImage, installed: set[str]
) -> Iterator[Caveat]:
    """Yield what the files of a project, which a line installs, need and the new image has not."""
    for use in (use for use in uses if use.runs and copied.sources):
        yield from _admitted(use, copied, to)
        for file, number, line in required(use, copied):
            where = f"{file.name}:{number}: "
            for told in difference_caveats(Use(use.line, line), to):
                yield Caveat(use.line, f"{where}{told.text}", told.weight)
            full = old is not None and (old.flavour is Flavour.FULL or old.copied)
            if full and "git" not in installed and re.search(official()["unnamed"]["git"], line):
                yield Caveat(
                    use.line, f"{where}needs git, which the new image does not have: install git", Weight.BREAKS
                )


def required(use: Use, copied: Copied) -> Iterator[tuple[CopiedFile, int, str]]:
    """Yield the lines that name packages, of the files by which a line installs them."""
    installing = [part for part in COMMANDS.split(use.full) if INSTALLS.search(part)]
    for match in (match for part in installing for match in REQUIREMENTS.finditer(part)):
        if file := copied.find(match[1]):
            for one in copied.with_included(file):
                yield from ((one, number, line) for number, line in _lines(one.text) if not line.startswith("#"))
    if installer := _installer(use):
        installer = installer.split()[0]
        lock = copied.find(LOCKS[installer]) if installer in LOCKS else None
        if lock is not None:
            yield from ((lock, number, line) for number, line in _lines(lock.text) if line.startswith("name = "))
        elif project := copied.find(PROJECT):
            yield from _dependencies(project)


def _installer(use: Use) -> str:
    """Return what installs the project itself: `uv sync`; empty if nothing does."""
    for part in COMMANDS.split(use.full):
        found = INSTALLS.search(part)
        if found and (found[1] or OWN_FOLDER.search(part, found.end())):
            return " ".join(found[0].split())
    return ""


def _lines(text: str) -> list[tuple[int, str]]:
    return [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _dependencies(project: CopiedFile) -> Iterator[tuple[CopiedFile, int, str]]:
    """Yield the lines of a pyproject.toml that have its dependencies."""
    held = _toml(project.text)
    named = [one for one in _at(held, "project", "dependencies", kind=list) if isinstance(one, str)]
    named += [*_at(held, "tool", "poetry", "dependencies", kind=dict)]
    for number, line in _lines(project.text):
        if any(f'"{one}"' in line or f"'{one}'" in line or re.match(rf"{re.escape(one)}\s*=", line) for one in named):
            yield project, number, line


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _at(held: Any, *keys: str, kind: type) -> Any:
    for key in keys:
        held = held.get(key) if isinstance(held, dict) else None
    return held if isinstance(held, kind) else kind()


def _admitted(use: Use, copied: Copied, to: NewImage) -> Iterator[Caveat]:
    """Yield that an installer ends because the project does not admit the new image's Python."""
    installer = _installer(use)
    file = copied.find(PROJECT) if installer else None
    if file is None:
        return
    held = _toml(file.text)
    asked = {
        "requires-python": _at(held, "project", "requires-python", kind=str),
        "python": _at(held, "tool", "poetry", "dependencies", "python", kind=str),
    }
    for key, text in asked.items():
        if text and not admits(text, to.version or to.python.rstrip("t")):
            number = next((number for number, line in _lines(file.text) if line.startswith(key)), 1)
            said = f"{file.name}:{number}: {key} is {text}, which {to.version} is not: {installer} ends"
            yield Caveat(use.line, f"{said}; widen it there, and lock again", Weight.BREAKS)


def admits(text: str, version: str) -> bool:
    """Return whether a requirement, of the standard's form or poetry's, admits a version; one of no form admits all."""
    for part in text.split("||"):
        try:
            if SpecifierSet(_standard(part)).contains(version, prereleases=True):
                return True
        except (InvalidSpecifier, InvalidVersion):
            return True
    return False


def _standard(text: str) -> str:
    """Return a requirement of poetry's in the standard's form."""
    parts = []
    for part in (part.strip() for part in text.split(",")):
        if match := CARET.fullmatch(part):
            parts.append(f">={part[1:].strip()},<{int(match[1]) + 1}")
        elif match := TILDE.fullmatch(part):
            parts.append(f">={part[1:].strip()},<{match[1]}.{int(match[2]) + 1}")
        elif part != "*":
            parts.append(part if part[:1] in "<>=!~" else f"=={part}")
    return ",".join(parts)
