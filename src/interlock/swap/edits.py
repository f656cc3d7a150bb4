"""What a swap changes in a Dockerfile, and what takes it back: edits, and the comments that keep the original text.

`# interlock: was python:3.12-slim` stands above the line whose image was that; above an ARG it has the ARG's name too
(`was BASE=python:3.12-slim`). `# interlock: paths were python3.12 - cp312` has the original of each version that the
instruction below contains, or a dash for one that was left alone. What a swap has added
is below `# interlock: added uv`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from interlock.errors import SwapError
from interlock.swap.caveats import Caveat
from interlock.swap.dockerfile import (
    BOM,
    Argument,
    Dockerfile,
    Instruction,
    Span,
    Stage,
    arguments_of,
    line_of,
    own_argument,
    read_dockerfile,
    stages_using,
)
from interlock.swap.image_names import (
    Maker,
    NewImage,
    agreeing_image_lines,
    refuse_windows,
    require_image_line,
)
from interlock.swap.other_bases import instead, no_python_error
from interlock.swap.paths import (
    ANY_STAGE,
    FoundVersion,
    VersionedInstruction,
    every_instruction,
    version_tokens,
    versioned_instructions,
)
from interlock.swap.stage_caveats import brought_python, caveats, named_images
from interlock.untrusted import parse_json

WAS, PATHS_WERE, ADDED = "was", "paths were", "added"
SWAP_COMMENT = re.compile(rf"[ \t]*(?:#|//) interlock: ({WAS}|{PATHS_WERE}|{ADDED}) (.*?)[ \t\r]*")
# What an image of uv's has and a variant has not: uv, which runs without a Python.
UV_COPY = "COPY --from={} /usr/local/bin/uv /usr/local/bin/uvx /usr/local/bin/"
# Text that a comment contains as it is; any other becomes a JSON string after the prefix.
PLAIN = re.compile(r"(?!json:)[!-~]+")
JSON_PREFIX = "json:"
LEFT_ALONE = "-"
STAGE_NOUN = "stage"


@dataclass(frozen=True)
class Edit:
    """A part of a text and its replacement."""

    span: Span
    text: str


@dataclass(frozen=True)
class SwapComment:
    """A comment of a swap: its kind, the original text in it, its line (from 1), and its span with the line end."""

    kind: str
    content: str
    line: int
    span: Span


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Return the text with all edits, which must not overlap; edits at one position keep their order."""
    parts, at = [], 0
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        if edit.span.start < at:
            line = text.count("\n", 0, edit.span.start) + 1
            raise SwapError(found=f"two images overlap in line {line}", todo="Write each on a line of its own.")
        parts += [text[at : edit.span.start], edit.text]
        at = edit.span.end
    return "".join([*parts, text[at:]])


def comment_edit(text: str, line_start: int, said: str, sign: str = "#") -> Edit:
    """Return the edit that puts a swap comment above the line that starts there, with this line's line end."""
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
    found: dict[int, list[SwapComment]] = {}
    above: list[SwapComment] = []
    start = 1 if text.startswith(BOM) else 0
    for number, line in enumerate(text[start:].split("\n"), start=1):
        end = min(start + len(line) + 1, len(text))
        match = SWAP_COMMENT.fullmatch(line)
        if match:
            above.append(SwapComment(match[1], match[2], number, Span(start, end)))
        elif above:
            found[number] = above
            above = []
        start = end
    return found | ({0: above} if above else {})


def encode_original(raw: str) -> str:
    """Return the text in a form that fits into a comment."""
    return raw if PLAIN.fullmatch(raw) else JSON_PREFIX + json.dumps(raw)


def decode_original(content: str) -> str | None:
    """Return the original text of a comment; None if the comment is damaged."""
    if not content.startswith(JSON_PREFIX):
        return content
    try:
        raw = parse_json(content.removeprefix(JSON_PREFIX))
    except ValueError:
        return None
    return raw if isinstance(raw, str) else None


