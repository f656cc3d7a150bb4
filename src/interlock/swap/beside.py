"""The files of a build context that a Dockerfile's lines name: read as far as COPY or ADD brings them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from interlock import untrusted
from interlock.swap.instructions import Instruction

# What a path in the build context has; None for one that is no file of it.
Beside = Callable[[str], str | None]
# Of one file, and how many are asked for: a lock file has half a megabyte, and most names are no files.
MOST_BESIDE, MOST_ASKED = 2 * untrusted.MIB, 200
INCLUDED = re.compile(r"^\s*(?:-r|--requirement)[\s=]+(\S+)")
MOUNTED = re.compile(r"[=,](?:source|src)=([^,\s]+)")
OF_SHELL = re.compile(r"[\s\"'$(){};&|<>=,\[\]]+")


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


@dataclass(frozen=True)
class CopiedFile:
    """A file of the build context, and the line that copies it."""

    line: int
    name: str
    text: str


@dataclass(frozen=True)
class Copied:
    """What the instructions of a stage copy from the build context."""

    beside: Beside
    sources: tuple[tuple[int, str], ...]

    @staticmethod
    def by(instructions: Sequence[Instruction], beside: Beside) -> Copied:
        """Return what these bring; what they take from a stage is none of the context."""
        taken = [
            (one.line, source)
            for one in instructions
            if one.keyword in {"COPY", "ADD"} and not any(flag.text.startswith("--from") for flag in one.flags)
            for source in one.sources
        ]
        flags = [(one.line, flag.text) for one in instructions for flag in one.flags]
        mounts = [(line, MOUNTED.search(text)) for line, text in flags if "type=bind" in text and "from=" not in text]
        taken += [(line, source[1] if source else "") for line, source in mounts]
        paths = [(line, source.removeprefix("./").strip("/")) for line, source in taken]
        return Copied(beside, tuple((line, "" if path in {".", "*"} else path) for line, path in paths))

    def find(self, name: str) -> CopiedFile | None:
        """Return the copied file that a path in the image means: the one with the longest end in common."""
        parts = [part for part in PurePosixPath(name).parts if part not in {"/", ".", ".."}]
        for line, source in self.sources if parts else ():
            for at in range(len(parts)):
                end = "/".join(parts[at:])
                for path in (source, f"{source}/{end}".lstrip("/")):
                    fits = path.endswith(end) and "*" not in path
                    text = self.beside(path) if fits else None
                    if text is not None:
                        return CopiedFile(line, path, text)
        return None

    def named_in(self, text: str) -> Iterator[CopiedFile]:
        """Yield the copied files that a command names, each once."""
        seen = set[str]()
        for word in OF_SHELL.split(text)[:MOST_ASKED]:
            file = self.find(word) if self.sources and re.search(r"\w\.\w|^\.?/", word) else None
            if file is not None and file.name not in seen:
                seen.add(file.name)
                yield file

    def with_included(self, file: CopiedFile) -> Iterator[CopiedFile]:
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
                        open_.append(CopiedFile(one.line, path, text))
