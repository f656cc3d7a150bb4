"""Requirements files as pip reads them, and lines of other files in the same way. Pure: functions read the files."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from interlock.errors import RequirementsError

COMMENT = re.compile(r"(^|(?<!\s)\s++)#.*$")
EXTRAS = re.compile(r"^(.*?)(\[[^\]]*\])?$", re.DOTALL)
EGG = re.compile(r"[#&]egg=([A-Za-z0-9._-]+)")
# pip has no such limits. Without them, a file that includes two files that each include two more is read for ever.
MOST_FILES, LONGEST_LINE = 200, 20_000
ARCHIVE = (".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar")


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return numbered lines without comments and blank lines; continued lines are joined at the first one's number."""
    joined: list[str] = []
    first = 1
    # An empty line ends what the last one would continue.
    for number, line in enumerate([*text.splitlines(), ""], 1):
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


def name_of_url(text: str) -> str:
    """Return the package name in a URL: egg=NAME, or the part before the version in an archive's name."""
    egg = EGG.search(text)
    file = unquote(urlsplit(text.split(maxsplit=1)[0]).path).rpartition("/")[2]
    if egg is not None:
        return canonicalize_name(egg[1])
    if not file.endswith(ARCHIVE):
        return ""
    return canonicalize_name(file.split("-")[0] if file.endswith(".whl") else file.rpartition("-")[0])


def plain_path(value: str) -> Path:
    """Return the path of a file: URL or of a path, without a fragment."""
    if value.startswith("file:"):
        return Path(unquote(urlsplit(value).path))
    return Path(value.partition("#")[0])


def real_path(path: Path) -> Path:
    """Return where a path leads; a circle of links gives some path and no error."""
    return Path(os.path.realpath(path))


def fragment(url: str) -> str:
    return f"#{part}" if (part := urlsplit(url).fragment) else ""


def split_marker(text: str) -> tuple[str, str]:
    bare, semicolon, marker = text.partition(";")
    return (bare.strip(), f" ; {marker.strip()}") if semicolon else (text.strip(), "")


def split_extras(text: str) -> tuple[str, str]:
    parts = EXTRAS.match(text)
    return (parts[1].strip(), parts[2] or "") if parts else (text, "")


OPTION = re.compile(r"(--[a-z-]+|-[a-z])(?:\s*=\s*|\s+|$)?(.*)$", re.DOTALL)
EDITABLE = ("-e", "--editable")
# A requirement's own options start at the first word that is one.
OWN_OPTIONS = re.compile(r"\s+(?=--?[A-Za-z])")
VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)\}")
NAMED_URL = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(\[[^\]]*\])?\s*@\s*(\S+)(.*)$", re.DOTALL)
HASH = re.compile(r"\s+--hash[\s=]\S+")
USER = re.compile(r"://[^/@\s]+@")
HOST = re.compile(r"""://(?:[^/@\s]*@)?(\[[^\]\s]+\]|[^/:?#\s"']+)""")
# Options that hold for all requirements of a file, and whether a value follows.
GLOBAL = {
    "--index-url": True,
    "--extra-index-url": True,
    "--no-index": False,
    "--no-binary": True,
    "--only-binary": True,
    "--prefer-binary": False,
    "--require-hashes": False,
    "--pre": False,
    "--all-releases": True,
    "--only-final": True,
    "--trusted-host": True,
    "--use-feature": True,
}
SHORT = {"-r": "--requirement", "-c": "--constraint", "-e": "--editable", "-f": "--find-links", "-i": "--index-url"}

ReadText = Callable[[Path], str]
Exists = Callable[[Path], bool]


@dataclass(frozen=True)
class Line:
    """A requirement or constraint. If it names a file or folder of this machine, `text` has {path} instead of it."""

    text: str
    file: str
    number: int
    name: str = ""  # canonical; empty if only a build can tell it
    path: Path | None = None
    index: str = ""  # that its lock names

    @property
    def is_direct(self) -> bool:
        """Return whether it names a place, so that no index is asked."""
        return self.path is not None or "://" in self.text

    @property
    def has_no_sum(self) -> bool:
        """Return whether it names what pip can check no hash of: a folder, or a repository."""
        return not self.path.name.endswith(ARCHIVE) if self.path else "git+" in self.text

    @property
    def own_options(self) -> str:
        """Return the options that its build gets."""
        _, *options = OWN_OPTIONS.split(HASH.sub("", self.text), maxsplit=1)
        return " ".join(options)

    def unhashed(self) -> Line:
        return replace(self, text=HASH.sub("", self.text))

    def applies(self, environment: Mapping[str, str]) -> bool:
        """Return whether its marker holds; True if it has none, or one that only pip may understand."""
        head = OWN_OPTIONS.split(self.text, maxsplit=1)[0]
        _, _, marker = head.partition("; " if "://" in head else ";")
        try:
            return not marker or Marker(marker.strip()).evaluate(dict(environment))
        except (ValueError, TypeError):
            return True


