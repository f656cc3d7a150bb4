"""What the image lines of a file are used for, as plain data, from which all caveats are derived.

It is gathered once, by gathering.py and copied.py, and by the readers of files other than Dockerfiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from interlock.swap.caveats import Caveat
from interlock.swap.dockerfile import Stage, Taken
from interlock.swap.image_names import ImageLine
from interlock.swap.instructions import RUNS

# Where a command starts: on a line, after a sign or word of the shell, in a text for another shell, after a runner.
AT_COMMAND = (
    r"(?:^|[;&|(`]\s*|\b(?:then|do|else|sudo|exec|time|CMD(?:-SHELL)?)\s+|-l?c\s+[\"']?\s*"
    r"|\b(?:uv|poetry|pdm|pipenv|hatch)\s+run\s+(?:--\S+\s+)*)"
)
APT = re.compile(rf"{AT_COMMAND}(?:apt-get|apt|aptitude)\b[^;&|\n]*\binstall\b([^;&|\n]*)", re.MULTILINE)
PIP = re.compile(r"\bpip[\d.]*\s+(?:--\S+\s+)*(?:install|wheel|download)\b")
# The signs between commands, and how much of a command is looked at.
COMMANDS, LONGEST_COMMAND = re.compile(r"([;&|\n])"), 4096
# Keywords of uses that are not instructions.
FEATURE = "feature"  # of a devcontainer
STEP = "step"  # of a GitHub workflow: the action, followed by its inputs


@dataclass(frozen=True)
class Use:
    """A line by which a container uses its image: what it runs there, or an instruction with a path in the image."""

    line: int
    text: str  # what is run; for any other instruction all of it
    keyword: str = "CMD"
    foreign: bool = False  # whether it brings files of another Python, which stays
    expanded: str = ""  # the text with the values of its variables, where the file has them

    def __post_init__(self) -> None:
        """Cut commands that are longer than real ones, because patterns look from each word to the command's end."""
        for name in ("text", "expanded"):
            if len(value := getattr(self, name)) > LONGEST_COMMAND:
                cut = "".join(part[:LONGEST_COMMAND] for part in COMMANDS.split(value))
                object.__setattr__(self, name, cut)

    @property
    def full(self) -> str:
        """Return what is run, with variables expanded where they are known."""
        return self.expanded or self.text

    @property
    def runs(self) -> bool:
        return self.keyword in RUNS

    @cached_property
    def packages(self) -> list[str]:
        """Return the packages that it installs by apt."""
        return [*_packages(self.full)] if self.runs else []

    @cached_property
    def packages_as_written(self) -> list[str]:
        """Return the same with variables as written."""
        return [*_packages(self.text)] if self.runs else []


def _packages(text: str) -> Iterator[str]:
    """Yield the words after `apt-get install`, to the end of the line with its continuations."""
    for command in APT.finditer(text.replace("\\\n", " ")):
        yield from (word.strip("\"'") for word in command[1].split())


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a copied file, and where it is: requirements.txt:3."""

    where: str
    text: str


@dataclass(frozen=True)
class Demand:
    """The Python that a project asks for, and the installer on a line that fails if it gets another."""

    line: int
    where: str
    key: str
    versions: str
    installer: str


@dataclass(frozen=True)
class Script:
    """A shell script that a line starts: the line that copies it, and what each of its own lines runs."""

    line: int
    file: str
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class CopiedFiles:
    """The contents of files that are copied from the build context."""

    demands: tuple[Demand, ...] = ()
    required: tuple[tuple[Use, tuple[FileLine, ...]], ...] = ()  # the Python packages that each line installs
    packages: tuple[tuple[Use, tuple[FileLine, ...]], ...] = ()  # the Debian packages
    scripts: tuple[Script, ...] = ()


@dataclass(frozen=True)
class Used:
    """An image line that is swapped: what uses its image, and the platforms that it has to be for."""

    line: ImageLine
    uses: tuple[Use, ...]
    platforms: tuple[str, ...]
    files: CopiedFiles | None = None  # None in files other than Dockerfiles, where nothing is copied

    @cached_property
    def run(self) -> list[Use]:
        return [use for use in self.uses if use.runs]

    @cached_property
    def installed(self) -> frozenset[str]:
        """Return the packages that are installed there by apt."""
        return frozenset(package for use in self.uses for package in use.packages)


@dataclass(frozen=True)
class Uses:
    """How a file uses the swapped images, which files move between these and other images, and what stays."""

    lines: tuple[Used, ...]
    stays: tuple[Caveat, ...] = ()  # about what is not swapped
    coming: tuple[tuple[Stage, Taken], ...] = ()  # what a swapped stage takes from elsewhere
    leaving: tuple[tuple[Stage, Taken], ...] = ()  # what others take from a swapped one
    named: tuple[tuple[int, str], ...] = ()  # lines that take files from a Python image itself
    platforms_line: int | None = None  # the line that shows that the file is built for several platforms
