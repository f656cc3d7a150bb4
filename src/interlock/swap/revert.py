"""Takes a swap back: what the comments in a Dockerfile say that it was. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from interlock.errors import SwapError
from interlock.swap.dockerfile import Instruction, Span
from interlock.swap.image_line import must_find
from interlock.swap.marks import PATHS, UNCHANGED, Edit, Mark, apply, decode, marks
from interlock.swap.paths import ANY_STAGE, every, tokens
from interlock.swap.stages import Dockerfile, Stage, arguments_of, read, users_of


def reverted(text: str, stage: str | None = None, file: str = "Dockerfile") -> str:
    """A Dockerfile's text as it was before it was swapped, in all stages or in one; unchanged if it never was.

    Raises SwapError where a comment of a swap does not fit what stands below it.
    """
    dockerfile = read(text)
    chosen = {ANY_STAGE, *range(len(dockerfile.stages))}
    if stage is not None:
        chosen = {must_find(dockerfile.stages, stage, "stage", file).index}
    return apply(text, Reversal(dockerfile, chosen, file).edits())


def unfit(file: str, mark: Mark, problem: str) -> SwapError:
    """A comment of a swap that nothing can be done with."""
    return SwapError(
        file=f"{file}:{mark.line}",
        found=f"the comment 'interlock: {mark.kind} {mark.content}' {problem}",
        todo="The file was edited since the swap: put the line below it back by hand and remove the comment.",
    )


@dataclass(frozen=True)
class Reversal:
    """The way back for some stages of a Dockerfile."""

    dockerfile: Dockerfile
    chosen: Collection[int]  # numbers of stages; ANY_STAGE stands for what is above the first
    file: str

    def edits(self) -> list[Edit]:
        """What takes back the swap of the chosen stages."""
        above = self._marks()
        edits: list[Edit] = []
        for stage, instruction in every(self.dockerfile):
            seen = set()
            for mark in above.pop(instruction.line, []):
                key = (mark.kind, mark.content.partition("=")[0] if instruction.keyword == "ARG" else "")
                if key in seen:
                    raise unfit(self.file, mark, "says a second time what the line below was")
                seen.add(key)
                edits += self._of_mark(stage, instruction, mark)
        for left in above.values():
            raise unfit(self.file, left[0], "says what an instruction was, and none stands below it")
        return edits

    def removed_lines(self) -> list[int]:
        """The numbers of the lines that go: comments."""
        removed = {edit.span.start for edit in self.edits() if not edit.text}
        return [mark.line for above in self._marks().values() for mark in above if mark.span.start in removed]

    def _marks(self) -> dict[int, list[Mark]]:
        """The comments of swaps; a line of a heredoc is none, whatever it says."""
        inside = [piece for _, instruction in every(self.dockerfile) for piece in instruction.pieces]
        found = {
            line: [mark for mark in above if not any(piece.start <= mark.span.start < piece.end for piece in inside)]
            for line, above in marks(self.dockerfile.text).items()
        }
        return {line: above for line, above in found.items() if above}

    def _of_mark(self, stage: Stage | None, instruction: Instruction, mark: Mark) -> list[Edit]:
        if mark.kind == PATHS:
            return self._of_paths(stage, instruction, mark)
        if instruction.keyword == "FROM" and stage is not None:
            return self._restored(stage.token.span, mark.content, mark) if stage.index in self.chosen else []
        name, _, raw = mark.content.partition("=")
        default = dict(arguments_of(instruction)).get(name) if instruction.keyword == "ARG" else None
        if default is None:
            raise unfit(self.file, mark, "says what an image was, and the line below names none")
        users = {user.index for user in users_of(self.dockerfile, name)} or {ANY_STAGE}
        return self._restored(default.span, raw, mark) if users <= set(self.chosen) else []

    def _restored(self, span: Span, content: str, mark: Mark) -> list[Edit]:
        raw = decode(content)
        if raw is None:
            raise unfit(self.file, mark, "cannot be read any more")
        return [Edit(mark.span, ""), Edit(span, raw)]

    def _of_paths(self, stage: Stage | None, instruction: Instruction, mark: Mark) -> list[Edit]:
        """Versions of the chosen stages as they were; what other stages' were stays in the comment."""
        carried, was = tokens(self.dockerfile, stage, instruction), mark.content.split()
        if len(carried) != len(was):
            raise unfit(
                self.file, mark, f"says what {len(was)} versions were, and the instruction below has {len(carried)}"
            )
        pairs = list(zip(carried, was, strict=True))
        back = [old != UNCHANGED and token.owner in self.chosen for token, old in pairs]
        edits = [Edit(token.span, old) for (token, old), now in zip(pairs, back, strict=True) if now]
        left = [UNCHANGED if now else old for old, now in zip(was, back, strict=True)]
        line = mark.span.of(self.dockerfile.text)
        kept = line.replace(mark.content, " ".join(left)) if set(left) != {UNCHANGED} else ""
        return [Edit(mark.span, kept), *edits] if edits else []
