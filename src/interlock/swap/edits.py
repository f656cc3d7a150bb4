"""What a swap changes in a Dockerfile. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from interlock.swap.caveats import Caveat, caveats
from interlock.swap.choose import choose
from interlock.swap.dockerfile import Instruction
from interlock.swap.images import NewImage
from interlock.swap.marks import PATHS, UNCHANGED, WAS, Edit, Mark, apply, comment, encode, marks
from interlock.swap.paths import ANY_STAGE, Carrier, FoundPath, carriers
from interlock.swap.revert import Reversal, reverted
from interlock.swap.stages import Argument, Dockerfile, Stage, own_argument, read


@dataclass(frozen=True)
class Swapped:
    """A file after a swap, and what a person has to know of it. Lines are those of the file before the swap."""

    text: str
    changed: tuple[int, ...]  # lines of the new text that the old one has not
    warnings: tuple[Caveat, ...]
    paths: tuple[FoundPath, ...]


def swapped(text: str, to: NewImage, stage: str | None, *, paths: bool, file: str = "Dockerfile") -> Swapped:
    """A Dockerfile's text with its Python stages on another image.

    All stages that start from the same Python, or the one that `stage` names (or numbers, from 0). What was swapped
    before is taken back first, so the first original is what stays known. With `paths` versions in paths, commands
    and names of wheels are edited as well. Raises SwapError, which names `file`, where nothing can be swapped.
    """
    names = [one.index for one in choose(read(reverted(text, file=file)), stage, file)]
    back = Reversal(read(text), {ANY_STAGE, *names}, file)
    before, removed = read(apply(text, back.edits())), back.removed_lines()
    chosen = [before.stages[index] for index in names]
    found = carriers(before, chosen, to)
    after = apply(before.text, [*_images(before, chosen, to), *(_paths(before, found) if paths else ())])
    return Swapped(
        text=after,
        changed=changed_lines(text, after),
        warnings=tuple(replace(one, line=as_given(one.line, removed)) for one in caveats(before, chosen, to)),
        paths=tuple(
            replace(path, line=as_given(path.line, removed), edited=path.edited and paths)
            for carrier in found
            for path in carrier.found
        ),
    )


def changed_lines(before: str, after: str) -> tuple[int, ...]:
    """The numbers of the lines of `after` that `before` has not."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    changed = [range(low + 1, high + 1) for kind, _, _, low, high in matcher.get_opcodes() if kind != "equal"]
    return tuple(line for lines in changed for line in lines)


def as_given(line: int, removed: Sequence[int]) -> int:
    """A line's number in the file as it was given, where comments of an earlier swap stand above it."""
    given = line
    for one in sorted(removed):
        given += one <= given
    return given if line else 0


def _images(dockerfile: Dockerfile, chosen: Sequence[Stage], to: NewImage) -> list[Edit]:
    """The FROM lines, or the ARG defaults that they take their image from."""
    edits: dict[str | int, list[Edit]] = {}
    for stage in chosen:
        argument = own_argument(dockerfile, stage, chosen)
        if argument is not None:
            edits[argument.name] = [*_default(dockerfile.text, argument, to)]
        else:
            edits[stage.index] = [*_token(dockerfile.text, stage, to)]
    return [edit for some in edits.values() for edit in some]


def _default(text: str, argument: Argument, to: NewImage) -> Iterator[Edit]:
    quote = argument.raw[0] if argument.raw[:1] in {'"', "'"} and argument.raw[-1] == argument.raw[0] else ""
    was = f"{WAS} {argument.name}={encode(argument.raw)}"
    yield comment(text, argument.instruction.start, was)
    yield Edit(argument.span, f"{quote}{to.reference}{quote}")


def _token(text: str, stage: Stage, to: NewImage) -> Iterator[Edit]:
    raw = stage.token.span.of(text)
    new = to.reference
    if stage.default is not None and raw == stage.token.text:
        new = f"${{{stage.default.name}{stage.default.operator}{to.reference}}}"
    yield comment(text, stage.instruction.start, f"{WAS} {encode(raw)}")
    yield Edit(stage.token.span, new)


def _paths(dockerfile: Dockerfile, found: Sequence[Carrier]) -> Iterator[Edit]:
    above = marks(dockerfile.text)
    for carrier in found:
        edited = [(token, path) for token, path in carrier.versions if path is not None and path.edited]
        if edited:
            was = [token.text if path and path.edited else UNCHANGED for token, path in carrier.versions]
            of_others = [mark for mark in above.get(carrier.instruction.line, []) if mark.kind == PATHS]
            yield _comment(dockerfile.text, carrier.instruction, was, of_others)
        for token, path in edited:
            yield Edit(token.span, path.new)


def _comment(text: str, instruction: Instruction, was: Sequence[str], of_others: Sequence[Mark]) -> Edit:
    """One comment for an instruction, also where versions of a stage that was swapped before are in it."""
    if not of_others:
        return comment(text, instruction.start, " ".join([PATHS, *was]))
    mark = of_others[0]
    both = [old if new == UNCHANGED else new for new, old in zip(was, mark.content.split(), strict=True)]
    return Edit(mark.span, mark.span.of(text).replace(mark.content, " ".join(both)))
