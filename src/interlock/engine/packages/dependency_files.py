"""What a project's files ask for: requirements files, pyproject.toml (PEP 621, PEP 735) and lock files.

Pure: files are read through functions that are passed in.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.dependency_groups import resolve_dependency_groups
from packaging.markers import Marker, default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from interlock.engine.packages.lock_files import (
    POETRY,
    UV,
    Environment,
    LockFile,
    Selection,
    canonical,
    kind_of,
    line_number,
    wrong,
)
from interlock.engine.packages.pythons import allows
from interlock.engine.packages.requirements import Exists, Reader, ReadText, Requirements
from interlock.errors import RequirementsError, nearest

PYPROJECT = "pyproject.toml"
NOTHING_MORE = Selection()
Conditions = frozenset[str]  # markers that must all hold
ALWAYS: Conditions = frozenset()


@dataclass(frozen=True)
class Dependencies:
    """What all files ask for together; each variant's environment selects the packages of lock files."""

    files: list[str]  # as the user named them
    reader: Reader
    locks: list[LockFile] = field(default_factory=list)
    pythons: dict[str, str] = field(default_factory=dict)  # the versions of Python that each file is for
    modules: list[str] = field(default_factory=list)  # further modules to import, from --import

    def at(self, environment: Environment) -> Requirements:
        """Return the requirements of one environment."""
        wanted = self._all(environment)
        return replace(wanted, lines=[line for line in wanted.lines if line.applies(environment)])

    def here(self) -> Requirements:
        """Return all lines of requirements files, and what this process's interpreter needs of lock files."""
        return self._all({key: str(value) for key, value in default_environment().items()})

    def _all(self, environment: Environment) -> Requirements:
        """Return the lines of all files, also of requirements files those whose markers do not hold.

        pip checks hashes for all lines or for none. So all are left out if a line names what has none; those of lock
        files also if any other line has none.
        """
        own, notes = self.reader.read, list(self._excluded(environment))
        lines, locked = own.lines, [line for lock in self.locks for line in lock.lines(self.reader, environment)]
        every = [*lines, *locked]
        if any(line.has_no_sum for line in every) and "--require-hashes" not in own.options:
            lines = [line.unhashed() for line in lines]
        if any("--hash" not in line.text for line in every):
            locked = [line.unhashed() for line in locked]
        return replace(own, lines=[*lines, *locked], notes=notes)

    def _excluded(self, environment: Environment) -> Iterator[str]:
        """Yield a note on each file that is not for this Python."""
        version = environment["python_full_version"]
        for file, python in self.pythons.items():
            try:
                is_for = allows(python, version)
            except ValueError:
                problem = f"'{python}' is no range of versions of Python"
                raise RequirementsError(file=file, key="requires-python", found=problem, todo="Correct it.") from None
            if not is_for:
                yield (
                    f"{file} is for Python {python}, not for {version}: installers refuse it there. "
                    "Before a move change that and lock again, which may choose other versions."
                )


def read(
    names: Sequence[str], read_text: ReadText, exists: Exists, selection: Selection = NOTHING_MORE
) -> Dependencies:
    """Read the named files; RequirementsError with the file, and the line or the key.

    `exists` distinguishes a path from a package's name. Paths are allowed below the current folder and the files' own.
    """
    reader, locks = Reader(read_text, exists, [Path(), *(Path(name).parent for name in names)]), list[LockFile]()
    extras, groups, pythons = set[str](), set[str](), dict[str, str]()
    for path in map(Path, names):
        if path.name == PYPROJECT:
            text = reader.text(path, "")
            project = _Project(path, text, _toml(path, text), selection)
            project.add_to(reader)
            pythons[str(path)] = project.python
            extras |= canonical(project.extras)
            groups |= canonical(project.groups)
        elif lock_file := kind_of(path):
            text = reader.text(path, "")
            locks.append(lock_file(path, text, _toml(path, text), selection))
            pythons[str(path)] = locks[-1].python
            of_lock, groups_of_lock = locks[-1].choices()
            extras |= of_lock
            groups |= groups_of_lock
        elif path.suffix in {".toml", ".lock"}:
            todo = f"Name a requirements file, {PYPROJECT}, pylock.toml, {UV} or {POETRY}."
            raise RequirementsError(file=str(path), found="no file of dependencies has this name", todo=todo)
        else:
            reader.file(path, "", is_constraint=False)
    for kind, wanted, known in (("extra", selection.extras, extras), ("group", selection.groups, groups)):
        for name in sorted(wanted - known):
            problem, todo = f"there is no {kind} '{name}'", nearest(name, known)
            raise RequirementsError(file=", ".join(names), key=f"--{kind}", found=problem, todo=todo)
    read_all = Dependencies(list(names), reader, locks, pythons)
    # `here` reads the lock files now, so that what is wrong with them is said before anything is started.
    if not read_all.here().lines and not locks:
        todo = "Add requirements, or name another file."
        raise RequirementsError(file=", ".join(names), found="no requirement", todo=todo)
    return read_all


