"""Requirements files as pip knows them, read for an audit. Pure: files are read through functions that are given.

pip itself reads the lines again in each variant's container, so that what they mean there is for pip to say. Here they
are only taken apart: which line asks for what, which options hold for all, and which of this machine's files they name.
The format: https://pip.pypa.io/en/stable/reference/requirements-file-format/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from interlock.errors import RequirementsError
from interlock.requirement_lines import (
    ARCHIVE,
    fragment,
    logical_lines,
    name_of_url,
    plain_path,
    split_extras,
    split_marker,
    unquoted,
)

OPTION = re.compile(r"(--[a-z-]+|-[a-z])(?:\s*=\s*|\s+|$)?(.*)$", re.DOTALL)
# Options of a single requirement start at the first word that is one.
OWN_OPTIONS = re.compile(r"\s+(?=--?[A-Za-z])")
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
NAMED_URL = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*@\s*(\S+)(.*)$", re.DOTALL)
PASSWORD = re.compile(r"://[^/@\s]+@")
# What pip takes in a file for all requirements, and whether a value follows.
GLOBAL = {
    "--index-url": True,
    "--extra-index-url": True,
    "--no-index": False,
    "--no-binary": True,
    "--only-binary": True,
    "--prefer-binary": False,
    "--require-hashes": False,
    "--pre": False,
    "--trusted-host": True,
    "--use-feature": True,
}
SHORT = {"-r": "--requirement", "-c": "--constraint", "-e": "--editable", "-f": "--find-links", "-i": "--index-url"}

ReadText = Callable[[Path], str]
Exists = Callable[[Path], bool]


@dataclass(frozen=True)
class Line:
    """One requirement or constraint. If it names a file or folder of this machine, `text` has {path} in its place."""

    text: str
    file: str
    number: int
    name: str = ""  # canonical; empty where only a build can tell it
    path: Path | None = None


@dataclass(frozen=True)
class Requirements:
    """What all files together ask for."""

    files: list[str]  # as they were named
    lines: list[Line] = field(default_factory=list)
    constraints: list[Line] = field(default_factory=list)
    options: list[str] = field(default_factory=list)  # for all lines, in pip's own words
    links: list[Path] = field(default_factory=list)  # of this machine, that --find-links names
    modules: list[str] = field(default_factory=list)  # to import besides those of the packages: no file says so

    @property
    def hashed(self) -> bool:
        """Whether pip checks hashes: if one line has one, or an option asks for it, every line must."""
        return "--require-hashes" in self.options or any("--hash" in line.text for line in self.lines)

    @property
    def variables(self) -> list[str]:
        """Environment variables that the files name, which pip fills in."""
        texts = [*self.options, *(line.text for line in (*self.lines, *self.constraints))]
        return sorted({name for text in texts for name in VARIABLE.findall(text)})


def read(names: Sequence[str], read_text: ReadText, exists: Exists) -> Requirements:
    """The files of these names, and all that they include.

    RequirementsError names the file and the line that cannot be read. `exists` tells a path from a package's name.
    """
    reader = _Reader(read_text, exists)
    for name in names:
        reader.file(Path(name), "", is_constraint=False)
    found = reader.found
    if not found.lines:
        raise RequirementsError(file=", ".join(names), found="no requirement in it", todo="There is nothing to audit.")
    return replace(found, files=list(names))


class _Reader:
    """Collects what the files say, in order; a file that is included twice is read twice, as pip does."""

    def __init__(self, read_text: ReadText, exists: Exists) -> None:
        self._read_text, self._exists = read_text, exists
        self._open: list[Path] = []
        self.found = Requirements([])

    def file(self, path: Path, asked_by: str, *, is_constraint: bool) -> None:
        if path in self._open:
            raise RequirementsError(file=asked_by, found=f"{path} includes itself", todo="Take one of the lines out.")
        self._open.append(path)
        for number, text in logical_lines(self._text(path, asked_by)):
            self._line(path, number, text, is_constraint)
        self._open.pop()

    def _text(self, path: Path, asked_by: str) -> str:
        named = {"file": str(path)} if not asked_by else {"file": asked_by, "key": str(path)}
        try:
            return self._read_text(path).removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise RequirementsError(**named, found="the file is not UTF-8", todo="Save it as UTF-8.") from None
        except OSError as error:
            said = (error.strerror or str(error)).lower()
            raise RequirementsError(
                **named, found=f"the file cannot be read ({said})", todo="Name a requirements file that is there."
            ) from None

    def _line(self, path: Path, number: int, text: str, is_constraint: bool) -> None:
        line = Line(text, str(path), number)
        if not text.startswith("-"):
            self._add(self._requirement(line), is_constraint)
            return
        option, value = self._option(line)
        if option in {"--requirement", "--constraint"}:
            self._include(line, value, is_constraint=is_constraint or option == "--constraint")
        elif option == "--editable":
            # What an audit wants of it, a wheel has as well.
            self._add(self._requirement(replace(line, text=value)), is_constraint)
        elif option == "--find-links":
            self._find_links(line, value)
        else:
            self.found.options.append(f"{option} {value}".strip())

    def _add(self, line: Line, is_constraint: bool) -> None:
        (self.found.constraints if is_constraint else self.found.lines).append(line)

    def _option(self, line: Line) -> tuple[str, str]:
        found = OPTION.match(line.text)
        option = SHORT.get(found[1], found[1]) if found else ""
        value = (found[2] if found else "").strip()
        if option not in GLOBAL and option not in SHORT.values():
            raise _wrong(line, f"'{line.text}' is not an option of requirements files", "Take it out, or correct it.")
        if GLOBAL.get(option, True) != bool(value):
            said = "needs a value" if GLOBAL.get(option, True) else "takes no value"
            raise _wrong(line, f"{option} {said}", "Correct the line.")
        return option, value if option == "--editable" else unquoted(value)

    def _include(self, line: Line, value: str, *, is_constraint: bool) -> None:
        if "://" in value:
            raise _wrong(line, f"'{value}' is at another place", "Fetch the file, and name the copy.")
        self.file(Path(line.file).parent / value, f"{line.file}:{line.number}", is_constraint=is_constraint)

    def _find_links(self, line: Line, value: str) -> None:
        if "://" in value and not value.startswith("file:"):
            self.found.options.append(f"--find-links {value}")
            return
        path = self._on_this_machine(line, plain_path(value))
        if path is None:
            raise _wrong(line, f"'{value}' is neither a URL nor a folder", "Correct the line.")
        self.found.links.append(path)

    def _requirement(self, line: Line) -> Line:
        """The line with its name and path; RequirementsError if it is neither a requirement, a URL nor a path."""
        head, *options = OWN_OPTIONS.split(line.text, maxsplit=1)
        named = NAMED_URL.match(head)
        if named is not None and not named[3].startswith("file:"):
            return replace(line, name=canonicalize_name(named[1]))
        if named is not None:
            bare = f"{named[1]}{named[2] or ''} @ file://{{path}}{fragment(named[3])}{named[4]}"
            return self._local(line, named[3], " ".join([bare, *options]), canonicalize_name(named[1]))
        if "://" in head and not head.startswith("file:"):
            return replace(line, name=name_of_url(head))
        where, marker = split_marker(head)
        bare, extras = split_extras(where)
        if self._is_path(line, bare):
            place = f"file://{{path}}{fragment(bare)}" if bare.startswith("file:") else "{path}"
            return self._local(line, bare, " ".join([f"{place}{extras}{marker}", *options]), "")
        try:
            return replace(line, name=canonicalize_name(Requirement(head).name))
        except InvalidRequirement as error:
            said = str(error).splitlines()[0]
            raise _wrong(line, f"'{head}' is not a requirement ({said})", "Correct the line.") from None

    def _local(self, line: Line, value: str, text: str, name: str) -> Line:
        path = self._on_this_machine(line, plain_path(value))
        if path is None:
            raise _wrong(line, f"there is no '{value}'", "Correct the path.")
        return replace(line, text=text, path=path, name=name)

    def _is_path(self, line: Line, text: str) -> bool:
        """As pip tells it: by a slash or a leading dot, or by the name of an archive that is there."""
        if "/" in text or text.startswith((".", "file:")):
            return True
        return text.endswith(ARCHIVE) and self._on_this_machine(line, Path(text)) is not None

    def _on_this_machine(self, line: Line, path: Path) -> Path | None:
        """pip looks below the current folder; below the file's own is where people who name the file elsewhere mean."""
        for place in (path, Path(line.file).parent / path):
            if self._exists(place):
                return place
        return None


