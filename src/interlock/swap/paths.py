"""Versions of Python in paths, commands and names of wheels: which of them a swap breaks, and what they become.

Only those of a Dockerfile are edited. A swap breaks a version if it swaps the Python that the version belongs to: for
what COPY takes from another stage, or a mount reads there, that stage's; for all else, that of the instruction's stage.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from interlock.swap.dockerfile import Dockerfile, Stage
from interlock.swap.image_names import NewImage
from interlock.swap.instructions import Instruction, Span, line_of
from interlock.swap.manifests import ImageManifest, ParsedFile
from interlock.swap.variables import NoValue, expand

# Suffixes of Debian packages and of image tags. These versions are not those of python:X, so they stay.
PACKAGE = r"(?!-(?:dev|venv|distutils|minimal|full|dbg|tk|doc|examples|slim|alpine|bookworm|bullseye|trixie)\b)"
ONE_VARIABLE = r"\$(?:\{[A-Za-z_]\w*(?:[%#:/][^\s{}]*)?\}|[A-Za-z_]\w*)"
VARIABLE = rf"(?:\d+\.{ONE_VARIABLE}|{ONE_VARIABLE}(?:\.(?:{ONE_VARIABLE}|\d+))?)"
VERSION_TOKEN = re.compile(
    rf"(?:(?<![A-Za-z0-9_])|(?<=[ \"']-l))(?P<command>(?:lib)?(?:python|pypy))"
    rf"(?P<version>\d+\.\d+[a-z]{{0,2}}|{VARIABLE})"
    rf"(?![A-Za-z0-9_]|\.\d){PACKAGE}"
    rf"|(?<![A-Za-z0-9_.-])(?P<script>pip|pydoc|idle|2to3-)(?P<script_version>\d+\.\d+|{VARIABLE})(?![A-Za-z0-9_]|\.\d)"
    r"|(?<![A-Za-z0-9])(?P<wheel>cp\d{2,3}-(?:cp\d{2,3}[a-z]{0,2}|abi3))(?![A-Za-z0-9])"
    r"|(?<![A-Za-z0-9])(?P<module>cpython-\d{2,3}[a-z]{0,2})(?![A-Za-z0-9])"
    r"|(?:(?<=--python[ =])|(?<=[ \t]-p )|(?<=UV_PYTHON=)"
    r"|(?<=--python[ =][\"'])|(?<=[ \t]-p [\"'])|(?<=UV_PYTHON=[\"']))"
    rf"(?P<option>\d+\.\d+(?:\.\d+)?t?|{VARIABLE})"
    r"(?![A-Za-z0-9_.])"
)
# Folders of Debian's own Python.
SYSTEM = ("/usr/lib/", "/usr/bin/", "/usr/include/", "/usr/share/")
# Shows that a linker's `-lpython3.X` is Debian's too.
SYSTEM_HEADERS = "-I/usr/include/python"
# Folders of a Python that was brought along.
BROUGHT = re.compile(r"/[^/\s]*(?:conda|mamba|miniforge)|/\.?pyenv/")
# What may precede a path in a word, and how far around a version the word is read (Linux's PATH_MAX).
BEFORE_PATH = ":=,;()\"'"
LONGEST_PATH = 4096
# Package names, some of which contain a version.
INSTALLED = re.compile(
    r"\b(?:apt-get|apt|aptitude|apk|dnf|microdnf|yum|tdnf|zypper)\b[^;&|]*\b(?:install|add)\b[^;&|]*"
)
# Instructions whose text no program uses as a path.
WITHOUT_PATHS = frozenset({"FROM", "LABEL", "MAINTAINER", "EXPOSE", "STOPSIGNAL", "USER"})
PATCH = re.compile(r"^(\d+\.\d+)\.\d+(t?)$")
DIGITS = re.compile(r"(\d)(\d+)")
# Stands for the stage of what is above the first one, which may be meant for any stage.
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
    """A version in the text, the word around it, the stage that its Python belongs to, and what becomes of it."""

    match: re.Match[str]
    word: str
    owner: int | None  # the root stage, or ANY_STAGE; None for names, and files of other images or the build context
    context: bool  # whether it is in the name of a file that COPY or ADD takes from the build context
    change: FoundVersion | None = None  # None if no swap breaks it

    @property
    def text(self) -> str:
        return self.match[0]

    @property
    def span(self) -> Span:
        return Span(*self.match.span())

    @property
    def file(self) -> str:
        return self.word.strip("\"',[]").rpartition("/")[2]

    @property
    def compiled(self) -> str | None:
        return self.match["wheel"] or self.match["module"]

    def version(self, values: Mapping[str, str]) -> str | None:
        """Return the version as image names have it, such as 3.12 or 3.14t; None for a variable of unknown value."""
        if self.compiled:
            digits = DIGITS.search(self.compiled)
            return f"{digits[1]}.{digits[2]}{'t' if self.compiled.endswith('t') else ''}" if digits else None
        try:  # builds before 3.8 have folders named 3.7m
            return _without_patch(self.match, expand(_plain_version(self.match) or "", values).rstrip("dmu"))
        except NoValue:
            return None


def _plain_version(match: re.Match[str]) -> str | None:
    """Return the version if it is written with a point, or its variable."""
    return match["version"] or match["script_version"] or match["option"]


def _without_patch(match: re.Match[str], version: str) -> str:
    """Return a version without its patch, which uv takes too: `uv venv --python 3.12.4`."""
    return PATCH.sub(r"\1\2", version) if match["option"] else version


def version_tokens(dockerfile: Dockerfile, stage: Stage | None, instruction: Instruction) -> list[VersionToken]:
    """Return the versions of an instruction, in their order. A swap does not change their number."""
    if instruction.keyword in WITHOUT_PATHS:
        return []
    text = dockerfile.text
    tokens = []
    packages: list[Span] | None = None
    for piece in instruction.pieces:
        for match in VERSION_TOKEN.finditer(text, piece.start, piece.end):
            packages = _packages(text, instruction) if packages is None else packages
            word = _word(text, match.start(), piece)
            start = max(text.rfind(mark, word.start, match.start()) + 1 for mark in BEFORE_PATH)
            path = text[max(start, word.start) : match.start()]
            linked = text.startswith("-l", match.start() - 2) and SYSTEM_HEADERS in instruction.text
            path = path.removeprefix("-I").removeprefix("-L")
            if (
                linked
                or path.startswith(SYSTEM)
                or BROUGHT.search(path)
                or _within(match.start(), dockerfile.image_defaults)
            ):
                continue
            if "/" in path or not _within(match.start(), packages):
                owner, context = _source(stage, instruction, match.start())
                tokens.append(VersionToken(match, word.of(text), owner, context))
    return tokens


def _within(at: int, spans: Collection[Span]) -> bool:
    return any(span.start <= at < span.end for span in spans)


def _packages(text: str, instruction: Instruction) -> list[Span]:
    """Return where an instruction names Debian packages, in its own lines or in a heredoc."""
    joined = [instruction.word(*match.span()).span for match in INSTALLED.finditer(instruction.text)]
    lines = [match for piece in instruction.pieces for match in INSTALLED.finditer(text, piece.start, piece.end)]
    return [*joined, *(Span(*match.span()) for match in lines)]


def _word(text: str, at: int, piece: Span) -> Span:
    """Return the span of the word, between blanks, around a position; only a part if it is longer than any path."""
    first, last = max(piece.start, at - LONGEST_PATH), min(piece.end, at + LONGEST_PATH)
    start = max(first, *(text.rfind(blank, first, at) + 1 for blank in " \t"))
    ends = [end for blank in " \t" if (end := text.find(blank, at, last)) >= 0]
    return Span(start, min(ends, default=last))


def _source(stage: Stage | None, instruction: Instruction, at: int) -> tuple[int | None, bool]:
    """Return which stage's Python the file at this position belongs to, and whether it is from the build context."""
    if stage is None:
        return ANY_STAGE, False
    copied = instruction.copies and at < instruction.target
    for taken in (taken for taken in stage.taken if taken.instruction is instruction):
        if _within(at, [taken.origin.named]):
            return None, False
        if copied or _within(at, taken.origin.mounted):
            return taken.stage.root.index if taken.stage else None, False
    return (None, True) if copied else (stage.runs.index, False)