def _toml(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"not valid TOML: {error}"
        raise RequirementsError(file=str(path), found=problem, todo="Correct the syntax there.") from None


@dataclass(frozen=True)
class _Project:
    """pyproject.toml: the lines of its dependencies, of extras and of groups."""

    path: Path
    text: str
    document: dict[str, Any]
    selection: Selection

    @property
    def python(self) -> str:
        return str(self._table("project").get("requires-python", ""))

    @property
    def extras(self) -> dict[str, Any]:
        return self._table("project.optional-dependencies")

    @property
    def groups(self) -> dict[str, Any]:
        return self._table("dependency-groups")

    def add_to(self, reader: Reader) -> None:
        """Give the reader each line that is wanted; RequirementsError for a line that pip could not use."""
        if not self._table("project") and self._table("tool.poetry"):
            raise wrong(self.path, "tool.poetry", "has dependencies in Poetry's own words", f"Name its {POETRY}.")
        for key in self._strings("project.dynamic", self._table("project").get("dynamic", [])):
            if key == "dependencies" or (key == "optional-dependencies" and self.selection.extras):
                todo = f"Name a lock file, or a requirements file with the line '-e {self.path.parent}'."
                raise wrong(self.path, "project.dynamic", f"only a build can tell its {key}", todo)
        known_to_uv = canonical(self._table("tool.uv.sources"))
        for requirement, line, conditions in self._wanted():
            name = canonicalize_name(requirement.name)
            if name in known_to_uv:
                problem, todo = f"pip does not know where {name} comes from", f"Name its {UV}: `uv lock` writes it."
                raise wrong(self.path, f"tool.uv.sources.{name}", problem, todo)
            quoted = next((text for text in (f'"{line}"', f"'{line}'") if text in self.text), line)
            text = _under(conditions, requirement) if conditions else line
            reader.line(self.path, line_number(self.text, quoted), text, is_constraint=False)

    def _wanted(self) -> Iterator[tuple[Requirement, str, Conditions]]:
        """Yield the requirements of the project, of groups and of extras, and of extras that one of these names.

        If a line names an extra, the conditions of that line hold for the extra's own lines too.
        """
        project, extras = self._table("project"), {str(canonicalize_name(name)): name for name in self.extras}
        own = canonicalize_name(str(project.get("name", "")))
        taken: list[tuple[str, Conditions]] = [(name, ALWAYS) for name in sorted(self.selection.extras)]
        todo = [("project.dependencies", project.get("dependencies", []), ALWAYS)]
        todo += [(*self._extra(extras[name]), ALWAYS) for name, _ in taken if name in extras]
        todo.append(("dependency-groups", self._of_groups(), ALWAYS))
        for key, lines, conditions in todo:
            for line in self._strings(key, lines):
                requirement = self._requirement(key, line)
                if canonicalize_name(requirement.name) != own:
                    yield requirement, line, conditions
                    continue
                further = conditions | ({str(requirement.marker)} if requirement.marker else ALWAYS)
                for extra in sorted(canonical(requirement.extras)):
                    if any(name == extra and known <= further for name, known in taken):
                        continue
                    taken.append((extra, further))
                    if extra not in extras:
                        raise wrong(
                            self.path, key, f"'{line}' asks for an extra that is missing", nearest(extra, extras)
                        )
                    todo.append((*self._extra(extras[extra]), further))

    def _extra(self, name: str) -> tuple[str, Any]:
        return f"project.optional-dependencies.{name}", self.extras[name]

    def _of_groups(self) -> list[str]:
        wanted = sorted(self.selection.groups & canonical(self.groups))
        try:
            return list(resolve_dependency_groups(self.groups, *wanted))
        except ExceptionGroup as errors:
            said = str(_first(errors)).strip("'\"")
            raise wrong(self.path, "dependency-groups", said.splitlines()[0], "Correct the group.") from None

    def _requirement(self, key: str, line: str) -> Requirement:
        try:
            return Requirement(line)
        except InvalidRequirement as error:
            said = str(error).splitlines()[0]
            raise wrong(self.path, key, f"'{line}' is not a requirement ({said})", "Correct it.") from None

    def _table(self, key: str) -> dict[str, Any]:
        """Return the table of a dotted key; empty without one."""
        table: dict[str, Any] = self.document
        for part in key.split("."):
            inner = table.get(part, {})
            if not isinstance(inner, dict):
                raise wrong(self.path, key, f"found {inner!r}", "Write a table.")
            table = inner
        return table

    def _strings(self, key: str, value: object) -> Collection[str]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise wrong(self.path, key, f"found {value!r}", "Write a list of strings.")
        return value


def _under(conditions: Conditions, requirement: Requirement) -> str:
    """Return a line that applies where all conditions hold, and its own."""
    own = [str(requirement.marker)] if requirement.marker else []
    bare = copy(requirement)
    bare.marker = Marker(" and ".join(f"({marker})" for marker in [*sorted(conditions), *own]))
    return str(bare)


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error in groups of groups of errors."""
    first = errors.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