def choose_stages(dockerfile: Dockerfile, name: str | None, file: str) -> list[Stage]:
    """Return the stages that start from a Python image, all from the same Python; or the one of this name or number.

    Raises SwapError if there is none, if they differ, and if the image is not known.
    """
    if not dockerfile.stages:
        raise SwapError(
            file=file,
            found="has no FROM line",
            todo="Name a Dockerfile, a compose file, a manifest or a devcontainer.json.",
        )
    if name is not None:
        chosen = [_named_stage(dockerfile, name, file)]
    else:
        chosen = agreeing_image_lines(dockerfile.stages, STAGE_NOUN, file)
        if not chosen:
            raise _no_stage_error(dockerfile, file)
    refuse_windows(chosen, file)
    return chosen


def _no_stage_error(dockerfile: Dockerfile, file: str) -> SwapError:
    """Return why no stage is chosen; a variable without a value may stand for a Python image."""
    for stage in dockerfile.stages:
        if stage.missing is not None:
            return _undefined_variable_error(dockerfile, stage, file)
    for line, name in named_images(dockerfile):
        raise SwapError(
            file=f"{file}:{line}",
            found=f"no stage starts from a Python image, but this line takes files from {name}",
            todo="Give it a stage of its own above (`FROM NAME AS python`, `--from=python`), and swap that.",
        )
    images = [stage for stage in dockerfile.stages if stage.parent is None]
    brought = brought_python(dockerfile)
    if brought and not any(stage.python or instead(stage.image) for stage in images):
        instruction, stage = brought
        return SwapError(
            file=f"{file}:{instruction.line}",
            found=f"no stage starts from a Python image: this line installs the Python into {stage.image}",
            todo=f"Start stage {stage.label} from python:X-slim, leave the Python out here, and swap that.",
        )
    return no_python_error(images, STAGE_NOUN, file)


def _named_stage(dockerfile: Dockerfile, name: str, file: str) -> Stage:
    stage = require_image_line(dockerfile.stages, name, STAGE_NOUN, file)
    where = f"{file}:{stage.line}"
    if stage.parent is not None:
        raise SwapError(
            file=where,
            found=f"stage {stage.label} starts from stage {dockerfile.stages[stage.parent].label}, not from an image",
            todo=f"Name the stage with the image: {dockerfile.root_of(stage).option}.",
        )
    if stage.missing is not None:
        raise _undefined_variable_error(dockerfile, stage, file)
    if stage.image.lower() == "scratch":
        raise SwapError(
            file=where,
            found=f"stage {stage.label} starts from nothing (FROM scratch)",
            todo="Name a stage that has Python in it.",
        )
    return stage


def _undefined_variable_error(dockerfile: Dockerfile, stage: Stage, file: str) -> SwapError:
    """Return the error for an image in a variable without a value; the line to edit is the ARG's or else the FROM's."""
    declared = {
        name: instruction.line
        for instruction in dockerfile.head
        if instruction.keyword == "ARG"
        for name, _ in arguments_of(instruction)
    }
    line = declared.get(stage.missing or "")
    if line is None:
        todo = f"Write `ARG {stage.missing}=...` with a default above the first FROM, or name the image itself."
    else:
        todo = f"Write a default there, for instance `ARG {stage.missing}=python:3.13-slim`."
    return SwapError(
        file=f"{file}:{line or stage.line}",
        found=f"{stage.missing} has no default, so line {stage.line} (`FROM {stage.token.text}`) names no image",
        todo=todo,
    )


def reverted(text: str, stage: str | None = None, file: str = "Dockerfile") -> str:
    """Return a Dockerfile's text as it was before any swap, in all stages or in one.

    Raises SwapError if a swap comment does not fit the line below it.
    """
    dockerfile = read_dockerfile(text)
    chosen = {ANY_STAGE, *range(len(dockerfile.stages))}
    if stage is not None:
        chosen = {require_image_line(dockerfile.stages, stage, STAGE_NOUN, file).index}
    return apply_edits(text, Reversal(dockerfile, chosen, file).edits())