@dataclass(frozen=True)
class Requirements:
    """The requirements, constraints and options of all files together."""

    lines: list[Line] = field(default_factory=list)
    constraints: list[Line] = field(default_factory=list)
    options: list[str] = field(default_factory=list)  # for all lines, in pip's syntax
    links: list[Path] = field(default_factory=list)  # paths of this machine that --find-links names
    refused: list[RequirementsError] = field(default_factory=list)  # what a package's build may not be given
    notes: list[str] = field(default_factory=list)  # what the user is to know of these files and this variant

    def require_allowed(self) -> None:
        """Raise the first error of what a package's build may not be given."""
        for error in self.refused:
            raise error

    @property
    def hashed(self) -> bool:
        """Return whether pip checks hashes: of every line, if one line or an option asks for it."""
        return "--require-hashes" in self.options or any("--hash" in line.text for line in self.lines)

    @property
    def variables(self) -> list[str]:
        """Return the environment variables that the files name and pip expands."""
        texts = [*self.options, *(line.text for line in (*self.lines, *self.constraints))]
        return sorted({name for text in texts for name in VARIABLE.findall(text)})


class Reader:
    """Collects the lines of the files in order; a file that is included twice is read twice, as pip does."""

    def __init__(self, read_text: ReadText, exists: Exists, folders: Sequence[Path]) -> None:
        self._read_text, self._exists = read_text, exists
        self._folders = list(dict.fromkeys(map(real_path, folders)))
        self._open: list[Path] = []
        self._files = 0
        self.read = Requirements()

    def file(self, path: Path, asked_by: str, *, is_constraint: bool) -> None:
        if path in self._open:
            raise RequirementsError(file=asked_by, found=f"{path} includes itself", todo="Remove one of the -r lines.")
        self._files += 1
        if self._files > MOST_FILES:
            raise RequirementsError(
                file=asked_by, found=f"more than {MOST_FILES} files are included", todo="Include each file once."
            )
        self._open.append(path)
        for number, text in logical_lines(self.text(path, asked_by)):
            self.line(path, number, text, is_constraint=is_constraint)
        self._open.pop()

    def text(self, path: Path, asked_by: str) -> str:
        named = {"file": str(path)} if not asked_by else {"file": asked_by, "key": str(path)}
        try:
            return self._read_text(path).removeprefix("\ufeff")
        except UnicodeDecodeError:
            raise RequirementsError(**named, found="the file is not UTF-8", todo="Save it as UTF-8.") from None
        except OSError as error:
            said = (error.strerror or str(error)).lower()
            raise RequirementsError(
                **named, found=f"the file cannot be read ({said})", todo="Name an existing requirements file."
            ) from None

    def line(self, path: Path, number: int, text: str, *, is_constraint: bool) -> None:
        line = Line(text[:LONGEST_LINE], str(path), number)
        if line.text != text:
            raise _wrong(line, f"the line has more than {LONGEST_LINE} characters", "Shorten it.")
        try:
            self._read_line(line, is_constraint)
        except (ValueError, RecursionError) as error:  # `https://[::1`
            raise _wrong(line, f"'{text}' cannot be read ({error})", "Correct the line.") from None

    def _read_line(self, line: Line, is_constraint: bool) -> None:
        text = line.text
        if here := host_of_this_machine(text):
            todo = "Name it by an address that containers reach."
            self.read.refused.append(
                _wrong(line, f"'{here}' is the container itself, in which packages are built", todo)
            )
        if not text.startswith("-"):
            self._add(self.requirement(line), is_constraint)
            return
        # pip takes several options in a line; those after an editable requirement belong to it.
        for part in [text] if text.startswith(EDITABLE) else OWN_OPTIONS.split(text):
            self._read_option(replace(line, text=part), is_constraint)

    def _read_option(self, line: Line, is_constraint: bool) -> None:
        option, words = self._option(line)
        value = " ".join(words)
        if option in {"--requirement", "--constraint"}:
            self._include(line, value, is_constraint=option == "--constraint")
        elif option == "--editable":
            # An editable install is audited as a wheel.
            self._add(self.requirement(replace(line, text=value)), is_constraint)
        elif option == "--find-links":
            self._find_links(line, value)
        else:
            self.read.options.append(shlex.join([option, *words]))  # pip splits it again

    def _add(self, line: Line, is_constraint: bool) -> None:
        (self.read.constraints if is_constraint else self.read.lines).append(line)

    def _option(self, line: Line) -> tuple[str, list[str]]:
        """Return an option and its value in words, split as a shell does: so pip's parser reads them."""
        parts = OPTION.match(line.text)
        option = SHORT.get(parts[1], parts[1]) if parts else ""
        value = (parts[2] if parts else "").strip()
        if option not in GLOBAL and option not in SHORT.values():
            raise _wrong(line, f"'{line.text}' is not an option of requirements files", "Remove or correct it.")
        if GLOBAL.get(option, True) != bool(value):
            said = "needs a value" if GLOBAL.get(option, True) else "takes no value"
            raise _wrong(line, f"{option} {said}", "Correct the line.")
        # A marker after an editable requirement has quotes of its own.
        return option, [value] if option == "--editable" and value[0] not in "'\"" else shlex.split(value)

    def _include(self, line: Line, value: str, *, is_constraint: bool) -> None:
        if "://" in value:
            raise _wrong(line, f"'{value}' is a URL", "Download the file, and include the copy.")
        self.file(Path(line.file).parent / value, f"{line.file}:{line.number}", is_constraint=is_constraint)

    def _find_links(self, line: Line, value: str) -> None:
        if "://" in value and not value.startswith("file:"):
            self.read.options.append(f"--find-links {shlex.quote(value)}")
            return
        path = self._on_this_machine(line, plain_path(value))
        if path is None:
            raise _wrong(line, f"'{value}' is neither a URL nor a folder", "Correct the line.")
        self.read.links.append(path)

    def requirement(self, line: Line) -> Line:
        """Return a line with its name and path; RequirementsError if it is neither a requirement, a URL nor a path."""
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
        """Return whether pip takes the text for a path: a slash, a leading dot, or an existing archive's name."""
        if "/" in text or text.startswith((".", "file:")):
            return True
        return text.endswith(ARCHIVE) and self._on_this_machine(line, Path(text)) is not None

    def _on_this_machine(self, line: Line, path: Path) -> Path | None:
        """Return the path below the current folder, where pip looks, or else below the folder of the file.

        A path that leads elsewhere is refused, because a package's code can send away what is copied into its build.
        """
        for place in (path, Path(line.file).parent / path):
            if self._exists(place):
                if not any(real_path(place).is_relative_to(folder) for folder in self._folders):
                    problem = f"'{path}' is outside of {' and '.join(map(str, self._folders))}"
                    todo = "Copy it there, or call Interlock in a folder that has both."
                    self.read.refused.append(_wrong(line, problem, todo))
                return place
        return None


