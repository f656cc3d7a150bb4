"""The edits of a swap and of a revert, and the comments that keep the original text.

`# interlock: was python:3.12-slim` stands above the line whose image was that; above an ARG it has the ARG's name too
(`was BASE=python:3.12-slim`). `# interlock: paths were python3.12 - cp312` has the original of each version that the
instruction below contains, or a dash for one that was left alone. What a swap has added
is below `# interlock: added uv`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from interlock.errors import SwapError
from interlock.swap.caveats import Caveat, Weight
from interlock.swap.dockerfile import Argument, Dockerfile, Stage
from interlock.swap.image_names import Maker, NewImage
from interlock.swap.instructions import BOM, SPACE, Instruction, Span, line_of
from interlock.swap.manifests import ImageEntry, ImageManifest, ParsedFile
from interlock.swap.paths import ANY_STAGE, VersionedInstruction, version_tokens
from interlock.untrusted import parse_json

WAS, PATHS_WERE, ADDED = "was", "paths were", "added"
SWAP_COMMENT = re.compile(rf"[ \t]*(?:#|//) interlock: ({WAS}|{PATHS_WERE}|{ADDED}) (.*?)[ \t\r]*")
# Adds uv, which uv's images have and variants lack. It runs without a Python.
UV_COPY = "COPY --from={} /usr/local/bin/uv /usr/local/bin/uvx /usr/local/bin/"
# Text that a comment contains as it is; all other text becomes a JSON string after the prefix.
PLAIN = re.compile(r"(?!json:)[!-~]+")
JSON_PREFIX = "json:"
LEFT_ALONE = "-"


@dataclass(frozen=True)
class Edit:
    """A part of a text and its replacement."""

    span: Span
    text: str


@dataclass(frozen=True)
class Edits:
    """Edits of a text, which must not overlap; those at one position keep their order."""

    text: str
    edits: Sequence[Edit]

    @cached_property
    def _in_order(self) -> list[Edit]:
        return sorted(self.edits, key=lambda edit: edit.span.start)

    @cached_property
    def applied(self) -> str:
        """Return the text with all edits."""
        parts, at = [], 0
        for edit in self._in_order:
            if edit.span.start < at:
                line = line_of(self.text, edit.span.start)
                raise SwapError(found=f"two images overlap in line {line}", todo="Write each on a line of its own.")
            parts += [self.text[at : edit.span.start], edit.text]
            at = edit.span.end
        return "".join([*parts, self.text[at:]])

    @cached_property
    def _lines(self) -> list[tuple[int, int, int]]:
        """Return for each edit its line in the text, and how many line ends it removes and adds."""
        held, line, at = [], 1, 0
        for edit in self._in_order:
            line += self.text.count("\n", at, edit.span.start)
            at = edit.span.start
            held.append((line, edit.span.of(self.text).count("\n"), edit.text.count("\n")))
        return held

    def line_before(self, line: int) -> int:
        """Return the line of the original text for a line of the edited one; 0, the whole file, stays 0."""
        for edited, gone, come in self._lines if line else ():
            # Added lines move those below the edited line; removed lines move the next line too.
            line += gone - come if edited + (come > gone) <= line else 0
        return line


@dataclass(frozen=True)
class SwapComment:
    """A comment of a swap: its kind, the original text in it, its line (from 1), and its span with the line end."""

    kind: str
    content: str
    line: int
    span: Span


def _comment_edit(text: str, line_start: int, said: str, sign: str = "#") -> Edit:
    """Return the edit that puts a swap comment above the line at `line_start`, with the same line end."""
    return Edit(Span(line_start, line_start), f"{sign} interlock: {said}{_line_end(text, line_start)}")


def _line_end(text: str, start: int) -> str:
    """Return the line end of the line that starts there, or of the file's first line if it has none."""
    for position in (start, 0):
        end = text.find("\n", position)
        if end >= 0:
            return "\r\n" if text[max(end - 1, 0) : end] == "\r" else "\n"
    return "\n"