def damaged_comment_error(file: str, comment: SwapComment, problem: str) -> SwapError:
    """Return the error for a swap comment that cannot be used."""
    return SwapError(
        file=f"{file}:{comment.line}",
        found=f"the comment 'interlock: {comment.kind} {comment.content}' {problem}",
        todo="The file was edited after the swap: restore the line below by hand and remove the comment.",
    )


@dataclass(frozen=True)
class Reversal:
    """The edits that take back the swap of some stages of a Dockerfile."""

    dockerfile: Dockerfile
    chosen: Collection[int]  # numbers of stages; ANY_STAGE is for what is above the first
    file: str

    def edits(self) -> list[Edit]:
        """Return the edits that take back the swap of the chosen stages."""
        above = self._comments()
        edits: list[Edit] = []
        for stage, instruction in every_instruction(self.dockerfile):
            seen = set()
            for comment in above.pop(instruction.line, []):
                key = (comment.kind, comment.content.partition("=")[0] if instruction.keyword == "ARG" else "")
                if key in seen:
                    raise damaged_comment_error(self.file, comment, "is the second one of its kind above this line")
                seen.add(key)
                edits += self._edits_of(stage, instruction, comment)
        for left in above.values():
            raise damaged_comment_error(self.file, left[0], "has no instruction below it")
        return edits

    def removed_lines(self) -> list[int]:
        """Return the numbers of the lines that are removed: comments, and what was added."""
        text, edits = self.dockerfile.text, [edit for edit in self.edits() if not edit.text]
        return [
            line_of(text, edit.span.start) + further
            for edit in edits
            for further in range(edit.span.of(text).count("\n"))
        ]

    def _comments(self) -> dict[int, list[SwapComment]]:
        """Return the swap comments by line; lines of heredocs are not comments."""
        inside = [piece for _, instruction in every_instruction(self.dockerfile) for piece in instruction.pieces]
        found = {
            line: [
                comment
                for comment in above
                if not any(piece.start <= comment.span.start < piece.end for piece in inside)
            ]
            for line, above in swap_comments(self.dockerfile.text).items()
        }
        return {line: above for line, above in found.items() if above}

    def _edits_of(self, stage: Stage | None, instruction: Instruction, comment: SwapComment) -> list[Edit]:
        if comment.kind == PATHS_WERE:
            return self._version_edits(stage, instruction, comment)
        if comment.kind == ADDED:
            if stage is None or instruction.keyword != "COPY":
                raise damaged_comment_error(self.file, comment, "is not above an instruction that a swap adds")
            end = whole_lines_end(self.dockerfile.text, instruction)
            return [Edit(Span(comment.span.start, end), "")] if stage.index in self.chosen else []
        if instruction.keyword == "FROM" and stage is not None:
            return (
                self._restoring_edits(stage.token.span, comment.content, comment) if stage.index in self.chosen else []
            )
        name, _, raw = comment.content.partition("=")
        default = dict(arguments_of(instruction)).get(name) if instruction.keyword == "ARG" else None
        if default is None:
            raise damaged_comment_error(self.file, comment, "belongs to an image, and the line below names none")
        users = {user.index for user in stages_using(self.dockerfile, name)} or {ANY_STAGE}
        return self._restoring_edits(default.span, raw, comment) if users <= set(self.chosen) else []

    def _restoring_edits(self, span: Span, content: str, comment: SwapComment) -> list[Edit]:
        raw = decode_original(content)
        if raw is None:
            raise damaged_comment_error(self.file, comment, "cannot be decoded")
        return [Edit(comment.span, ""), Edit(span, raw)]

    def _version_edits(self, stage: Stage | None, instruction: Instruction, comment: SwapComment) -> list[Edit]:
        """Return the edits that restore the versions of the chosen stages; the comment keeps those of other stages."""
        carried, was = version_tokens(self.dockerfile, stage, instruction), comment.content.split()
        if len(carried) != len(was):
            raise damaged_comment_error(
                self.file, comment, f"has {len(was)} versions, and the instruction below has {len(carried)}"
            )
        pairs = list(zip(carried, was, strict=True))
        back = [old != LEFT_ALONE and token.owner in self.chosen for token, old in pairs]
        edits = [Edit(token.span, old) for (token, old), now in zip(pairs, back, strict=True) if now]
        left = [LEFT_ALONE if now else old for old, now in zip(was, back, strict=True)]
        line = comment.span.of(self.dockerfile.text)
        kept = line.replace(comment.content, " ".join(left)) if set(left) != {LEFT_ALONE} else ""
        return [Edit(comment.span, kept), *edits] if edits else []


