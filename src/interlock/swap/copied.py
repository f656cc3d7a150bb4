"""The contents of a build context's files that a Dockerfile's lines name, if COPY or ADD brings them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from interlock import untrusted
from interlock.swap.instructions import Instruction
from interlock.swap.uses import AT_COMMAND, COMMANDS, CopiedFiles, Demand, FileLine, Script, Use

# Returns the text at a path in the build context; None if there is no such file.
Beside = Callable[[str], str | None]
# The limits for one file's size and for how many are asked for. A lock file has 0.5 MB, and most names are no files.
MOST_BESIDE, MOST_ASKED = 2 * untrusted.MIB, 200
INCLUDED = re.compile(r"^\s*(?:-r|--requirement)[\s=]+(\S+)")
MOUNTED = re.compile(r"[=,](?:source|src)=([^,\s]+)")
OF_SHELL = re.compile(r"[\s\"'$(){};&|<>=,\[\]]+")
INSTALLS = re.compile(
    r"\b(?:(uv\s+sync|poetry\s+(?:install|sync)|pdm\s+(?:install|sync))|(?:uv\s+)?pip[\d.]*\s+install)\b"
)
REQUIREMENTS = re.compile(r"\s(?:-r|--requirement)[=\s]*([^\s\"']+)")
# The project itself as an argument of pip: a folder, with extras.
OWN_FOLDER = re.compile(r"\s[\"']?(?:-e\s*|--editable[=\s])?(?:\.|/[\w./-]+)(?:\[[\w,-]*\])?[\"']?(?=\s|$)")
SCRIPT = re.compile(rf"{AT_COMMAND}(?:(?:ba|da)?sh\s+(?:-\w+\s+)*|\.\s+|source\s+)?([\w./-]*\w+\.?\w*)", re.MULTILINE)
SCRIPTS = re.compile(r"#!.*\b(?:ba|da|a)?sh\b|(?!#!)")
APT_NAMED = re.compile(r"\bapt(?:-get)?\b")
READS_NAMES = re.compile(r"\bxargs\b|\bcat\b|<|\bgrep\b")
PROJECT, LOCKS = "pyproject.toml", {"uv": "uv.lock", "poetry": "poetry.lock", "pdm": "pdm.lock"}


def nothing(_: str) -> None:
    """Return None, for a text that stands alone: there is no file beside it."""


def beside(dockerfile: Path) -> Beside:
    """Return a function that reads files in a Dockerfile's folder; it follows no links, and nothing leads outside."""
    folder = dockerfile.parent
    read = dict[str, str | None]()

    def text_of(name: str) -> str | None:
        if name not in read:
            if len(read) == MOST_ASKED or ".." in PurePosixPath(name).parts:
                return None
            read[name] = None
            place = folder / name
            with suppress(OSError, ValueError, RuntimeError):  # the last one: a link to itself, before Python 3.13
                if place.resolve().is_relative_to(folder.resolve()):
                    read[name] = untrusted.read_text(place, MOST_BESIDE)
        return read[name]

    return text_of


def copied_files(instructions: Sequence[Instruction], uses: Sequence[Use], beside: Beside) -> CopiedFiles:
    """Return the contents of files that a stage's instructions copy and that its lines install from or start."""
    sources = [*_sources(instructions)]
    if not sources:
        return CopiedFiles()
    copied, run = _Copied(beside, sources), [use for use in uses if use.runs]
    demands, required = list[Demand](), list[tuple[Use, tuple[FileLine, ...]]]()
    for use in run:
        demands += copied.demands(use)
        required.append((use, tuple(copied.required(use))))
    packages = [(use, tuple(copied.packages(use))) for use in run]
    return CopiedFiles(tuple(demands), tuple(required), tuple(packages), tuple(copied.scripts(run)))


def _sources(instructions: Sequence[Instruction]) -> Iterator[tuple[int, str]]:
    """Yield the lines and paths of what is taken from the build context, as opposed to from a stage."""
    for instruction in instructions:
        of_stage = any(flag.text.startswith("--from") for flag in instruction.flags)
        if instruction.keyword in {"COPY", "ADD"} and not of_stage:
            yield from ((instruction.line, _path(source)) for source in instruction.sources)
    for instruction in instructions:
        for flag in (flag.text for flag in instruction.flags if "type=bind" in flag.text and "from=" not in flag.text):
            source = MOUNTED.search(flag)
            yield instruction.line, _path(source[1] if source else "")


def _path(source: str) -> str:
    path = source.removeprefix("./").strip("/")
    return "" if path in {".", "*"} else path


@dataclass(frozen=True)
class _File:
    line: int  # the line that copies it
    name: str
    text: str