VersionedInstruction = tuple[Instruction, list[VersionToken]]


def broken_versions(
    parsed: ParsedFile, chosen: Sequence[int], to: NewImage, *, built: bool = True
) -> tuple[list[FoundVersion], list[VersionedInstruction]]:
    """Return the versions that a swap of these image lines breaks, and the instructions where they can be edited.

    `built` includes those of a compose file's services whose Dockerfiles are swapped too.
    """
    if isinstance(parsed, ImageManifest):
        return [*dict.fromkeys(_in_scopes(parsed, chosen, to, parsed.built if built else ()))], []
    instructions = _versioned_instructions(parsed, [parsed.stages[index] for index in chosen], to)
    return [token.change for _, tokens in instructions for token in tokens if token.change], instructions


def _in_scopes(
    manifest: ImageManifest, chosen: Sequence[int], to: NewImage, built: Sequence[Span]
) -> Iterator[FoundVersion]:
    """Yield the versions in the scopes of entries, their commands, volumes and environments, and in what is built.

    If no entry is chosen, the version before the swap is unknown, so it may be any.
    """
    text, reason = manifest.text, "edit it by hand: only a Dockerfile's are edited"
    entries = [manifest.entries[index] for index in chosen]
    old = {entry.python.python if entry.python else None for entry in entries} or {None}
    images = {at for entry in entries for at in range(entry.span.start, entry.span.end)}
    # Each once: thousands of services may merge one mapping.
    scopes = [scope.span for entry in entries for scope in entry.scopes]
    for span in dict.fromkeys([*scopes, *built]):
        for match in VERSION_TOKEN.finditer(text, span.start, span.end):
            version, new = _plain_version(match), _renamed(match, to)
            known = version is not None and (None in old or _without_patch(match, version) in old)
            if match.start() not in images and known and new != match[0]:
                yield FoundVersion(line_of(text, match.start()), match[0], new, edited=False, reason=reason)