@dataclass(frozen=True)
class SwapResult:
    """A file after a swap, with warnings and versions; their lines are those of the file before the swap."""

    text: str
    changed: tuple[int, ...]  # lines that are only in the new text
    warnings: tuple[Caveat, ...]
    paths: tuple[FoundVersion, ...]


# The variables of each line and stage are looked for in those before it: a second for so many, a minute for 20,000.
MOST_LINES, MOST_STAGES = 2000, 500
FROM_LINE = re.compile(r"^[ \t]*FROM\s", re.IGNORECASE | re.MULTILINE)


def swapped_dockerfile(
    text: str, to: NewImage, stage: str | None, *, paths: bool, file: str = "Dockerfile"
) -> SwapResult:
    """Swap the image of all stages that start from the same Python, or of the stage with this name or number (from 0).

    An earlier swap is taken back first, so that the comments keep the first original. With `paths` versions in paths,
    commands and names of wheels are edited too. Raises SwapError, which names `file`, if nothing can be swapped.
    """
    if text.count("\n") > MOST_LINES or len(FROM_LINE.findall(text)) > MOST_STAGES:
        size = f"has more than {MOST_LINES} lines or {MOST_STAGES} stages"
        raise SwapError(file=file, found=size, todo="Split it into shorter Dockerfiles.")
    names = [one.index for one in choose_stages(read_dockerfile(reverted(text, file=file)), stage, file)]
    back = Reversal(read_dockerfile(text), {ANY_STAGE, *names}, file)
    before, removed = read_dockerfile(apply_edits(text, back.edits())), back.removed_lines()
    chosen = [before.stages[index] for index in names]
    found = versioned_instructions(before, chosen, to)
    after = apply_edits(
        before.text, [*_image_edits(before, chosen, to), *(_path_edits(before, found) if paths else ())]
    )
    return SwapResult(
        text=after,
        changed=changed_lines(text, after),
        warnings=tuple(replace(one, line=line_before(one.line, removed)) for one in caveats(before, chosen, to)),
        paths=tuple(
            replace(path, line=line_before(path.line, removed), edited=path.edited and paths)
            for versioned in found
            for path in versioned.found
        ),
    )


# A swap adds a comment to a line or takes one away; where more lines than this differ at once, all the rest counts.
MOST_CHANGED = 100


def changed_lines(before: str, after: str) -> tuple[int, ...]:
    """Return the numbers of the lines that are only in `after`."""
    old, new, changed = before.split("\n"), after.split("\n"), list[int]()
    at = there = 0
    while there < len(new):
        gone, come = next(_next_same(old, new, at, there), (len(old) - at, len(new) - there))
        changed += range(there + 1, there + come + 1)
        at, there = at + gone + 1, there + come + 1
    return tuple(changed)


def _next_same(old: Sequence[str], new: Sequence[str], at: int, there: int) -> Iterator[tuple[int, int]]:
    """Yield how many lines are gone and how many come before two lines are the same again, the fewest first.

    difflib compares every line with every other, and takes a minute for 20,000 lines.
    """
    for total in range(MOST_CHANGED):
        for come in range(total + 1):
            left, right = at + total - come, there + come
            if left < len(old) and right < len(new) and old[left] == new[right]:
                yield total - come, come


