"""Which stages of a Dockerfile a swap is for. Pure."""

from __future__ import annotations

from interlock.errors import SwapError
from interlock.swap.image_line import agreeing, must_find, no_python, refuse_windows
from interlock.swap.stages import Dockerfile, Stage, arguments_of

STAGE = "stage"


def choose(dockerfile: Dockerfile, name: str | None, file: str) -> list[Stage]:
    """All stages that start from a Python image, which must be the same Python; or the one of this name or number.

    Raises SwapError where there is none, where they disagree, and where the image cannot be known.
    """
    if not dockerfile.stages:
        raise SwapError(file=file, found="has no FROM line", todo="Name a Dockerfile.")
    if name is not None:
        chosen = [_named(dockerfile, name, file)]
    else:
        chosen = agreeing(dockerfile.stages, STAGE, file)
        if not chosen:
            raise _none(dockerfile, file)
    refuse_windows(chosen, file)
    return chosen


def _none(dockerfile: Dockerfile, file: str) -> SwapError:
    """Why no stage is chosen: a variable without a value may have been meant to be Python."""
    for stage in dockerfile.stages:
        if stage.missing is not None:
            return _undefined(dockerfile, stage, file)
    return no_python([stage for stage in dockerfile.stages if stage.parent is None], STAGE, file)


def _named(dockerfile: Dockerfile, name: str, file: str) -> Stage:
    stage = must_find(dockerfile.stages, name, STAGE, file)
    where = f"{file}:{stage.line}"
    if stage.parent is not None:
        raise SwapError(
            file=where,
            found=f"stage {stage.label} starts from stage {dockerfile.stages[stage.parent].label}, not from an image",
            todo=f"Name the stage that it comes from: {dockerfile.root_of(stage).option}.",
        )
    if stage.missing is not None:
        raise _undefined(dockerfile, stage, file)
    if stage.image.lower() == "scratch":
        raise SwapError(
            file=where,
            found=f"stage {stage.label} starts from nothing (FROM scratch)",
            todo="Name a stage that has Python in it.",
        )
    return stage


def _undefined(dockerfile: Dockerfile, stage: Stage, file: str) -> SwapError:
    """The line to edit is the ARG's, or where there is none the FROM's."""
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
        todo = f"Give it one there, for instance `ARG {stage.missing}=python:3.13-slim`."
    return SwapError(
        file=f"{file}:{line or stage.line}",
        found=f"{stage.missing} has no default, so what `FROM {stage.token.text}` (line {stage.line}) means is unknown",
        todo=todo,
    )
