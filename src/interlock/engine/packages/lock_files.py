"""Lock files, each a list of packages for one environment: pylock.toml (PEP 751), uv.lock and poetry.lock. Pure.

They are read here rather than by the tools that wrote them, so that an audit says the same wherever it runs.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from packaging.markers import Marker
from packaging.pylock import Package, Pylock, PylockValidationError, is_valid_pylock_path
from packaging.utils import canonicalize_name

from interlock.engine.packages.pythons import allows
from interlock.engine.packages.requirements import Line, Reader
from interlock.errors import RequirementsError

UV, POETRY = "uv.lock", "poetry.lock"
# The sums by which pip checks a file.
SUMS = ("sha256", "sha384", "sha512")
# The first version of poetry.lock that says which groups need each package, and where.
LEAST_POETRY = (2, 1)
# In poetry.lock, an address that git takes and pip does not: git@example.org:folder/project.git
SSH = re.compile(r"^([\w.-]+@[\w.-]+):")
TO_LOCK_AGAIN = "Lock again with the tool that wrote it."
# In poetry.lock, what a marker says of the extras that are chosen.
EXTRA = re.compile(r'\bextra (==|!=) "([^"]*)"')
# In uv.lock, the kinds of source that a project's own packages have, and so have dependencies in a folder.
FOLDERS = ("virtual", "editable", "directory")

Environment = Mapping[str, str]  # what markers are evaluated in, as an interpreter reports it
TomlTable = Mapping[str, Any]


@dataclass(frozen=True)
class Selection:
    """The extras and the dependency groups that are wanted beside a project's own dependencies; canonical names."""

    extras: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def of(cls, extras: Iterable[str], groups: Iterable[str]) -> Selection:
        return cls(canonical(extras), canonical(groups))


def canonical(names: Iterable[str]) -> frozenset[str]:
    """Return the names normalised (PEP 503): no differences of case, or of hyphens, dots and underscores."""
    return frozenset(map(canonicalize_name, names))


def wrong(path: Path, key: str, problem: object, todo: str) -> RequirementsError:
    return RequirementsError(file=str(path), key=key, found=str(problem), todo=todo)


def line_number(text: str, needle: str) -> int:
    """Return the number of the first line that has a text, or 1; TOML readers do not tell line numbers."""
    return text.count("\n", 0, text.find(needle) + 1) + 1


@dataclass(frozen=True)
class Pinned:
    """One package of a lock file as a requirement for pip, with the sums of its files."""

    name: str
    text: str
    sums: Sequence[str] = ()
    index: str = ""


