"""The files of a build context that a Dockerfile's lines name, as far as COPY or ADD brings them: what they say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from interlock import untrusted
from interlock.swap.instructions import Instruction
from interlock.swap.uses import AT_COMMAND, COMMANDS, CopiedFiles, Demand, FileLine, Script, Use

# What a path in the build context has; None for one that is no file of it.
Beside = Callable[[str], str | None]
# Of one file, and how many are asked for: a lock file has half a megabyte, and most names are no files.
MOST_BESIDE, MOST_ASKED = 2 * untrusted.MIB, 200
INCLUDED = re.compile(r"^\s*(?:-r|--requirement)[\s=]+(\S+)")
MOUNTED = re.compile(r"[=,](?:source|src)=([^,\s]+)")
OF_SHELL = re.compile(r"[\s\"'$(){};&|<>=,\[\]]+")
INSTALLS = re.compile(
    r"\b(?:(uv\s+sync|poetry\s+(?:install|sync)|pdm\s+(?:install|sync))|(?:uv\s+)?pip[\d.]*\s+install)\b"
)
REQUIREMENTS = re.compile(r"\s(?:-r|--requirement)[=\s]*([^\s\"']+)")
# The project itself, as pip is told it: a folder, with extras.
OWN_FOLDER = re.compile(r"\s[\"']?(?:-e\s*|--editable[=\s])?(?:\.|/[\w./-]+)(?:\[[\w,-]*\])?[\"']?(?=\s|$)")
SCRIPT = re.compile(rf"{AT_COMMAND}(?:(?:ba|da)?sh\s+(?:-\w+\s+)*|\.\s+|source\s+)?([\w./-]*\w+\.?\w*)", re.MULTILINE)
SCRIPTS = re.compile(r"#!.*\b(?:ba|da|a)?sh\b|(?!#!)")
APT_NAMED = re.compile(r"\bapt(?:-get)?\b")
READS_NAMES = re.compile(r"\bxargs\b|\bcat\b|<|\bgrep\b")
PROJECT, LOCKS = "pyproject.toml", {"uv": "uv.lock", "poetry": "poetry.lock", "pdm": "pdm.lock"}


def nothing(_: str) -> None:
    """Return that no file is there, for a text that stands alone."""


def beside(dockerfile: Path) -> Beside:
    """Return what reads the files in a Dockerfile's folder; links and what is outside are none of them."""
    folder = dockerfile.parent
    read = dict[str, str | None]()

    def text_of(name: str) -> str | None:
        if name not in read:
            if len(read) == MOST_ASKED or ".." in PurePosixPath(name).parts:
                return None
            read[name] = None
            place = folder / name
            with suppress(OSError, ValueError):
                if place.resolve().is_relative_to(folder.resolve()):
                    read[name] = untrusted.read_text(place, MOST_BESIDE)
        return read[name]

    return text_of


def copied_files(instructions: Sequence[Instruction], uses: Sequence[Use], beside: Beside) -> CopiedFiles:
    """Return what the files say that the instructions of a stage copy, and that its lines install from or start."""
    sources = [*_sources(instructions)]
    if not sources:
        return CopiedFiles()
    copied, run = _Copied(beside, sources), [use for use in uses if use.runs]
    demands, required = list[Demand](), list[tuple[Use, tuple[FileLine, ...]]]()
    for use in run:
        demands += copied.demands(use)
        required.append((use, copied.required(use)))
    packages = [(use, tuple(copied.packages(use))) for use in run]
    return CopiedFiles(tuple(demands), tuple(required), tuple(packages), tuple(copied.scripts(run)))


def _sources(instructions: Sequence[Instruction]) -> Iterator[tuple[int, str]]:
    """Yield the lines and paths of what is taken from the build context; what is taken from a stage is none of it."""
    for one in instructions:
        if one.keyword in {"COPY", "ADD"} and not any(flag.text.startswith("--from") for flag in one.flags):
            yield from ((one.line, _path(source)) for source in one.sources)
    for one in instructions:
        for flag in (flag.text for flag in one.flags if "type=bind" in flag.text and "from=" not in flag.text):
            source = MOUNTED.search(flag)
            yield one.line, _path(source[1] if source else "")


def _path(source: str) -> str:
    path = source.removeprefix("./").strip("/")
    return "" if path in {".", "*"} else path


@dataclass(frozen=True)
class _File:
    line: int  # that copies it
    name: str
    text: str