def _wrong(line: Line, found: str, todo: str) -> RequirementsError:
    return RequirementsError(file=line.file, key=f"line {line.number}", found=found, todo=todo)


def local_places(wanted: Requirements, folder: str) -> dict[Path, str]:
    """Where in a container, below `folder`, each file and folder of this machine goes; a file keeps its name."""
    paths = dict.fromkeys(line.path for line in (*wanted.lines, *wanted.constraints) if line.path)
    return {
        path: f"{folder}/{number}" + (f"/{path.name}" if path.name.endswith(ARCHIVE) else "")
        for number, path in enumerate(paths)
    }


def texts(lines: Iterable[Line], places: Mapping[Path, str]) -> list[str]:
    """The lines as pip in the container is given them."""
    return [line.text.replace("{path}", places[line.path]) if line.path else line.text for line in lines]


def line_for(wanted: Requirements, name: str, place: str, places: Mapping[Path, str]) -> Line | None:
    """The first line that asks for the package of this name, or that its place is from; None if none does."""
    for line in wanted.lines:
        if line.name:
            if line.name == canonicalize_name(name):
                return line
        elif line.path is not None:
            if place.removeprefix("file://") == places[line.path]:
                return line
        elif place and place in line.text:
            return line
    return None


def shown(line: Line | None) -> str:
    """'file:line text' for people, without hashes and passwords; empty if there is no line."""
    if line is None:
        return ""
    text = line.text.partition(" --hash")[0].replace("{path}", str(line.path))
    return f"{line.file}:{line.number} {PASSWORD.sub('://****@', text.strip())}"