@dataclass(frozen=True)
class LockFile(ABC):
    """A lock file, as a TOML document, and which parts of it are wanted."""

    path: Path
    text: str
    document: TomlTable
    selection: Selection

    @property
    def python(self) -> str:
        """Return the versions of Python that it is for."""
        return str(self.document.get("requires-python", ""))

    @property
    @abstractmethod
    def extras(self) -> frozenset[str]: ...

    @property
    @abstractmethod
    def groups(self) -> frozenset[str]: ...

    def choices(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names of its extras and groups; RequirementsError if they are not as its tool writes them."""
        with self._as_written("extras or groups"):
            return self.extras, self.groups

    @abstractmethod
    def packages(self, environment: Environment) -> Iterable[Pinned]:
        """Yield what is wanted in an environment."""

    def lines(self, reader: Reader, environment: Environment) -> list[Line]:
        """Return what is wanted in an environment as lines for pip; RequirementsError for what is wrong."""
        lines, has_sums = [], self._has_sums(environment)
        for package in self.packages(environment):
            hashes = "".join(f" --hash={each}" for each in dict.fromkeys(package.sums if has_sums else ()))
            number = line_number(self.text, f'\nname = "{package.name}"')
            line = Line(f"{package.text}{hashes}", str(self.path), number, index=package.index)
            lines.append(reader.requirement(line))
        return lines

    def _has_sums(self, environment: Environment) -> bool:
        """Return whether it has the sums of this Python's wheels; uv leaves out those for a Python it is not for."""
        return allows(self.python, environment["python_full_version"])

    def _at_place(self, name: str, place: str, subdirectory: str | None = None) -> str:
        """Return a requirement at a URL, or at a path, which is relative to the lock file's folder."""
        where = place if urlsplit(place).scheme else f"file:{quote(str(self.path.parent / place))}"
        return f"{name} @ {where}" + (f"#subdirectory={subdirectory}" if subdirectory else "")

    @cached_property
    def _packages(self) -> list[TomlTable]:
        value = self.document.get("package", [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise wrong(self.path, "package", f"found {value!r}", TO_LOCK_AGAIN)
        return value

    def _holds(self, marker: str, environment: Mapping[str, str | frozenset[str]]) -> bool:
        try:
            return not marker or Marker(marker).evaluate(dict(environment))
        except (ValueError, TypeError) as error:
            said = str(error).splitlines()[0]
            raise wrong(self.path, "markers", f"'{marker}' is not a marker ({said})", TO_LOCK_AGAIN) from None

    def _as_package(self, package: TomlTable) -> AbstractContextManager[None]:
        return self._as_written(f"package {package.get('name', '')}".strip())

    @contextmanager
    def _as_written(self, key: str) -> Iterator[None]:
        """Raise RequirementsError if the block finds the file not as its tool writes it."""
        try:
            yield
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            problem = f"is not as its tool writes it ({type(error).__name__}: {error})"
            raise wrong(self.path, key, problem, TO_LOCK_AGAIN) from None


@dataclass(frozen=True)
class PylockFile(LockFile):
    """pylock.toml, whose packages have markers that may name extras and groups."""

    @cached_property
    def lock(self) -> Pylock:
        try:
            return Pylock.from_dict(self.document)
        except PylockValidationError as error:
            raise wrong(self.path, error.context or "lock-version", error.message, TO_LOCK_AGAIN) from None

    @property
    def extras(self) -> frozenset[str]:
        return frozenset(self.lock.extras or [])

    @property
    def groups(self) -> frozenset[str]:
        return canonical(self.lock.dependency_groups or [])

    def packages(self, environment: Environment) -> Iterator[Pinned]:
        named, default = self.lock.dependency_groups or [], self.lock.default_groups or []
        groups = {name for name in named if canonicalize_name(name) in self.selection.groups}
        wanted: dict[str, str | frozenset[str]] = dict(environment)
        wanted |= {"extras": self.selection.extras, "dependency_groups": frozenset({*groups, *default})}
        for package in self.lock.packages:
            with self._as_written(f"package {package.name}"):
                if package.marker is None or package.marker.evaluate(wanted, context="lock_file"):
                    yield self._of(package)

    def _of(self, package: Package) -> Pinned:
        name, archive = package.name, package.archive
        if package.vcs is not None:
            where = package.vcs.url or f"file:{package.vcs.path}"
            place = f"{package.vcs.type}+{where}@{package.vcs.commit_id}"
            return Pinned(name, self._at_place(name, place, package.vcs.subdirectory))
        if package.directory is not None:
            return Pinned(name, self._at_place(name, package.directory.path, package.directory.subdirectory))
        if archive is not None:
            place = str(archive.url or archive.path)
            return Pinned(name, self._at_place(name, place, archive.subdirectory), _sums(archive.hashes))
        if package.version is None:
            raise wrong(self.path, "packages.version", f"{name} has files and no version", TO_LOCK_AGAIN)
        wheels = package.wheels or []
        hashes = [wheel.hashes for wheel in wheels] + ([package.sdist.hashes] if package.sdist else [])
        # pip and `uv pip compile` lock the wheel for their own interpreter alone: another's has another sum.
        if len(wheels) == 1 and not wheels[0].filename.endswith("-any.whl"):
            hashes = []
        sums = [each for by_kind in hashes for each in _sums(by_kind)]
        return Pinned(name, f"{name}=={package.version}", sums, package.index or "")


def _sums(hashes: Mapping[str, str]) -> list[str]:
    return [f"{kind}:{hashes[kind]}" for kind in SUMS if kind in hashes]


def _among_extras(comparison: re.Match[str]) -> str:
    """Return the comparison of the one extra of PEP 508 as one with all that are chosen, as in PEP 751."""
    return f'"{comparison[2]}" {"in" if comparison[1] == "==" else "not in"} extras'


@dataclass(frozen=True)
class PoetryLock(LockFile):
    """poetry.lock: it has for each package the groups that need it, and one marker or a marker for each group."""

    def __post_init__(self) -> None:
        metadata = self.document.get("metadata", {})
        version = str(metadata.get("lock-version", "")) if isinstance(metadata, dict) else ""
        numbers = tuple(map(int, re.findall(r"\d{1,4}", version)))
        if not LEAST_POETRY <= numbers < (LEAST_POETRY[0] + 1,):
            problem = f"found '{version}': such a file does not say which group needs a package"
            todo = "Lock again with Poetry 2 (`poetry lock`), or name what `poetry export -o requirements.txt` writes."
            raise wrong(self.path, "metadata.lock-version", problem, todo)

    @property
    def python(self) -> str:
        return str(self.document["metadata"].get("python-versions", ""))

    def _has_sums(self, environment: Environment) -> bool:
        return True

    @property
    def extras(self) -> frozenset[str]:
        return canonical(self.document.get("extras", {}))

    @property
    def groups(self) -> frozenset[str]:
        return canonical(group for package in self._packages for group in package.get("groups", [])) - {"main"}

    def packages(self, environment: Environment) -> Iterator[Pinned]:
        for package in self._packages:
            with self._as_package(package):
                if self._is_wanted(package, environment):
                    yield self._of(package)

    def _is_wanted(self, package: TomlTable, environment: Environment) -> bool:
        markers = package.get("markers", "")
        by_group = [
            markers.get(group, "") if isinstance(markers, dict) else markers
            for group in package.get("groups", [])
            if canonicalize_name(group) in {"main", *self.selection.groups}
        ]
        chosen: dict[str, str | frozenset[str]] = {**environment, "extras": self.selection.extras}
        return any(self._holds(EXTRA.sub(_among_extras, str(marker)), chosen) for marker in by_group)

    def _of(self, package: TomlTable) -> Pinned:
        name, source = package["name"], package.get("source", {})
        sums = [file["hash"] for file in package["files"]]
        match source.get("type", "legacy"):
            case "git":
                url = SSH.sub(r"ssh://\1/", source["url"])
                place = f"git+{url}@{source['resolved_reference']}"
                return Pinned(name, self._at_place(name, place, source.get("subdirectory")))
            case "directory" | "url" | "file":
                return Pinned(name, self._at_place(name, source["url"], source.get("subdirectory")), sums)
        return Pinned(name, f"{name}=={package['version']}", sums, str(source.get("url", "")))


@dataclass(frozen=True)
class UvLock(LockFile):
    """uv.lock: a graph, whose edges have markers."""

    def __post_init__(self) -> None:
        if self.document.get("version") != 1:
            raise wrong(self.path, "version", f"found {self.document.get('version')!r}", "Lock again: uv lock.")
        if "conflicts" in self.document:
            todo = "Name what `uv export -o requirements.txt` writes."
            raise wrong(self.path, "conflicts", "its extras or groups exclude each other, as only uv can tell", todo)

    @property
    def extras(self) -> frozenset[str]:
        return canonical(name for root in self._roots() for name in root.get("optional-dependencies", {}))

    @property
    def groups(self) -> frozenset[str]:
        return canonical(name for root in self._roots() for name in root.get("dev-dependencies", {}))

    def packages(self, environment: Environment) -> Iterator[Pinned]:
        with self._as_written("package"):
            numbers = sorted(self._reached(environment))
        roots = self._roots()
        for package in (self._packages[number] for number in numbers):
            with self._as_package(package):
                if package not in roots and "virtual" not in package.get("source", {}):
                    yield self._of(package)

    def _roots(self) -> list[TomlTable]:
        """Return the project, or for a workspace that is no project all its members and a root for its own groups."""
        places = [(package, package.get("source", {})) for package in self._packages]
        local = [(package, place) for package, place in places if any(key in place for key in FOLDERS)]
        project = [package for package, place in local if "." in place.values()]
        manifest = self.document.get("manifest")  # without one, nobody tells the members
        members = [each for each, _ in local if manifest is None or each["name"] in manifest.get("members", [])]
        return project or [*members, {"dev-dependencies": self._groups_of_workspace()}]

    def _groups_of_workspace(self) -> dict[str, list[TomlTable]]:
        """Return the edges of the groups of a workspace that is no project."""
        groups = self.document.get("manifest", {}).get("dependency-groups", {})
        return {name: [edge for line in lines for edge in self._edges_of_line(line)] for name, lines in groups.items()}

    def _edges_of_line(self, line: TomlTable) -> Iterator[TomlTable]:
        """Yield an edge to each version that is locked for a requirement, with the markers of both."""
        for package in self._packages:
            if package["name"] == line["name"]:
                forks = " or ".join(f"({marker})" for marker in package.get("resolution-markers", []))
                marker = " and ".join(f"({marker})" for marker in (line.get("marker"), forks) if marker)
                yield {**package, "extra": line.get("extras", []), "marker": marker}

    def _reached(self, environment: Environment) -> set[int]:
        """Return the indices of the packages that the roots need, directly or not."""
        todo = [edge for root in self._roots() for edge in self._edges_of_root(root)]
        seen: set[tuple[int, str]] = set()
        while todo:
            edge = todo.pop()
            if self._holds(edge.get("marker", ""), {**environment, "extra": ""}):
                number = self._place_of(edge)
                new = {(number, extra) for extra in ("", *edge.get("extra", []))} - seen
                seen |= new
                for _, extra in new:
                    package = self._packages[number]
                    more = package.get("optional-dependencies", {}).get(extra, []) if extra else None
                    todo += package.get("dependencies", []) if more is None else more
        return {number for number, _ in seen}

    def _edges_of_root(self, root: TomlTable) -> Iterator[TomlTable]:
        yield from root.get("dependencies", [])
        wanted = {"optional-dependencies": self.selection.extras, "dev-dependencies": self.selection.groups}
        for key, names in wanted.items():
            for name, edges in root.get(key, {}).items():
                if canonicalize_name(name) in names:
                    yield from edges

    def _of(self, package: TomlTable) -> Pinned:
        name, source = package["name"], package["source"]
        files = [*package.get("wheels", []), *([package["sdist"]] if "sdist" in package else [])]
        sums = [file["hash"] for file in files if "hash" in file]
        if "git" in source:
            url = urlsplit(source["git"])
            subdirectory = parse_qs(url.query).get("subdirectory", [None])[0]
            place = f"git+{url._replace(query='', fragment='').geturl()}@{url.fragment}"
            return Pinned(name, self._at_place(name, place, subdirectory))
        for kind in ("url", "path", "directory", "editable"):
            if kind in source:
                return Pinned(name, self._at_place(name, source[kind], source.get("subdirectory")), sums)
        return Pinned(name, f"{name}=={package['version']}", sums, str(source.get("registry", "")))

    def _place_of(self, edge: TomlTable) -> int:
        """Return the index of the package that an edge leads to: the first that has all that the edge says of it."""
        said = {key: edge[key] for key in ("name", "version", "source") if key in edge}
        for number, package in enumerate(self._packages):
            if all(package.get(key) == said[key] for key in said):
                return number
        raise LookupError(f"no package is {edge['name']}")


def kind_of(path: Path) -> type[LockFile] | None:
    """Return the class that reads a file of this name; None if it is no lock file."""
    if is_valid_pylock_path(path):
        return PylockFile
    return {UV: UvLock, POETRY: PoetryLock}.get(path.name)
