"""Versions of Python that a Dockerfile's instructions carry in paths, commands and names of wheels. Pure.

Whose Python such a version is decides whether a swap breaks it: what COPY takes from another stage, or a mount reads
there, is that stage's; all else is the stage's own that the instruction stands in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from interlock.swap.dockerfile import Instruction, Span, Word, is_list, line_of
from interlock.swap.images import NewImage
from interlock.swap.stages import Dockerfile, Stage, arguments_of, unquoted
from interlock.swap.variables import Unset, expand

# Names of Debian's packages, and tags of images: no part of python:X, so they stay.
PACKAGE = r"(?!-(?:dev|venv|distutils|minimal|full|dbg|tk|doc|examples|slim|alpine|bookworm|bullseye|trixie)\b)"
VARIABLE = r"\$\{?[A-Za-z_]\w*\}?"
TOKEN = re.compile(
    rf"(?<![A-Za-z0-9_])(?P<command>(?:lib)?(?:python|pypy))(?P<version>\d+\.\d+[a-z]{{0,2}}|{VARIABLE})"
    rf"(?![A-Za-z0-9_]|\.\d){PACKAGE}"
    r"|(?<![A-Za-z0-9_.-])(?P<script>pip|pydoc|idle|2to3-)(?P<script_version>\d+\.\d+)(?![A-Za-z0-9_]|\.\d)"
    r"|(?<![A-Za-z0-9])(?P<wheel>cp\d{2,3}-(?:cp\d{2,3}[a-z]{0,2}|abi3))(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9])(?P<module>cpython-\d{2,3}[a-z]{0,2})(?![A-Za-z0-9])"
    rf"|(?:(?<=--python )|(?<=--python=)|(?<=UV_PYTHON=))(?P<option>\d+\.\d+t?|{VARIABLE})(?![A-Za-z0-9_.])"
)
# A default that names an image: its tag is no path, and whether a FROM line takes it may change with a swap.
IMAGE = re.compile(r"(?!/)(?:[^/\s]+\.[^/\s]+/|\S*[:@])")
# Where Debian has its own Python.
SYSTEM = ("/usr/lib/", "/usr/bin/", "/usr/include/", "/usr/share/")
PATH_START = re.compile(r"[^:=,;()\"']*\Z")
# Names of packages, which a version is a part of.
INSTALLED = re.compile(r"\b(?:apt-get|apt|aptitude|apk)\b[^;&|]*\b(?:install|add)\b[^;&|]*")
# What no program ever reads.
WITHOUT_PATHS = frozenset({"FROM", "LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "USER"})
# What python:X itself sets, to 3.12.4: a build argument of this name has no effect in its stages.
OF_THE_IMAGE = frozenset({"PYTHON_VERSION"})
FROM_OPTION = re.compile(r"(?:^--from=|[=,]from=)([^,\s]+)")
MOUNT_SOURCE = re.compile(r"(?<=[=,])(?:source|src)=[^,\s]*")
DIGITS = re.compile(r"(\d)(\d+)")


@dataclass(frozen=True)
class FoundPath:
    """A version that stands in an instruction: where, what it is now and would be, and why it stays if it must."""

    line: int
    old: str
    new: str
    edited: bool
    reason: str = ""  # of one that is not edited even under --paths


@dataclass(frozen=True)
class Token:
    """One version in the text, the word that it is in, and whose Python it is."""

    match: re.Match[str]
    word: str
    owner: int | None  # the root of a stage, or ANY_STAGE; None of an image or a file from elsewhere
    context: bool  # of a file that COPY or ADD brings from outside

    @property
    def text(self) -> str:
        return self.match[0]

    @property
    def span(self) -> Span:
        return Span(*self.match.span())


# Above the first stage: what is said there may be meant for each.
ANY_STAGE = -1


def tokens(dockerfile: Dockerfile, stage: Stage | None, instruction: Instruction) -> list[Token]:
    """The versions of an instruction, in their order. Their number does not change when they are swapped."""
    if instruction.keyword in WITHOUT_PATHS:
        return []
    text = dockerfile.text
    left_out = [one.span for one in dockerfile.arguments.values() if IMAGE.match(unquoted(one.raw))]
    packages = _packages(text, instruction)
    found = []
    for piece in instruction.pieces:
        for match in TOKEN.finditer(text, piece.start, piece.end):
            word = _word(text, match.start(), piece)
            before = PATH_START.search(word.of(text)[: match.start() - word.start])
            path = before[0] if before else ""
            if path.startswith(SYSTEM) or any(_in(span, match) for span in left_out):
                continue
            if "/" in path or not any(_in(span, match) for span in packages):
                source = _source(dockerfile, stage, instruction, match.start())
                found.append(Token(match, word.of(text), *source))
    return found


def _in(span: Span, match: re.Match[str]) -> bool:
    return span.start <= match.start() < span.end


def _packages(text: str, instruction: Instruction) -> list[Span]:
    """Where an instruction names Debian's packages, in its own lines or in those of a heredoc."""
    joined = [instruction.word(*match.span()).span for match in INSTALLED.finditer(instruction.text)]
    lines = [match for piece in instruction.pieces for match in INSTALLED.finditer(text, piece.start, piece.end)]
    return [*joined, *(Span(*match.span()) for match in lines)]


