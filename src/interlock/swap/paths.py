"""Versions of Python in the paths, commands and names of wheels of a Dockerfile's instructions.

Whose Python such a version is decides whether a swap breaks it: what COPY takes from another stage, or a mount reads
there, is that stage's; all else is the stage's own that the instruction stands in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from interlock.swap.dockerfile import (
    Dockerfile,
    Instruction,
    Span,
    Stage,
    Word,
    arguments_of,
    is_list,
    line_of,
    unquoted,
)
from interlock.swap.image_names import NewImage, UnsetVariable, expand

# Suffixes of Debian packages and of image tags: these versions are not python:X's, so they stay.
PACKAGE = r"(?!-(?:dev|venv|distutils|minimal|full|dbg|tk|doc|examples|slim|alpine|bookworm|bullseye|trixie)\b)"
VARIABLE = r"\$\{?[A-Za-z_]\w*\}?"
VERSION_TOKEN = re.compile(
    rf"(?<![A-Za-z0-9_])(?P<command>(?:lib)?(?:python|pypy))(?P<version>\d+\.\d+[a-z]{{0,2}}|{VARIABLE})"
    rf"(?![A-Za-z0-9_]|\.\d){PACKAGE}"
    r"|(?<![A-Za-z0-9_.-])(?P<script>pip|pydoc|idle|2to3-)(?P<script_version>\d+\.\d+)(?![A-Za-z0-9_]|\.\d)"
    r"|(?<![A-Za-z0-9])(?P<wheel>cp\d{2,3}-(?:cp\d{2,3}[a-z]{0,2}|abi3))(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9])(?P<module>cpython-\d{2,3}[a-z]{0,2})(?![A-Za-z0-9])"
    rf"|(?:(?<=--python )|(?<=--python=)|(?<=[ \t]-p )|(?<=UV_PYTHON=))(?P<option>\d+\.\d+t?|{VARIABLE})"
    r"(?![A-Za-z0-9_.])"
)
# A default that names an image: its tag is not a path.
IMAGE = re.compile(r"(?!/)(?:[^/\s]+\.[^/\s]+/|\S*[:@])")
# Where Debian's own Python is.
SYSTEM = ("/usr/lib/", "/usr/bin/", "/usr/include/", "/usr/share/")
# Where a Python is that was brought along.
BROUGHT = re.compile(r"/[^/\s]*(?:conda|mamba|miniforge)|/\.?pyenv/")
# What is in front of a path in a word; and how far around a version the word is read (PATH_MAX of Linux).
BEFORE_PATH = ":=,;()\"'"
LONGEST_PATH = 4096
# Package names, some of which contain a version.
INSTALLED = re.compile(
    r"\b(?:apt-get|apt|aptitude|apk|dnf|microdnf|yum|tdnf|zypper)\b[^;&|]*\b(?:install|add)\b[^;&|]*"
)
# Instructions that no program reads.
WITHOUT_PATHS = frozenset({"FROM", "LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "USER"})
# What of a Python's own files makes a stage without Python run that one: `COPY --from=build /usr/local /usr/local`.
INTERPRETER = re.compile(
    r"/(?:usr(?:/local)?(?:/(?:bin|lib))?|opt)?/?|.*/(?:lib|bin)/(?:python|pypy)[\d.]*[a-z]{0,2}\*?/?"
)
FROM_OPTION = re.compile(r"(?:^--from=|[=,]from=)([^,\s]+)")
MOUNT_SOURCE = re.compile(r"(?<=[=,])(?:source|src)=[^,\s]*")
DIGITS = re.compile(r"(\d)(\d+)")
# What is above the first stage may be meant for any stage.
ANY_STAGE = -1


@dataclass(frozen=True)
class FoundVersion:
    """A version in an instruction: its line, its text now and after the swap, and the reason if it must stay."""

    line: int
    old: str
    new: str
    edited: bool
    reason: str = ""  # why it is not edited even with --paths


@dataclass(frozen=True)
class VersionToken:
    """A version in the text, the word around it, and the stage whose Python it is."""

    match: re.Match[str]
    word: str
    owner: int | None  # the root stage, or ANY_STAGE; None for files of other images or of the build context
    context: bool  # in the name of a file that COPY or ADD takes from the build context

    @property
    def text(self) -> str:
        return self.match[0]

    @property
    def span(self) -> Span:
        return Span(*self.match.span())


def version_tokens(dockerfile: Dockerfile, stage: Stage | None, instruction: Instruction) -> list[VersionToken]:
    """Return the versions of an instruction, in their order. A swap does not change their number."""
    if instruction.keyword in WITHOUT_PATHS:
        return []
    text = dockerfile.text
    left_out = [one.span for one in dockerfile.arguments.values() if IMAGE.match(unquoted(one.raw))]
    packages = _packages(text, instruction)
    found = []
    for piece in instruction.pieces:
        for match in VERSION_TOKEN.finditer(text, piece.start, piece.end):
            word = _word(text, match.start(), piece)
            start = max(text.rfind(mark, word.start, match.start()) + 1 for mark in BEFORE_PATH)
            path = text[max(start, word.start) : match.start()]
            if path.startswith(SYSTEM) or BROUGHT.search(path) or any(_in(span, match) for span in left_out):
                continue
            if "/" in path or not any(_in(span, match) for span in packages):
                source = _source(dockerfile, stage, instruction, match.start())
                found.append(VersionToken(match, word.of(text), *source))
    return found


def _in(span: Span, match: re.Match[str]) -> bool:
    return span.start <= match.start() < span.end


def _packages(text: str, instruction: Instruction) -> list[Span]:
    """Return where an instruction names Debian packages, in its own lines or in a heredoc."""
    joined = [instruction.word(*match.span()).span for match in INSTALLED.finditer(instruction.text)]
    lines = [match for piece in instruction.pieces for match in INSTALLED.finditer(text, piece.start, piece.end)]
    return [*joined, *(Span(*match.span()) for match in lines)]


def _word(text: str, at: int, piece: Span) -> Span:
    """Return the span of the word, between blanks, around a position; of a longer one than any path a part."""
    first, last = max(piece.start, at - LONGEST_PATH), min(piece.end, at + LONGEST_PATH)
    start = max(first, *(text.rfind(blank, first, at) + 1 for blank in " \t"))
    ends = [end for blank in " \t" if (end := text.find(blank, at, last)) >= 0]
    return Span(start, min(ends, default=last))


def _source(dockerfile: Dockerfile, stage: Stage | None, instruction: Instruction, at: int) -> tuple[int | None, bool]:
    """Return whose Python the file at this position is of, and whether it is from the build context."""
    if stage is None:
        return ANY_STAGE, False
    copied = instruction.keyword in {"COPY", "ADD"} and at < _target(instruction)
    for flag in instruction.flags:
        named = FROM_OPTION.search(flag.text)
        if named and (copied or any(span.start <= at < span.end for span in _mounted(instruction, flag))):
            return _root(dockerfile, stage, named[1]), False
    return (None, True) if copied else (python_of(dockerfile, stage), False)


def python_of(dockerfile: Dockerfile, stage: Stage) -> int:
    """Return the root stage of the Python that a stage runs: its own, or the one that is copied into it whole."""
    root = dockerfile.root_of(stage)
    if root.python is not None:
        return root.index
    for instruction in stage.body if stage.parent is None else (*root.body, *stage.body):
        for flag in instruction.flags if instruction.keyword == "COPY" else ():
            named = FROM_OPTION.search(flag.text)
            source = dockerfile.find(named[1].strip("\"'"), stage.index) if named else None
            if source is None or dockerfile.root_of(source).python is None:
                continue
            if any(INTERPRETER.fullmatch(path) for path in copied_paths(instruction)):
                return dockerfile.root_of(source).index
    return root.index


def copied_paths(instruction: Instruction) -> list[str]:
    """Return the sources of a COPY, in a list or in words."""
    end = _target(instruction)
    words = [word.text for word in instruction.arguments if word.span.start < end]
    return [word.strip("[],\"'") for word in words]


def _mounted(instruction: Instruction, flag: Word) -> list[Span]:
    """Return where a mount names its source."""
    at = instruction.offsets.index(flag.span.start)
    found = MOUNT_SOURCE.finditer(flag.text)
    return [instruction.word(at + match.start(), at + match.end()).span for match in found]


def _root(dockerfile: Dockerfile, stage: Stage, name: str) -> int | None:
    found = dockerfile.find(name.strip("\"'"), stage.index)
    return None if found is None else dockerfile.root_of(found).index


def _target(instruction: Instruction) -> int:
    """Return where the last argument of COPY or ADD starts: the target."""
    arguments = instruction.arguments
    if not arguments:
        return instruction.start
    text = instruction.text
    if is_list(text[text.find("[") :] if "[" in text else ""):
        return instruction.offsets[text.rfind('"', 0, text.rfind('"'))]
    return arguments[-1].span.start


@dataclass(frozen=True)
class VersionedInstruction:
    """An instruction with its versions, each with its replacement if a swap breaks it."""

    instruction: Instruction
    versions: tuple[tuple[VersionToken, FoundVersion | None], ...]

    @property
    def found(self) -> list[FoundVersion]:
        return [path for _, path in self.versions if path is not None]


def versioned_instructions(
    dockerfile: Dockerfile, chosen: Collection[Stage], to: NewImage
) -> list[VersionedInstruction]:
    """Return the instructions with versions of the chosen stages."""
    old: dict[int | None, str | None]
    old = {stage.index: stage.python.python if stage.python else None for stage in chosen}
    old[ANY_STAGE] = next(iter(old.values()), None)
    carried = [
        (instruction, version_tokens(dockerfile, stage, instruction), _known_variables(dockerfile, stage, instruction))
        for stage, instruction in every_instruction(dockerfile)
    ]
    brought = {_file_name(token) for _, held, _ in carried for token in held if token.context}
    found = []
    for instruction, held, values in carried:
        versions = [
            (
                token,
                _found_version(dockerfile.text, token, to, brought)
                if _breaks(token, _version(token, values), old)
                else None,
            )
            for token in held
        ]
        if any(path for _, path in versions):
            found.append(VersionedInstruction(instruction, tuple(versions)))
    return found


def _file_name(token: VersionToken) -> str:
    return token.word.strip("\"',[]").rpartition("/")[2]


def _breaks(token: VersionToken, version: str | None, old: Mapping[int | None, str | None]) -> bool:
    """Return whether a version is that of a swapped stage's image (any version if the image's name has none)."""
    brought = token.context and version in old.values()
    return version is not None and (brought or (token.owner in old and old[token.owner] in {None, version}))


def every_instruction(dockerfile: Dockerfile) -> Iterator[tuple[Stage | None, Instruction]]:
    """Yield all instructions with their stages, in order."""
    for instruction in dockerfile.head:
        yield None, instruction
    for stage in dockerfile.stages:
        yield stage, stage.instruction
        for instruction in stage.body:
            yield stage, instruction


def _known_variables(dockerfile: Dockerfile, stage: Stage | None, instruction: Instruction) -> Mapping[str, str]:
    """Return the variables that ARG and ENV set before this instruction.

    python:X sets PYTHON_VERSION itself, to 3.12.4: a path with it is meant for the build argument of that name.
    """
    values = {name: one.value for name, one in dockerfile.arguments.items()}
    for one in stage.body if stage else ():
        if one.line >= instruction.line:
            break
        for name, default in arguments_of(one) if one.keyword in {"ARG", "ENV"} else []:
            if default is not None:
                values[name] = unquoted(default.text)
    return values


def _version(token: VersionToken, values: Mapping[str, str]) -> str | None:
    """Return the version as in image names: 3.12, 3.14t; None for a variable without a known value."""
    match = token.match
    plain = match["version"] or match["script_version"] or match["option"]
    if plain is None:
        digits = DIGITS.search(match["module"] or match["wheel"])
        suffix = "t" if (match["module"] or match["wheel"]).endswith("t") else ""
        return f"{digits[1]}.{digits[2]}{suffix}" if digits else None
    try:
        return expand(plain, values).rstrip("dmu")  # builds before 3.8 have folders named 3.7m
    except UnsetVariable:
        return None


def _found_version(text: str, token: VersionToken, to: NewImage, brought: Collection[str]) -> FoundVersion | None:
    new = renamed(token.match, to)
    reason = _reason_to_stay(token, to, brought)
    line = line_of(text, token.span.start)
    return FoundVersion(line, token.text, new, not reason, reason) if new != token.text else None


def renamed(match: re.Match[str], to: NewImage) -> str:
    """Return a version's text for the new image."""
    digits = to.python.replace(".", "")
    plain = to.python.rstrip("t")
    if match["command"]:
        return f"{'lib' if match['command'].startswith('lib') else ''}{to.implementation}{to.python}"
    if match["script"]:
        return f"{match['script']}{plain}"  # scripts are named without the t
    if match["wheel"]:
        return f"cp{plain.replace('.', '')}-cp{digits}"
    return f"cpython-{digits}" if match["module"] else to.python


def _reason_to_stay(token: VersionToken, to: NewImage, brought: Collection[str]) -> str:
    compiled = token.match["wheel"] or token.match["module"]
    if compiled and compiled.endswith("abi3"):
        return "abi3 is for builds with the GIL" if to.free_threaded else "abi3 fits later versions too"
    if compiled and to.implementation != "python":
        return f"compiled for CPython: {to.implementation} needs another file"
    if "://" in token.word:
        return "an address: whether that file exists is not known"
    if token.context or (compiled and _file_name(token) in brought):
        return "a file of the build context: provide one for the new version"
    return ""