def swap_comments(text: str) -> dict[int, list[SwapComment]]:
    """Return the swap comments above each line, by that line's number (0: the end of the file)."""
    comments: dict[int, list[SwapComment]] = {}
    above: list[SwapComment] = []
    start = 1 if text.startswith(BOM) else 0
    for number, line in enumerate(text[start:].split("\n"), start=1):
        end = min(start + len(line) + 1, len(text))
        match = SWAP_COMMENT.fullmatch(line)
        if match:
            above.append(SwapComment(match[1], match[2], number, Span(start, end)))
        elif above:
            comments[number] = above
            above = []
        start = end
    return comments | ({0: above} if above else {})


def _encode_original(raw: str) -> str:
    """Return the text in a form that fits into a comment."""
    return raw if PLAIN.fullmatch(raw) else JSON_PREFIX + json.dumps(raw)


def _decode_original(content: str) -> str | None:
    """Return the original text of a comment; None if the comment is damaged."""
    if not content.startswith(JSON_PREFIX):
        return content
    try:
        raw = parse_json(content.removeprefix(JSON_PREFIX))
    except ValueError:
        return None
    return raw if isinstance(raw, str) else None


def _restoring_edits(span: Span, content: str, comment: SwapComment, file: str) -> list[Edit]:
    """Return the edits that put an original text back and take its comment away."""
    raw = _decode_original(content)
    if raw is None:
        raise _damaged_comment_error(file, comment, "cannot be decoded")
    return [Edit(comment.span, ""), Edit(span, raw)]


def _damaged_comment_error(file: str, comment: SwapComment, problem: str) -> SwapError:
    return SwapError(
        file=f"{file}:{comment.line}",
        found=f"the comment 'interlock: {comment.kind} {comment.content}' {problem}",
        todo="The file was edited after the swap: restore the line below by hand and remove the comment.",
    )


@dataclass(frozen=True)
class SwapEdits:
    """What a swap writes into a file, and the caveats of that."""

    edits: tuple[Edit, ...]
    told: tuple[Caveat, ...] = ()
    arguments: frozenset[str] = frozenset()  # ARGs whose default is now the new image
    only_images: bool = False  # for a Dockerfile: whether only images are edited


def swap_edits(
    before: ParsedFile, chosen: Sequence[int], to: NewImage, versioned: Sequence[VersionedInstruction]
) -> SwapEdits:
    """Return the edits that swap the images of these image lines, and the versions in these instructions."""
    if isinstance(before, ImageManifest):
        return SwapEdits(tuple(edit for index in chosen for edit in _entry_edits(before, before.entries[index], to)))
    stages = [before.stages[index] for index in chosen]
    images, told = _image_edits(before, stages, to)
    # Additions to a stage come before the next stage's comment, which may be at the same position.
    added = [edit for stage in stages for edit in _uv_edits(before.text, stage)]
    versions = [*_path_edits(before.text, versioned)]
    return SwapEdits(
        edits=(*added, *(edit for edits in images.values() for edit in edits), *versions),
        told=tuple(told),
        arguments=frozenset(name for name in images if isinstance(name, str)),
        only_images=not added and not versions,
    )


def _entry_edits(manifest: ImageManifest, entry: ImageEntry, to: NewImage) -> Iterator[Edit]:
    """Yield the edits of an entry: a comment above the line with its indentation, and the image."""
    text, variable = manifest.text, entry.default
    start = text.rfind("\n", 0, entry.span.start) + 1
    start += text.startswith(BOM, start)
    line = text[start : entry.span.start]
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    yield _comment_edit(text, start, f"{WAS} {_encode_original(entry.span.of(text))}", indent + manifest.sign)
    yield Edit(entry.span, f"${{{variable.name}{variable.operator}{to.reference}}}" if variable else to.reference)


