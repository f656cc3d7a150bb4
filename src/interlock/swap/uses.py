"""What the image lines of a file are used for, as plain data: all that caveats are told from.

It is gathered once, by gathering.py and copied.py, and by the readers of other files than Dockerfiles.
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

# Where a command starts: a line, behind a sign or a word of the shell, in a text for another shell, or for a runner.
AT_COMMAND = (
    r"(?:^|[;&|(`]\s*|\b(?:then|do|else|sudo|exec|time|CMD(?:-SHELL)?)\s+|-l?c\s+[\"']?\s*"
    r"|\b(?:uv|poetry|pdm|pipenv|hatch)\s+run\s+(?:--\S+\s+)*)"
)
APT = re.compile(rf"{AT_COMMAND}(?:apt-get|apt|aptitude)\b[^;&|\n]*\binstall\b([^;&|\n]*)", re.MULTILINE)
PIP = re.compile(r"\bpip[\d.]*\s+(?:--\S+\s+)*(?:install|wheel|download)\b")
# Signs between commands, and how much of a command is looked at.
COMMANDS, LONGEST_COMMAND = re.compile(r"([;&|\n])"), 4096
# Keywords of uses that no instruction has.
FEATURE = "feature"  # of a devcontainer
STEP = "step"  # of a workflow of GitHub's: the action, and behind it what it is told


@dataclass(frozen=True)
class Use:
    """A line by which a container uses its image: what it runs there, or an instruction with a path in the image."""

    line: int
    text: str  # of what is run; of any other instruction all of it
    keyword: str = "CMD"
    foreign: bool = False  # it brings files of another Python, which stays
    expanded: str = ""  # the text with the values of its variables, as far as the file has them

    def __post_init__(self) -> None:
        """Leave out what of one command is longer than any is: patterns look from each word of it to its end."""
        for name in ("text", "expanded"):
            if len(value := getattr(self, name)) > LONGEST_COMMAND:
                cut = "".join(part[:LONGEST_COMMAND] for part in COMMANDS.split(value))
                object.__setattr__(self, name, cut)

    @property
    def full(self) -> str:
        """Return what is run, as far as it is known."""
        return self.expanded or self.text

    @property
    def runs(self) -> bool:
        return self.keyword in RUNS

    @cached_property
    def packages(self) -> list[str]:
        """Return what it installs by apt."""
        return [*_packages(self.full)] if self.runs else []

    @cached_property
    def packages_as_written(self) -> list[str]:
        """Return the same with variables as they stand there."""
        return [*_packages(self.text)] if self.runs else []


def _packages(text: str) -> Iterator[str]:
    """Yield the words behind `apt-get install`, to the end of the line or where it goes on in the next one."""
    for command in APT.finditer(text.replace("\\\n", " ")):
        yield from (word.strip("\"'") for word in command[1].split())


@dataclass(frozen=True, slots=True)
class FileLine:
    """A line of a copied file, and where it is: requirements.txt:3."""

    where: str
    text: str


@dataclass(frozen=True)
class Demand:
    """The Python that a project asks for, and what ends on the line that installs it if it gets another."""

    line: int
    where: str
    key: str
    versions: str
    installer: str


@dataclass(frozen=True)
class Script:
    """A script of the shell that a line starts: the line that copies it, and what each of its own lines runs."""

    line: int
    file: str
    uses: tuple[Use, ...]


@dataclass(frozen=True)
class CopiedFiles:
    """What the files say that are copied from the build context."""

    demands: tuple[Demand, ...] = ()
    required: tuple[tuple[Use, tuple[FileLine, ...]], ...] = ()  # the packages of Python's that each line installs
    packages: tuple[tuple[Use, tuple[FileLine, ...]], ...] = ()  # those of Debian's
    scripts: tuple[Script, ...] = ()


@dataclass(frozen=True)
class Used:
    """An image line that is swapped: what uses its image, and the platforms that it is asked for."""

    line: ImageLine
    uses: tuple[Use, ...]
    platforms: tuple[str, ...]
    files: CopiedFiles | None = None  # None where nothing is copied: in other files than Dockerfiles

    @cached_property
    def run(self) -> list[Use]:
        """Return what runs there."""
        return [use for use in self.uses if use.runs]

    @cached_property
    def installed(self) -> frozenset[str]:
        """Return the packages that are installed there by apt."""
        return frozenset(package for use in self.uses for package in use.packages)


@dataclass(frozen=True)
class Uses:
    """What a file uses of the images that are swapped, what goes between them and others, and what of it stays."""

    lines: tuple[Used, ...]
    stays: tuple[Caveat, ...] = ()  # told by who read the file
    unknown: tuple[Stage, ...] = ()  # whose images have a variable without a value
    coming: tuple[tuple[Stage, Taken], ...] = ()  # what a swapped stage takes from elsewhere
    leaving: tuple[tuple[Stage, Taken], ...] = ()  # what others take from a swapped one
    named: tuple[tuple[int, str], ...] = ()  # lines that take files from a Python image itself
    platforms_line: int | None = None  # the line that shows that the file is built for several platforms