def _word(text: str, at: int, piece: Span) -> Span:
    """The part between blanks that a place is in."""
    start = max(piece.start, *(text.rfind(blank, piece.start, at) + 1 for blank in " \t"))
    ends = [end for blank in " \t" if (end := text.find(blank, at, piece.end)) >= 0]
    return Span(start, min(ends, default=piece.end))


def _source(dockerfile: Dockerfile, stage: Stage | None, instruction: Instruction, at: int) -> tuple[int | None, bool]:
    """Whose Python the file at this place belongs to, and whether it is brought from outside."""
    if stage is None:
        return ANY_STAGE, False
    copied = instruction.keyword in {"COPY", "ADD"} and at < _target(instruction)
    for flag in instruction.flags:
        named = FROM_OPTION.search(flag.text)
        if named and (copied or any(span.start <= at < span.end for span in _mounted(instruction, flag))):
            return _root(dockerfile, stage, named[1]), False
    return (None, True) if copied else (dockerfile.root_of(stage).index, False)


def _mounted(instruction: Instruction, flag: Word) -> list[Span]:
    """Where a mount says what it takes from its source."""
    at = instruction.offsets.index(flag.span.start)
    found = MOUNT_SOURCE.finditer(flag.text)
    return [instruction.word(at + match.start(), at + match.end()).span for match in found]


def _root(dockerfile: Dockerfile, stage: Stage, name: str) -> int | None:
    found = dockerfile.find(name.strip("\"'"), stage.index)
    return None if found is None else dockerfile.root_of(found).index


def _target(instruction: Instruction) -> int:
    """Where the last argument of COPY or ADD starts: the place in this stage."""
    arguments = instruction.arguments
    if not arguments:
        return instruction.start
    text = instruction.text
    if is_list(text[text.find("[") :] if "[" in text else ""):
        return instruction.offsets[text.rfind('"', 0, text.rfind('"'))]
    return arguments[-1].span.start


@dataclass(frozen=True)
class Carrier:
    """An instruction with its versions; of those that a swap breaks, what each has to become."""

    instruction: Instruction
    versions: tuple[tuple[Token, FoundPath | None], ...]

    @property
    def found(self) -> list[FoundPath]:
        return [path for _, path in self.versions if path is not None]