def _image_edits(
    dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage
) -> tuple[dict[str | int, list[Edit]], list[Caveat]]:
    """Return the edits of stages' FROM lines, or of ARG defaults that hold their images, and the caveats.

    An ARG is edited only if neither a stage that is not chosen nor another default uses it.
    """
    indexes = {stage.index for stage in chosen}
    edits: dict[str | int, list[Edit]] = {}
    told = []
    for stage in chosen:
        argument = stage.argument
        if argument and (argument.name in dockerfile.in_defaults or not dockerfile.users[argument.name] <= indexes):
            argument = None
        dropped = stage.variables
        if argument is not None:
            edits[argument.name] = [*_arg_edits(dockerfile.text, argument, to)]
            said = f"--build-arg {argument.name}=... from outside still chooses another image"
            told.append(Caveat(argument.instruction.line, said))
            dropped = argument.variables
        else:
            edits[stage.index] = [*_from_edits(dockerfile.text, stage, to)]
        if dropped and stage.default is None:
            names = " and ".join(dict.fromkeys(variable.name for variable in dropped))
            told.append(Caveat(stage.line, f"the image no longer depends on {names}", Weight.KNOW))
    return edits, told


def _whole_lines_end(text: str, instruction: Instruction) -> int:
    """Return where the line after an instruction starts, or the end of the text."""
    end = text.find("\n", instruction.pieces[-1].end)
    return end + 1 if end >= 0 else len(text)


def _uv_edits(text: str, stage: Stage) -> Iterator[Edit]:
    """Yield the edit that adds uv to a stage whose image had it; a text that ends with the FROM line needs none.

    Nor does one that ends where the FROM line still continues: what is added would be a part of that line.
    """
    at = _whole_lines_end(text, stage.instruction)
    continues = text[stage.instruction.offsets[-1] + 1 : stage.instruction.pieces[-1].end].strip(SPACE)
    ended = text[at - 1 : at] == "\n" and not continues
    if stage.python is not None and stage.python.maker is Maker.UV and ended:
        ending = _line_end(text, stage.instruction.start)
        said = _comment_edit(text, stage.instruction.start, f"{ADDED} uv").text
        yield Edit(Span(at, at), f"{said}{UV_COPY.format(stage.image)}{ending}")


def _arg_edits(text: str, argument: Argument, to: NewImage) -> Iterator[Edit]:
    quote = argument.raw[0] if argument.raw[:1] in {'"', "'"} and argument.raw[-1] == argument.raw[0] else ""
    was = f"{WAS} {argument.name}={_encode_original(argument.span.of(text))}"
    yield _comment_edit(text, argument.instruction.start, was)
    yield Edit(argument.span, f"{quote}{to.reference}{quote}")


def _from_edits(text: str, stage: Stage, to: NewImage) -> Iterator[Edit]:
    raw = stage.token.span.of(text)
    new = to.reference
    if stage.default is not None and raw == stage.token.text:
        new = f"${{{stage.default.name}{stage.default.operator}{to.reference}}}"
    yield _comment_edit(text, stage.instruction.start, f"{WAS} {_encode_original(raw)}")
    yield Edit(stage.token.span, new)


def _path_edits(text: str, versioned: Sequence[VersionedInstruction]) -> Iterator[Edit]:
    """Yield the edits of versions; an instruction's one comment keeps the originals of earlier swaps."""
    above = swap_comments(text)
    for instruction, tokens in versioned:
        edited = [Edit(token.span, token.change.new) for token in tokens if token.change and token.change.edited]
        if not edited:
            continue
        was = [token.text if token.change and token.change.edited else LEFT_ALONE for token in tokens]
        held = next((other for other in above.get(instruction.line, []) if other.kind == PATHS_WERE), None)
        if held is None:
            yield _comment_edit(text, instruction.start, " ".join([PATHS_WERE, *was]))
        else:
            both = [new if old == LEFT_ALONE else old for new, old in zip(was, held.content.split(), strict=True)]
            yield Edit(held.span, held.span.of(text).replace(held.content, " ".join(both)))
        yield from edited


def undo_edits(parsed: ParsedFile, chosen: Collection[int] | None, file: str) -> list[Edit]:
    """Return the edits that revert the swap of the image lines of these numbers, or of all.

    SwapError if a comment of a swap does not fit the line below it.
    """
    if isinstance(parsed, ImageManifest):
        return _entries_undone(parsed, chosen, file)
    everything = (ANY_STAGE, *range(len(parsed.stages)))
    return [*_Reversal(parsed, frozenset(everything if chosen is None else chosen), file).edits()]