def line_before(line: int, removed: Sequence[int]) -> int:
    """Return a line's number before the comments of an earlier swap were removed."""
    given = line
    for one in sorted(removed):
        given += one <= given
    return given if line else 0


def _image_edits(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> list[Edit]:
    """Return the edits of the FROM lines, or of the ARG defaults that hold their images."""
    edits: dict[str | int, list[Edit]] = {}
    for stage in chosen:
        argument = own_argument(dockerfile, stage, chosen)
        if argument is not None:
            edits[argument.name] = [*_arg_edits(dockerfile.text, argument, to)]
        else:
            edits[stage.index] = [*_from_edits(dockerfile.text, stage, to)]
    changed = [edit for some in edits.values() for edit in some]
    # What is added to a stage comes before the comment of the next one, which may be at the same place.
    return [*(edit for stage in chosen for edit in _uv_edits(dockerfile.text, stage)), *changed]


def whole_lines_end(text: str, instruction: Instruction) -> int:
    """Return where the line after an instruction starts; the end of the text without one."""
    end = text.find("\n", instruction.pieces[-1].end)
    return end + 1 if end >= 0 else len(text)


def _uv_edits(text: str, stage: Stage) -> Iterator[Edit]:
    """Yield the edit that brings uv into a stage whose image had it; what ends with FROM needs none."""
    at = whole_lines_end(text, stage.instruction)
    if stage.python is not None and stage.python.maker is Maker.UV and text[at - 1 : at] == "\n":
        ending = _line_end(text, stage.instruction.start)
        said = comment_edit(text, stage.instruction.start, f"{ADDED} uv").text
        yield Edit(Span(at, at), f"{said}{UV_COPY.format(stage.image)}{ending}")


def _arg_edits(text: str, argument: Argument, to: NewImage) -> Iterator[Edit]:
    quote = argument.raw[0] if argument.raw[:1] in {'"', "'"} and argument.raw[-1] == argument.raw[0] else ""
    was = f"{WAS} {argument.name}={encode_original(argument.raw)}"
    yield comment_edit(text, argument.instruction.start, was)
    yield Edit(argument.span, f"{quote}{to.reference}{quote}")


def _from_edits(text: str, stage: Stage, to: NewImage) -> Iterator[Edit]:
    raw = stage.token.span.of(text)
    new = to.reference
    if stage.default is not None and raw == stage.token.text:
        new = f"${{{stage.default.name}{stage.default.operator}{to.reference}}}"
    yield comment_edit(text, stage.instruction.start, f"{WAS} {encode_original(raw)}")
    yield Edit(stage.token.span, new)


def _path_edits(dockerfile: Dockerfile, found: Sequence[VersionedInstruction]) -> Iterator[Edit]:
    above = swap_comments(dockerfile.text)
    for versioned in found:
        edited = [(token, path) for token, path in versioned.versions if path is not None and path.edited]
        if edited:
            was = [token.text if path and path.edited else LEFT_ALONE for token, path in versioned.versions]
            of_others = [comment for comment in above.get(versioned.instruction.line, []) if comment.kind == PATHS_WERE]
            yield _path_comment(dockerfile.text, versioned.instruction, was, of_others)
        for token, path in edited:
            yield Edit(token.span, path.new)


def _path_comment(text: str, instruction: Instruction, was: Sequence[str], of_others: Sequence[SwapComment]) -> Edit:
    """Return the one comment of an instruction; it keeps versions of stages that were swapped before."""
    if not of_others:
        return comment_edit(text, instruction.start, " ".join([PATHS_WERE, *was]))
    comment = of_others[0]
    both = [old if new == LEFT_ALONE else new for new, old in zip(was, comment.content.split(), strict=True)]
    return Edit(comment.span, comment.span.of(text).replace(comment.content, " ".join(both)))