def carriers(dockerfile: Dockerfile, chosen: Collection[Stage], to: NewImage) -> list[Carrier]:
    """The instructions that carry the version of the chosen stages."""
    old: dict[int | None, str | None]
    old = {stage.index: stage.python.python if stage.python else None for stage in chosen}
    old[ANY_STAGE] = next(iter(old.values()), None)
    carried = [
        (instruction, tokens(dockerfile, stage, instruction), _values(dockerfile, stage, instruction))
        for stage, instruction in every(dockerfile)
    ]
    brought = {_file(token) for _, held, _ in carried for token in held if token.context}
    found = []
    for instruction, held, values in carried:
        versions = [
            (
                token,
                _found(dockerfile.text, token, to, brought) if _breaks(token, _version(token, values), old) else None,
            )
            for token in held
        ]
        if any(path for _, path in versions):
            found.append(Carrier(instruction, tuple(versions)))
    return found


def _file(token: Token) -> str:
    return token.word.strip("\"',[]").rpartition("/")[2]


def _breaks(token: Token, version: str | None, old: Mapping[int | None, str | None]) -> bool:
    """Whether a version is the one that a swapped stage had (any, where its image's name leaves the minor one open)."""
    brought = token.context and version in old.values()
    return version is not None and (brought or (token.owner in old and old[token.owner] in {None, version}))


def every(dockerfile: Dockerfile) -> Iterator[tuple[Stage | None, Instruction]]:
    """All instructions with their stages, in order."""
    for instruction in dockerfile.head:
        yield None, instruction
    for stage in dockerfile.stages:
        yield stage, stage.instruction
        for instruction in stage.body:
            yield stage, instruction


def _values(dockerfile: Dockerfile, stage: Stage | None, instruction: Instruction) -> Mapping[str, str]:
    """The variables that the file itself sets before this instruction, as far as that is plain."""
    values = {name: one.value for name, one in dockerfile.arguments.items() if name not in OF_THE_IMAGE}
    for one in stage.body if stage else ():
        if one.line >= instruction.line:
            break
        for name, default in arguments_of(one) if one.keyword in {"ARG", "ENV"} else []:
            if default is not None and (one.keyword == "ENV" or name not in OF_THE_IMAGE):
                values[name] = unquoted(default.text)
    return values


def _version(token: Token, values: Mapping[str, str]) -> str | None:
    """As python images are called after it: 3.12, 3.14t; None of a variable that the file does not set."""
    match = token.match
    plain = match["version"] or match["script_version"] or match["option"]
    if plain is None:
        digits = DIGITS.search(match["module"] or match["wheel"])
        suffix = "t" if (match["module"] or match["wheel"]).endswith("t") else ""
        return f"{digits[1]}.{digits[2]}{suffix}" if digits else None
    try:
        return expand(plain, values).rstrip("dmu")  # 3.7m: how builds before 3.8 called their folders
    except Unset:
        return None


def _found(text: str, token: Token, to: NewImage, brought: Collection[str]) -> FoundPath | None:
    new = renamed(token.match, to)
    reason = _reason_to_stay(token, to, brought)
    line = line_of(text, token.span.start)
    return FoundPath(line, token.text, new, not reason, reason) if new != token.text else None


def renamed(match: re.Match[str], to: NewImage) -> str:
    """What a version's text becomes with the new image."""
    digits = to.python.replace(".", "")
    plain = to.python.rstrip("t")
    if match["command"]:
        return f"{'lib' if match['command'].startswith('lib') else ''}{to.implementation}{to.python}"
    if match["script"]:
        return f"{match['script']}{plain}"  # pip's and the library's scripts are named without the t
    if match["wheel"]:
        return f"cp{plain.replace('.', '')}-cp{digits}"
    return f"cpython-{digits}" if match["module"] else to.python


def _reason_to_stay(token: Token, to: NewImage, brought: Collection[str]) -> str:
    compiled = token.match["wheel"] or token.match["module"]
    if compiled and compiled.endswith("abi3"):
        return "abi3 is for builds with the GIL" if to.free_threaded else "abi3 fits later versions too"
    if compiled and to.implementation != "python":
        return f"compiled for CPython: {to.implementation} needs another file"
    if "://" in token.word:
        return "an address: only its server knows whether there is such a file"
    if token.context or (compiled and _file(token) in brought):
        return "a file from outside: bring one for the new version"
    return ""