def _entries_undone(manifest: ImageManifest, chosen: Collection[int] | None, file: str) -> list[Edit]:
    edits: list[Edit] = []
    for line, above in swap_comments(manifest.text).items():
        entries = [entry for entry in manifest.entries if entry.line == line]
        if len(above) > 1 or len(entries) != 1 or above[0].kind != WAS:
            raise _damaged_comment_error(file, above[-1], "is not above a line that names one image")
        if chosen is None or entries[0].index in chosen:
            edits += _restoring_edits(entries[0].span, above[0].content, above[0], file)
    return edits


@dataclass(frozen=True)
class _Reversal:
    dockerfile: Dockerfile
    chosen: frozenset[int]
    file: str

    def edits(self) -> Iterator[Edit]:
        """Yield the edits for each comment; lines of heredocs are not comments."""
        inside = {piece.start for _, instruction in self.dockerfile.instructions for piece in instruction.pieces}
        above = {
            line: comments
            for line, held in swap_comments(self.dockerfile.text).items()
            if (comments := [comment for comment in held if comment.span.start not in inside])
        }
        for stage, instruction in self.dockerfile.instructions if above else ():
            kinds = set()
            for comment in above.pop(instruction.line, []):
                kind = (comment.kind, comment.content.partition("=")[0] if instruction.keyword == "ARG" else "")
                if kind in kinds:
                    raise self._damaged(comment, "is the second one of its kind above this line")
                kinds.add(kind)
                undo = {WAS: self._image, PATHS_WERE: self._versions, ADDED: self._addition}[comment.kind]
                yield from undo(stage, instruction, comment)
        for left in above.values():
            raise self._damaged(left[0], "has no instruction below it")

    def _damaged(self, comment: SwapComment, problem: str) -> SwapError:
        return _damaged_comment_error(self.file, comment, problem)

    def _addition(self, stage: Stage | None, instruction: Instruction, comment: SwapComment) -> list[Edit]:
        if stage is None or instruction.keyword != "COPY":
            raise self._damaged(comment, "is not above an instruction that a swap adds")
        whole = Span(comment.span.start, _whole_lines_end(self.dockerfile.text, instruction))
        return [Edit(whole, "")] if stage.index in self.chosen else []

    def _image(self, stage: Stage | None, instruction: Instruction, comment: SwapComment) -> list[Edit]:
        if stage is not None and stage.instruction is instruction:
            span, raw, users = stage.token.span, comment.content, frozenset({stage.index})
        else:
            name, _, raw = comment.content.partition("=")
            default = dict(instruction.defaults).get(name) if instruction.keyword == "ARG" else None
            if default is None:
                raise self._damaged(comment, "belongs to an image, and the line below names none")
            span, users = default.span, self.dockerfile.users.get(name, frozenset({ANY_STAGE}))
        return _restoring_edits(span, raw, comment, self.file) if users <= self.chosen else []

    def _versions(self, stage: Stage | None, instruction: Instruction, comment: SwapComment) -> list[Edit]:
        """Return the edits that restore the versions of the chosen stages; the comment keeps those of other stages."""
        tokens, was = version_tokens(self.dockerfile, stage, instruction), comment.content.split()
        if len(tokens) != len(was):
            raise self._damaged(comment, f"has {len(was)} versions, and the instruction below has {len(tokens)}")
        edits, left = list[Edit](), list[str]()
        for token, old in zip(tokens, was, strict=True):
            # None: since the swap, what it is taken from was called otherwise.
            now = old != LEFT_ALONE and (token.owner is None or token.owner in self.chosen)
            edits += [Edit(token.span, old)] if now else []
            left.append(LEFT_ALONE if now else old)
        line = comment.span.of(self.dockerfile.text)
        kept = line.replace(comment.content, " ".join(left)) if {*left} != {LEFT_ALONE} else ""
        return [Edit(comment.span, kept), *edits] if edits else []