def hosts_in(text: str) -> list[str]:
    """Return the hosts of the URLs in a text."""
    return HOST.findall(text)


def host_of_this_machine(text: str) -> str:
    """Return the host of the first URL in a text that names its reader's own machine (localhost); empty without one."""
    for host in hosts_in(text):
        with suppress(ValueError):
            if host == "localhost" or (address := ip_address(host.strip("[]"))).is_loopback or address.is_unspecified:
                return str(host)
    return ""


def _wrong(line: Line, problem: str, todo: str) -> RequirementsError:
    return RequirementsError(file=line.file, key=f"line {line.number}", found=problem, todo=todo)


def local_places(wanted: Requirements, folder: str) -> dict[Path, str]:
    """Return the path in a container, below `folder`, of each path of this machine; files keep their names."""
    paths = dict.fromkeys(line.path for line in (*wanted.lines, *wanted.constraints) if line.path)
    return {
        path: f"{folder}/{number}" + (f"/{path.name}" if path.name.endswith(ARCHIVE) else "")
        for number, path in enumerate(paths)
    }


def pip_lines(lines: Iterable[Line], places: Mapping[Path, str]) -> list[str]:
    """Return the lines for pip in a container, with paths of the container."""
    return [line.text.replace("{path}", places[line.path]) if line.path else line.text for line in lines]


def line_for(wanted: Requirements, name: str, place: str, places: Mapping[Path, str]) -> Line | None:
    """Return the first line that asks for a package by its name or its path; None if none does."""
    for line in wanted.lines:
        if line.name:
            if line.name == canonicalize_name(name):
                return line
        elif line.path is not None:
            if place.removeprefix("file://") == places[line.path]:
                return line
        elif place and without_user(place) in without_user(line.text):
            return line
    return None


def called(line: Line, among: Iterable[Line]) -> str:
    """Return what a line's package is called: by its name or, if that is not known, by its folder or address.

    A folder has its path where another line is called by the same name.
    """
    if line.name or line.path is None:
        return line.name or without_user(line.text)
    own = real_path(line.path)
    others = [other for other in among if other.path is None or real_path(other.path) != own]
    names = {other.name or (real_path(other.path).name if other.path else "") for other in others}
    return str(line.path) if own.name in names else own.name


def without_user(url: str) -> str:
    """Return a URL without its user and password, which pip's report may leave out."""
    return USER.sub("://", url)


def display_text(line: Line | None) -> str:
    """Return 'file:line text' without hashes and passwords; empty without a line."""
    if line is None:
        return ""
    text = line.unhashed().text.replace("{path}", str(line.path))
    return f"{line.file}:{line.number} {USER.sub('://****@', text.strip())}"