@dataclass
class _Copied:
    """What is copied, and the lines of the files that were read, by their names."""

    beside: Beside
    sources: Sequence[tuple[int, str]]
    read: dict[str, tuple[FileLine, ...]] = field(default_factory=dict)

    def lines(self, file: _File) -> tuple[FileLine, ...]:
        """Return the lines of a file that are not empty."""
        if file.name not in self.read:
            lines = enumerate(map(str.strip, file.text.splitlines()), 1)
            self.read[file.name] = tuple(FileLine(f"{file.name}:{number}", line) for number, line in lines if line)
        return self.read[file.name]

    def find(self, name: str) -> _File | None:
        """Return the copied file that a path in the image refers to: the one with the longest common end."""
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

    @cached_property
    def project(self) -> tuple[_File, Mapping[str, Any]] | None:
        """Return the project's file and its contents; None if it is not copied."""
        file = self.find(PROJECT)
        return (file, _toml(file.text)) if file else None

    def demands(self, use: Use) -> Iterator[Demand]:
        """Yield which Python a project that a line installs asks for, in the standard's form and in poetry's."""
        installer = _installer(use)
        if not installer or self.project is None:
            return
        project, held = self.project
        asked = {
            "requires-python": _at(held, "project", "requires-python", kind=str),
            "python": _at(held, "tool", "poetry", "dependencies", "python", kind=str),
        }
        for key, versions in asked.items():
            if versions:
                there = (line.where for line in self.lines(project) if line.text.startswith(key))
                yield Demand(use.line, next(there, f"{project.name}:1"), key, versions, installer)

    def required(self, use: Use) -> Iterator[FileLine]:
        """Yield the lines that name packages in the files from which a line installs them."""
        installing = [part for part in COMMANDS.split(use.full) if INSTALLS.search(part)]
        for match in (match for part in installing for match in REQUIREMENTS.finditer(part)):
            if file := self.find(match[1]):
                for requirements in self._with_included(file):
                    yield from (line for line in self.lines(requirements) if not line.text.startswith("#"))
        if installer := _installer(use).partition(" ")[0]:
            lock = self.find(LOCKS[installer]) if installer in LOCKS else None
            if lock is not None:
                yield from (line for line in self.lines(lock) if line.text.startswith("name = "))
            elif self.project is not None:
                project, held = self.project
                named, lines = _dependencies(held), self.lines(project)
                yield from (line for line in lines if any(_names(line.text, dependency) for dependency in named))

    def _with_included(self, file: _File) -> Iterator[_File]:
        """Yield a requirements file and those that it includes."""
        open_, seen = [file], set[str]()
        while open_ and len(seen) < MOST_ASKED:
            requirements = open_.pop()
            if requirements.name in seen:
                continue
            seen.add(requirements.name)
            yield requirements
            for line in requirements.text.splitlines():
                if match := INCLUDED.match(line):
                    path = str(PurePosixPath(requirements.name).parent / match[1])
                    if (text := self.beside(path)) is not None:
                        open_.append(_File(requirements.line, path, text))

    def packages(self, use: Use) -> Iterator[FileLine]:
        """Yield the lines of files from which a line takes Debian packages: `xargs apt-get install < packages.txt`."""
        if "install" not in use.full or not READS_NAMES.search(use.full) or not APT_NAMED.search(use.full):
            return
        words = (word for word in OF_SHELL.split(use.full)[:MOST_ASKED] if re.search(r"\w\.\w|^\.?/", word))
        files = {file.name: file for word in words if (file := self.find(word))}
        for file in files.values():
            yield from self.lines(file)

    def scripts(self, run: Sequence[Use]) -> Iterator[Script]:
        """Yield the shell scripts that lines start, each once."""
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
    """Return the command that installs the project itself, such as `uv sync`; empty if none does."""
    for part in COMMANDS.split(use.full):
        match = INSTALLS.search(part)
        if match and (match[1] or OWN_FOLDER.search(part, match.end())):
            return " ".join(match[0].split())
    return ""


def _dependencies(held: Mapping[str, Any]) -> list[str]:
    """Return the dependencies of a pyproject.toml, which may be a list or keys."""
    named = [spec for spec in _at(held, "project", "dependencies", kind=list) if isinstance(spec, str)]
    return [*named, *_at(held, "tool", "poetry", "dependencies", kind=dict)]


def _names(line: str, dependency: str) -> bool:
    in_list = f'"{dependency}"' in line or f"'{dependency}'" in line
    return in_list or re.match(rf"{re.escape(dependency)}\s*=", line) is not None


def _toml(text: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _at(held: Any, *keys: str, kind: type) -> Any:
    for key in keys:
        held = held.get(key) if isinstance(held, dict) else None
    return held if isinstance(held, kind) else kind()