def _versioned_instructions(
    dockerfile: Dockerfile, chosen: Collection[Stage], to: NewImage
) -> list[VersionedInstruction]:
    """Return the instructions in which a swap of the chosen stages breaks a version, with all their versions."""
    old: dict[int | None, str | None]
    old = {stage.index: stage.python.python if stage.python else None for stage in chosen}
    old[ANY_STAGE] = next(iter(old.values()), None)
    carried = [
        (instruction, version_tokens(dockerfile, stage, instruction), values)
        for (stage, instruction), values in zip(dockerfile.instructions, dockerfile.values, strict=True)
    ]
    brought = {token.file for _, tokens, _ in carried for token in tokens if token.context}
    versioned = []
    for instruction, tokens, values in carried:
        changed = [
            replace(token, change=_change(dockerfile.text, token, to, brought))
            if _breaks(token, token.version(values), old)
            else token
            for token in tokens
        ]
        if any(token.change for token in changed):
            versioned.append((instruction, changed))
    return versioned


def _breaks(token: VersionToken, version: str | None, old: Mapping[int | None, str | None]) -> bool:
    """Return whether a version belongs to a swapped stage's image (any version if the image's name has none)."""
    brought = token.context and version in old.values()
    return version is not None and (brought or (token.owner in old and old[token.owner] in {None, version}))


def _change(text: str, token: VersionToken, to: NewImage, brought: Collection[str]) -> FoundVersion | None:
    new = _renamed(token.match, to)
    reason = _reason_to_stay(token, to, brought)
    line = line_of(text, token.span.start)
    return FoundVersion(line, token.text, new, not reason, reason) if new != token.text else None


def _renamed(match: re.Match[str], to: NewImage) -> str:
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
    if token.compiled and token.compiled.endswith("abi3"):
        return "abi3 is for builds with the GIL" if to.free_threaded else "abi3 fits later versions too"
    if token.compiled and to.implementation != "python":
        return f"compiled for CPython: {to.implementation} needs another file"
    if "://" in token.word:
        return "an address: whether that file exists is not known"
    if token.context or (token.compiled and token.file in brought):
        return "a file of the build context: provide one for the new version"
    return ""