@dataclass
class _Copied:
    """What is copied, and the lines that name packages, by the file of requirements or the project's installer."""

    beside: Beside
    sources: Sequence[tuple[int, str]]
    named: dict[tuple[str, str], tuple[FileLine, ...]] = field(default_factory=dict)

    def find(self, name: str) -> _File | None:
        """Return the copied file that a path in the image means: the one with the longest end in common."""
        parts = [part for part in PurePosixPath(name).parts if part not in {"/", ".", ".."}]
        for line, source in self.sources if parts else ():
            for at in range(len(parts)):
                end = "/".join(parts[at:])
                for path in (source, f"{source}/{end}".lstrip("/")):
                    fits = path.endswith(end) and "*" not in path
                    text = self.beside(path) if fits else None
                    if text is not None:
                        return _File(line, path, text)
        return None

    def demands(self, use: Use) -> Iterator[Demand]:
        """Yield what a project, which a line installs, says of its Python in the standard's form and in poetry's."""
        installer = _installer(use)
        if not installer or (project := self.find(PROJECT)) is None:
            return
        held = _toml(project.text)
        asked = {
            "requires-python": _at(held, "project", "requires-python", kind=str),
            "python": _at(held, "tool", "poetry", "dependencies", "python", kind=str),
        }
        for key, versions in asked.items():
            if versions:
                there = (line.where for line in _lines(project) if line.text.startswith(key))
                yield Demand(use.line, next(there, f"{project.name}:1"), key, versions, installer)

    def required(self, use: Use) -> tuple[FileLine, ...]:
        """Return the lines that name packages, of the files by which a line installs them."""
        installing = [part for part in COMMANDS.split(use.full) if INSTALLS.search(part)]
        told = [("-r", match[1]) for part in installing for match in REQUIREMENTS.finditer(part)]
        if installer := _installer(use):
            told.append((PROJECT, installer.split()[0]))
        for what, name in told:
            if (what, name) not in self.named:
                lines = self._of_project(name) if what == PROJECT else self._of_requirements(name)
                self.named[what, name] = tuple(lines)
        return tuple(line for each in told for line in self.named[each])

    def _of_requirements(self, name: str) -> Iterator[FileLine]:
        file = self.find(name)
        for held in self._with_included(file) if file else ():
            yield from (line for line in _lines(held) if not line.text.startswith("#"))

    def _of_project(self, tool: str) -> Iterator[FileLine]:
        """Yield what a project's lock file has, or without one the project itself."""
        lock = self.find(LOCKS[tool]) if tool in LOCKS else None
        if lock is not None:
            yield from (line for line in _lines(lock) if line.text.startswith("name = "))
        elif project := self.find(PROJECT):
            yield from _dependencies(project)

    def _with_included(self, file: _File) -> Iterator[_File]:
        """Yield a file of requirements, and those that it includes."""
        open_, seen = [file], set[str]()
        while open_ and len(seen) < MOST_ASKED:
            one = open_.pop()
            if one.name in seen:
                continue
            seen.add(one.name)
            yield one
            for line in one.text.splitlines():
                if match := INCLUDED.match(line):
                    path = str(PurePosixPath(one.name).parent / match[1])
                    if (text := self.beside(path)) is not None:
                        open_.append(_File(one.line, path, text))

    def packages(self, use: Use) -> Iterator[str]:
        """Yield the packages of Debian's that a line takes from files: `xargs apt-get install < packages.txt`."""
        if "install" not in use.full or not READS_NAMES.search(use.full) or not APT_NAMED.search(use.full):
            return
        words = (word for word in OF_SHELL.split(use.full)[:MOST_ASKED] if re.search(r"\w\.\w|^\.?/", word))
        files = {file.name: file for word in words if (file := self.find(word))}
        for line in (line for file in files.values() for line in file.text.splitlines()):
            yield from line.partition("#")[0].split()

    def scripts(self, run: Sequence[Use]) -> Iterator[Script]:
        """Yield the scripts of the shell that lines start, each once."""
        seen = set[str]()
        for match in (match for use in run for match in SCRIPT.finditer(use.text)):
            file = self.find(match[1]) if re.search(r"\.|/", match[1]) else None
            if file is None or file.name in seen or SCRIPTS.match(file.text) is None:
                continue
            seen.add(file.name)
            lines = enumerate(file.text.splitlines(), 1)
            uses = tuple(Use(number, line) for number, line in lines if not line.lstrip().startswith("#"))
            yield Script(file.line, file.name, uses)


def _installer(use: Use) -> str:
    """Return what installs the project itself: `uv sync`; empty if nothing does."""
    for part in COMMANDS.split(use.full):
        found = INSTALLS.search(part)
        if found and (found[1] or OWN_FOLDER.search(part, found.end())):
            return " ".join(found[0].split())
    return ""


def _lines(file: _File) -> Iterator[FileLine]:
    for number, line in enumerate(file.text.splitlines(), 1):
        if text := line.strip():
            yield FileLine(f"{file.name}:{number}", text)


def _dependencies(project: _File) -> Iterator[FileLine]:
    """Yield the lines of a pyproject.toml that have its dependencies."""
    held = _toml(project.text)
    named = [one for one in _at(held, "project", "dependencies", kind=list) if isinstance(one, str)]
    named += [*_at(held, "tool", "poetry", "dependencies", kind=dict)]
    for line in _lines(project):
        text = line.text
        if any(f'"{one}"' in text or f"'{one}'" in text or re.match(rf"{re.escape(one)}\s*=", text) for one in named):
            yield line


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _at(held: Any, *keys: str, kind: type) -> Any:
    for key in keys:
        held = held.get(key) if isinstance(held, dict) else None
    return held if isinstance(held, kind) else kind()
